//! Faults, rates and records.

use std::collections::BTreeSet;

use http::Request;
use karpenter_simcloud_alibabacloud::{ConnectionReset, Fault, FaultRule};

use crate::cloud::{Signer, cloud, read};

#[test]
fn throttling_says_when_to_come_back_if_asked_to() {
    let cloud = cloud();
    cloud.service.change(|world| {
        world.faults.next("DescribeZones", 1, Fault::Throttle { retry_after: Some(3) });
        world.faults.next("DescribeZones", 1, Fault::Throttle { retry_after: None });
    });
    let ask = || cloud.service.handle(&cloud.signed("2014-05-26", "DescribeZones", &[], &Signer::default()));
    let first = ask();
    assert_eq!(first.headers()["x-acs-retry-after"], "3");
    assert_eq!(read(&first).1["Code"], "Throttling.User");
    let second = ask();
    assert_eq!((second.status().as_u16(), second.headers().get("x-acs-retry-after")), (400, None));
    assert_eq!(ask().status(), 200);
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_launch_leaves_a_machine() {
    let cloud = cloud();
    cloud.service.change(|world| {
        world.faults.next("RunInstances", 1, Fault::Reset);
        world.faults.next("RunInstances", 1, Fault::ResetAfterCommit);
    });
    for left in [0, 1] {
        let params = [
            ("InstanceType", "ecs.g7.large"),
            ("ImageId", crate::cloud::X64),
            ("VSwitchId", "vsw-simulatedhprivate"),
            ("SecurityGroupId", karpenter_simcloud_alibabacloud::SECURITY_GROUP),
        ];
        let request = cloud.signed("2014-05-26", "RunInstances", &params, &Signer::default());
        assert_eq!(cloud.service.answer(request).await.unwrap_err(), ConnectionReset);
        assert_eq!(cloud.service.change(|world| world.instances.len()), left);
    }
}

#[test]
fn chance_decides_by_the_seed() {
    let outcomes = || {
        let cloud = cloud();
        cloud.service.change(|world| world.switches.no_stock_per_mille = 300);
        (0..100).map(|_| cloud.run(&[]).0).collect::<Vec<_>>()
    };
    let first = outcomes();
    assert_eq!(first, outcomes());
    let failed = first.iter().filter(|status| **status == 403).count();
    assert!((15..45).contains(&failed), "{failed}");
}

#[test]
fn a_fault_may_hit_some_requests_only() {
    let cloud = cloud();
    cloud.service.change(|world| {
        world.faults.add(FaultRule {
            action: "*".to_owned(),
            fault: Fault::Unavailable,
            times: None,
            per_mille: Some(500),
        });
    });
    let failed = (0..100).filter(|_| cloud.ecs("DescribeZones", &[]).0 == 503).count();
    assert!((30..70).contains(&failed), "{failed}");
}

#[test]
fn once_over_its_limit_an_action_is_refused_until_the_next_minute() {
    let cloud = cloud();
    cloud.service.change(|world| world.switches.per_minute.insert("DescribeZones".to_owned(), 2));
    let statuses: Vec<u16> = (0..3).map(|_| cloud.ecs("DescribeZones", &[]).0).collect();
    assert_eq!(statuses, [200, 200, 400]);
    cloud.wait(59);
    assert_eq!(cloud.ecs("DescribeZones", &[]).0, 400);
    cloud.wait(1);
    assert_eq!(cloud.ecs("DescribeZones", &[]).0, 200);
}

#[test]
fn requests_are_recorded_with_what_became_of_them() {
    let cloud = cloud();
    cloud.ecs("DescribeZones", &[("RegionId", "cn-hangzhou")]);
    cloud.ecs("DescribeZones", &[("RegionId", "nowhere")]);
    cloud.wait(1);
    cloud.ecs("DescribeZones", &[]);
    cloud.service.change(|world| {
        let count = world.records.count("DescribeZones");
        assert_eq!((count.total, count.refused, count.most_per_second), (3, 1, 2));
        let codes: Vec<&str> = world.records.of("DescribeZones").map(|found| found.code.as_str()).collect();
        assert_eq!(codes, ["", "InvalidRegionId.NotFound", ""]);
    });
}

#[test]
fn the_back_door_needs_no_signature_and_says_what_is_wrong() {
    let cloud = cloud();
    let ask = |body: &'static str| {
        let request = Request::post("/_simulated/faults").body(body.as_bytes().into()).unwrap();
        read(&cloud.service.handle(&request))
    };
    assert_eq!(ask(r#"{"action": "DescribeZones", "kind": "internal-error", "times": 1}"#).0, 200);
    assert_eq!(cloud.ecs("DescribeZones", &[]).0, 500);
    let (status, answer) = ask(r#"{"action": "DescribeZones", "kind": "unheard-of"}"#);
    assert_eq!(status, 400);
    assert!(answer["error"].as_str().unwrap().contains("unheard-of"));
}

#[test]
fn a_storm_of_launches_leaves_exactly_the_machines_that_were_promised() {
    let cloud = cloud();
    cloud.service.change(|world| {
        world.switches.no_stock_per_mille = 300;
        world.faults.add(FaultRule {
            action: "RunInstances".to_owned(),
            fault: Fault::Throttle { retry_after: None },
            times: None,
            per_mille: Some(100),
        });
    });
    let (mut promised, mut asked) = (BTreeSet::new(), 0);
    while promised.len() < 2000 {
        let (status, answer) = cloud.run(&[("ClientToken", &format!("claim-{asked}"))]);
        asked += 1;
        match status {
            200 => assert!(promised.insert(answer["InstanceIdSets"]["InstanceIdSet"][0].to_string())),
            _ => assert!(
                ["OperationDenied.NoStock", "Throttling.User"].contains(&answer["Code"].as_str().unwrap())
            ),
        }
    }
    cloud.service.change(|world| {
        assert_eq!(world.instances.len(), 2000);
        assert_eq!(world.vswitches["vsw-simulatedhprivate"].used.len(), 2000, "no address is given twice");
        assert_eq!(world.records.count("RunInstances").refused, asked - 2000);
    });
}
