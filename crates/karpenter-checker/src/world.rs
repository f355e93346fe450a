//! The scenario prepared for questions: pods by class, nodes with their labels, types with their offerings.
//!
//! Pods of one group are equal, so everything that does not depend on a pod's name is computed once per group
//! and kept in a [`PodClass`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::eviction::leaves_deleting_node;
use crate::labels::{
    CAPACITY_TYPE, Condition, HOSTNAME, INITIALIZED, INSTANCE_TYPE, Labelled, NODE_CLASS, NODE_CLASS_VALUE,
    NODE_POOL, NodeConditions, REGISTERED, States, WELL_KNOWN, ZONE, current_key,
};
use crate::pod::{Pod, Requirement, Taint};
use crate::quantity::Quantity;
use crate::resources::{HostPort, PODS, allocatable, daemon_requests, host_ports, pod_requests};
use crate::scenario::{
    DaemonSet, ExistingNode, InstanceType, NodePool, PodGroup, ResourceList, Scenario, StringMap,
};

/// Everything the checks ask about a scenario.
pub(crate) struct World<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) well_known: BTreeSet<&'a str>,
    pub(crate) types: HashMap<&'a str, TypeFacts<'a>>,
    pub(crate) pools: BTreeMap<&'a str, PoolFacts<'a>>,
    pub(crate) daemons: Vec<DaemonFacts<'a>>,
    pub(crate) nodes: Vec<NodeFacts<'a>>,
    pub(crate) classes: Vec<PodClass<'a>>,
    /// Pods that need a place, with their class.
    pub(crate) pending: BTreeMap<String, usize>,
    pub(crate) namespaces: BTreeMap<String, StringMap>,
    pub(crate) absent: States,
    pub(crate) anything: States,
}

/// A machine type with its labels and what it leaves for pods.
pub(crate) struct TypeFacts<'a> {
    pub(crate) name: &'a str,
    pub(crate) capacity: &'a ResourceList,
    pub(crate) allocatable: ResourceList,
    /// Labels of the type itself; zone and capacity type are those of the offerings in stock.
    pub(crate) labels: BTreeMap<String, States>,
    pub(crate) offerings: Vec<OfferingFacts<'a>>,
}

/// An offering in stock.
pub(crate) struct OfferingFacts<'a> {
    pub(crate) zone: &'a str,
    pub(crate) capacity_type: &'a str,
    pub(crate) price: f64,
    pub(crate) zone_states: States,
    pub(crate) capacity_type_states: States,
}

/// A node pool with the labels it gives its nodes.
pub(crate) struct PoolFacts<'a> {
    pub(crate) pool: &'a NodePool,
    /// What requirements and template labels permit, by key.
    pub(crate) permitted: BTreeMap<String, States>,
    pub(crate) labels: BTreeMap<String, States>,
    pub(crate) taints: &'a [Taint],
}

/// A daemon that runs on every node that suits it.
pub(crate) struct DaemonFacts<'a> {
    pub(crate) name: &'a str,
    pub(crate) conditions: NodeConditions,
    pub(crate) daemon: &'a DaemonSet,
    pub(crate) requests: ResourceList,
    pub(crate) ports: Vec<HostPort>,
}

/// A node that is there, or launched and on its way.
pub(crate) struct NodeFacts<'a> {
    /// The name plans use: of the node, or of the claim where there is no node object yet.
    pub(crate) name: String,
    pub(crate) node: &'a ExistingNode,
    pub(crate) labels: BTreeMap<String, States>,
    /// Taints that will still be there when pods start.
    pub(crate) taints: Vec<Taint>,
    pub(crate) capacity: ResourceList,
    pub(crate) allocatable: ResourceList,
    /// Whether there is a node object, not only a claim.
    pub(crate) has_object: bool,
    /// Pods that stay, as class and count.
    pub(crate) bound: Vec<(usize, usize)>,
    absent: States,
}

impl Labelled for NodeFacts<'_> {
    fn label(&self, key: &str) -> &States {
        self.labels.get(key).unwrap_or(&self.absent)
    }
}

/// Pods that differ in nothing but their names.
pub(crate) struct PodClass<'a> {
    /// `namespace/name` of the group.
    pub(crate) group: String,
    pub(crate) namespace: String,
    pub(crate) pod: &'a Pod,
    pub(crate) requests: ResourceList,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) conditions: NodeConditions,
}

impl<'a> World<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let types: HashMap<&str, TypeFacts<'_>> =
            scenario.instance_types.iter().map(|t| (t.name.as_str(), type_facts(t))).collect();
        let pools: BTreeMap<&str, PoolFacts<'_>> =
            scenario.node_pools.iter().map(|p| (p.metadata.name.as_str(), pool_facts(p))).collect();
        let mut world = World {
            scenario,
            well_known: WELL_KNOWN
                .iter()
                .copied()
                .chain(scenario.well_known_labels.iter().map(String::as_str))
                .collect(),
            daemons: scenario.daemon_sets.iter().map(daemon_facts).collect(),
            nodes: Vec::new(),
            classes: Vec::new(),
            pending: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            absent: States::absent(),
            anything: States::anything(),
            types,
            pools,
        };
        for group in &scenario.pod_groups {
            let class = world.add_class(group);
            world.pending.extend(pod_names(group, "").map(|name| (name, class)));
        }
        for node in &scenario.nodes {
            let facts = world.node_facts(node);
            world.nodes.push(facts);
        }
        world.namespaces = namespaces(scenario, &world.classes);
        world
    }

    fn add_class(&mut self, group: &'a PodGroup) -> usize {
        self.classes.push(pod_class(&group.pod));
        self.classes.len() - 1
    }

    fn node_facts(&mut self, node: &'a ExistingNode) -> NodeFacts<'a> {
        let managed = !node.node_pool.is_empty();
        let launched_only = managed && node.state == "launched";
        let name = if launched_only { format!("nc-{}", node.name) } else { node.name.clone() };
        let of_type = self.types.get(node.instance_type.as_str());
        let capacity =
            node.capacity.clone().or_else(|| of_type.map(|t| t.capacity.clone())).unwrap_or_default();
        let allocatable = node
            .allocatable
            .clone()
            .or_else(|| of_type.map(|t| t.allocatable.clone()))
            .unwrap_or_else(|| capacity.clone());
        let labels = self.node_labels(node, &name, launched_only);
        let mut bound = Vec::new();
        for group in &node.pod_groups {
            let class = self.add_class(group);
            if node.deleting && leaves_deleting_node(&group.pod, &self.scenario.pod_disruption_budgets) {
                let suffix = format!("-{}", node.name);
                self.pending.extend(pod_names(group, &suffix).map(|name| (name, class)));
            } else {
                bound.push((class, group.count.max(1)));
            }
        }
        let taints = lasting_taints(node, managed);
        let absent = States::absent();
        NodeFacts {
            name,
            node,
            labels,
            taints,
            capacity,
            allocatable,
            has_object: !launched_only,
            bound,
            absent,
        }
    }

    fn node_labels(&self, node: &ExistingNode, name: &str, launched_only: bool) -> BTreeMap<String, States> {
        let mut labels: BTreeMap<String, States> = BTreeMap::new();
        if let Some(facts) = self.types.get(node.instance_type.as_str()) {
            let fixed = facts
                .labels
                .iter()
                .filter(|(key, states)| *key != ZONE && *key != CAPACITY_TYPE && is_single(states));
            labels.extend(fixed.map(|(key, states)| (key.clone(), states.clone())));
        }
        let mut set =
            |key: &str, value: &str| labels.insert(current_key(key).to_owned(), States::value(value));
        set(HOSTNAME, name);
        for (key, value) in [(ZONE, &node.zone), (CAPACITY_TYPE, &node.capacity_type)] {
            if !value.is_empty() {
                set(key, value);
            }
        }
        if !node.node_pool.is_empty() {
            set(NODE_POOL, &node.node_pool);
            set(NODE_CLASS, NODE_CLASS_VALUE);
            if let Some(pool) = self.pools.get(node.node_pool.as_str()) {
                for (key, value) in &pool.pool.spec.template.metadata.labels {
                    set(key, value);
                }
            }
            if !launched_only {
                set(REGISTERED, "true");
            }
            if is_initialized(node) {
                set(INITIALIZED, "true");
            }
        }
        for (key, value) in &node.labels {
            set(key, value);
        }
        labels
    }

    /// Returns the state a node's label is in when neither its type nor its pool says anything about it.
    pub(crate) fn undefined_label(&self, key: &str) -> &States {
        if self.well_known.contains(key) { &self.anything } else { &self.absent }
    }
}

fn is_initialized(node: &ExistingNode) -> bool {
    node.state.is_empty() || node.state == "initialized"
}

fn is_single(states: &States) -> bool {
    let crate::labels::Present::Only(values) = &states.present else { return false };
    values.len() == 1 && !states.absent
}

/// Taints that go away while a managed node starts do not keep pods off it.
fn lasting_taints(node: &ExistingNode, managed: bool) -> Vec<Taint> {
    let starting = managed && !is_initialized(node);
    let passes =
        |taint: &&Taint| !(starting && (is_ephemeral(taint) || is_among(taint, &node.startup_taints)));
    node.taints.iter().filter(passes).cloned().collect()
}

fn is_among(taint: &Taint, taints: &[Taint]) -> bool {
    taints.iter().any(|other| other.key == taint.key && other.effect == taint.effect)
}

fn is_ephemeral(taint: &Taint) -> bool {
    const EPHEMERAL: &[(&str, &str)] = &[
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        ("karpenter.sh/unregistered", "NoExecute"),
    ];
    EPHEMERAL.contains(&(taint.key.as_str(), taint.effect.as_str()))
        || taint.key.starts_with("readiness.k8s.io/")
}

fn type_facts(instance_type: &InstanceType) -> TypeFacts<'_> {
    let available = || instance_type.offerings.iter().filter(|o| o.available);
    let mut labels = BTreeMap::from([
        (INSTANCE_TYPE.to_owned(), States::value(&instance_type.name)),
        (ZONE.to_owned(), States::values(available().map(|o| o.zone.as_str()))),
        (CAPACITY_TYPE.to_owned(), States::values(available().map(|o| o.capacity_type.as_str()))),
    ]);
    narrow(&mut labels, &instance_type.requirements);
    let offerings = available().map(|o| OfferingFacts {
        zone: &o.zone,
        capacity_type: &o.capacity_type,
        price: o.price,
        zone_states: States::value(&o.zone),
        capacity_type_states: States::value(&o.capacity_type),
    });
    TypeFacts {
        name: &instance_type.name,
        capacity: &instance_type.capacity,
        allocatable: allocatable(&instance_type.capacity, &instance_type.overhead),
        labels,
        offerings: offerings.collect(),
    }
}

fn pool_facts(pool: &NodePool) -> PoolFacts<'_> {
    let template = &pool.spec.template;
    let mut labels: BTreeMap<String, States> = template
        .metadata
        .labels
        .iter()
        .map(|(key, value)| (current_key(key).to_owned(), States::value(value)))
        .collect();
    labels.insert(NODE_POOL.to_owned(), States::value(&pool.metadata.name));
    labels.insert(NODE_CLASS.to_owned(), States::value(NODE_CLASS_VALUE));
    labels.insert(REGISTERED.to_owned(), States::value("true"));
    labels.insert(INITIALIZED.to_owned(), States::value("true"));
    let mut permitted = labels.clone();
    narrow(&mut permitted, &template.spec.requirements);
    PoolFacts { pool, permitted, labels, taints: &template.spec.taints }
}

/// Intersects what `permitted` says with more requirements.
pub(crate) fn narrow(permitted: &mut BTreeMap<String, States>, requirements: &[Requirement]) {
    for condition in requirements.iter().map(Condition::from_requirement) {
        let entry = permitted.entry(condition.key).or_insert_with(States::anything);
        *entry = entry.intersection(&condition.permitted);
    }
}

fn daemon_facts(daemon: &DaemonSet) -> DaemonFacts<'_> {
    let spec = &daemon.template.spec;
    let mut requests = daemon_requests(spec);
    requests.insert(PODS.to_owned(), Quantity::whole(1));
    DaemonFacts {
        name: &daemon.name,
        conditions: NodeConditions::of_pod(spec),
        daemon,
        requests,
        ports: host_ports(spec),
    }
}

fn pod_class(pod: &Pod) -> PodClass<'_> {
    let namespace = pod.metadata.namespace_or_default().to_owned();
    PodClass {
        group: format!("{namespace}/{}", pod.metadata.name),
        requests: pod_requests(&pod.spec),
        ports: host_ports(&pod.spec),
        conditions: NodeConditions::of_pod(&pod.spec),
        namespace,
        pod,
    }
}

fn pod_names<'g>(group: &'g PodGroup, suffix: &'g str) -> impl Iterator<Item = String> + 'g {
    let namespace = group.pod.metadata.namespace_or_default();
    (0..group.count.max(1)).map(move |i| format!("{namespace}/{}-{i}{suffix}", group.pod.metadata.name))
}

fn namespaces(scenario: &Scenario, classes: &[PodClass<'_>]) -> BTreeMap<String, StringMap> {
    let mentioned = classes.iter().map(|c| (c.namespace.as_str(), StringMap::new()));
    let declared = scenario.namespaces.iter().map(|n| (n.name.as_str(), n.labels.clone()));
    std::iter::once(("default", StringMap::new()))
        .chain(mentioned)
        .chain(declared)
        .map(|(name, mut labels)| {
            labels.entry("kubernetes.io/metadata.name".to_owned()).or_insert_with(|| name.to_owned());
            (name.to_owned(), labels)
        })
        .collect()
}
