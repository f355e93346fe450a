//! What the documentation says is so: the checklist names tests that exist, and the policy allows what is called.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use karpenter_simcloud::Plenty;
use serde_json::{Value, json};

use crate::world::{World, pass};

const CHECKLIST: &str = include_str!("../../../../docs/aws-checklist.md");
const POLICY: &str = include_str!("../../../../docs/examples/aws/policy.json");

/// Actions that no call of a quiet life needs.
const RARELY: &[&str] = &[
    // Where a class selects reservations or a placement group, zones are shifted, nodes are repaired by a restart.
    "arc-zonal-shift:GetManagedResource",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribePlacementGroups",
    "ec2:RebootInstances",
    // Rights that come with other calls: to hand a role over, to tag a profile as it is made, to buy the first spot machine of an account.
    "iam:CreateServiceLinkedRole",
    "iam:PassRole",
    "iam:TagInstanceProfile",
];

/// The sources of a crate by their paths, without the ending.
fn sources(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.with_extension("").to_string_lossy().replace('\\', "/");
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_area_has_a_row_and_every_row_names_tests_that_exist_or_says_what_is_missing() {
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut known: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    let rows = CHECKLIST.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let mut numbers = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        numbers.push(cells[0].trim_start_matches("| ").parse::<u32>().unwrap());
        let tests = cells[3];
        let named = tests.split('`').skip(1).step_by(2).filter(|name| name.contains("::"));
        let mut held = false;
        for name in named {
            let (place, test) = name.split_once("::").unwrap();
            let (krate, file) = place.split_once('/').unwrap();
            let files = known.entry(krate).or_insert_with(|| {
                let mut found = BTreeMap::new();
                sources(&crates.join(format!("karpenter-{krate}")), &mut found);
                found
            });
            let mut candidates = files.iter().filter(|(path, _)| path.ends_with(&format!("/{file}")));
            let exists = candidates.any(|(_, source)| source.contains(&format!("fn {test}(")));
            assert!(exists, "there is no test {name}");
            held = true;
        }
        assert!(held || tests.contains("No test yet:") || tests.contains("Not done:"), "{row}");
    }
    assert_eq!(numbers, (1..=75).collect::<Vec<u32>>());
}

/// The actions that the policy in the documentation allows.
fn allowed() -> BTreeSet<String> {
    let policy: Value = serde_json::from_str(POLICY).unwrap();
    let statements = policy["Statement"].as_array().unwrap().iter();
    let actions = statements.flat_map(|statement| statement["Action"].as_array().unwrap());
    actions.map(|action| action.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_policy_allows_what_is_called_and_nothing_else() {
    let world = World::new(Arc::new(Plenty)).await;
    let _running = world.start(&["--interruption-queue=local"]).await;
    let spot = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]);
    world.create_pool(&json!({}), &spot).await;
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    let [instance] = world.cloud.living().try_into().unwrap();
    let happening = karpenter_simcloud_aws::Happening::SpotInterruption { instance: instance.id };
    world.cloud.happen(happening).unwrap();
    world.delete_pod("a").await;
    pass(900).await;
    let role = kube::api::Patch::Merge(json!({"spec": {"role": "local-node"}}));
    world.classes().patch("default", &kube::api::PatchParams::default(), &role).await.unwrap();
    pass(7200).await;
    let records = world.cloud.records();
    let called: BTreeSet<&str> = records.counts().into_keys().collect();
    let allowed = allowed();
    let operations: BTreeSet<&str> = allowed.iter().map(|action| action.split_once(':').unwrap().1).collect();
    let refused: Vec<_> = called.difference(&operations).collect();
    assert!(refused.is_empty(), "the policy does not allow {refused:?}");
    let unused: Vec<_> = allowed
        .iter()
        .filter(|action| !called.contains(action.split_once(':').unwrap().1))
        .filter(|action| !RARELY.contains(&action.as_str()))
        .collect();
    assert!(unused.is_empty(), "nobody calls {unused:?}");
}
