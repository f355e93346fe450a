//! Annotations and settings that upstream does not have.

use karpenter_api::options::FeatureGate;
use karpenter_controllers::{DisruptionSettings, Karpenter};
use serde_json::{Value, json};

use crate::disruption::{any_number, node_with_pod, remove_pod};
use crate::static_capacity::{live, with_gates};
use crate::world::{World, pass, reason};

const STATIC: &[FeatureGate] = &[FeatureGate::StaticCapacity];

#[tokio::test(start_paused = true)]
async fn an_old_node_is_replaced_when_budgets_allow_it() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let rotation = json!({"disruption.karpenter.sh/rotate-after": "30m", "disruption.karpenter.sh/rotation-jitter": "0s"});
    world.annotate_pool("general", rotation).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    let old = world.list_claims().await[0].metadata.name.clone().unwrap();
    pass(25 * 60).await;
    assert_eq!(world.list_claims().await.len(), 1, "it is not old yet");
    world.set_disruption("general", json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]})).await;
    pass(20 * 60).await;
    assert_eq!(world.list_claims().await.len(), 1, "its time has come, but the budget says no");
    world.set_disruption("general", any_number("Never")).await;
    pass(60).await;
    assert_eq!(world.list_claims().await.len(), 2, "its replacement comes first");
    assert_eq!(reason(&world.claims().get(&old).await.unwrap(), "DisruptionReason"), "Drifted");
}

/// A static pool of empty nodes with these annotations, whose template then changes.
async fn drifting(replicas: u32, annotations: Value) -> (World, tokio::task::JoinHandle<()>) {
    let world = World::new().await;
    let spec = json!({"replicas": replicas, "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}});
    world.create_pool_with("fixed", spec).await;
    world.annotate_pool("fixed", annotations).await;
    let running = world.start_with(with_gates(STATIC));
    live(&world, 60).await;
    assert_eq!(replaced(&world).await, 0);
    world.change_pool("fixed", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    (world, running)
}

/// How many claims are made from the new template.
async fn replaced(world: &World) -> usize {
    let of_team = |labels: std::collections::BTreeMap<String, String>| labels.contains_key("team");
    world
        .list_claims()
        .await
        .into_iter()
        .filter(|claim| claim.metadata.labels.clone().is_some_and(of_team))
        .count()
}

#[tokio::test(start_paused = true)]
async fn drift_is_rolled_out_to_a_few_nodes_first_and_then_in_waves() {
    let stages = json!({
        "disruption.karpenter.sh/drift-canary": "1",
        "disruption.karpenter.sh/drift-wave": "2",
        "disruption.karpenter.sh/drift-wave-pause": "10m",
    });
    let (world, _running) = drifting(5, stages).await;
    live(&world, 5 * 60).await;
    assert_eq!(replaced(&world).await, 1, "one node shows whether the template works");
    let told = world.told("DisruptionBlocked").await;
    assert!(told.iter().any(|text| text.contains("the next wave")), "{told:?}");
    live(&world, 8 * 60).await;
    assert_eq!(replaced(&world).await, 3);
    live(&world, 12 * 60).await;
    assert_eq!(replaced(&world).await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_roll_out_goes_on_with_its_stage_after_a_restart() {
    let stages = json!({
        "disruption.karpenter.sh/drift-canary": "1",
        "disruption.karpenter.sh/drift-wave": "3",
        "disruption.karpenter.sh/drift-wave-pause": "10m",
    });
    let (world, running) = drifting(5, stages).await;
    live(&world, 5 * 60).await;
    assert_eq!(replaced(&world).await, 1);
    running.abort();
    let running = world.start_with(with_gates(STATIC));
    live(&world, 4 * 60).await;
    assert_eq!(replaced(&world).await, 1, "the canary is still being looked at, and no second one is sent");
    live(&world, 5 * 60).await;
    assert_eq!(replaced(&world).await, 4, "the first wave is larger than the canary");
    running.abort();
    world.change_pool("fixed", json!({"spec": {"template": {"metadata": {"labels": {"team": "b"}}}}})).await;
    let _running = world.start_with(with_gates(STATIC));
    live(&world, 5 * 60).await;
    let team_b = |claim: &karpenter_api::NodeClaim| {
        claim.metadata.labels.as_ref().and_then(|labels| labels.get("team")).is_some_and(|team| team == "b")
    };
    let claims = world.list_claims().await;
    assert_eq!(
        claims.iter().filter(|claim| team_b(claim)).count(),
        1,
        "another template begins with its canary"
    );
}

#[tokio::test(start_paused = true)]
async fn a_halted_roll_out_stays_halted_after_a_restart() {
    let halt =
        json!({"disruption.karpenter.sh/drift-wave": "1", "disruption.karpenter.sh/drift-halt-after": "1"});
    let (world, running) = drifting(2, halt).await;
    // Nobody makes the replacement ready.
    pass(15 * 60).await;
    assert_eq!(world.scraped("karpenter_voluntary_disruption_queue_failures_total", &["drifted"]), 1);
    running.abort();
    let _running = world.start_with(with_gates(STATIC));
    pass(3600).await;
    assert_eq!(world.scraped("karpenter_voluntary_disruption_decisions_total", &["drifted"]), 0);
}

#[tokio::test(start_paused = true)]
async fn a_roll_out_that_fails_is_halted() {
    let halt =
        json!({"disruption.karpenter.sh/drift-wave": "1", "disruption.karpenter.sh/drift-halt-after": "1"});
    let (world, _running) = drifting(2, halt).await;
    // Nobody makes the replacement ready.
    pass(15 * 60).await;
    let told = world.told("DisruptionBlocked").await;
    assert!(told.iter().any(|text| text.contains("replacements in its NodePool failed")), "{told:?}");
    let decided = world.scraped("karpenter_voluntary_disruption_decisions_total", &["drifted"]);
    pass(3 * 3600).await;
    assert_eq!(world.scraped("karpenter_voluntary_disruption_decisions_total", &["drifted"]), decided);
    assert_eq!(world.scraped("karpenter_voluntary_disruption_queue_failures_total", &["drifted"]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pool_launches_as_many_nodes_a_minute_as_it_says() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.annotate_pool("general", json!({"provisioning.karpenter.sh/launches-per-minute": "2"})).await;
    let _running = world.start();
    for pod in ["a", "b", "c", "d", "e"] {
        world.create_pending_pod(pod, "200").await;
    }
    pass(30).await;
    assert_eq!(world.list_claims().await.len(), 2);
    assert!(!world.told("LaunchesDelayed").await.is_empty());
    pass(60).await;
    assert_eq!(world.list_claims().await.len(), 4);
    pass(60).await;
    assert_eq!(world.list_claims().await.len(), 5);
    assert_eq!(world.scraped("karpenter_nodeclaims_created_total", &["general"]), 5);
}

/// How many claims there are, and how many of them were created within any one minute at most.
fn launches(world: &World) -> (usize, usize) {
    let history = world.observer.as_ref().unwrap().history();
    let mut created = std::collections::BTreeMap::new();
    for seen in history.seen().iter().filter(|seen| seen.kind == "NodeClaim") {
        created.entry(seen.object["metadata"]["uid"].to_string()).or_insert(seen.at);
    }
    let within = |at: &jiff::Timestamp| {
        created.values().filter(|other| (0..60).contains(&other.duration_since(*at).as_secs())).count()
    };
    (created.len(), created.values().map(within).max().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn replicas_of_a_static_pool_are_launched_at_its_rate() {
    let world = World::new().await;
    world.create_pool_with("fixed", json!({"replicas": 5})).await;
    world.annotate_pool("fixed", json!({"provisioning.karpenter.sh/launches-per-minute": "2"})).await;
    let _running = world.start_with(with_gates(STATIC));
    live(&world, 5 * 60).await;
    assert_eq!(launches(&world), (5, 2));
}

#[tokio::test(start_paused = true)]
async fn replacements_in_a_static_pool_are_launched_at_its_rate() {
    let (world, _running) = drifting(4, json!({})).await;
    // Before any time passes: all four are up, and all four have drifted.
    world.annotate_pool("fixed", json!({"provisioning.karpenter.sh/launches-per-minute": "2"})).await;
    live(&world, 10 * 60).await;
    assert_eq!(replaced(&world).await, 4, "all are replaced in the end");
    let history = world.observer.as_ref().unwrap().history();
    let begun: Vec<_> = history.disruptions().into_iter().map(|disruption| disruption.at).collect();
    let together =
        |at| begun.iter().filter(|other| (0..60).contains(&other.duration_since(at).as_secs())).count();
    assert_eq!(begun.iter().map(|at| together(*at)).max(), Some(2), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn replacements_of_drifted_nodes_are_launched_at_their_pools_rate() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let _running = world.start();
    for pod in ["a", "b", "c"] {
        node_with_pod(&world, pod, "200").await;
    }
    pass(120).await;
    world.annotate_pool("general", json!({"provisioning.karpenter.sh/launches-per-minute": "1"})).await;
    let relabelled = json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}});
    world.change_pool("general", relabelled).await;
    let mut taken = Vec::new();
    for _ in 0..120 {
        live(&world, 5).await;
        for node in world.list_nodes().await {
            let name = node.metadata.name.unwrap();
            // The scheduler is quick: there is no room on new nodes for the pods of others.
            if node.metadata.labels.is_some_and(|labels| labels.contains_key("team"))
                && !taken.contains(&name)
            {
                world.create_bound_pod(&format!("on-{name}"), "200", &name).await;
                taken.push(name);
            }
        }
    }
    assert!(replaced(&world).await >= 3, "all are replaced in the end");
    let history = world.observer.as_ref().unwrap().history();
    let mut begun: Vec<_> = history.disruptions().into_iter().map(|disruption| disruption.at).collect();
    begun.sort();
    assert!(begun.len() >= 3);
    assert!(begun.windows(2).all(|pair| pair[1].duration_since(pair[0]).as_secs() >= 59), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn one_switch_stops_all_voluntary_disruption() {
    let off = |karpenter: Karpenter| {
        let disruption = DisruptionSettings { switched_off: true, ..karpenter.disruption };
        Karpenter { disruption, ..karpenter }
    };
    let world = World::new().await;
    world.set_disruption("general", any_number("0s")).await;
    let running = world.start_with(off);
    node_with_pod(&world, "a", "500m").await;
    remove_pod(&world, "a").await;
    pass(3600).await;
    assert_eq!(world.list_nodes().await.len(), 1);
    running.abort();
    let _running = world.start();
    pass(120).await;
    assert!(world.list_nodes().await.is_empty(), "without the switch it goes");
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_read_is_told_on_the_pool() {
    let world = World::new().await;
    world.annotate_pool("general", json!({"disruption.karpenter.sh/drift-wave": "many"})).await;
    let _running = world.start();
    pass(10).await;
    let told = world.told("InvalidAnnotation").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("drift-wave") && told[0].contains("10%"));
}
