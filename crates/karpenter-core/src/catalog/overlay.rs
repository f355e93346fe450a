//! Overlays (`NodeOverlay`): operators' corrections of prices and capacities, applied to the catalog before anything is planned.
//!
//! Overlays are taken heaviest first, ties by name, later letters first. For one offering the first overlay that sets its price
//! wins, for one type the first that sets a capacity resource. Two overlays of the same weight may not decide the same thing,
//! not even alike: the later one is left out of every `NodePool`. Types that no overlay touches stay the very same objects, and a
//! type that is changed alike in several pools stays shared between them. Start at [`apply_overlays`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use karpenter_quantity::ResourceList;
use rustc_hash::FxHashMap;

use super::{Catalog, InstanceType, NODE_POOL, Offering};
use crate::cluster::NodePool;
use crate::requirements::{Requirement, RequirementSet, ValueSet};

/// How an overlay changes a price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OverlayPrice {
    /// This price.
    Absolute(f64),
    /// So much more, or less when negative.
    Add(f64),
    /// So many percent more, or less when negative.
    Percent(f64),
}

impl OverlayPrice {
    /// The price it makes of `price`, never below zero.
    fn applied_to(self, price: f64) -> f64 {
        let changed = match self {
            Self::Absolute(absolute) => absolute,
            Self::Add(amount) => price + amount,
            Self::Percent(percent) => price * (1.0 + percent / 100.0),
        };
        changed.max(0.0)
    }
}

/// A `NodeOverlay`.
#[derive(Clone, Debug)]
pub struct NodeOverlay {
    /// Its name.
    pub name: Arc<str>,
    /// Heavier overlays win.
    pub weight: i32,
    /// Which pools, types and offerings it applies to.
    pub requirements: Vec<Requirement>,
    /// What it does to the price.
    pub price: Option<OverlayPrice>,
    /// Resources it adds to matching types.
    pub capacity: ResourceList,
}

/// An overlay that was left out because another of the same weight already decides the same price or capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayConflict {
    /// The overlay left out.
    pub overlay: Arc<str>,
    /// The overlay that decides.
    pub other: Arc<str>,
    /// A pool where both would decide.
    pub node_pool: Arc<str>,
    /// A type there about which both would decide.
    pub instance_type: Arc<str>,
    /// The resource they would both add; none if it is the price.
    pub resource: Option<Arc<str>>,
}

impl fmt::Display for OverlayConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { other, node_pool, instance_type, .. } = self;
        let subject = match &self.resource {
            Some(resource) => format!("how much {resource} {instance_type} has"),
            None => format!("the price of {instance_type}"),
        };
        write!(
            f,
            "NodeOverlay {other} has the same weight and decides {subject} in NodePool {node_pool}; \
             give one of them another weight"
        )
    }
}

/// The catalog with the overlays applied, and the overlays left out because they conflict.
pub fn apply_overlays(
    catalog: &Catalog,
    pools: &[Arc<NodePool>],
    overlays: &[NodeOverlay],
) -> (Catalog, Vec<OverlayConflict>) {
    let mut ordered: Vec<&NodeOverlay> = overlays.iter().collect();
    ordered.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
    let labels: Vec<PoolLabels> = pools.iter().map(|pool| PoolLabels::new(pool, catalog)).collect();
    let mut edits = Edits::default();
    let mut conflicts = Vec::new();
    for (rank, overlay) in ordered.iter().enumerate() {
        let matches = matches(overlay, &labels);
        match edits.conflict(overlay, &matches, &ordered) {
            Some((found, decision, resource)) => {
                let pool = &labels[found.subject.0];
                conflicts.push(OverlayConflict {
                    overlay: overlay.name.clone(),
                    other: ordered[decision.last.0].name.clone(),
                    node_pool: pool.name.clone(),
                    instance_type: pool.types[found.subject.1].name.clone(),
                    resource: resource.map(Arc::from),
                });
            }
            None => edits.add(Rank(rank), overlay, matches),
        }
    }
    (edits.apply(catalog, &labels, &ordered), conflicts)
}

/// A pool as overlays see it: its name and labels, not its requirements.
struct PoolLabels<'a> {
    name: &'a Arc<str>,
    labels: RequirementSet,
    types: &'a [Arc<InstanceType>],
}

impl<'a> PoolLabels<'a> {
    fn new(pool: &'a NodePool, catalog: &'a Catalog) -> Self {
        let mut labels = RequirementSet::default();
        labels.add(NODE_POOL.into(), &ValueSet::only([pool.name.clone()]));
        for (key, value) in &pool.labels {
            labels.add(key.clone(), &ValueSet::only([value.clone()]));
        }
        Self { name: &pool.name, labels, types: catalog.types(&pool.name) }
    }
}

/// A type of a pool: positions in the list of pools and in the pool's types.
type TypeOfPool = (usize, usize);

/// A type that an overlay selects, and the positions of the offerings it selects.
struct Match {
    subject: TypeOfPool,
    offerings: Vec<usize>,
}

/// All types of all pools that the overlay selects: those with at least one offering it selects.
fn matches(overlay: &NodeOverlay, pools: &[PoolLabels<'_>]) -> Vec<Match> {
    let wanted: RequirementSet = overlay.requirements.iter().collect();
    let mut found = Vec::new();
    for (pool_index, pool) in pools.iter().enumerate() {
        for (type_index, instance_type) in pool.types.iter().enumerate() {
            if !selects(&wanted, &pool.labels, &instance_type.requirements) {
                continue;
            }
            let offerings = instance_type.offerings.iter().enumerate();
            let selected = offerings.filter(|(_, offering)| selects_offering(&wanted, offering));
            let offerings: Vec<usize> = selected.map(|(index, _)| index).collect();
            if !offerings.is_empty() {
                found.push(Match { subject: (pool_index, type_index), offerings });
            }
        }
    }
    found
}

/// Whether nodes of the type in the pool can have every wanted label. A label neither of them defines is taken as missing.
fn selects(wanted: &RequirementSet, pool: &RequirementSet, instance_type: &RequirementSet) -> bool {
    wanted.iter().all(|(key, wanted)| match (pool.get(key), instance_type.get(key)) {
        (None, None) => wanted.allows_absent(),
        (Some(defined), None) | (None, Some(defined)) => defined.meets(wanted),
        (Some(label), Some(own)) => label.intersect(own).meets(wanted),
    })
}

/// Whether the offering agrees with what is wanted of the labels it is about.
fn selects_offering(wanted: &RequirementSet, offering: &Offering) -> bool {
    offering
        .requirements
        .iter()
        .all(|(key, offered)| wanted.get(key).is_none_or(|wanted| offered.meets(wanted)))
}

/// Position of an overlay in the order in which overlays are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rank(usize);

/// Who decides about one price or one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Decision {
    winner: Rank,
    /// The last overlay that had a say: as weights only fall, another of its weight is a conflict.
    last: Rank,
}

/// What happens to one type of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct TypeEdit {
    /// By position of the offering.
    prices: BTreeMap<usize, Decision>,
    /// By resource name.
    capacity: BTreeMap<String, Decision>,
}

/// What happens to all types of all pools.
#[derive(Default)]
struct Edits {
    by_type: FxHashMap<TypeOfPool, TypeEdit>,
}

impl Edits {
    /// A match where an overlay taken before, of the same weight, decides about the same thing: the decision, and the resource it is about.
    fn conflict<'m, 'o>(
        &self,
        overlay: &'o NodeOverlay,
        matches: &'m [Match],
        ordered: &[&NodeOverlay],
    ) -> Option<(&'m Match, Decision, Option<&'o str>)> {
        let taken = |decision: Option<&Decision>| {
            decision.copied().filter(|decision| ordered[decision.last.0].weight == overlay.weight)
        };
        matches.iter().find_map(|found| {
            let edit = self.by_type.get(&found.subject)?;
            let mut prices = overlay.price.iter().flat_map(|_| &found.offerings);
            let price = prices.find_map(|index| taken(edit.prices.get(index)));
            let resource =
                || overlay.capacity.names().find_map(|name| Some((taken(edit.capacity.get(name))?, name)));
            match price {
                Some(decision) => Some((found, decision, None)),
                None => resource().map(|(decision, name)| (found, decision, Some(name))),
            }
        })
    }

    fn add(&mut self, rank: Rank, overlay: &NodeOverlay, matches: Vec<Match>) {
        if overlay.price.is_none() && overlay.capacity.is_empty() {
            return;
        }
        let first = Decision { winner: rank, last: rank };
        for found in matches {
            let edit = self.by_type.entry(found.subject).or_default();
            if overlay.price.is_some() {
                for index in found.offerings {
                    edit.prices.entry(index).or_insert(first).last = rank;
                }
            }
            for name in overlay.capacity.names() {
                edit.capacity.entry(name.to_owned()).or_insert(first).last = rank;
            }
        }
    }

    fn apply(mut self, catalog: &Catalog, pools: &[PoolLabels<'_>], ordered: &[&NodeOverlay]) -> Catalog {
        let mut result = catalog.clone();
        let mut changed: FxHashMap<(*const InstanceType, TypeEdit), Arc<InstanceType>> = FxHashMap::default();
        for (pool_index, pool) in pools.iter().enumerate() {
            let mut any = false;
            let types = pool.types.iter().enumerate().map(|(type_index, instance_type)| {
                let Some(edit) = self.by_type.remove(&(pool_index, type_index)) else {
                    return instance_type.clone();
                };
                any = true;
                let key = (Arc::as_ptr(instance_type), edit);
                changed
                    .entry(key)
                    .or_insert_with_key(|(_, edit)| Arc::new(edited(instance_type, edit, ordered)))
                    .clone()
            });
            let types: Arc<[Arc<InstanceType>]> = types.collect();
            if any {
                result.by_pool.insert(pool.name.clone(), types);
            }
        }
        result
    }
}

/// The type with its prices and capacity changed, and everything else as it was.
fn edited(instance_type: &InstanceType, edit: &TypeEdit, ordered: &[&NodeOverlay]) -> InstanceType {
    let mut result = instance_type.clone();
    result.overlaid.price |= !edit.prices.is_empty();
    result.overlaid.capacity |= !edit.capacity.is_empty();
    for (index, decision) in &edit.prices {
        let offering = &mut result.offerings[*index];
        if let Some(price) = ordered[decision.winner.0].price {
            offering.price = price.applied_to(offering.price);
        }
    }
    for (name, decision) in &edit.capacity {
        let quantity = ordered[decision.winner.0].capacity.get(name);
        result.capacity.insert(name.as_str(), quantity);
        for capacity in result.offerings.iter_mut().filter_map(|offering| offering.capacity_override.as_mut())
        {
            capacity.insert(name.as_str(), quantity);
        }
    }
    result
}
