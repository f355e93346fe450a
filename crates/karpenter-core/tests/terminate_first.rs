//! Nodes in full reservations: they go first where that is allowed, and only where the slot they give back is what is missing.

use std::sync::Arc;

use karpenter_core::catalog::{CAPACITY_TYPE, Catalog, INSTANCE_TYPE, InstanceType, Reservation, ZONE};
use karpenter_core::cluster::{ClusterSnapshot, LabelRules, Labels, Node, NodePool};
use karpenter_core::disruption::{
    DisruptionCommand, DisruptionMethod, Outlook, PoolDisruption, StaticPool, TerminateFirst,
};
use karpenter_core::plan::ReservedPolicy;
use karpenter_core::requirements::{RequirementSet, ValueSet};
use karpenter_core::{DisruptionOptions, DisruptionPlan, SolverOptions, plan_disruption};

use crate::disruption::{instance_type, node, now};

/// A machine with four cores that can only be had in reservation `r`.
fn reserved_type(available: bool, remaining: u32) -> Arc<InstanceType> {
    let mut known = InstanceType::clone(&instance_type(4, 4.0));
    let mut place = RequirementSet::default();
    place.add(ZONE.into(), &ValueSet::only(["a"]));
    place.add(CAPACITY_TYPE.into(), &ValueSet::only(["reserved"]));
    known.requirements = place.clone();
    known.requirements.add(INSTANCE_TYPE.into(), &ValueSet::only([known.name.clone()]));
    let offering = &mut known.offerings[0];
    offering.requirements = place.into();
    offering.available = available;
    offering.reservation = Some(Reservation { id: "r".into(), remaining });
    Arc::new(known)
}

/// A drifted node in the reservation, with one pod.
fn drifted() -> Node {
    let mut node = node("old", 4, &[3]);
    let mut labels = Labels::clone(&node.labels);
    labels.insert(CAPACITY_TYPE.into(), "reserved".into());
    node.labels = Arc::new(labels);
    node.life.drifted = Some(node.created);
    node
}

fn planned(known: Arc<InstanceType>, static_pool: bool, allowed: bool) -> DisruptionPlan {
    let pool = Arc::new(NodePool {
        name: "pool".into(),
        disruption: PoolDisruption::default(),
        ..NodePool::default()
    });
    let snapshot = ClusterSnapshot {
        nodes: vec![Arc::new(drifted())],
        node_pools: if static_pool { Vec::new() } else { vec![pool.clone()] },
        label_rules: Arc::new(LabelRules::default()),
        ..ClusterSnapshot::default()
    };
    let own = StaticPool { pool, replicas: 1, active: 1, pending: 0, room: 5 };
    let options = DisruptionOptions {
        solver: SolverOptions { reserved: Some(ReservedPolicy::Strict), ..SolverOptions::default() },
        methods: vec![DisruptionMethod::StaticDrift, DisruptionMethod::Drift],
        static_pools: if static_pool { vec![own] } else { Vec::new() },
        terminate_first_drift: allowed,
        ..DisruptionOptions::default()
    };
    let catalog = Catalog::shared(["pool".into()], Arc::from([known]));
    plan_disruption(&snapshot, &catalog, &options, now())
}

fn only(plan: &DisruptionPlan) -> &DisruptionCommand {
    assert_eq!(plan.commands.len(), 1, "{:?}", plan.nodes);
    &plan.commands[0]
}

#[test]
fn a_drifted_node_gives_its_slot_back_first() {
    let plan = planned(reserved_type(true, 0), false, true);
    let command = only(&plan);
    assert_eq!(command.terminate_first, Some(TerminateFirst::NoReservedCapacity));
    assert!(command.replacements.is_empty(), "whatever comes after it is provisioned later");
}

#[test]
fn without_the_gate_it_stays() {
    let plan = planned(reserved_type(true, 0), false, false);
    assert!(plan.commands.is_empty());
    assert!(matches!(plan.nodes[0].outlook, Outlook::NoPlace { .. }));
}

#[test]
fn with_a_free_slot_the_replacement_comes_first() {
    let plan = planned(reserved_type(true, 1), false, true);
    let command = only(&plan);
    assert_eq!(command.terminate_first, None);
    assert_eq!(command.replacements.len(), 1);
}

#[test]
fn a_reservation_that_is_no_longer_in_force_is_no_reason_to_go() {
    assert!(planned(reserved_type(false, 0), false, true).commands.is_empty());
}

#[test]
fn a_static_pool_with_full_reservations_lets_those_that_hold_a_slot_go_first() {
    let plan = planned(reserved_type(true, 0), true, true);
    let command = only(&plan);
    assert_eq!(command.terminate_first, Some(TerminateFirst::NoReservedCapacity));
    assert!(command.template_replacements.is_empty());
    let plan = planned(reserved_type(true, 1), true, true);
    let command = only(&plan);
    assert_eq!(command.terminate_first, None, "a slot is free");
    assert_eq!(command.template_replacements.len(), 1);
}
