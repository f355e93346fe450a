//! Existing nodes as places for pods: what is free, which labels they carry, what already runs there.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::classes::accepts_taints;
use super::label_sets::{LabelSets, LabelTable, ValueId};
use super::relaxation;
use super::resources::{Amounts, Resources, add};
use super::topology::CounterId;
use super::volumes::{self, Attachment};
use crate::catalog::HOSTNAME;
use crate::cluster::{ClusterSnapshot, HostPort, Node, NodeStage, PodOwner, PodSpec};

/// A node pods may be planned onto.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) node: Arc<Node>,
    pub(crate) free: Amounts,
    /// Value of every known key; `None` where the label is missing.
    pub(crate) labels: Arc<[Option<ValueId>]>,
    pub(crate) ports: Vec<HostPort>,
    /// Volumes attached per driver, only where the node limits the driver.
    pub(crate) attached: BTreeSet<Attachment>,
    /// Pods counted on this node, per host-level counter.
    pub(crate) counts: Vec<(CounterId, u32)>,
    /// Pods of this node counted in its domain, per counter of domains.
    pub(crate) domain_counts: Vec<(CounterId, u32)>,
}

impl Place {
    /// Whether the node's labels satisfy the conditions.
    pub(crate) fn satisfies(&self, sets: &LabelSets) -> bool {
        sets.iter().all(|(key, set)| set.accepts(self.labels[*key as usize]))
    }
}

/// The labels of a node as values of known keys; the host name falls back to the node's name.
pub(crate) fn label_values(node: &Node, labels: &LabelTable) -> Arc<[Option<ValueId>]> {
    (0..labels.len())
        .map(|key| {
            let name = labels.name(key as u16);
            let value = node.labels.get(name).or_else(|| (&**name == HOSTNAME).then_some(&node.name));
            value.and_then(|value| labels.value(key as u16, value))
        })
        .collect()
}

/// All nodes that stay, initialised ones first, then by name.
pub(crate) fn places(snapshot: &ClusterSnapshot, labels: &LabelTable, resources: &Resources) -> Vec<Place> {
    let mut nodes: Vec<&Arc<Node>> = snapshot.nodes.iter().filter(|node| !node.deleting).collect();
    nodes.sort_by(|a, b| {
        let waiting = |node: &Node| node.stage != NodeStage::Initialized;
        waiting(a).cmp(&waiting(b)).then_with(|| a.name.cmp(&b.name))
    });
    let daemons: Vec<(Amounts, Vec<LabelSets>, &PodSpec)> = snapshot
        .daemon_sets
        .iter()
        .map(|daemon| {
            let terms = relaxation::alternatives(&daemon.spec);
            let possible = terms.iter().filter(|set| set.contradiction().is_none());
            (
                resources.demand(&daemon.spec.requests),
                possible.map(|set| labels.compile_all(set)).collect(),
                &*daemon.spec,
            )
        })
        .collect();
    let mut demands: FxHashMap<*const PodSpec, Amounts> = FxHashMap::default();
    nodes.into_iter().map(|node| place(node, snapshot, labels, resources, &daemons, &mut demands)).collect()
}

fn place(
    node: &Arc<Node>,
    snapshot: &ClusterSnapshot,
    labels: &LabelTable,
    resources: &Resources,
    daemons: &[(Amounts, Vec<LabelSets>, &PodSpec)],
    demands: &mut FxHashMap<*const PodSpec, Amounts>,
) -> Place {
    let mut place = Place {
        node: node.clone(),
        free: resources.supply(&node.allocatable),
        labels: label_values(node, labels),
        ports: Vec::new(),
        attached: BTreeSet::new(),
        counts: Vec::new(),
        domain_counts: Vec::new(),
    };
    let mut expected = Amounts::from_elem(0, resources.len());
    for (amounts, terms, spec) in daemons {
        if accepts_taints(&spec.tolerations, &node.taints, true)
            && terms.iter().any(|sets| place.satisfies(sets))
        {
            add(&mut expected, amounts, 1);
        }
    }
    for pod in &node.pods {
        let demand =
            demands.entry(Arc::as_ptr(&pod.spec)).or_insert_with(|| resources.demand(&pod.spec.requests));
        if pod.phase == crate::cluster::PodPhase::Terminal {
            continue;
        }
        add(&mut place.free, demand, -1);
        if pod.owner == PodOwner::DaemonSet {
            add(&mut expected, demand, -1);
        }
        place.ports.extend(pod.spec.host_ports.iter().cloned());
        if !node.volume_limits.is_empty() {
            place.attached.extend(volumes::attachments(pod, snapshot));
        }
    }
    for (free, expected) in place.free.iter_mut().zip(&expected) {
        *free -= (*expected).max(0);
    }
    place
}
