//! Finding, listing and ending machines: ours, and nobody else's.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use karpenter_api::NodeClaim;
use karpenter_provider::conformance::{Subject, check};
use karpenter_provider::{Provider as _, Termination};
use karpenter_simcloud_alibabacloud::{Fault, Status};
use serde_json::json;

use crate::cloud::{CAPACITY, Rig, TYPE, claim, recorded, wants};

async fn launched(rig: &Rig, name: &str) -> NodeClaim {
    let claim = rig.claim(name, &wants(&[(TYPE, &["ecs.g7.large"]), (CAPACITY, &["on-demand"])]));
    let machine = rig.launch(&claim).await.unwrap();
    recorded(&claim, &machine)
}

/// What garbage collection asks for: a machine without a claim.
fn orphan(claim: &NodeClaim) -> NodeClaim {
    let mut made_up = NodeClaim::default();
    let recorded = &claim.status.as_ref().unwrap().provider_id;
    made_up.status.get_or_insert_default().provider_id.clone_from(recorded);
    made_up
}

async fn until_gone(rig: &Rig, claim: &NodeClaim) -> Termination {
    for _ in 0..20 {
        if rig.terminate(claim).await.unwrap() == Termination::Gone {
            return Termination::Gone;
        }
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    Termination::Started
}

#[tokio::test(start_paused = true)]
async fn a_machine_ends_only_when_the_cloud_no_longer_knows_it() {
    let rig = Rig::new(&json!({})).await;
    let claim = launched(&rig, "a").await;
    assert_eq!(rig.terminate(&claim).await.unwrap(), Termination::Started, "it is still being set up");
    assert_eq!(until_gone(&rig, &claim).await, Termination::Gone);
    assert!(rig.instances().is_empty());
    assert_eq!(rig.terminate(&claim).await.unwrap(), Termination::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_never_had_a_machine_ends_at_once_and_one_without_a_record_ends_its_machine() {
    let rig = Rig::new(&json!({})).await;
    let never = rig.claim("never", &wants(&[]));
    assert_eq!(rig.terminate(&never).await.unwrap(), Termination::Gone);
    launched(&rig, "a").await;
    let unrecorded = rig.claim("a", &wants(&[]));
    assert_eq!(until_gone(&rig, &unrecorded).await, Termination::Gone);
    assert!(rig.instances().is_empty());
    let mut foreign = rig.claim("b", &wants(&[]));
    foreign.status.get_or_insert_default().provider_id = Some("kwok://b".into());
    assert_eq!(rig.terminate(&foreign).await.unwrap(), Termination::Gone);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ours_is_never_listed_nor_ended() {
    let rig = Rig::new(&json!({})).await;
    let claim = launched(&rig, "a").await;
    let id = rig.only().id;
    tokio::time::advance(Duration::from_mins(30)).await;
    for tags in [
        vec![("kubernetes.io/cluster/c1", "owned")],
        vec![("karpenter.sh/nodepool", "default"), ("karpenter.sh/managed-by", "karpenter")],
        vec![
            ("kubernetes.io/cluster/c2", "owned"),
            ("karpenter.sh/nodepool", "default"),
            ("karpenter.sh/cluster-id", "c2"),
        ],
        vec![],
    ] {
        let tags = tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        rig.service.change(|world| world.instances.get_mut(&id).unwrap().tags = tags);
        assert!(rig.provider.list().await.unwrap().is_empty());
        for claim in [claim.clone(), orphan(&claim)] {
            assert!(rig.terminate(&claim).await.unwrap_err().contains("left alone"));
        }
    }
    assert_eq!(rig.calls("DeleteInstances"), 0);
    rig.only();
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_claim_is_left_alone_for_six_minutes_and_then_ended() {
    let rig = Rig::new(&json!({})).await;
    let claim = launched(&rig, "a").await;
    let listed = rig.provider.list().await.unwrap();
    assert_eq!(listed[0].claim.as_deref(), Some("a"), "garbage collection can tell whose it is");
    assert!(listed[0].created.unwrap() >= rig.now(), "it does not look older than it is");
    let orphan = orphan(&claim);
    assert!(rig.terminate(&orphan).await.unwrap_err().contains("too young"));
    tokio::time::advance(Duration::from_mins(5)).await;
    assert!(rig.terminate(&orphan).await.is_err());
    tokio::time::advance(Duration::from_mins(2)).await;
    assert_eq!(until_gone(&rig, &orphan).await, Termination::Gone);
}

#[tokio::test(start_paused = true)]
async fn looking_machines_up_and_ending_them_takes_one_call_for_many() {
    let rig = Rig::new(&json!({})).await;
    let mut claims = Vec::new();
    for number in 0..30 {
        claims.push(launched(&rig, &format!("claim-{number}")).await);
    }
    tokio::time::advance(Duration::from_mins(2)).await;
    let ids = claims.iter().map(|claim| claim.status.as_ref().unwrap().provider_id.clone().unwrap());
    let before = rig.calls("DescribeInstances");
    let found = join_all(ids.map(|id| rig.provider.find(id.into()))).await;
    assert!(found.iter().all(|found| matches!(found, Ok(Some(_)))));
    assert_eq!(rig.calls("DescribeInstances") - before, 1);
    let ended = join_all(claims.iter().map(|claim| rig.terminate(claim))).await;
    assert!(ended.iter().all(|ended| *ended == Ok(Termination::Started)));
    assert_eq!(rig.calls("DeleteInstances"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_machine_that_is_not_described_yet_is_not_taken_for_gone() {
    let rig = Rig::prepared(&json!({}), |world| world.switches.stale_reads_seconds = 20).await;
    let claim = launched(&rig, "a").await;
    let id: Arc<str> = claim.status.as_ref().unwrap().provider_id.clone().unwrap().into();
    assert!(rig.provider.find(id.clone()).await.is_err());
    assert!(rig.terminate(&claim).await.is_err());
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(rig.provider.find(id).await.unwrap().is_some());
    assert_eq!(until_gone(&rig, &claim).await, Termination::Gone);
}

#[tokio::test(start_paused = true)]
async fn more_than_a_thousand_machines_are_listed_to_the_last() {
    let rig = Rig::new(&json!({})).await;
    launched(&rig, "a").await;
    let model = rig.only();
    rig.service.change(|world| {
        for number in 0..1200 {
            let mut instance = model.clone();
            instance.id = format!("i-copy{number:04}");
            instance.next_step = None;
            instance.status = Status::Running;
            world.instances.insert(instance.id.clone(), instance);
        }
    });
    assert_eq!(rig.provider.list().await.unwrap().len(), 1201);
    assert!(rig.calls("ListTagResources") > 0);
    rig.service.change(|world| {
        let fault = Fault::Refuse { status: 403, code: "Forbidden.RAM".into(), message: "no".into() };
        world.faults.next("ListTagResources", 1, fault);
    });
    let error = rig.provider.list().await.unwrap_err();
    assert!(error.0.contains("ecs:ListTagResources"), "a list with gaps is no list: {error}");
}

#[tokio::test(start_paused = true)]
async fn answers_that_leave_nearly_everything_out_break_nothing() {
    let rig = Rig::new(&json!({})).await;
    let claim = launched(&rig, "a").await;
    tokio::time::advance(Duration::from_mins(2)).await;
    rig.service.change(|world| world.faults.next("DescribeInstances", 10, Fault::MissingFields));
    let id: Arc<str> = claim.status.as_ref().unwrap().provider_id.clone().unwrap().into();
    rig.provider.find(id).await.unwrap();
    rig.provider.list().await.unwrap();
    rig.provider.drift(Arc::new(claim.clone())).await.unwrap();
    rig.provider.warnings().await.unwrap();
    assert!(rig.terminate(&claim).await.is_err(), "without tags it is not known to be ours");
    rig.only();
}

#[tokio::test(start_paused = true)]
async fn deletion_protection_is_named_with_its_remedy() {
    let rig = Rig::new(&json!({})).await;
    let claim = launched(&rig, "a").await;
    tokio::time::advance(Duration::from_mins(2)).await;
    let id = rig.only().id;
    rig.service.change(|world| world.instances.get_mut(&id).unwrap().deletion_protection = true);
    assert!(rig.terminate(&claim).await.unwrap_err().contains("switch off the deletion protection"));
    rig.service.change(|world| world.instances.get_mut(&id).unwrap().deletion_protection = false);
    assert_eq!(until_gone(&rig, &claim).await, Termination::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_machine_ended_behind_our_back_is_gone() {
    let rig = Rig::new(&json!({})).await;
    let claim = launched(&rig, "a").await;
    tokio::time::advance(Duration::from_mins(2)).await;
    rig.service.change(|world| world.instances.clear());
    let id: Arc<str> = claim.status.as_ref().unwrap().provider_id.clone().unwrap().into();
    assert_eq!(rig.provider.find(id).await.unwrap(), None);
    assert_eq!(rig.terminate(&claim).await.unwrap(), Termination::Gone);
}

#[tokio::test(start_paused = true)]
async fn the_provider_does_what_every_provider_must() {
    let rig = Rig::new(&json!({})).await;
    let now = rig.now();
    let requirements = wants(&[(TYPE, &["ecs.g7.large", "ecs.g7.xlarge"]), (CAPACITY, &["on-demand"])]);
    let class = rig.claim("any", &requirements).spec.node_class_ref;
    let pool = json!({"metadata": {"name": "default"}, "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}}});
    let subject = Subject {
        provider: Arc::new(rig.provider.clone()),
        pool: serde_json::from_value(pool).unwrap(),
        claim: Box::new(move |name| claim(name, now, &requirements)),
        settle: Box::new(|| Box::pin(tokio::time::sleep(Duration::from_secs(15)))),
    };
    check(&subject).await;
}
