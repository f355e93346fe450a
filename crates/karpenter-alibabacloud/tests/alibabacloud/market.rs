//! What is learned while the process runs: prices, and the memory of machines.

use std::sync::Arc;

use karpenter_alibabacloud::node_class::Architecture;
use karpenter_alibabacloud::refresh::Part;
use karpenter_provider::{InstanceTypes, Provider as _};
use karpenter_simcloud_alibabacloud::{Fault, World};
use serde_json::json;

use crate::cloud::{Rig, wants};

/// The types of the rig's class.
async fn types(rig: &Rig) -> InstanceTypes {
    let class = rig.claim("any", &wants(&[])).spec.node_class_ref;
    let pool = json!({"metadata": {"name": "default"}, "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}}});
    rig.provider.instance_types(Arc::new(serde_json::from_value(pool).unwrap())).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn prices_follow_the_clouds_and_those_nobody_tells_stay() {
    let rig = Rig::new(&json!({})).await;
    let price = async |spot: bool| {
        let types = types(&rig).await;
        let found = types.iter().find(|found| &*found.name == "ecs.g7.large").unwrap();
        let capacity_type = if spot { "spot" } else { "on-demand" };
        let is_it = |offering: &&karpenter_core::catalog::Offering| {
            offering.capacity_type().map(|word| &**word) == Some(capacity_type)
                && offering.zone().map(|zone| &**zone) == Some("cn-hangzhou-h")
        };
        found.offerings.iter().find(is_it).unwrap().price
    };
    let refresh = async |part| assert!(rig.provider.refresh().part(part).await);
    let said = |factor: f64| {
        rig.service.change(|world| {
            let found = world.types.get_mut("ecs.g7.large").unwrap();
            found.price *= factor;
            (found.price, World::spot_list_price(found, "cn-hangzhou-h"))
        })
    };
    let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
    let (on_demand, spot) = said(1.0);
    refresh(Part::Prices).await;
    refresh(Part::SpotPrices).await;
    assert!(
        near(price(false).await, on_demand) && near(price(true).await, spot),
        "{} {}",
        price(false).await,
        price(true).await
    );
    let (on_demand, spot) = said(2.0);
    let throttle = Fault::Throttle { retry_after: None };
    rig.service.change(|world| world.faults.next("DescribePrice", 10_000, throttle));
    assert!(!rig.provider.refresh().part(Part::Prices).await, "it is asked again soon");
    assert!(near(price(false).await, on_demand / 2.0), "what was known stays");
    rig.service.change(|world| world.faults.clear());
    refresh(Part::Prices).await;
    refresh(Part::SpotPrices).await;
    assert!(near(price(false).await, on_demand) && near(price(true).await, spot));
}

#[tokio::test(start_paused = true)]
async fn memory_that_was_seen_counts_for_its_type_and_image_alone() {
    let rig = Rig::new(&json!({})).await;
    let class = rig.class(&json!({}));
    let memory = async |name: &str| {
        let types = types(&rig).await;
        types.iter().find(|found| &*found.name == name).unwrap().capacity.get("memory")
    };
    let (large, xlarge) = (memory("ecs.g7.large").await, memory("ecs.g7.xlarge").await);
    let image = class.resolved.image(Architecture::Amd64).unwrap().id.clone();
    let learn = |image: Arc<str>, seen: &str| {
        rig.provider.market().learn_memory("ecs.g7.large".into(), image, seen.parse().unwrap());
    };
    learn("another".into(), "1Gi");
    assert_eq!(memory("ecs.g7.large").await, large);
    learn(image.clone(), "7600Mi");
    learn(image, "7700Mi");
    assert_eq!(memory("ecs.g7.large").await, "7600Mi".parse().unwrap(), "the least that was seen counts");
    assert_eq!(memory("ecs.g7.xlarge").await, xlarge);
}
