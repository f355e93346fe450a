//! Capacity that was reserved: from pod to node, and what happens when the reservation ends or is lost.

use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_api::NodeClaim;
use karpenter_environment::Environment as _;
use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{CapacityReservation, Happening};
use serde_json::json;

use crate::world::{QUEUE, World, label, one_of, pass};

const ID: &str = "cr-0123456789abcdef0";
const BOUGHT: &str = "karpenter.sh/capacity-type";
const RESERVATION: &str = "karpenter.k8s.aws/capacity-reservation-id";
const KIND: &str = "karpenter.k8s.aws/capacity-reservation-type";

fn claim_label(claim: &NodeClaim, key: &str) -> String {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(key).cloned()).unwrap_or_default()
}

/// A world whose pool takes machines of one type, from the reservation if it can.
async fn world(reservation: CapacityReservation) -> World {
    let world = World::new(Arc::new(Plenty)).await;
    world.run_machinery();
    let instance_type = reservation.instance_type.clone();
    world.cloud.put_capacity_reservation(reservation);
    let _running = world.start(QUEUE).await;
    let class = json!({"capacityReservationSelectorTerms": [{"id": ID}]});
    let requirements = json!([
        one_of(BOUGHT, &["reserved", "on-demand"]),
        one_of("node.kubernetes.io/instance-type", &[&instance_type]),
    ]);
    world.create_pool(&class, &requirements).await;
    pass(60).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_used_first_and_what_is_over_is_bought() {
    let world = world(CapacityReservation::targeted(ID, "m5.2xlarge", "us-west-2a", 1)).await;
    world.deploy("app", 2, &json!({"cpu": "5"}), &json!({})).await;
    pass(120).await;
    let living = world.cloud.living();
    let reserved: Vec<_> = living.iter().filter_map(|found| found.capacity_reservation.as_deref()).collect();
    assert_eq!((living.len(), reserved.as_slice()), (2, [ID].as_slice()));
    let mut nodes = world.nodes_of("app").await;
    nodes.sort_by_key(|node| label(node, BOUGHT).to_owned());
    let labels = |key| nodes.iter().map(|node| label(node, key)).collect::<Vec<_>>();
    assert_eq!(labels(BOUGHT), ["on-demand", "reserved"]);
    assert_eq!(labels(RESERVATION), ["", ID]);
    assert_eq!(labels(KIND), ["", "default"]);
    let mut bought: Vec<String> =
        world.claims().await.iter().map(|claim| claim_label(claim, BOUGHT)).collect();
    bought.sort();
    assert_eq!(bought, ["on-demand", "reserved"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_lost_its_reservation_says_that_it_is_on_demand() {
    let world = world(CapacityReservation::targeted(ID, "m5.2xlarge", "us-west-2a", 1)).await;
    world.deploy("app", 1, &json!({"cpu": "5"}), &json!({})).await;
    pass(120).await;
    let [instance] = world.cloud.living().try_into().unwrap();
    assert_eq!(instance.capacity_reservation.as_deref(), Some(ID));
    world.cloud.change_instance(&instance.id, |instance| instance.capacity_reservation = None).unwrap();
    pass(600).await;
    let [claim] = world.claims().await.try_into().expect("the machine stays");
    assert!(claim.status.as_ref().unwrap().provider_id.as_deref().unwrap().ends_with(&instance.id));
    let [node] = world.nodes_of("app").await.try_into().unwrap();
    for key in [RESERVATION, KIND] {
        assert_eq!((claim_label(&claim, key).as_str(), label(&node, key)), ("", ""), "{key}");
    }
    assert_eq!((claim_label(&claim, BOUGHT).as_str(), label(&node, BOUGHT)), ("on-demand", "on-demand"));
    assert_eq!(World::condition(&claim, "Drifted"), "absent", "nobody is moved for it");
}

#[tokio::test(start_paused = true)]
async fn a_machine_on_a_reservation_that_the_class_no_longer_names_has_drifted() {
    let world = world(CapacityReservation::targeted(ID, "m5.2xlarge", "us-west-2a", 1)).await;
    world.deploy("app", 1, &json!({"cpu": "5"}), &json!({})).await;
    pass(120).await;
    let [before] = world.cloud.living().try_into().unwrap();
    world.change_class(&json!({"capacityReservationSelectorTerms": null})).await;
    pass(900).await;
    let [after] = world.cloud.living().try_into().expect("one machine took the place of the other");
    assert_ne!(before.id, after.id);
    assert_eq!(after.capacity_reservation, None);
    let [node] = world.nodes_of("app").await.try_into().unwrap();
    assert_eq!(label(&node, BOUGHT), "on-demand");
}

#[tokio::test(start_paused = true)]
async fn a_capacity_block_is_used_and_given_up_before_it_ends() {
    let mut block = CapacityReservation::targeted(ID, "p5.48xlarge", "us-west-2a", 1);
    block.kind = "capacity-block".to_owned();
    let end = SignedDuration::from_mins(90);
    block.end = Some("2026-12-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap() + end);
    let world = world(block).await;
    world.deploy("train", 1, &json!({"nvidia.com/gpu": "8"}), &json!({})).await;
    pass(120).await;
    let [instance] = world.cloud.living().try_into().unwrap();
    assert_eq!(instance.lifecycle.as_deref(), Some("capacity-block"));
    let [node] = world.nodes_of("train").await.try_into().unwrap();
    assert_eq!((label(&node, BOUGHT), label(&node, KIND)), ("reserved", "capacity-block"));
    let claim = world.claims().await.remove(0);
    let name = claim.metadata.name.unwrap();

    // EC2 ends the block's machines half an hour before its end; pods leave ten minutes before that.
    pass(45 * 60).await;
    assert!(world.claims().await.iter().any(|claim| claim.metadata.name.as_ref() == Some(&name)));
    pass(8 * 60).await;
    let now = world.environment.now();
    assert!(now < "2026-12-01T01:00:00Z".parse().unwrap(), "EC2 has not ended it yet: {now}");
    assert!(world.claims().await.iter().all(|claim| claim.metadata.name.as_ref() != Some(&name)));
    assert!(world.cloud.living().iter().all(|alive| alive.id != instance.id));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_takes_its_machine_back_is_left_alone_for_a_while() {
    let mut reservation = CapacityReservation::targeted(ID, "m5.2xlarge", "us-west-2a", 1);
    reservation.interruptible = true;
    let world = world(reservation).await;
    world.deploy("app", 1, &json!({"cpu": "5"}), &json!({})).await;
    pass(120).await;
    let [instance] = world.cloud.living().try_into().unwrap();
    assert_eq!(instance.capacity_reservation.as_deref(), Some(ID));
    world.cloud.happen(Happening::ReservationInterruption { instance: instance.id.clone() }).unwrap();
    pass(100).await;
    let [after] = world.cloud.living().try_into().expect("pods moved before the machine was taken");
    assert_ne!(after.id, instance.id);
    assert_eq!(after.capacity_reservation, None);
    let told = world.told().await;
    assert!(told.iter().any(|reason| reason == "CapacityReservationInstanceInterrupted"), "{told:?}");
}
