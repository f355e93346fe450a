//! What a scrape reads from the state: nodes, pods, pools and how full they are.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};
use karpenter_api::{LabelRules, NodePool};
use karpenter_core::cluster::{ClusterSnapshot, Node, NodeStage, PodOwner};
use karpenter_environment::Environment;
use karpenter_quantity::{Quantity, ResourceList};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::observed::ObservedPod;
use crate::state::{Shared, State};

/// Pairs of label name and value.
type Pairs = Vec<(Cow<'static, str>, String)>;

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
        snapshot: &ClusterSnapshot,
        now: Timestamp,
    ) -> fmt::Result {
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
        let each: [(&str, &str, Amounts<'_>); 4] = [
            ("karpenter_nodes_allocatable", "What pods may use of a node", &|node| node.allocatable.clone()),
            ("karpenter_nodes_total_pod_requests", "What pods ask for, DaemonSets apart", &|node| {
                daemons(node, false)
            }),
            ("karpenter_nodes_total_daemon_requests", "What pods of DaemonSets ask for", &|node| {
                daemons(node, true)
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
        gauges(
            encoder,
            "karpenter_cluster_state_node_count",
            "Nodes in the state",
            [(Pairs::new(), snapshot.nodes.len() as f64)],
        )?;
        gauges(
            encoder,
            "karpenter_cluster_state_synced",
            "Whether the state is complete",
            [(Pairs::new(), 1.0)],
        )?;
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

    fn encode_pools(encoder: &mut DescriptorEncoder<'_>, state: &State) -> fmt::Result {
        let of_pool = |pool: &NodePool| -> Pairs {
            vec![(Cow::Borrowed("nodepool"), pool.metadata.name.clone().unwrap_or_default())]
        };
        let limits = state.pools().flat_map(|pool| {
            let listed =
                karpenter_kube::resources::resource_list(pool.spec.limits.as_ref()).unwrap_or_default();
            resources(&listed, &of_pool(pool)).collect::<Vec<_>>()
        });
        gauges(encoder, "karpenter_nodepools_limit", "Limits of NodePools", limits)?;
        let usage = state.pools().flat_map(|pool| {
            let used = pool.status.as_ref().and_then(|status| status.resources.as_ref());
            let used = karpenter_kube::resources::resource_list(used).unwrap_or_default();
            resources(&used, &of_pool(pool)).collect::<Vec<_>>()
        });
        gauges(encoder, "karpenter_nodepools_usage", "What the nodes of NodePools have together", usage)
    }

    fn encode_pods(encoder: &mut DescriptorEncoder<'_>, state: &State, now: Timestamp) -> fmt::Result {
        let series = state.pods().map(|pod| (pod_pairs(pod, state), 1.0));
        gauges(encoder, "karpenter_pods_state", "Pods and where they are", series)?;
        let named = |pod: &ObservedPod| -> Pairs {
            let (namespace, name) = pod.names();
            vec![(Cow::Borrowed("name"), name.to_owned()), (Cow::Borrowed("namespace"), namespace.to_owned())]
        };
        let created = |pod: &ObservedPod| pod.pod.as_ref().ok().map(|pod| pod.created);
        let live = || state.pods().filter(|pod| !pod.is_terminal());
        let unstarted = live().filter(|pod| pod.ready.is_none());
        let unstarted = unstarted.filter_map(|pod| Some((named(pod), age(created(pod)?, now))));
        gauges(
            encoder,
            "karpenter_pods_unstarted_time_seconds",
            "How long pods have not been ready",
            unstarted,
        )?;
        let unbound = live().filter(|pod| pod.node.is_none()).filter_map(|pod| {
            let mut pairs = named(pod);
            let dynamic = pod.pod.as_ref().is_ok_and(|pod| pod.spec.uses_dynamic_resources);
            pairs.push((Cow::Borrowed("dynamic_resources"), dynamic.to_string()));
            Some((pairs, age(created(pod)?, now)))
        });
        gauges(encoder, "karpenter_pods_unbound_time_seconds", "How long pods have had no node", unbound)
    }
}

impl Collector for ClusterState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.environment.now();
        let state = self.state.lock();
        self.encode_nodes(&mut encoder, &state.snapshot(), now)?;
        Self::encode_pools(&mut encoder, &state)?;
        Self::encode_pods(&mut encoder, &state, now)
    }
}

fn pod_pairs(pod: &ObservedPod, state: &State) -> Pairs {
    let node = pod.node.as_deref().unwrap_or_default();
    let labels = state.node(node).and_then(|node| node.metadata.labels.as_ref());
    let of_node = |key: &str| labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
    let (namespace, name) = pod.names();
    let pool = of_node(NODEPOOL);
    let managed = !pool.is_empty();
    [
        ("name", name.to_owned()),
        ("namespace", namespace.to_owned()),
        ("owner", pod.owner.as_deref().unwrap_or_default().to_owned()),
        ("node", node.to_owned()),
        ("scheduled", pod.node.is_some().to_string()),
        ("nodepool", pool),
        ("zone", of_node(ZONE)),
        ("arch", of_node(ARCH)),
        ("capacity_type", of_node(CAPACITY_TYPE)),
        ("instance_type", of_node(INSTANCE_TYPE)),
        ("phase", pod.phase.to_string()),
        ("ready", pod.ready.is_some().to_string()),
        ("managed", managed.to_string()),
    ]
    .map(|(name, value)| (Cow::Borrowed(name), value))
    .into()
}

/// One series for each resource.
fn resources<'a>(list: &'a ResourceList, pairs: &'a Pairs) -> impl Iterator<Item = (Pairs, f64)> + 'a {
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

fn age(since: Timestamp, now: Timestamp) -> f64 {
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
