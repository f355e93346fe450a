//! What a scrape reads from the state about nodes and how full they are.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::LabelRules;
use karpenter_core::cluster::{ClusterSnapshot, Node, NodeStage, PodOwner};
use karpenter_environment::Environment;
use karpenter_quantity::{Quantity, ResourceList};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::state::{Shared, State};

/// Pairs of label name and value.
pub(super) type Pairs = Vec<(Cow<'static, str>, String)>;

/// Reads something of a node.
type Amounts<'a> = &'a dyn Fn(&Node) -> ResourceList;

/// Reads the state at every scrape.
pub(super) struct ClusterState {
    state: Shared,
    /// Labels of nodes that become labels of series: their key, and their name there.
    labels: Vec<(String, String)>,
    environment: Arc<dyn Environment>,
}

impl fmt::Debug for ClusterState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClusterState").finish_non_exhaustive()
    }
}

impl ClusterState {
    pub(super) fn new(state: Shared, rules: &LabelRules, environment: Arc<dyn Environment>) -> Self {
        let mut labels: Vec<(String, String)> = rules
            .well_known()
            .map(|key| {
                let suffix = key.rsplit('/').next().unwrap_or(key);
                (key.to_owned(), suffix.replace(['-', '.'], "_").to_lowercase())
            })
            .collect();
        labels.sort_by(|a, b| a.1.cmp(&b.1));
        labels.dedup_by(|a, b| a.1 == b.1);
        Self { state, labels, environment }
    }

    fn node_pairs(&self, node: &Node) -> Pairs {
        let of_node = |key: &str| node.labels.get(key).map(ToString::to_string).unwrap_or_default();
        let mut pairs: Pairs =
            self.labels.iter().map(|(key, name)| (Cow::Owned(name.clone()), of_node(key))).collect();
        let phase = match (node.deleting, node.stage) {
            (true, _) => "Terminating",
            (false, NodeStage::Initialized) => "Running",
            (false, _) => "Pending",
        };
        pairs.push((Cow::Borrowed("node_name"), node.name.to_string()));
        pairs.push((Cow::Borrowed("phase"), phase.to_owned()));
        pairs.push((Cow::Borrowed("managed"), node.node_pool.is_some().to_string()));
        pairs
    }

    fn encode_nodes(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        state: &State,
        now: Timestamp,
    ) -> fmt::Result {
        let snapshot = &state.snapshot();
        let daemons = |node: &Node, daemons: bool| {
            let mut sum = ResourceList::default();
            let wanted = node.pods.iter().filter(|pod| (pod.owner == PodOwner::DaemonSet) == daemons);
            wanted.for_each(|pod| sum.merge_add(&pod.spec.requests));
            sum
        };
        let overhead = |node: &Node| {
            let mut rest = node.capacity.clone();
            rest.subtract(&node.allocatable);
            rest
        };
        let limits = |node: &Node, daemons: bool| state.limits_on(&node.name, daemons);
        let each: [(&str, &str, Amounts<'_>); 6] = [
            ("karpenter_nodes_allocatable", "What pods may use of a node", &|node| node.allocatable.clone()),
            ("karpenter_nodes_total_pod_requests", "What pods ask for, DaemonSets apart", &|node| {
                daemons(node, false)
            }),
            ("karpenter_nodes_total_daemon_requests", "What pods of DaemonSets ask for", &|node| {
                daemons(node, true)
            }),
            ("karpenter_nodes_total_pod_limits", "What pods may use at most, DaemonSets apart", &|node| {
                limits(node, false)
            }),
            ("karpenter_nodes_total_daemon_limits", "What pods of DaemonSets may use at most", &|node| {
                limits(node, true)
            }),
            ("karpenter_nodes_system_overhead", "What a node keeps for itself", &overhead),
        ];
        for (name, help, amounts) in each {
            let series = snapshot.nodes.iter().flat_map(|node| {
                let pairs = self.node_pairs(node);
                resources(&amounts(node), &pairs).collect::<Vec<_>>()
            });
            gauges(encoder, name, help, series)?;
        }
        let ages = snapshot.nodes.iter().map(|node| (self.node_pairs(node), age(node.created, now)));
        gauges(encoder, "karpenter_nodes_current_lifetime_seconds", "The age of nodes", ages)?;
        Self::encode_utilization(encoder, snapshot)
    }

    fn encode_utilization(encoder: &mut DescriptorEncoder<'_>, snapshot: &ClusterSnapshot) -> fmt::Result {
        let (mut requests, mut allocatable) = (ResourceList::default(), ResourceList::default());
        for node in &snapshot.nodes {
            allocatable.merge_add(&node.allocatable);
            node.pods.iter().for_each(|pod| requests.merge_add(&pod.spec.requests));
        }
        let percents = allocatable.iter().filter(|(_, amount)| units(*amount) > 0.0).map(|(name, amount)| {
            let asked = units(requests.get(name));
            let pairs: Pairs = vec![(Cow::Borrowed("resource_type"), snake(name))];
            (pairs, 100.0 * asked / units(amount))
        });
        gauges(
            encoder,
            "karpenter_cluster_utilization_percent",
            "How much of what nodes offer pods ask for",
            percents,
        )
    }
}

impl Collector for ClusterState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.environment.now();
        let state = self.state.lock();
        self.encode_nodes(&mut encoder, &state, now)
    }
}

/// Tells whether the state is complete, and how many nodes are in it.
pub(super) struct Synchronization {
    state: Shared,
}

impl fmt::Debug for Synchronization {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Synchronization").finish_non_exhaustive()
    }
}

impl Synchronization {
    pub(super) fn new(state: Shared) -> Self {
        Self { state }
    }
}

impl Collector for Synchronization {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.state.lock();
        let unsynced = state.unsynced_for();
        let one = |value: f64| [(Pairs::new(), value)];
        let nodes = one(state.node_count() as f64);
        gauges(&mut encoder, "karpenter_cluster_state_node_count", "Nodes in the state", nodes)?;
        let synced = one(if unsynced.is_none() { 1.0 } else { 0.0 });
        gauges(&mut encoder, "karpenter_cluster_state_synced", "Whether the state is complete", synced)?;
        let time = one(unsynced.map_or(0.0, |time| time.as_secs_f64()));
        let help = "How long the state has not been complete";
        gauges(&mut encoder, "karpenter_cluster_state_unsynced_time_seconds", help, time)
    }
}

/// One series for each resource.
pub(super) fn resources<'a>(
    list: &'a ResourceList,
    pairs: &'a Pairs,
) -> impl Iterator<Item = (Pairs, f64)> + 'a {
    list.iter().map(|(name, amount)| {
        let mut pairs = pairs.clone();
        pairs.push((Cow::Borrowed("resource_type"), snake(name)));
        (pairs, units(amount))
    })
}

fn units(amount: Quantity) -> f64 {
    amount.as_nano() as f64 / 1e9
}

fn snake(resource: &str) -> String {
    resource.replace(['-', '/', '.'], "_")
}

pub(super) fn age(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}

/// Writes one gauge with its series.
pub(super) fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (Pairs, f64)>,
) -> fmt::Result {
    let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (pairs, value) in series {
        ConstGauge::new(value).encode(encoder.encode_family(&pairs)?)?;
    }
    Ok(())
}
