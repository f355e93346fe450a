//! The life of a node, from a waiting pod to a stopped machine.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{World, condition, pass};

#[tokio::test(start_paused = true)]
async fn waiting_pods_become_one_claim_and_the_claim_a_node() {
    let world = World::new().await;
    let _running = world.start();
    for name in ["a", "b", "c"] {
        world.create_pending_pod(name, "500m").await;
    }
    pass(5).await;
    let claims = world.list_claims().await;
    assert_eq!(claims.len(), 1, "three small pods share a node");
    assert_eq!(condition(&claims[0], "Launched"), "True");
    assert_eq!(condition(&claims[0], "Registered"), "Unknown");
    assert_eq!(claims[0].metadata.labels.as_ref().unwrap()["karpenter.sh/nodepool"], "general");
    pass(20).await;
    let nodes = world.list_nodes().await;
    assert_eq!(nodes.len(), 1);
    let taints = nodes[0].spec.as_ref().unwrap().taints.clone().unwrap_or_default();
    let keys: Vec<&str> = taints.iter().map(|taint| taint.key.as_str()).collect();
    assert!(
        !keys.contains(&"karpenter.sh/unregistered") && keys.contains(&"example.com/starting"),
        "{keys:?}"
    );
    assert_eq!(condition(&world.list_claims().await[0], "Initialized"), "Unknown");
    world.make_ready(nodes[0].metadata.name.as_deref().unwrap()).await;
    pass(1).await;
    let claim = &world.list_claims().await[0];
    assert_eq!(condition(claim, "Initialized"), "True");
    assert_eq!(condition(claim, "Ready"), "True");
    assert_eq!(claim.status.as_ref().unwrap().node_name, nodes[0].metadata.name);
    pass(600).await;
    assert_eq!(world.list_claims().await.len(), 1, "pods that have a place to go to are not planned again");
}

#[tokio::test(start_paused = true)]
async fn a_restart_at_any_time_launches_nothing_twice() {
    let world = World::new().await;
    world.create_pending_pod("a", "500m").await;
    for life in 0..40 {
        let running = world.start();
        tokio::time::sleep(std::time::Duration::from_millis(700 + life * 37)).await;
        running.abort();
    }
    let _running = world.start();
    pass(60).await;
    assert_eq!(world.list_claims().await.len(), 1);
    assert_eq!(world.list_nodes().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_drains_its_node_and_leaves_nothing() {
    let world = World::new().await;
    let _running = world.start();
    world.create_pending_pod("a", "500m").await;
    pass(30).await;
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.make_ready(&node).await;
    world.bind("a", &node).await;
    pass(5).await;
    let claim = world.list_claims().await[0].metadata.name.clone().unwrap();
    world.claims().delete(&claim, &DeleteParams::default()).await.unwrap();
    pass(3).await;
    let pod = world.pods().get("a").await.unwrap();
    assert!(pod.metadata.deletion_timestamp.is_some(), "the pod was asked to leave");
    let leaving = world.nodes().get(&node).await.unwrap();
    let taints = leaving.spec.unwrap().taints.unwrap();
    assert!(taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted"));
    // The pod's kubelet lets it go.
    world
        .pods()
        .delete("a", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
        .await
        .unwrap();
    pass(15).await;
    assert!(world.nodes().get_opt(&node).await.unwrap().is_none());
    assert!(world.claims().get_opt(&claim).await.unwrap().is_none());
    assert!(world.list_claims().await.is_empty(), "nobody waits for a new node");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_before_its_launch_is_written_down_is_registered() {
    let world = World::new().await;
    world.set_boot_time("0s").await;
    let _running = world.start();
    world.create_pending_pod("a", "500m").await;
    pass(10).await;
    let claim = &world.list_claims().await[0];
    assert_eq!(condition(claim, "Launched"), "True");
    assert_eq!(condition(claim, "Registered"), "True");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_place_is_taken_gets_another() {
    let world = World::new().await;
    let _running = world.start();
    world.create_pending_pod("a", "500m").await;
    pass(30).await;
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.make_ready(&node).await;
    world.create_bound_pod("thief", "500m", &node).await;
    pass(30).await;
    assert_eq!(world.list_claims().await.len(), 2, "nobody says anything more of the pod that waits");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_node_is_on_its_way_is_not_planned_again_when_its_scheduler_gives_up() {
    let world = World::new().await;
    let _running = world.start();
    pass(5).await;
    let plans = || world.scraped("karpenter_scheduler_scheduling_duration_seconds_count", &["provisioner"]);
    world.create_new_pod("second", "500m").await;
    world.create_pending_pod("first", "500m").await;
    pass(5).await;
    assert_eq!((plans(), world.list_claims().await.len()), (1, 1), "both go to one node");
    world.give_up_on("second").await;
    pass(5).await;
    assert_eq!(plans(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_never_joins_is_given_up_and_replaced() {
    let world = World::new().await;
    world.set_boot_time("24h").await;
    let _running = world.start();
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    let first = world.list_claims().await[0].metadata.name.clone();
    pass(16 * 60).await;
    let claims = world.list_claims().await;
    assert_eq!(claims.len(), 1);
    assert_ne!(claims[0].metadata.name, first);
}

#[tokio::test(start_paused = true)]
async fn an_impossible_pod_is_told_why() {
    let world = World::new().await;
    let _running = world.start();
    world.create_pending_pod("huge", "5000").await;
    pass(5).await;
    let events: kube::Api<k8s_openapi::api::core::v1::Event> =
        kube::Api::namespaced(world.client.clone(), "default");
    let events = events.list(&kube::api::ListParams::default()).await.unwrap().items;
    let told: Vec<String> = events.iter().filter_map(|event| event.message.clone()).collect();
    assert!(told.iter().any(|message| message.contains("cpu")), "{told:?}");
    assert!(world.list_claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_node_may_be_consolidated_until_a_pod_comes_or_goes() {
    let world = World::new().await;
    let _running = world.start();
    let nobody_goes = json!({"consolidateAfter": "5m", "budgets": [{"nodes": "0"}]});
    world.set_disruption("general", nobody_goes).await;
    world.create_pending_pod("a", "500m").await;
    pass(30).await;
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.make_ready(&node).await;
    world.bind("a", &node).await;
    pass(60).await;
    let claim = &world.list_claims().await[0];
    assert!(claim.status.as_ref().unwrap().last_pod_event_time.is_some(), "the pod that came was noted");
    assert_eq!(condition(claim, "Consolidatable"), "absent");
    pass(5 * 60).await;
    assert_eq!(condition(&world.list_claims().await[0], "Consolidatable"), "True");
    world.pods().delete("a", &DeleteParams::default()).await.unwrap();
    pass(5).await;
    assert_eq!(condition(&world.list_claims().await[0], "Consolidatable"), "absent", "a pod is going");
    pass(5 * 60).await;
    assert_eq!(condition(&world.list_claims().await[0], "Consolidatable"), "True");
    world.set_disruption("general", json!({"consolidateAfter": "Never"})).await;
    pass(5).await;
    assert_eq!(condition(&world.list_claims().await[0], "Consolidatable"), "absent");
}

#[tokio::test(start_paused = true)]
async fn an_expired_claim_goes_and_its_pod_gets_another() {
    let world = World::new().await;
    let expiry = Patch::Merge(json!({"spec": {"template": {"spec": {"expireAfter": "1h"}}}}));
    world.pools().patch("general", &PatchParams::default(), &expiry).await.unwrap();
    let _running = world.start();
    world.create_pending_pod("a", "500m").await;
    pass(30).await;
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.make_ready(&node).await;
    let first = world.list_claims().await[0].metadata.name.clone().unwrap();
    pass(59 * 60).await;
    assert!(world.claims().get(&first).await.unwrap().metadata.deletion_timestamp.is_none());
    pass(2 * 60).await;
    assert!(world.claims().get_opt(&first).await.unwrap().is_none());
    assert_eq!(world.list_claims().await.len(), 1, "the pod still waits for a node");
}

#[tokio::test(start_paused = true)]
async fn a_pool_says_whether_its_nodes_join() {
    let world = World::new().await;
    let health = async || {
        let pool = world.pools().get("general").await.unwrap();
        let conditions = pool.status.unwrap().conditions.unwrap();
        conditions.into_iter().find(|found| found.type_ == "NodeRegistrationHealthy").unwrap().status
    };
    let _running = world.start();
    pass(1).await;
    assert_eq!(health().await, "Unknown");
    world.create_pending_pod("a", "500m").await;
    pass(40).await;
    assert_eq!(health().await, "True");
    world.set_boot_time("24h").await;
    pass(10).await;
    assert_eq!(health().await, "Unknown", "what was known is not known of the changed NodeClass");
    world.create_pending_pod("b", "60").await;
    pass(16 * 60).await;
    assert_eq!(health().await, "True", "one failure may happen");
    pass(16 * 60).await;
    assert_eq!(health().await, "False");
}

#[tokio::test(start_paused = true)]
async fn a_node_smaller_than_its_machine_is_reported() {
    let world = World::new().await;
    let _running = world.start();
    world.create_pending_pod("a", "500m").await;
    pass(30).await;
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.make_ready(&node).await;
    pass(5).await;
    assert_eq!(condition(&world.list_claims().await[0], "ConsistentStateFound"), "True");
    let shrunk = Patch::Merge(json!({"status": {"capacity": {"cpu": "100m"}}}));
    world.nodes().patch_status(&node, &PatchParams::default(), &shrunk).await.unwrap();
    pass(11 * 60).await;
    assert_eq!(condition(&world.list_claims().await[0], "ConsistentStateFound"), "False");
}

#[tokio::test(start_paused = true)]
async fn a_node_goes_whose_claim_was_deleted_before_it_came_to_name_the_node() {
    let world = World::new().await;
    let _running = world.start();
    world.create_pending_pod("a", "500m").await;
    pass(40).await;
    world.make_new_nodes_ready().await;
    let claim = world.list_claims().await[0].metadata.name.clone().unwrap();
    let nameless = Patch::Merge(json!({"status": {"nodeName": null}}));
    world.claims().patch_status(&claim, &PatchParams::default(), &nameless).await.unwrap();
    world.pods().delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.claims().delete(&claim, &DeleteParams::default()).await.unwrap();
    pass(60).await;
    assert!(world.list_nodes().await.is_empty());
    assert!(world.list_claims().await.is_empty());
}
