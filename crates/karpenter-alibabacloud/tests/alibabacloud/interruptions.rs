//! Warnings from the simulated cloud: locks, events, planned work.

use std::time::Duration;

use karpenter_provider::{OfferingKey, Provider as _, Response, Warning, WarningKind};
use karpenter_simcloud_alibabacloud::{Fault, FaultRule, Maintenance};
use serde_json::json;

use crate::cloud::{CAPACITY, Rig, TYPE, wants};

async fn spot(rig: &Rig) -> String {
    let claim = rig.claim("a", &wants(&[(TYPE, &["ecs.g7.large"]), (CAPACITY, &["spot"])]));
    let machine = rig.launch(&claim).await.unwrap();
    tokio::time::advance(Duration::from_mins(2)).await;
    machine.provider_id
}

/// What is heard within a while, asked every five seconds as Karpenter asks.
async fn heard(rig: &Rig, seconds: u64) -> Vec<Warning> {
    let mut all = Vec::new();
    for _ in 0..seconds / 5 {
        all.extend(rig.provider.warnings().await.unwrap());
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_spot_machine_that_is_taken_back_is_known_well_before_and_its_offering_is_left_alone() {
    let rig = Rig::new(&json!({})).await;
    let id = spot(&rig).await;
    assert!(heard(&rig, 60).await.is_empty());
    let instance = rig.only();
    assert!(rig.service.interrupt(&instance.id));
    let warnings = heard(&rig, 30).await;
    assert!(warnings.iter().any(|one| one.provider_id == id && one.kind == WarningKind::SpotInterruption));
    let key = OfferingKey {
        instance_type: "ecs.g7.large".into(),
        zone: instance.zone.as_str().into(),
        capacity_type: "spot".into(),
    };
    assert!(rig.provider.market().refusals().is_refused(&key, rig.now()));
}

#[tokio::test(start_paused = true)]
async fn the_lock_and_the_event_each_suffice_alone() {
    for silenced in ["DescribeSystemEventAttribute", "DescribeInstances"] {
        let rig = Rig::new(&json!({})).await;
        let id = spot(&rig).await;
        let instance = rig.only().id;
        // Ask once while all is well, so that both sources have been read.
        assert!(heard(&rig, 35).await.is_empty());
        rig.service.interrupt(&instance);
        if silenced == "DescribeInstances" {
            rig.service.change(|world| world.instances.get_mut(&instance).unwrap().locks.clear());
        } else {
            let fault = Fault::InternalError;
            let rule = FaultRule { action: silenced.into(), fault, times: None, per_mille: None };
            rig.service.change(|world| world.faults.add(rule));
        }
        let warnings = heard(&rig, 90).await;
        assert!(warnings.iter().any(|one| one.provider_id == id), "without {silenced}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_told_once_and_machines_of_others_are_not_ours_to_warn_of() {
    let rig = Rig::new(&json!({})).await;
    spot(&rig).await;
    let instance = rig.only().id;
    rig.service.interrupt(&instance);
    rig.service.change(|world| world.instances.get_mut(&instance).unwrap().locks.clear());
    let told = heard(&rig, 120).await;
    assert_eq!(told.len(), 1, "{told:?}");
    rig.service.change(|world| world.instances.get_mut(&instance).unwrap().tags.clear());
    rig.service.interrupt(&instance);
    assert!(heard(&rig, 60).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn asking_costs_a_handful_of_calls_a_minute() {
    let rig = Rig::new(&json!({})).await;
    spot(&rig).await;
    let before = (rig.calls("DescribeInstances"), rig.calls("DescribeSystemEventAttribute"));
    heard(&rig, 60).await;
    assert!(rig.calls("DescribeInstances") - before.0 <= 5);
    assert!(rig.calls("DescribeSystemEventAttribute") - before.1 <= 3);
}

#[tokio::test(start_paused = true)]
async fn far_off_work_is_told_and_near_work_drains() {
    let rig = Rig::new(&json!({})).await;
    let id = spot(&rig).await;
    let instance = rig.only().id;
    let plan = |rig: &Rig, hours: i64| {
        let not_before = rig.now() + jiff::SignedDuration::from_hours(hours);
        rig.service.change(|world| {
            world.maintenance = vec![Maintenance {
                instance: instance.clone(),
                event_type: "SystemMaintenance.Reboot".to_owned(),
                not_before,
                reason: String::new(),
            }];
        });
    };
    plan(&rig, 48);
    let told = heard(&rig, 310).await;
    assert!(told.iter().any(|one| one.provider_id == id && one.response == Response::Tell), "{told:?}");
    plan(&rig, 0);
    let told = heard(&rig, 310).await;
    assert!(
        told.iter().any(|one| one.kind == WarningKind::ScheduledChange && one.response == Response::Replace)
    );
}
