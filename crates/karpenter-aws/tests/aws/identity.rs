//! Who machines are, and what is tried before any is launched: roles and instance profiles, isolated VPCs, hosts of one's own.

use std::sync::Arc;

use karpenter_aws_client::iam::{AddRoleToInstanceProfile, CreateInstanceProfile};
use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{Fault, FaultKind};
use serde_json::json;

use crate::world::{QUEUE, World, capacity_type, one_of, pass};

const ROLE: &str = "KarpenterNodeRole-local";

async fn world() -> World {
    World::new(Arc::new(Plenty)).await
}

/// An instance profile that people made.
async fn create_profile(world: &World, name: &str) {
    let somebody = world.client().await;
    let profile =
        CreateInstanceProfile { instance_profile_name: name.to_owned(), ..CreateInstanceProfile::default() };
    somebody.iam().call(&profile).await.unwrap();
    let role =
        AddRoleToInstanceProfile { instance_profile_name: name.to_owned(), role_name: ROLE.to_owned() };
    somebody.iam().call(&role).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_class_may_change_from_a_role_to_an_instance_profile() {
    let world = world().await;
    create_profile(&world, "mine").await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    let made = world.classes().get("default").await.unwrap().status.unwrap().instance_profile.unwrap();
    world.change_class(&json!({"role": null, "instanceProfile": "mine"})).await;
    pass(60).await;
    assert_eq!(world.class_condition("Ready").await, ("True".to_owned(), String::new()));
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    let [instance] = world.cloud.living().try_into().unwrap();
    assert_eq!(instance.instance_profile.as_deref(), Some("mine"));
    // A profile that was made lately is not collected, so that no launch under way misses it.
    pass(2 * 3600).await;
    let left: Vec<String> = world.cloud.instance_profiles().into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["mine"], "{made} was for nobody any more");
}

#[tokio::test(start_paused = true)]
async fn in_an_isolated_vpc_a_role_is_refused_with_a_remedy_that_works() {
    let world = world().await;
    create_profile(&world, "mine").await;
    let unreachable = ["GetInstanceProfile", "CreateInstanceProfile", "ListInstanceProfiles", "GetProducts"];
    for operation in unreachable {
        world.cloud.inject(Fault::chance(operation, 1.0, FaultKind::ResetBefore));
    }
    let _running = world.start(&["--isolated-vpc=true"]).await;
    world.create_pool(&json!({}), &capacity_type(&["spot"])).await;
    pass(120).await;
    let (status, message) = world.class_condition("InstanceProfileReady").await;
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("an isolated VPC has no way to IAM"), "{message}");
    assert!(message.contains("name it in spec.instanceProfile"), "{message}");

    world.change_class(&json!({"role": null, "instanceProfile": "mine"})).await;
    pass(60).await;
    world.cloud.forget_records();
    world.create_pending_pod("a", "500m").await;
    pass(3600).await;
    assert_eq!(world.class_condition("Ready").await, ("True".to_owned(), String::new()));
    assert_eq!(
        world.cloud.living().len(),
        1,
        "built-in prices are enough to choose by: {}",
        world.story().await
    );
    world.classes().delete("default", &kube::api::DeleteParams::default()).await.unwrap();
    world.delete_pod("a").await;
    world.pools().delete("general", &kube::api::DeleteParams::default()).await.unwrap();
    pass(300).await;
    assert!(world.classes().get_opt("default").await.unwrap().is_none(), "nothing waits for IAM");
    let records = world.cloud.records();
    for operation in unreachable {
        assert_eq!(records.count(operation), 0, "{operation}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_an_isolated_vpc_spot_prices_are_asked_for_and_on_demand_prices_are_not() {
    let world = world().await;
    let _running = world.start(&["--isolated-vpc=true"]).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    let records = world.cloud.records();
    assert_eq!(records.count("GetProducts"), 0);
    assert!(records.count("DescribeSpotPriceHistory") > 0);
    assert_eq!(world.class_condition("Ready").await.0, "True", "IAM can be reached here, so a role will do");
}

#[tokio::test(start_paused = true)]
async fn hosts_of_ones_own_are_tried_where_a_pool_asks_for_them() {
    for (values, tenancy) in [(["default"].as_slice(), "default"), (&["dedicated"], "dedicated")] {
        let world = world().await;
        let _running = world.start(QUEUE).await;
        let requirements = json!([one_of("karpenter.k8s.aws/instance-tenancy", values)]);
        world.create_named_pool("general", &json!({}), &requirements).await;
        world.create_class(&json!({})).await;
        pass(60).await;
        assert_eq!(world.class_condition("ValidationSucceeded").await.0, "True");
        let [template] = world.cloud.launch_templates().try_into().expect("one launch was tried");
        assert_eq!(template.setting("Placement.Tenancy"), Some(tenancy));
        world.create_pending_pod("a", "500m").await;
        pass(60).await;
        let [instance] = world.cloud.living().try_into().unwrap();
        assert_eq!(instance.setting("Placement.Tenancy"), Some(tenancy));
    }
}
