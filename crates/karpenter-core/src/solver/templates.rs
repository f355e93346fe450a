//! NodePools as templates of new nodes: base conditions, instance types, daemon overhead, limits.

use std::sync::Arc;

use karpenter_quantity::{NODES, ResourceList};

use super::bits::Bits;
use super::columns::Columns;
use super::label_sets::{KeyId, LabelSets, LabelTable};
use super::relaxation;
use super::resources::{Amounts, Resources, add};
use super::states::{StateId, States, TemplateId, matching, meet};
use crate::catalog::Catalog;
use crate::cluster::{ClusterSnapshot, DaemonSet, HostPort, NodePool, Taint, TaintEffect, tolerates};
use crate::requirements::{RequirementSet, ValueSet};

/// Labels every node will have once it is up; DaemonSets may select on them.
pub(crate) const LIFECYCLE_LABELS: [&str; 2] = ["karpenter.sh/registered", "karpenter.sh/initialized"];

/// A NodePool as the source of new nodes.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) pool: Arc<NodePool>,
    pub(crate) base: StateId,
    /// All columns of the pool, before any condition.
    pub(crate) types: Bits,
    /// What pods may use on each column once its DaemonSets run.
    pub(crate) room: Vec<Amounts>,
    /// The most of each resource that any column of the pool has room for.
    pub(crate) most_room: Amounts,
    /// Distinct sets of DaemonSets: columns, overhead, host ports.
    pub(crate) daemon_groups: Vec<DaemonGroup>,
    /// Keys with `minValues`, and how many values are needed.
    pub(crate) min_values: Vec<(KeyId, u32)>,
    /// Limited resources (index into the limit columns) and what is left of them.
    pub(crate) remaining: Vec<(usize, i64)>,
    /// What is left of `limits.nodes`.
    pub(crate) nodes_remaining: Option<i64>,
}

/// Columns on which the same DaemonSets run.
#[derive(Clone, Debug)]
pub(crate) struct DaemonGroup {
    pub(crate) columns: Bits,
    pub(crate) overhead: ResourceList,
    pub(crate) ports: Vec<HostPort>,
}

/// The largest amount of each resource.
fn most<'a>(rooms: impl Iterator<Item = &'a Amounts>, resources: usize) -> Amounts {
    rooms.fold(Amounts::from_elem(0, resources), |most, room| {
        most.iter().zip(room).map(|(most, room)| *most.max(room)).collect()
    })
}

/// Requirements and labels of a pool as one set.
pub(crate) fn pool_requirements(pool: &NodePool) -> RequirementSet {
    let mut set: RequirementSet = pool.requirements.iter().collect();
    for (key, value) in &pool.labels {
        set.add(key.clone(), &ValueSet::only([value.clone()]));
    }
    set
}

/// Pools in the order they are tried: heaviest first, then by name, later letters first.
pub(crate) fn pools_in_order(snapshot: &ClusterSnapshot) -> Vec<Arc<NodePool>> {
    let mut pools = snapshot.node_pools.clone();
    pools.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
    pools
}

/// What is needed to build templates.
pub(crate) struct TemplateParts<'a> {
    pub(crate) snapshot: &'a ClusterSnapshot,
    pub(crate) catalog: &'a Catalog,
    pub(crate) labels: &'a LabelTable,
    pub(crate) columns: &'a Columns,
    pub(crate) resources: &'a Resources,
    pub(crate) limits: &'a Resources,
}

impl TemplateParts<'_> {
    /// The template of a pool.
    pub(crate) fn build(&self, id: TemplateId, pool: &Arc<NodePool>, states: &mut States) -> Template {
        let mut requirements = pool_requirements(pool);
        for key in LIFECYCLE_LABELS {
            requirements.add(key.into(), &ValueSet::only(["true"]));
        }
        let sets = self.labels.compile_all(&requirements);
        let mut types = Bits::none(self.columns.len());
        for instance_type in self.catalog.types(&pool.name) {
            self.columns.of_type(instance_type).iter().for_each(|column| types.insert(*column as usize));
        }
        let base = states.base(id, sets.clone(), &types, self.columns);
        let daemon_groups = self.daemon_groups(pool, &sets, &types);
        let room = self.room(&daemon_groups);
        let most_room =
            most(states.get(base).columns.iter().map(|column| &room[column]), self.resources.len());
        let min_values = pool
            .requirements
            .iter()
            .filter_map(|requirement| Some((self.labels.key(&requirement.key)?, requirement.min_values?)))
            .collect();
        let (remaining, nodes_remaining) = self.limits_left(pool);
        Template {
            pool: pool.clone(),
            base,
            types,
            room,
            most_room,
            daemon_groups,
            min_values,
            remaining,
            nodes_remaining,
        }
    }

    fn room(&self, groups: &[DaemonGroup]) -> Vec<Amounts> {
        let mut room = self.columns.allocatable.clone();
        for group in groups {
            let overhead = self.resources.demand(&group.overhead);
            for column in group.columns.iter() {
                add(&mut room[column], &overhead, -1);
            }
        }
        room
    }

    /// Columns grouped by the set of DaemonSets that run on them.
    fn daemon_groups(&self, pool: &NodePool, base: &LabelSets, types: &Bits) -> Vec<DaemonGroup> {
        let daemons: Vec<(&DaemonSet, Bits)> = self
            .snapshot
            .daemon_sets
            .iter()
            .map(|daemon| (daemon, self.daemon_columns(daemon, pool, base, types)))
            .filter(|(_, columns)| !columns.is_empty())
            .collect();
        let mut groups: Vec<(Vec<bool>, DaemonGroup)> = Vec::new();
        for column in types.iter() {
            let runs: Vec<bool> = daemons.iter().map(|(_, columns)| columns.contains(column)).collect();
            let known = groups.iter().position(|(set, _)| *set == runs);
            let group = known.unwrap_or_else(|| {
                groups.push((runs.clone(), self.empty_group(&daemons, &runs)));
                groups.len() - 1
            });
            groups[group].1.columns.insert(column);
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    fn empty_group(&self, daemons: &[(&DaemonSet, Bits)], runs: &[bool]) -> DaemonGroup {
        let mut group = DaemonGroup {
            columns: Bits::none(self.columns.len()),
            overhead: ResourceList::new(),
            ports: Vec::new(),
        };
        for ((daemon, _), _) in daemons.iter().zip(runs).filter(|(_, runs)| **runs) {
            group.overhead.merge_add(&daemon.spec.requests);
            group.ports.extend(daemon.spec.host_ports.iter().cloned());
        }
        group
    }

    /// Columns on which the DaemonSet's pod would run, through any alternative of its required node affinity.
    fn daemon_columns(&self, daemon: &DaemonSet, pool: &NodePool, base: &LabelSets, types: &Bits) -> Bits {
        let mut result = Bits::none(self.columns.len());
        let hard: Vec<Taint> = pool
            .taints
            .iter()
            .filter(|taint| taint.effect != TaintEffect::PreferNoSchedule)
            .cloned()
            .collect();
        if tolerates(&daemon.spec.tolerations, &hard).is_err() {
            return result;
        }
        let defines = |key: &str| {
            self.snapshot.label_rules.well_known.contains(key)
                || self.labels.key(key).is_some_and(|id| base.iter().any(|(own, _)| *own == id))
        };
        for requirements in relaxation::alternatives(&daemon.spec) {
            let undefined = requirements.iter().any(|(key, set)| !set.allows_absent() && !defines(key));
            if undefined || requirements.contradiction().is_some() {
                continue;
            }
            if let Some(sets) = meet(base, &self.labels.compile_all(&requirements)) {
                result.or_with(&matching(&sets, types, self.columns));
            }
        }
        result
    }

    /// What the pool's limits leave after the nodes that are there.
    fn limits_left(&self, pool: &NodePool) -> (Vec<(usize, i64)>, Option<i64>) {
        let Some(limits) = &pool.limits else { return (Vec::new(), None) };
        let of_pool = || {
            self.snapshot
                .nodes
                .iter()
                .filter(|node| !node.deleting && node.node_pool.as_ref() == Some(&pool.name))
        };
        let mut left = self.limits.supply(limits);
        for node in of_pool() {
            add(&mut left, &self.limits.demand(&node.capacity), -1);
        }
        let limited = (0..self.limits.len())
            .filter(|index| limits.contains(self.limits.name(*index)) && self.limits.name(*index) != NODES);
        let nodes = limits.contains(NODES).then(|| {
            let limit = limits.get(NODES).as_nano().div_euclid(1_000_000_000);
            i64::try_from(limit).unwrap_or(i64::MAX).saturating_sub(of_pool().count() as i64)
        });
        (limited.map(|index| (index, left[index])).collect(), nodes)
    }
}

impl Template {
    /// Whether the pool has limits that one more node could hit.
    pub(crate) fn is_limited(&self) -> bool {
        !self.remaining.is_empty() || self.nodes_remaining.is_some()
    }

    /// Columns on which none of the ports is taken by a DaemonSet.
    pub(crate) fn columns_with_free_ports(&self, ports: &[HostPort], count: usize) -> Bits {
        let mut result = Bits::none(count);
        for group in &self.daemon_groups {
            let taken = ports.iter().any(|port| group.ports.iter().any(|other| port.conflicts(other)));
            if !taken {
                result.or_with(&group.columns);
            }
        }
        result
    }

    /// The smallest daemon overhead over the columns in `left`, resource by resource.
    pub(crate) fn smallest_overhead(&self, left: &Bits) -> ResourceList {
        let mut smallest: Option<ResourceList> = None;
        for group in self.daemon_groups.iter().filter(|group| group.columns.meets(left)) {
            smallest = Some(match smallest {
                None => group.overhead.clone(),
                Some(known) => known
                    .iter()
                    .filter(|(name, _)| group.overhead.contains(name))
                    .map(|(name, quantity)| (name.to_owned(), quantity.min(group.overhead.get(name))))
                    .collect(),
            });
        }
        smallest.unwrap_or_default()
    }
}
