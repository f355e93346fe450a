//! Warnings from a message queue of the simulated cloud.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_provider::{OfferingKey, Provider as _, Response, Warning, WarningKind};
use karpenter_simcloud_alibabacloud::{ACCESS_KEY, Fault, FaultRule, Policy, Queue, QueuedMessage};
use serde_json::json;

use crate::cloud::{CAPACITY, Rig, TYPE, wants};

const QUEUE: &str = "karpenter";

/// A spot machine that runs, with a queue to which Cloud Monitor delivers events if it `hears_events`.
async fn rig(hears_events: bool) -> (Rig, String) {
    let rig = Rig::prepared(&json!({}), |world| {
        world.queues.insert(QUEUE.into(), Queue::new(QUEUE, hears_events));
    })
    .await;
    let claim = rig.claim("a", &wants(&[(TYPE, &["ecs.g7.large"]), (CAPACITY, &["spot"])]));
    let machine = rig.launch(&claim).await.unwrap();
    tokio::time::advance(Duration::from_mins(2)).await;
    (rig, machine.provider_id)
}

/// Cloud Monitor's API does not answer.
fn silence(rig: &Rig) {
    let action = "DescribeSystemEventAttribute".to_owned();
    let rule = FaultRule { action, fault: Fault::InternalError, times: None, per_mille: None };
    rig.service.change(|world| world.faults.add(rule));
}

/// Takes the machine back, and nothing about the machine itself says so.
fn interrupt(rig: &Rig) {
    let id = rig.only().id;
    assert!(rig.service.interrupt(&id));
    rig.service.change(|world| world.instances.get_mut(&id).unwrap().locks.clear());
}

/// What is heard within a while, asked as Karpenter asks; heeded at once where that is wanted.
async fn heard(rig: &Rig, seconds: i64, heeds: bool) -> Vec<Warning> {
    let mut all = Vec::new();
    let end = rig.now() + jiff::SignedDuration::from_secs(seconds);
    while rig.now() < end {
        let warnings = rig.provider.warnings().await.unwrap();
        if heeds {
            rig.provider.heeded(warnings.clone()).await.unwrap();
        }
        all.extend(warnings);
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    all
}

fn messages(rig: &Rig) -> Vec<QueuedMessage> {
    rig.service.change(|world| world.queues[QUEUE].messages.clone())
}

fn put(rig: &Rig, body: &str) {
    let now = rig.now();
    rig.service.change(|world| {
        let queue = world.queues.get_mut(QUEUE).unwrap();
        queue.put(format!("M-{}", queue.messages.len()), body.to_owned(), now, now);
    });
}

#[tokio::test(start_paused = true)]
async fn a_message_alone_warns_of_a_spot_machine_while_it_still_runs_and_is_deleted_once_heeded() {
    let (rig, id) = rig(true).await;
    silence(&rig);
    heard(&rig, 30, true).await;
    assert!(messages(&rig).is_empty(), "state changes of no concern are deleted");
    interrupt(&rig);
    let instance = rig.only();
    let warnings = heard(&rig, 60, true).await;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert_eq!((warning.provider_id.as_str(), warning.kind), (id.as_str(), WarningKind::SpotInterruption));
    assert!(warning.response >= Response::Replace && warning.receipt.is_some());
    assert_eq!(rig.only().id, instance.id, "there is time to drain it");
    assert!(messages(&rig).is_empty());
    let key = OfferingKey {
        instance_type: "ecs.g7.large".into(),
        zone: instance.zone.as_str().into(),
        capacity_type: "spot".into(),
    };
    assert!(rig.provider.market().refusals().is_refused(&key, rig.now()));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_heeded_is_said_again() {
    let (rig, _) = rig(true).await;
    silence(&rig);
    heard(&rig, 30, true).await;
    interrupt(&rig);
    let unheeded = heard(&rig, 100, false).await;
    assert!((2..=5).contains(&unheeded.len()), "about every half minute: {unheeded:?}");
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(heard(&rig, 60, true).await.len(), 1);
    assert!(messages(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_delivered_and_can_be_asked_for_is_told_once() {
    let (rig, _) = rig(true).await;
    heard(&rig, 35, true).await;
    interrupt(&rig);
    let told = heard(&rig, 120, true).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(messages(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn messages_that_nobody_understands_or_that_are_about_others_are_deleted() {
    let (rig, _) = rig(false).await;
    let event =
        json!({"name": "Instance:PreemptibleInstanceInterruption", "content": {"instanceId": "i-other"}});
    for body in ["not an event".to_owned(), "{}".to_owned(), STANDARD.encode(event.to_string())] {
        put(&rig, &body);
    }
    assert!(heard(&rig, 10, true).await.is_empty());
    assert!(messages(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn more_messages_than_one_call_brings_are_read_in_one_go() {
    let (rig, _) = rig(false).await;
    let event = json!({"name": "Instance:StateChange", "content": {"resourceId": rig.only().id, "state": "Stopping"}});
    (0..40).for_each(|_| put(&rig, &event.to_string()));
    let warnings = rig.provider.warnings().await.unwrap();
    assert!(warnings.iter().all(|warning| warning.kind == WarningKind::Stopping));
    rig.provider.heeded(warnings).await.unwrap();
    assert!(messages(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_missing_costs_nothing_but_its_own_warnings_and_is_found_when_it_is_made() {
    let (rig, id) = rig(true).await;
    let queue = rig.service.change(|world| world.queues.remove(QUEUE).unwrap());
    interrupt(&rig);
    let told = heard(&rig, 120, true).await;
    assert!(told.iter().any(|one| one.provider_id == id), "Cloud Monitor is asked all the same");
    assert!(rig.calls("BatchReceiveMessage") <= 3, "a missing queue is not asked for all the time");
    rig.service.change(|world| world.queues.insert(QUEUE.into(), queue));
    put(&rig, "anything");
    heard(&rig, 70, true).await;
    assert!(messages(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_named_with_what_it_costs() {
    let (rig, _) = rig(true).await;
    let allow = |actions: &[&str]| {
        let policy = Policy::allowing(actions.iter().copied());
        rig.service.change(|world| world.keys.get_mut(ACCESS_KEY).unwrap().policy = Some(policy));
    };
    let missing = || rig.provider.rights().missing();
    allow(&["ecs:*", "cms:*", "sts:*"]);
    put(&rig, "anything");
    assert!(rig.provider.warnings().await.unwrap().is_empty());
    assert_eq!(missing(), [("mns:ReceiveMessage".to_owned(), "the interruption queue is not read")]);
    allow(&["ecs:*", "cms:*", "sts:*", "mns:ReceiveMessage"]);
    tokio::time::advance(Duration::from_mins(11)).await;
    rig.provider.warnings().await.unwrap();
    let cost = "messages of the interruption queue come again and again";
    assert_eq!(missing(), [("mns:DeleteMessage".to_owned(), cost)]);
    allow(&["*"]);
    heard(&rig, 60, true).await;
    assert!(missing().is_empty() && messages(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_queue_nobody_asks_for_one() {
    let rig = Rig::new(&json!({})).await;
    heard(&rig, 60, true).await;
    assert_eq!((rig.calls("BatchReceiveMessage"), rig.calls("GetCallerIdentity")), (0, 0));
}
