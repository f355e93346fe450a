//! Many machines at once, in an account that refuses and throttles: they all come, they all go, and nothing is left behind.

use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_environment::Environment as _;
use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{Fault, FaultKind};
use serde_json::json;

use crate::world::{QUEUE, World, one_of, pass, storm};

#[tokio::test(start_paused = true)]
async fn a_storm_of_launches_ends_with_every_pod_placed_and_nothing_left_over() {
    let world = World::new(Arc::new(Plenty)).await;
    world.run_machinery();
    let _running = world.start(QUEUE).await;
    let requirements = json!([
        one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
        one_of("karpenter.k8s.aws/instance-cpu", &["8"]),
    ]);
    world.create_pool(&json!({}), &requirements).await;
    pass(60).await;
    world.cloud.inject(Fault::no_capacity("InsufficientInstanceCapacity", 0.3));
    world.cloud.inject(Fault::chance("CreateFleet", 0.2, FaultKind::Throttle));
    let pods = storm(60);
    world.deploy("storm", pods, &json!({"cpu": "5"}), &json!({})).await;
    // Five launches a second are allowed, and some are asked for again.
    pass(600 + pods as u64).await;

    assert_eq!(world.nodes_of("storm").await.len(), pods, "every pod runs");
    let claims = world.claims().await;
    let registered = claims.iter().filter(|claim| World::condition(claim, "Registered") == "True").count();
    assert_eq!((claims.len(), registered), (pods, pods), "each pod needs a machine of its own");
    assert_eq!(world.cloud.living().len(), pods, "no machine is left over");
    let records = world.cloud.records();
    assert!(records.errors("CreateFleet", "RequestLimitExceeded") > 0, "calls were throttled");
    for (operation, rate, burst) in [("CreateFleet", 5, 50), ("DescribeInstances", 20, 100)] {
        for seconds in [1, 10] {
            let most = records.most_within(operation, SignedDuration::from_secs(seconds));
            let allowed = burst + rate * usize::try_from(seconds).unwrap();
            assert!(most <= allowed, "{most} calls of {operation} within {seconds} s; {allowed} are allowed");
        }
    }

    world.cloud.heal();
    world.scale("storm", 0).await;
    pass(1200 + pods as u64).await;
    assert_eq!(world.cloud.living().len(), 0, "no machine outlives its pods");
    assert_eq!(world.claims().await.len(), 0);
    assert_eq!(world.nodes().await.len(), 0);
    // Launches are tried every half an hour, and a template goes five minutes after its last use.
    let lately = world.environment.now() - SignedDuration::from_mins(7);
    let old = world.cloud.launch_templates().into_iter().filter(|template| template.created < lately);
    assert_eq!(old.count(), 0, "templates that nobody uses are deleted");
    println!("{pods} launches: {:?}", records.counts());
}
