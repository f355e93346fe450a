//! Thousands of launches at once, three of ten without stock, in an account that throttles: every pod gets its machine and no machine is left over.

use std::time::Instant;

use karpenter_simcloud_alibabacloud::{Fault, FaultRule};
use serde_json::json;

use crate::region::{Region, until};

const CLUSTER: &str = "c1";
const GROUP: &str = "karpenter.alibabacloud.com";

/// How many launches the storm has: few, unless `KARPENTER_TEST_STORM` says otherwise.
fn size() -> usize {
    std::env::var("KARPENTER_TEST_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_pods_ends_with_a_machine_for_each_and_none_left_over() {
    let region = Region::new(CLUSTER).await;
    let class = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "ECSNodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "vSwitchSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
            "imageSelectorTerms": [{"imageFamily": "acs:alibaba_cloud_linux_3_2104_lts_x64"}],
        },
    });
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": GROUP, "kind": "ECSNodeClass", "name": "default"},
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                {"key": "karpenter.alibabacloud.com/instance-cpu", "operator": "In", "values": ["8"]},
            ],
        }}},
    });
    region.create(&class).await;
    region.create(&pool).await;
    until("the class is ready", || async { region.condition(GROUP, "default", "Ready").await.0 == "True" })
        .await;
    region.cloud.change(|world| {
        world.switches.no_stock_per_mille = 300;
        for action in ["RunInstances", "CreateAutoProvisioningGroup", "DescribeInstances"] {
            let fault = Fault::Throttle { retry_after: None };
            world.faults.add(FaultRule { action: action.into(), fault, times: None, per_mille: Some(200) });
        }
    });
    let (pods, began, real) = (size(), region.environment.now(), Instant::now());
    region.deploy("storm", "default", u32::try_from(pods).unwrap(), "5").await;
    until("every pod runs", || async { region.running().await == pods }).await;
    let took = region.environment.now().duration_since(began);
    let claims = region.claims().await;
    let ending = claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_some()).count();
    eprintln!(
        "{pods} pods ran after {took:#} of simulated and {:?} of real time, with {} claims of which {ending} end, and {} machines; calls: {:?}",
        real.elapsed(),
        claims.len(),
        region.instances().len(),
        region.cloud.change(|world| world.records.counts().clone())
    );
    assert_eq!(claims.len(), pods, "each pod needs a machine of its own");
    assert_eq!(region.instances().len(), pods, "no machine is left over");
    region.cloud.change(|world| world.faults.clear());
    region.leaves_nothing().await;
}
