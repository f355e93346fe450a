//! The life of machines, and how markets reach it.

use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_environment::Environment as _;
use karpenter_simcloud::{MachineEvent, SimulatedCloud};
use serde_json::json;

use crate::cloud::{Cloud, cloud, cloud_with, start};

fn sold_by(description: &str) -> Cloud {
    let description = serde_json::from_str(description).expect("a description");
    cloud_with(Arc::new(SimulatedCloud::new(description, 7, start())))
}

#[test]
fn a_machine_goes_through_its_states_as_time_passes() {
    let cloud = cloud();
    let id = cloud.launch(&[]);
    let status = || cloud.instance(&id).map(|found| found["Status"].as_str().unwrap().to_owned());
    assert_eq!(status().as_deref(), Some("Pending"));
    let next = cloud.service.tick(cloud.environment.now()).unwrap();
    assert_eq!(next, start() + SignedDuration::from_secs(2), "a tick says when it has something to do");
    cloud.wait(2);
    assert_eq!(status().as_deref(), Some("Starting"));
    cloud.wait(8);
    assert_eq!(status().as_deref(), Some("Running"));
    let (code, _) = cloud.ecs("DeleteInstance", &[("InstanceId", &id), ("Force", "true")]);
    assert_eq!((code, status().as_deref()), (200, Some("Stopping")));
    cloud.wait(8);
    assert_eq!(status(), None);
    assert_eq!(cloud.service.tick(cloud.environment.now()), None);
    assert!(
        matches!(&cloud.told()[..], [MachineEvent::Gone { provider_id, .. }] if *provider_id == format!("cn-hangzhou.{id}"))
    );
}

#[test]
fn a_market_without_machines_is_no_stock_and_takes_no_address() {
    let cloud = sold_by(r#"{"capacity": [{"instanceType": "ecs.g7.large", "machines": 1}]}"#);
    let free = || cloud.service.change(|world| world.vswitches["vsw-simulatedhprivate"].free());
    let before = free();
    cloud.launch(&[]);
    let (status, answer) = cloud.run(&[]);
    assert_eq!((status, answer["Code"].as_str()), (403, Some("OperationDenied.NoStock")));
    assert_eq!(free(), before - 1);
}

#[test]
fn a_launch_of_several_is_all_or_nothing_unless_less_is_enough() {
    let cloud = sold_by(r#"{"capacity": [{"machines": 2}]}"#);
    assert_eq!(cloud.run(&[("Amount", "3")]).0, 403);
    assert_eq!(cloud.service.change(|world| world.instances.len()), 0);
    let (status, answer) = cloud.run(&[("Amount", "3"), ("MinAmount", "1")]);
    assert_eq!(status, 200);
    assert_eq!(answer["InstanceIdSets"]["InstanceIdSet"].as_array().unwrap().len(), 2);
    assert!(cloud.told().is_empty(), "what never was is not told");
}

#[test]
fn a_warning_of_the_market_is_a_lock_and_an_event_and_the_end_a_release() {
    let cloud = sold_by(r#"{"interruptions": [{"capacityType": "spot", "every": "1h", "notice": "5m"}]}"#);
    cloud.at_once();
    let id = cloud.launch(&[("SpotStrategy", "SpotAsPriceGo")]);
    let locked =
        || cloud.ecs("DescribeInstances", &[("LockReason", "Recycling")]).1["TotalCount"] == json!(1);
    while !locked() {
        cloud.wait(60);
        assert!(cloud.instance(&id).is_some(), "it is warned before it goes");
    }
    let event = cloud.service.change(|world| {
        let name = "Instance:PreemptibleInstanceInterruption";
        world.events.iter().find(|event| event.name == name).cloned().unwrap()
    });
    assert_eq!(event.instance, id);
    cloud.wait(310);
    assert_eq!(cloud.instance(&id), None);
    assert!(matches!(cloud.told().last(), Some(MachineEvent::Gone { .. })));
}

#[test]
fn the_price_of_the_market_is_the_price_of_the_cloud() {
    let cloud = sold_by(r#"{"prices": [{"capacityType": "spot", "swing": 50, "every": "1h"}]}"#);
    let params = [("NetworkType", "vpc"), ("InstanceType", "ecs.g7.large"), ("ZoneId", "cn-hangzhou-h")];
    let price = || {
        let (_, answer) = cloud.ecs("DescribeSpotPriceHistory", &params);
        let prices = answer["SpotPrices"]["SpotPriceType"].as_array().unwrap().clone();
        prices.last().unwrap()["SpotPrice"].as_f64().unwrap()
    };
    let before = price();
    cloud.wait(3600);
    assert!((price() - before).abs() > 1e-6, "it moves");
    let limit = format!("{:.4}", price() / 2.0);
    let (status, answer) = cloud.run(&[("SpotStrategy", "SpotWithPriceLimit"), ("SpotPriceLimit", &limit)]);
    assert_eq!((status, answer["Code"].as_str()), (403, Some("InvalidSpotPriceLimit.LowerThanPublicPrice")));
}

#[test]
fn the_same_seed_gives_the_same_machines() {
    let ids = || {
        let cloud = cloud();
        (cloud.launch(&[]), cloud.launch(&[]))
    };
    assert_eq!(ids(), ids());
}

#[test]
fn only_a_thousand_machines_are_found_by_a_tag() {
    let cloud = cloud();
    for _ in 0..11 {
        let (status, answer) = cloud.run(&[("Amount", "100"), ("Tag.1.Key", "pool"), ("Tag.1.Value", "a")]);
        assert_eq!(status, 200, "{answer}");
    }
    let total = |params: &[(&str, &str)]| cloud.ecs("DescribeInstances", params).1["TotalCount"].clone();
    assert_eq!(total(&[("Tag.1.Key", "pool")]), 1000);
    assert_eq!(total(&[]), 1100);
}

#[test]
fn a_type_is_refused_where_it_is_not_sold() {
    let cloud = cloud();
    let (status, answer) = cloud.run(&[
        ("InstanceType", "ecs.g5.large"),
        ("VSwitchId", "vsw-simulatedkprivate"),
        ("SystemDisk.Category", "cloud_ssd"),
    ]);
    assert_eq!((status, answer["Code"].as_str()), (403, Some("InvalidInstanceType.ZoneNotSupported")));
}
