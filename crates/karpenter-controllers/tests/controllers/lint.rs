//! What lint finds is said in the pool, and Ready does not depend on it.

use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::world::{World, pass};

async fn condition(world: &World, pool: &str, type_: &str) -> Option<(String, String, String)> {
    let pool = world.pools().get(pool).await.unwrap();
    let conditions = pool.status.and_then(|status| status.conditions).unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition.type_ == type_)?;
    Some((found.status, found.reason, found.message))
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_no_machine_suits_says_so_and_is_ready_all_the_same() {
    let world = World::new().await;
    world
        .create_pool_with(
            "impossible",
            json!({ "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                "requirements": [
                    { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
                    { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"] },
                ],
            } } }),
        )
        .await;
    let _running = world.start();
    pass(10).await;
    let (status, reason, message) = condition(&world, "impossible", "LintPassed").await.unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "RequirementsUnsatisfiable"));
    assert!(message.contains("kubernetes.io/arch In [arm64]"), "{message}");
    assert_eq!(condition(&world, "impossible", "Ready").await.unwrap().0, "True");
    assert_eq!(condition(&world, "general", "LintPassed").await.unwrap().0, "True");
    assert_eq!(world.events("RequirementsUnsatisfiable").await.len(), 1);
    let repaired = json!({ "spec": { "template": { "spec": { "requirements": [] } } } });
    world.change_pool("impossible", repaired).await;
    pass(10).await;
    assert_eq!(condition(&world, "impossible", "LintPassed").await.unwrap().0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_pool_learns_that_its_node_class_is_missing_and_that_it_has_come() {
    let world = World::new().await;
    world
        .create_pool_with(
            "early",
            json!({ "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "late" },
                "requirements": [],
            } } }),
        )
        .await;
    let _running = world.start();
    pass(10).await;
    assert_eq!(condition(&world, "early", "LintPassed").await.unwrap().1, "NodeClassMissing");
    let class: karpenter_kwok::KWOKNodeClass =
        serde_json::from_value(json!({ "metadata": { "name": "late" }, "spec": {} })).unwrap();
    Api::all(world.client.clone()).create(&PostParams::default(), &class).await.unwrap();
    pass(10).await;
    assert_eq!(condition(&world, "early", "LintPassed").await.unwrap().0, "True");
}
