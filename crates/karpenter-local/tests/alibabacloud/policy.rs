//! The policies people have: what works with them, and what users are told about the rest.

use karpenter_alibabacloud::policy_document;
use karpenter_simcloud_alibabacloud::{ACCESS_KEY, Policy};
use serde_json::{Value, json};

use crate::region::{Region, pass, until};
use crate::seeds::CONTAINER_SERVICE;

const CLUSTER: &str = "my-cluster";
const GROUP: &str = "karpenter.alibabacloud.com";

/// The policy that the Container Service provider's readme asks users for.
fn readme() -> Value {
    json!({"Version": "1", "Statement": [
        {"Effect": "Allow", "Resource": "*", "Action": [
            "cs:DescribeClusterAttachScripts", "cs:GetClusterAddonInstance", "cs:DescribeClusterDetail",
        ]},
        {"Effect": "Allow", "Resource": "*", "Action": [
            "ecs:RunInstances", "ecs:DescribeInstances", "ecs:DeleteInstances", "ecs:TagResources",
            "ecs:CreateLaunchTemplate", "ecs:DescribeLaunchTemplates", "ecs:DeleteLaunchTemplate",
            "ecs:DescribeInstanceTypeResource", "ecs:DescribeImages", "ecs:DescribeSecurityGroups",
            "ecs:DescribeCapacityReservations", "ecs:DescribePrice", "ecs:DescribeInstanceTypes",
            "ecs:DescribeZones",
        ]},
        {"Effect": "Allow", "Resource": "*", "Action": "vpc:DescribeVSwitches"},
        {"Effect": "Allow", "Resource": "*", "Action": "ram:GetRole"},
    ]})
}

fn allow(region: &Region, policy: &Value) {
    let policy: Policy = serde_json::from_value(policy.clone()).unwrap();
    region.cloud.change(|world| world.keys.get_mut(ACCESS_KEY).unwrap().policy = Some(policy));
}

#[tokio::test(start_paused = true)]
async fn with_the_readmes_policy_on_demand_works_and_each_missing_action_is_named_with_its_cost() {
    let region = Region::new(CLUSTER).await;
    allow(&region, &readme());
    region.apply(CONTAINER_SERVICE).await;
    region.deploy("web", "default", 2, "1500m").await;
    until("every pod runs", || async { region.running().await == 2 }).await;
    assert_eq!(region.condition(GROUP, "default", "Ready").await.0, "True");
    let named = region.instances().iter().all(|one| one.tags.get("Name") == one.node_name.as_ref());
    assert!(named, "ecs:TagResources is among what the policy allows");
    pass(900).await;
    let (status, said) = region.condition(GROUP, "default", "PermissionsComplete").await;
    assert_eq!(status, "False");
    for (action, cost) in [
        ("ecs:DescribeAvailableResource", "spot is not used"),
        ("ecs:DescribeInstancesFullStatus", "planned maintenance"),
        ("cs:DescribeClusterNodePools", "container runtime"),
        ("cms:DescribeSystemEventAttribute", "interruptions"),
    ] {
        assert!(said.contains(action) && said.contains(cost), "{action}: {said}");
    }
    assert!(said.contains("allow these actions in a RAM policy"), "{said}");

    allow(&region, &policy_document());
    region.deploy("more", "default", 1, "1500m").await;
    until("nothing is missing", || async {
        region.condition(GROUP, "default", "PermissionsComplete").await.0 == "True"
    })
    .await;
    region.leaves_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn the_policy_made_from_the_code_allows_every_call_of_a_whole_life() {
    let region = Region::new(CLUSTER).await;
    allow(&region, &policy_document());
    for object in crate::life::class_and_pool(GROUP) {
        let text = object.to_string().replace("c1", CLUSTER);
        region.create(&serde_json::from_str(&text).unwrap()).await;
    }
    region.deploy("web", "default", 2, "1").await;
    until("the pods run", || async { region.running().await == 2 }).await;
    let first = region.instances().remove(0);
    assert!(region.cloud.interrupt(&first.id));
    until("another machine takes its place", || async {
        region.running().await == 2 && region.instances().iter().all(|one| one.id != first.id)
    })
    .await;
    pass(900).await;
    region.leaves_nothing().await;
    let denied: Vec<String> = region.cloud.change(|world| {
        let refused = world.records.requests().filter(|request| request.status == 403);
        refused.map(|request| format!("{} {}", request.action, request.code)).collect()
    });
    assert_eq!(denied, Vec::<String>::new());
    assert!(region.provider.rights().missing().is_empty());
}
