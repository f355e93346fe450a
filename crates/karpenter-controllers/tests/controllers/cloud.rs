//! A cloud with moods: what cannot be had is had elsewhere, what is taken back is left in time.

use kube::api::DeleteParams;
use serde_json::json;

use crate::world::{World, condition, pass};

#[tokio::test(start_paused = true)]
async fn a_spot_machine_that_will_be_taken_back_is_left_in_time() {
    let world = World::new().await;
    let interruptions = json!({"interruptions": [{"capacityType": "spot", "every": "30m", "notice": "2m"}]});
    let _running = world.start_on_cloud(interruptions);
    world.create_pending_pod("a", "500m").await;
    pass(30).await;
    let first = world.list_claims().await[0].metadata.name.clone().unwrap();
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.make_ready(&node).await;
    world.bind("a", &node).await;
    let mut minutes = 0;
    while world.claims().get(&first).await.unwrap().metadata.deletion_timestamp.is_none() {
        pass(60).await;
        minutes += 1;
        assert!(minutes < 600, "it was never taken back");
    }
    let pod = world.pods().get("a").await.unwrap();
    assert!(
        pod.metadata.deletion_timestamp.is_some(),
        "the pod is asked to leave while the machine still runs"
    );
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    world.pods().delete("a", &now).await.unwrap();
    pass(180).await;
    assert!(world.claims().get_opt(&first).await.unwrap().is_none());
    assert!(world.nodes().get_opt(&node).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_sold_out_is_bought_elsewhere() {
    let world = World::new().await;
    let capacity = json!({"capacity": [{"capacityType": "spot", "machines": 1}]});
    let _running = world.start_on_cloud(capacity);
    for name in ["a", "b", "c"] {
        world.create_pending_pod(name, "200").await;
    }
    pass(120).await;
    let claims = world.list_claims().await;
    assert_eq!(claims.len(), 3);
    assert!(claims.iter().all(|claim| condition(claim, "Launched") == "True"));
    let label = |claim: &karpenter_api::NodeClaim| {
        claim.metadata.labels.as_ref().unwrap()["karpenter.sh/capacity-type"].clone()
    };
    let spot = claims.iter().filter(|claim| label(claim) == "spot").count();
    assert_eq!(spot, 1, "there is one spot machine; the others are bought at list price");
}
