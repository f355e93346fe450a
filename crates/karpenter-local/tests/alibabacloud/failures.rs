//! What goes wrong in an account: each cause is named with its remedy where users look, mends by itself once the cause is gone, and costs no machine.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use karpenter_alibabacloud_client::{Credentials, Source};
use karpenter_simcloud_alibabacloud::{
    ACCESS_KEY, ACCESS_SECRET, AUDIENCE, CONTROLLER_ROLE, Fault, FaultRule, Policy, Stock, StockRule, World,
};
use serde_json::{Value, json};

use crate::region::{Region, pass, until, world};

const CLUSTER: &str = "c1";
const GROUP: &str = "karpenter.alibabacloud.com";
const ZONE: &str = "cn-hangzhou-h";

/// A class with these tags for its vSwitches, and a pool that takes one type on demand in one zone.
fn objects(tags: &Value) -> [Value; 2] {
    [
        json!({
            "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "ECSNodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "vSwitchSelectorTerms": [{"tags": tags}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
                "imageSelectorTerms": [{"imageFamily": "acs:alibaba_cloud_linux_3_2104_lts_x64"}],
            },
        }),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": GROUP, "kind": "ECSNodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["ecs.g7.large"]},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONE]},
                ],
            }}},
        }),
    ]
}

/// A region in which a pod waits for a machine that cannot be had.
async fn waiting(region: Region, tags: &Value) -> Region {
    for object in objects(tags) {
        region.create(&object).await;
    }
    region.deploy("web", "default", 1, "1").await;
    pass(120).await;
    assert_eq!(region.running().await, 0, "something keeps the pod from running");
    assert!(region.instances().is_empty());
    region
}

async fn waiting_in(change: impl FnOnce(&mut World)) -> Region {
    let mut world = world(CLUSTER);
    change(&mut world);
    let keys = Source::Keys(Credentials::fixed(ACCESS_KEY, ACCESS_SECRET));
    waiting(Region::with(CLUSTER, world, keys).await, &json!({"karpenter.sh/discovery": CLUSTER})).await
}

/// The cause is mended: the pod runs on the only machine, and in the end none is left.
async fn recovers(region: &Region) {
    until("the pod runs", || async { region.running().await == 1 }).await;
    assert_eq!(region.instances().len(), 1, "one pod needs one machine");
    assert_eq!(region.claims().await.len(), 1);
    region.leaves_nothing().await;
}

fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word} is not said:\n{said}");
    }
}

/// A token of the cluster's service account that expires at `expires`.
fn write_token(path: &Path, world: &World, expires: i64) {
    let claims = json!({
        "iss": world.issuer(CLUSTER), "aud": [AUDIENCE], "exp": expires, "sub": "system:serviceaccount:karpenter:karpenter",
    });
    let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
    std::fs::write(path, token).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_is_named_with_its_file_and_a_fresh_one_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    let world = world(CLUSTER);
    write_token(&token_file, &world, 0);
    let credentials = Source::Oidc {
        role_arn: world.role_arn(CONTROLLER_ROLE),
        provider_arn: world.oidc_provider_arn(CLUSTER),
        token_file: token_file.clone(),
        session_name: "karpenter".to_owned(),
    };
    let region = Region::with(CLUSTER, world, credentials).await;
    let region = waiting(region, &json!({"karpenter.sh/discovery": CLUSTER})).await;
    let (status, said) = region.condition(GROUP, "default", "Ready").await;
    assert_ne!(status, "True");
    says(&said, &["expired", "token"]);
    let (_, said) = region.condition(GROUP, "default", "VSwitchResolved").await;
    says(
        &said,
        &["CredentialsUnusable", "OIDCToken.Expired", "check the role, the OIDC provider and the token file"],
    );
    let now = region.environment.now().as_second();
    region.cloud.change(|world| write_token(&token_file, world, now + 86_400));
    recovers(&region).await;
}

#[tokio::test(start_paused = true)]
async fn a_denied_permission_is_named_and_used_once_it_is_granted() {
    let deny = |actions: &[&str]| -> Policy {
        let statement = json!([
            {"Effect": "Allow", "Action": "*"}, {"Effect": "Deny", "Action": actions},
        ]);
        serde_json::from_value(json!({"Statement": statement})).unwrap()
    };
    let set = |region: &Region, policy: Option<Policy>| {
        region.cloud.change(|world| world.keys.get_mut(ACCESS_KEY).unwrap().policy = policy);
    };
    let region = waiting_in(|world| {
        world.keys.get_mut(ACCESS_KEY).unwrap().policy = Some(deny(&["vpc:DescribeVSwitches"]));
    })
    .await;
    let (status, said) = region.condition(GROUP, "default", "VSwitchResolved").await;
    assert_ne!(status, "True");
    says(&said, &["PermissionDenied", "allow the action vpc:DescribeVSwitches in a RAM policy"]);
    set(&region, Some(deny(&["ecs:RunInstances"])));
    until("the class is ready", || async { region.condition(GROUP, "default", "Ready").await.0 == "True" })
        .await;
    pass(60).await;
    says(&region.said().await, &["ecs:RunInstances", "The launch is repeated once the policy allows it."]);
    assert!(region.instances().is_empty());
    set(&region, None);
    recovers(&region).await;
}

#[tokio::test(start_paused = true)]
async fn a_throttled_call_is_named_and_repeated() {
    let throttle = |action: &str| FaultRule {
        action: action.to_owned(),
        fault: Fault::Throttle { retry_after: None },
        times: None,
        per_mille: None,
    };
    let region = waiting_in(|world| world.faults.add(throttle("RunInstances"))).await;
    says(
        &region.said().await,
        &["Throttl", "The launch is repeated; ask for a greater quota if this lasts."],
    );
    region.cloud.change(|world| world.faults.clear());
    recovers(&region).await;
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_throttled_says_so_and_becomes_ready_by_itself() {
    let region = waiting_in(|world| {
        world.faults.add(FaultRule {
            action: "DescribeVSwitches".to_owned(),
            fault: Fault::Throttle { retry_after: Some(2) },
            times: None,
            per_mille: None,
        });
    })
    .await;
    let (_, said) = region.condition(GROUP, "default", "VSwitchResolved").await;
    says(&said, &["Throttled", "it is tried again by itself"]);
    region.cloud.change(|world| world.faults.clear());
    recovers(&region).await;
}

fn sold_out() -> StockRule {
    let zone = Some(ZONE.to_owned());
    StockRule { instance_type: None, zone, market: None, stock: Stock::WithoutStock }
}

#[tokio::test(start_paused = true)]
async fn a_zone_without_stock_is_named_and_used_once_it_has_some() {
    let region = waiting_in(|world| world.stock.push(sold_out())).await;
    says(&region.said().await, &["not in stock in the required zone", "allow others, or wait"]);
    let (_, said) = region.condition(GROUP, "default", "InstanceTypeResolved").await;
    says(&said, &["nothing is in stock in", ZONE, "use other zones, or wait"]);
    region.cloud.change(|world| world.stock.clear());
    recovers(&region).await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_sells_out_between_look_and_launch_is_named_and_used_later() {
    let region = waiting_in(|world| world.switches.no_stock_per_mille = 1000).await;
    says(&region.said().await, &["OperationDenied.NoStock", "ecs.g7.large", ZONE]);
    region.cloud.change(|world| world.switches.no_stock_per_mille = 0);
    recovers(&region).await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_selector_is_named_and_heals_once_something_has_the_tag() {
    let region = waiting(Region::new(CLUSTER).await, &json!({"team": "data"})).await;
    let (status, said) = region.condition(GROUP, "default", "VSwitchResolved").await;
    assert_eq!(status, "False");
    says(&said, &["team", "data"]);
    region.cloud.change(|world| {
        for v_switch in world.vswitches.values_mut() {
            v_switch.tags.insert("team".to_owned(), "data".to_owned());
        }
    });
    recovers(&region).await;
}

#[tokio::test(start_paused = true)]
async fn a_vswitch_without_addresses_is_named_and_used_once_it_has_some() {
    let fill = |world: &mut World, taken: u32| {
        let of_zone = world.vswitches.values_mut().filter(|v_switch| v_switch.zone == ZONE);
        of_zone.for_each(|v_switch| v_switch.taken_by_others = taken);
    };
    let region = waiting_in(|world| fill(world, u32::MAX / 2)).await;
    let (status, said) = region.condition(GROUP, "default", "VSwitchResolved").await;
    assert_eq!(status, "True", "other zones can be used");
    says(&said, &["no selected vSwitch has a free address in", ZONE, "add a vSwitch there"]);
    says(&region.said().await, &["not in stock in the required zone"]);
    assert!(region.claims().await.is_empty(), "no claim is made that cannot be launched");
    region.cloud.change(|world| fill(world, 0));
    recovers(&region).await;
}
