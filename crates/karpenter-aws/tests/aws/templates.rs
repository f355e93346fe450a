//! Launch templates that others delete, and those of a process before this one.

use std::sync::Arc;

use karpenter_aws_client::ec2::DeleteLaunchTemplate;
use karpenter_simcloud::Plenty;
use serde_json::json;

use crate::world::{QUEUE, World, capacity_type, pass};

async fn world() -> World {
    World::new(Arc::new(Plenty)).await
}

#[tokio::test(start_paused = true)]
async fn a_template_that_somebody_else_deletes_is_made_anew() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    let templates = world.cloud.launch_templates();
    assert!(!templates.is_empty());
    let somebody = world.client().await;
    for template in &templates {
        let request = DeleteLaunchTemplate {
            launch_template_id: Some(template.id.clone()),
            launch_template_name: None,
        };
        somebody.ec2().call(&request).await.unwrap();
    }
    world.cloud.forget_records();
    let [node] = world.nodes().await.try_into().unwrap();
    world.bind("a", node.metadata.name.as_deref().unwrap()).await;
    world.create_pending_pod("b", "1900m").await;
    pass(60).await;
    let records = world.cloud.records();
    assert_eq!(world.cloud.living().len(), 2, "the second machine comes too: {:?}", records.counts());
    assert_eq!(records.count("CreateFleet"), 2, "the launch is tried once more");
    assert_eq!(world.claims().await.len(), 2, "no claim is given up for it");
}

#[tokio::test(start_paused = true)]
async fn templates_of_a_process_before_are_used_and_go_when_nobody_uses_them() {
    let world = world().await;
    let before = world.start(QUEUE).await;
    // The pool comes first, so that both processes try the same launch.
    world.create_named_pool("general", &json!({}), &capacity_type(&["on-demand"])).await;
    world.create_class(&json!({})).await;
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    before.abort();
    let left = world.cloud.launch_templates();
    assert!(!left.is_empty());
    world.delete_pod("a").await;
    let claims: kube::Api<karpenter_api::NodeClaim> = kube::Api::all(world.kube.clone());
    let name = world.claims().await.remove(0).metadata.name.unwrap();
    claims.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    world.cloud.forget_records();

    let _running = world.start(QUEUE).await;
    pass(60).await;
    world.create_pending_pod("b", "500m").await;
    pass(60).await;
    assert_eq!(world.cloud.living().len(), 1, "{}", world.story().await);
    assert_eq!(world.cloud.records().count("CreateLaunchTemplate"), 0, "equal contents have equal names");
    pass(900).await;
    assert!(world.cloud.launch_templates().is_empty(), "{:?}", world.cloud.records().counts());
}
