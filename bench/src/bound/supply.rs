//! The machines that pods can be placed on: columns (one pool, type, zone and capacity type each) gathered into
//! groups that admit the same pods and have a similar shape.
//!
//! All columns of a group share one set of dual weights. In the relaxation that means their capacity is one heap,
//! which can only lower the bound, and little as long as the machines of a group are alike.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_quantity::{CPU, MEMORY, Quantity, ResourceList};

use super::demand::{Demand, Place, daemon_place};
use super::labels::{Expression, Labels};
use super::scenario::{ExistingNode, InstanceType, NodePool, Scenario, Taint};

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
const NODE_POOL: &str = "karpenter.sh/nodepool";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Labels that Karpenter itself knows, beside those of the scenario's provider.
const WELL_KNOWN: [&str; 8] = [
    NODE_POOL,
    ZONE,
    "topology.kubernetes.io/region",
    INSTANCE_TYPE,
    "kubernetes.io/arch",
    "kubernetes.io/os",
    CAPACITY_TYPE,
    "node.kubernetes.io/windows-build",
];

/// Sizes of requests that groups are told apart by, per resource.
const SIZES_MAX: usize = 12;

/// A machine that can be bought, or the sum of nodes that are there already and cost nothing more.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) price: f64,
    /// By resource, in the order of [`Resources`].
    pub(super) capacity: Vec<f64>,
}

/// Columns that admit the same pods.
#[derive(Debug)]
pub(super) struct Group {
    /// Whether a pod of each place may run here.
    admits: Vec<bool>,
    pub(super) columns: Vec<Column>,
    /// The largest single machine, to see what fits.
    largest: Vec<f64>,
    /// The weight of the pools. Nodes that exist have none: their only column can be used once, for nothing.
    pub(super) weight: Option<i64>,
}

impl Group {
    pub(super) fn exists(&self) -> bool {
        self.weight.is_none()
    }

    /// Whether a pod may run here and fits.
    pub(super) fn takes(&self, item: &Item) -> bool {
        item.place.is_none_or(|place| self.admits[place])
            && (self.exists() || item.weight.is_none_or(|weight| self.weight == Some(weight)))
            && item.requests.iter().zip(&self.largest).all(|(asked, largest)| asked <= largest)
    }
}

/// Equal pods: how many, what they ask for and where they may run.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) count: f64,
    pub(super) requests: Vec<f64>,
    pub(super) place: Option<usize>,
    /// New nodes only from pools of this weight.
    pub(super) weight: Option<i64>,
}

/// The resources that count, then one of each family of pods that refuse each other per node.
pub(super) struct Resources {
    names: Vec<String>,
    families: usize,
    /// Ascending sizes of requests per resource, where it matters whether a pod fits.
    sizes: Vec<Vec<f64>>,
}

impl Resources {
    pub(super) fn of(demand: &Demand) -> Self {
        let names: BTreeSet<String> =
            demand.classes.iter().flat_map(|class| class.requests.names().map(str::to_owned)).collect();
        let sizes = names.iter().map(|name| sizes(demand, name)).collect();
        Self { names: names.into_iter().collect(), families: demand.families, sizes }
    }

    pub(super) fn requests(&self, requests: &ResourceList, family: Option<usize>) -> Vec<f64> {
        let mut vector = self.vector(requests);
        vector.extend((0..self.families).map(|index| if family == Some(index) { 1.0 } else { 0.0 }));
        vector
    }

    fn capacity(&self, free: &ResourceList) -> Vec<f64> {
        let mut vector: Vec<f64> = self.vector(free).into_iter().map(|amount| amount.max(0.0)).collect();
        vector.extend((0..self.families).map(|_| 1.0));
        vector
    }

    fn vector(&self, list: &ResourceList) -> Vec<f64> {
        self.names.iter().map(|name| amount(list.get(name))).collect()
    }

    /// How many of the sizes fit, per resource.
    fn fitting(&self, capacity: &[f64]) -> Vec<usize> {
        let fitting = |(sizes, free): (&Vec<f64>, &f64)| sizes.partition_point(|size| size <= free);
        self.sizes.iter().zip(capacity).map(fitting).collect()
    }
}

fn amount(quantity: Quantity) -> f64 {
    quantity.ceil_milli() as f64 / 1000.0
}

/// The sizes asked of one resource, thinned out evenly when there are many.
fn sizes(demand: &Demand, name: &str) -> Vec<f64> {
    let mut sizes: Vec<f64> = demand.classes.iter().map(|class| amount(class.requests.get(name))).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let step = sizes.len().div_ceil(SIZES_MAX).max(1);
    sizes.into_iter().rev().step_by(step).collect::<Vec<_>>().into_iter().rev().collect()
}

/// Gathers everything that pods can be placed on.
pub(super) fn groups(scenario: &Scenario, demand: &Demand, resources: &Resources) -> Vec<Group> {
    let mut gathering = Gathering { demand, resources, by_likeness: BTreeMap::new() };
    let well_known: BTreeSet<String> = WELL_KNOWN
        .iter()
        .map(|key| (*key).to_owned())
        .chain(scenario.well_known_labels.iter().cloned())
        .collect();
    let daemons: Vec<(Place, ResourceList)> = scenario
        .daemon_sets
        .iter()
        .map(|daemon| (daemon_place(&daemon.template, scenario), daemon.template.requests()))
        .collect();
    for pool in &scenario.node_pools {
        for instance_type in &scenario.instance_types {
            gathering.offer(pool, instance_type, &daemons, &well_known);
        }
    }
    let types: BTreeMap<&str, &InstanceType> = scenario
        .instance_types
        .iter()
        .map(|instance_type| (instance_type.name.as_str(), instance_type))
        .collect();
    for node in scenario.nodes.iter().filter(|node| !node.deleting) {
        let pool = scenario.node_pools.iter().find(|pool| pool.metadata.name == node.node_pool);
        gathering.reuse(node, pool, types.get(node.instance_type.as_str()).copied());
    }
    without_dominated(gathering.by_likeness.into_values().collect())
}

/// What makes two machines alike: their pools' weight, which places they admit, what fits, and their shape.
type Likeness = (Option<i64>, Vec<bool>, Vec<usize>, i64);

struct Gathering<'a> {
    demand: &'a Demand,
    resources: &'a Resources,
    by_likeness: BTreeMap<Likeness, Group>,
}

impl Gathering<'_> {
    /// Adds the offerings of a type in a pool.
    fn offer(
        &mut self,
        pool: &NodePool,
        instance_type: &InstanceType,
        daemons: &[(Place, ResourceList)],
        well_known: &BTreeSet<String>,
    ) {
        let template = &pool.spec.template;
        let taints = &template.spec.taints;
        let mut expressions: Vec<Expression> =
            instance_type.requirements.iter().chain(&template.spec.requirements).cloned().collect();
        expressions.extend(template.metadata.labels.iter().map(|(key, value)| Expression::is(key, value)));
        expressions.push(Expression::is(INSTANCE_TYPE, &instance_type.name));
        expressions.push(Expression::is(NODE_POOL, &pool.metadata.name));
        for offering in instance_type.offerings.iter().filter(|offering| offering.3) {
            let place = [Expression::is(ZONE, &offering.0), Expression::is(CAPACITY_TYPE, &offering.1)];
            let Some(labels) = Labels::from_expressions(expressions.iter().chain(&place), well_known) else {
                continue;
            };
            let mut free = instance_type.allocatable();
            for (daemon, requests) in daemons {
                if daemon.certain(&labels, taints) {
                    free.subtract(requests);
                }
            }
            let capacity = self.resources.capacity(&free);
            let group = self.group(Some(pool.spec.weight), &labels, taints, &free, &capacity);
            group.columns.push(Column { price: offering.2, capacity });
        }
    }

    /// Adds what is free on a node that exists.
    fn reuse(&mut self, node: &ExistingNode, pool: Option<&NodePool>, instance_type: Option<&InstanceType>) {
        let stated = node.allocatable.clone().or_else(|| node.capacity.clone());
        let Some(mut free) = stated.or_else(|| instance_type.map(InstanceType::allocatable)) else { return };
        for bound in &node.pod_groups {
            for _ in 0..bound.count() {
                free.subtract(&bound.pod.requests());
            }
        }
        let labels = Labels::of_node(&node_labels(node, pool, instance_type));
        let capacity = self.resources.capacity(&free);
        let group = self.group(None, &labels, &node.taints, &free, &capacity);
        match group.columns.first_mut() {
            Some(sum) => sum.capacity.iter_mut().zip(&capacity).for_each(|(sum, free)| *sum += free),
            None => group.columns.push(Column { price: 0.0, capacity }),
        }
    }

    /// The group of machines like this one, with the largest machine brought up to date.
    fn group(
        &mut self,
        weight: Option<i64>,
        labels: &Labels,
        taints: &[Taint],
        free: &ResourceList,
        capacity: &[f64],
    ) -> &mut Group {
        let admits: Vec<bool> =
            self.demand.places.iter().map(|place| place.possible(labels, taints)).collect();
        let likeness = (weight, admits.clone(), self.resources.fitting(capacity), shape(free));
        let group = self.by_likeness.entry(likeness).or_insert_with(|| Group {
            admits,
            columns: Vec::new(),
            largest: vec![0.0; capacity.len()],
            weight,
        });
        group.largest.iter_mut().zip(capacity).for_each(|(largest, free)| *largest = largest.max(*free));
        group
    }
}

/// Memory per core in half octaves.
fn shape(free: &ResourceList) -> i64 {
    let (cpu, memory) = (amount(free.get(CPU)), amount(free.get(MEMORY)));
    if cpu <= 0.0 || memory <= 0.0 { 0 } else { ((memory / cpu).log2() * 2.0).round() as i64 }
}

/// The labels that the scenario format gives an existing node.
fn node_labels(
    node: &ExistingNode,
    pool: Option<&NodePool>,
    instance_type: Option<&InstanceType>,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(HOSTNAME.to_owned(), node.name.clone())]);
    if let Some(instance_type) = instance_type {
        labels.insert(INSTANCE_TYPE.to_owned(), instance_type.name.clone());
        let single =
            instance_type.requirements.iter().filter(|one| one.operator == "In" && one.values.len() == 1);
        labels.extend(single.map(|one| (one.key.clone(), one.values[0].clone())));
    }
    let given = [(ZONE, &node.zone), (CAPACITY_TYPE, &node.capacity_type), (NODE_POOL, &node.node_pool)];
    labels.extend(
        given
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key.to_owned(), value.clone())),
    );
    if let Some(pool) = pool {
        labels.extend(pool.spec.template.metadata.labels.clone());
    }
    labels.extend(node.labels.clone());
    labels
}

/// Removes columns that another one beats, price for capacity, in every resource, where that one takes every pod that
/// the first takes. A plan that buys the beaten column could as well buy the other, so the bound does not change.
fn without_dominated(groups: Vec<Group>) -> Vec<Group> {
    let (mut kept, offered): (Vec<Group>, Vec<Group>) = groups.into_iter().partition(Group::exists);
    let mut kept_offers: Vec<Group> = Vec::new();
    for mut group in offered {
        let mut columns: Vec<Column> = Vec::new();
        for column in std::mem::take(&mut group.columns) {
            let beaten_here = columns.iter().any(|known| beats(known, &column));
            if beaten_here || kept_offers.iter().any(|other| replaces(other, &group, &column)) {
                continue;
            }
            columns.retain(|known| !beats(&column, known));
            columns.push(column);
        }
        group.columns = columns;
        for other in &mut kept_offers {
            let mut beaten = std::mem::take(&mut other.columns);
            beaten.retain(|column| !replaces(&group, other, column));
            other.columns = beaten;
        }
        kept_offers.push(group);
        kept_offers.retain(|group| !group.columns.is_empty());
    }
    kept.append(&mut kept_offers);
    kept
}

/// Whether `better`, scaled to the price of `worse`, has at least as much of everything.
fn beats(better: &Column, worse: &Column) -> bool {
    let mut pairs = better.capacity.iter().zip(&worse.capacity);
    pairs.all(|(more, less)| more * worse.price >= less * better.price)
}

/// Whether one of the group's columns can stand for a column of another group.
fn replaces(group: &Group, other: &Group, column: &Column) -> bool {
    let takes_as_much = || {
        let places = group.admits.iter().zip(&other.admits).all(|(here, there)| *here || !*there);
        places && group.largest.iter().zip(&other.largest).all(|(here, there)| here >= there)
    };
    group.weight == other.weight && takes_as_much() && group.columns.iter().any(|known| beats(known, column))
}
