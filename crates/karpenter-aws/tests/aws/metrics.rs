//! What scrapes show of the provider, beside the list in `metrics.txt`: every metric with its kind and labels, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{Fault, FaultKind, Happening};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{World, pass};

/// Kind and labels of a metric.
type Shape = (String, BTreeSet<String>);
type Shapes = BTreeMap<String, Shape>;

fn wanted() -> Shapes {
    let lines = include_str!("metrics.txt").lines().filter(|line| !line.starts_with('#'));
    let mut words = lines.map(|line| line.split(' ').map(str::to_owned));
    let shape = |line: &mut dyn Iterator<Item = String>| {
        let (name, kind) = (line.next().unwrap(), line.next().unwrap());
        (name, (kind, line.collect()))
    };
    words.by_ref().map(|mut line| shape(&mut line)).collect()
}

/// Adds the metrics of a scrape that have series.
fn look(text: &str, found: &mut Shapes) {
    let mut declared = (String::new(), String::new());
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            declared = (name.to_owned(), kind.to_owned());
        }
        if line.starts_with('#') {
            continue;
        }
        let (family, kind) = &declared;
        let name = if kind == "counter" { format!("{family}_total") } else { family.clone() };
        let labels =
            line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map(|(labels, _)| labels);
        let names = labels.unwrap_or_default().split("\",").filter_map(|pair| pair.split_once('='));
        let names = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le");
        found.insert(name, (kind.clone(), names.collect()));
    }
}

/// Everything that is counted happens once.
async fn eventful_life(world: &World, found: &mut Shapes) {
    let capacity_type = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]);
    world.create_pool(&json!({}), &capacity_type).await;
    pass(60).await;
    for cluster in ["nobody", "local"] {
        let terms = json!([{"tags": {"karpenter.sh/discovery": cluster}}]);
        let patch = Patch::Merge(json!({"spec": {"subnetSelectorTerms": terms}}));
        world.classes().patch("default", &PatchParams::default(), &patch).await.unwrap();
        pass(90).await;
    }
    world.cloud.inject(Fault::no_capacity("InsufficientInstanceCapacity", 1.0));
    world.create_pending_pod("a", "500m").await;
    pass(30).await;
    look(&world.exposition(), found);
    world.cloud.heal();
    pass(300).await;
    let [instance] = world.cloud.living().try_into().expect("there is capacity again");
    world.cloud.happen(Happening::Impairment { instance: instance.id.clone(), system: true }).unwrap();
    world.cloud.inject(Fault::times("TerminateInstances", 1, FaultKind::Denied));
    pass(300).await;
    let [instance] = world.cloud.living().try_into().expect("it was replaced");
    world.cloud.happen(Happening::SpotInterruption { instance: instance.id.clone() }).unwrap();
    world.classes().delete("default", &DeleteParams::default()).await.unwrap();
    pass(5).await;
    look(&world.exposition(), found);
    pass(300).await;
    look(&world.exposition(), found);
}

#[tokio::test(start_paused = true)]
async fn a_scrape_shows_every_metric_of_the_list_and_none_that_is_in_no_list() {
    let world = World::new(Arc::new(Plenty)).await;
    let _running = world.start(&["--interruption-queue=local"]).await;
    let (wanted, mut found) = (wanted(), Shapes::new());
    eventful_life(&world, &mut found).await;
    for (name, shape) in &wanted {
        assert_eq!(found.get(name), Some(shape), "{name}");
    }
    let names: BTreeSet<&str> = include_str!("../../../karpenter-controllers/src/metrics/exposition.txt")
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let unlisted = |name: &&String| !wanted.contains_key(*name) && !names.contains(name.as_str());
    let unlisted: Vec<&String> = found.keys().filter(unlisted).collect();
    assert!(unlisted.is_empty(), "in no list: {unlisted:?}");
}
