//! Nodes in full reservations: no replacement can come up beside them, but one could in the slot they give back.

use std::sync::Arc;

use super::candidate::label_of;
use crate::catalog::{CAPACITY_TYPE, Catalog, INSTANCE_TYPE, InstanceType, Offering, RESERVED};
use crate::cluster::{ClusterSnapshot, Node, NodePool, NodeStage, Pod};
use crate::plan::SolverOptions;
use crate::requirements::{Operator, RequirementSet, ValueSet};
use crate::solver::{Placed, Stage, Way, eligible};

/// The reservation a node holds a slot of, if it is still in force.
pub(crate) fn held_reservation(node: &Node, catalog: &Catalog) -> Option<Arc<str>> {
    if label_of(node, CAPACITY_TYPE) != Some(RESERVED) {
        return None;
    }
    let own = label_of(node, INSTANCE_TYPE)?;
    let types = catalog.types(node.node_pool.as_deref()?);
    let known = types.iter().find(|known| *known.name == *own)?;
    let is_own =
        |offering: &&Offering| offering.available && offering.requirements.matches(|key| label_of(node, key));
    let own = known.offerings.iter().filter(is_own).find_map(|offering| offering.reservation.as_ref())?;
    Some(own.id.clone())
}

/// Where the node's pods would go if its slot were free, provided that all of them find a place.
pub(crate) fn placed_in_own_slot(
    (snapshot, catalog, solver): (&ClusterSnapshot, &Catalog, &SolverOptions),
    node: &Arc<Node>,
    moving: &[Arc<Pod>],
) -> Option<Placed> {
    let reservation = held_reservation(node, catalog)?;
    let catalog = credited(catalog, &reservation);
    let leaving = [moving.to_vec()];
    let (stage, numbers) = Stage::new((snapshot, &catalog, solver), eligible(snapshot), &leaving);
    let settled = stage.settle(|node| node.node_pool.is_some() && node.stage != NodeStage::Initialized);
    let mut trial = settled.trial();
    trial.remove(stage.place(node)?, &numbers[0]);
    trial.place(Way::FewestPods).then(|| trial.written())
}

/// The catalog with one more slot in a reservation.
fn credited(catalog: &Catalog, reservation: &str) -> Catalog {
    let is_it =
        |offering: &Offering| offering.reservation.as_ref().is_some_and(|own| *own.id == *reservation);
    let with_slot = |known: &Arc<InstanceType>| {
        if !known.offerings.iter().any(is_it) {
            return Arc::clone(known);
        }
        let mut more = InstanceType::clone(known);
        for offering in more.offerings.iter_mut().filter(|offering| is_it(offering)) {
            if let Some(own) = &mut offering.reservation {
                own.remaining += 1;
            }
        }
        Arc::new(more)
    };
    let by_pool = catalog.by_pool.iter();
    Catalog {
        by_pool: by_pool.map(|(pool, types)| (pool.clone(), types.iter().map(with_slot).collect())).collect(),
    }
}

/// Whether a pool's template can only be launched in reservations, all of which are full.
pub(crate) fn only_full_reservations(pool: &NodePool, catalog: &Catalog) -> bool {
    let mut wanted: RequirementSet = pool.requirements.iter().collect();
    for (key, value) in &pool.labels {
        wanted.add(key.clone(), &ValueSet::of(Operator::In, std::slice::from_ref(value)));
    }
    let fits = |set: &RequirementSet| wanted.intersect(set).contradiction().is_none();
    let types = catalog.types(&pool.name).iter().filter(|known| fits(&known.requirements));
    let mut offerings = types
        .flat_map(|known| known.offerings.iter())
        .filter(|offering| fits(&offering.requirements))
        .peekable();
    offerings.peek().is_some()
        && offerings.all(|offering| offering.reservation.is_some() && !offering.is_launchable())
}
