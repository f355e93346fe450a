//! Random small clusters built from the core's own types: few names, so that things meet often.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::SolverOptions;
use karpenter_core::catalog::{
    CAPACITY_TYPE, Catalog, HOSTNAME, INSTANCE_TYPE, InstanceType, NODE_POOL, Offering, Overlaid, RESERVED,
    Reservation, ZONE,
};
use karpenter_core::cluster::{
    ClusterSnapshot, DaemonSet, LabelRules, Labels, Node, NodeLife, NodePool, NodeStage, Pod, Taint,
    TaintEffect,
};
use karpenter_core::disruption::PoolDisruption;
use karpenter_core::plan::{MinValuesPolicy, PreferencePolicy, ReservedPolicy};
use karpenter_core::requirements::{Operator, Requirement, RequirementSet, ValueSet};
use karpenter_quantity::{CPU, MEMORY, NODES, PODS, Quantity, ResourceList};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::random_pods::{daemon_spec, pod, storage_class, volume, volume_claim};

/// Everything a plan is made from.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) snapshot: ClusterSnapshot,
    pub(crate) catalog: Catalog,
    pub(crate) options: SolverOptions,
}

pub(crate) const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const CAPACITY_TYPES: [&str; 3] = ["on-demand", "spot", RESERVED];
pub(crate) const NAMESPACES: [&str; 2] = ["default", "other"];

/// Requirement keys and values to choose from; the last key is one nobody defines.
const VALUES: [(&str, &[&str]); 6] = [
    (ZONE, &ZONES),
    (CAPACITY_TYPE, &CAPACITY_TYPES),
    (INSTANCE_TYPE, &["t0", "t1", "t2", "t3"]),
    ("example.com/team", &["red", "blue"]),
    ("example.com/size", &["1", "2", "3", "03", "many"]),
    ("example.com/nobody", &["x"]),
];

/// Up to 20 pods, 4 pools and 10 types.
pub(crate) fn question() -> impl Strategy<Value = Question> {
    let pods = vec(pod(), 1..=20);
    let nodes = vec(node(), 0..=3);
    let daemons = vec(daemon_spec(), 0..=2);
    let storage = (vec(volume_claim(), 2), vec(volume(), 2), vec(storage_class(), 2));
    (vec(pool(), 1..=4), vec(instance_type(), 1..=10), pods, nodes, daemons, storage, options()).prop_map(
        |(pools, types, pods, nodes, daemons, (claims, volumes, classes), options)| {
            let pools: Vec<_> = pools
                .into_iter()
                .enumerate()
                .map(|(number, pool)| Arc::new(named_pool(number, pool)))
                .collect();
            let types: Vec<_> = types
                .into_iter()
                .enumerate()
                .map(|(number, made)| Arc::new(named_type(number, made)))
                .collect();
            let pods = pods.into_iter().enumerate().map(|(number, pod)| named_pod("p", number, pod));
            let nodes = nodes
                .into_iter()
                .enumerate()
                .map(|(number, node)| Arc::new(named_node(number, node, pools.len())));
            let daemon_sets = daemons.into_iter().enumerate().map(|(number, spec)| DaemonSet {
                name: format!("kube-system/d{number}").into(),
                spec: Arc::new(spec),
                namespace: "kube-system".into(),
            });
            let catalog = Catalog::shared(pools.iter().map(|pool| pool.name.clone()), types.into());
            let snapshot = ClusterSnapshot {
                pending: pods.collect(),
                nodes: nodes.collect(),
                daemon_sets: daemon_sets.collect(),
                namespaces: namespaces(),
                volume_claims: (0..).zip(claims).map(|(number, claim)| (claim_key(number), claim)).collect(),
                volumes: (0..)
                    .zip(volumes)
                    .map(|(number, volume)| (format!("v{number}").into(), volume))
                    .collect(),
                storage_classes: (0..)
                    .zip(classes)
                    .map(|(number, class)| (format!("s{number}").into(), class))
                    .collect(),
                label_rules: Arc::new(label_rules()),
                node_pools: pools,
                ..ClusterSnapshot::default()
            };
            Question { snapshot, catalog, options }
        },
    )
}

fn claim_key(number: usize) -> (Arc<str>, Arc<str>) {
    (NAMESPACES[0].into(), format!("c{number}").into())
}

fn namespaces() -> BTreeMap<Arc<str>, Arc<Labels>> {
    NAMESPACES
        .iter()
        .map(|name| ((*name).into(), Arc::new(Labels::from([("name".into(), (*name).into())]))))
        .collect()
}

fn label_rules() -> LabelRules {
    let well_known = [ZONE, CAPACITY_TYPE, INSTANCE_TYPE, HOSTNAME, NODE_POOL].map(Into::into);
    LabelRules { well_known: well_known.into(), ..LabelRules::default() }
}

fn options() -> impl Strategy<Value = SolverOptions> {
    let reserved = option::of(select([ReservedPolicy::Strict, ReservedPolicy::Fallback].as_slice()));
    let preferences = select([PreferencePolicy::Respect, PreferencePolicy::Ignore].as_slice());
    let min_values = select([MinValuesPolicy::Strict, MinValuesPolicy::BestEffort].as_slice());
    let steps = select([0, 1, 50, 2_000].as_slice());
    (preferences, min_values, reserved, steps, any::<bool>()).prop_map(
        |(preferences, min_values, reserved, improvement_steps, parallel)| SolverOptions {
            preferences,
            min_values,
            reserved,
            improvement_steps,
            parallel,
            ..SolverOptions::default()
        },
    )
}

/// A requirement, mostly a legal one, sometimes one that contradicts others.
pub(crate) fn requirement() -> impl Strategy<Value = Requirement> {
    let operators = [
        Operator::In,
        Operator::In,
        Operator::NotIn,
        Operator::Exists,
        Operator::DoesNotExist,
        Operator::Gt,
        Operator::Lt,
        Operator::Gte,
        Operator::Lte,
    ];
    (select(VALUES.to_vec()), select(operators.to_vec())).prop_flat_map(|((key, values), operator)| {
        let values = match operator {
            Operator::In | Operator::NotIn => vec(select(values.to_vec()), 1..=3).boxed(),
            Operator::Exists | Operator::DoesNotExist => Just(Vec::new()).boxed(),
            _ => select(vec!["0", "1", "2", "3", "9223372036854775807", "-3", "x"])
                .prop_map(|bound| vec![bound])
                .boxed(),
        };
        values.prop_map(move |values| Requirement::new(key, operator, values))
    })
}

/// Amounts of `cpu` and `memory`, now and then none or far too much.
pub(crate) fn amounts(cpu_milli_max: i64) -> impl Strategy<Value = ResourceList> {
    let cpu = prop_oneof![200 => 0..=cpu_milli_max, 1 => Just(i64::MAX)];
    let memory = prop_oneof![200 => 0..=cpu_milli_max, 1 => Just(1 << 50)];
    (cpu, memory).prop_map(|(cpu, memory)| {
        let bytes = i128::from(memory) * (1 << 20) * 1_000_000_000;
        let memory = Quantity::from_nano(bytes, karpenter_quantity::Format::BinarySI);
        ResourceList::from([
            (CPU, Quantity::from_milli(cpu)),
            (MEMORY, memory),
            (PODS, Quantity::from_units(1)),
        ])
    })
}

pub(crate) fn taint() -> impl Strategy<Value = Taint> {
    let effects = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
    (select(vec!["dedicated", "gpu"]), select(vec!["", "x"]), select(effects.to_vec()))
        .prop_map(|(key, value, effect)| Taint { key: key.into(), value: value.into(), effect })
}

fn pool() -> impl Strategy<Value = NodePool> {
    let with_min_values = (requirement(), option::weighted(0.2, 0..4_u32))
        .prop_map(|(requirement, min_values)| Requirement { min_values, ..requirement });
    let team = option::of(select(vec!["red", "blue"]));
    let limits = option::weighted(0.3, (option::of(0..40_i64), option::of(0..4_i64)));
    let taints = prop_oneof![3 => Just(Vec::new()), 1 => vec(taint(), 1..=2)];
    let requirements = prop_oneof![2 => Just(Vec::new()), 1 => vec(with_min_values, 1..=2)];
    (0..3, team, requirements, taints, limits).prop_map(|(weight, team, requirements, taints, limits)| {
        let labels = team.map(|team| ("example.com/team".into(), team.into()));
        let limits = limits.map(|(cpu, nodes)| {
            let named = [(CPU, cpu), (NODES, nodes)].into_iter();
            named.filter_map(|(name, limit)| Some((name, Quantity::from_units(limit?)))).collect()
        });
        NodePool {
            name: "".into(),
            weight,
            labels: labels.into_iter().collect(),
            requirements,
            taints,
            limits,
            disruption: PoolDisruption::default(),
        }
    })
}

fn named_pool(number: usize, mut pool: NodePool) -> NodePool {
    pool.name = format!("pool-{number}").into();
    pool.labels.insert(NODE_POOL.into(), pool.name.clone());
    pool
}

fn offering() -> impl Strategy<Value = Offering> {
    let price = prop_oneof![
        50 => select(vec![0.0, 0.1, 0.1, 0.5, 1.0, 7.25]),
        1 => select(vec![f64::NAN, f64::INFINITY, -1.0]),
    ];
    let own_capacity = option::weighted(0.1, amounts(16_000));
    (select(ZONES.to_vec()), select(CAPACITY_TYPES.to_vec()), price, 0..3_u32, any::<bool>(), own_capacity)
        .prop_map(|(zone, capacity_type, price, remaining, out_of_stock, capacity_override)| {
            let mut requirements = RequirementSet::default();
            requirements.add(ZONE.into(), &ValueSet::only([zone]));
            requirements.add(CAPACITY_TYPE.into(), &ValueSet::only([capacity_type]));
            let reservation = Reservation { id: format!("r-{zone}").into(), remaining };
            Offering {
                requirements: requirements.into(),
                price,
                available: !out_of_stock || remaining > 0,
                reservation: (capacity_type == RESERVED).then_some(reservation),
                capacity_override,
                overhead_override: None,
            }
        })
}

fn instance_type() -> impl Strategy<Value = InstanceType> {
    let size = option::of(select(vec!["1", "2", "3", "03", "many"]));
    let team = option::weighted(0.2, requirement());
    (amounts(16_000), amounts(300), vec(offering(), 0..=5), size, team).prop_map(
        |(mut capacity, overhead, offerings, size, other)| {
            capacity.insert(PODS, Quantity::from_units(8));
            let mut requirements = RequirementSet::default();
            let offered =
                |key| offerings.iter().filter_map(move |of| of.requirements.get(key)?.single().cloned());
            requirements.add(ZONE.into(), &ValueSet::only(offered(ZONE)));
            requirements.add(CAPACITY_TYPE.into(), &ValueSet::only(offered(CAPACITY_TYPE)));
            if let Some(size) = size {
                requirements.add("example.com/size".into(), &ValueSet::only([size]));
            }
            if let Some(other) = other.filter(|other| other.key.starts_with("example.com/")) {
                requirements.require(&other);
            }
            let volume_limits = BTreeMap::from([("csi.example.com".into(), 1)]);
            InstanceType {
                name: "".into(),
                requirements,
                offerings,
                capacity,
                overhead,
                volume_limits,
                overlaid: Overlaid::default(),
            }
        },
    )
}

fn named_type(number: usize, mut instance_type: InstanceType) -> InstanceType {
    instance_type.name = format!("t{number}").into();
    instance_type.requirements.add(INSTANCE_TYPE.into(), &ValueSet::only([instance_type.name.clone()]));
    instance_type
}

fn node() -> impl Strategy<Value = Node> {
    let stages = [NodeStage::Initialized, NodeStage::Registered, NodeStage::Launched];
    let labels = (option::of(select(ZONES.to_vec())), option::of(select(vec!["red", "blue"])));
    let taints = prop_oneof![2 => Just(Vec::new()), 1 => vec(taint(), 1..=1)];
    let pool = option::weighted(0.7, 0..5_u32);
    (labels, select(stages.to_vec()), taints, amounts(16_000), any::<bool>(), vec(pod(), 0..=3), pool)
        .prop_map(|((zone, team), stage, taints, allocatable, deleting, pods, pool)| {
            let named = [(ZONE, zone), ("example.com/team", team)].into_iter();
            let labels: Labels = named.filter_map(|(key, value)| Some((key.into(), value?.into()))).collect();
            Node {
                name: "".into(),
                node_pool: pool.map(|pool| format!("pool-{pool}").into()),
                stage,
                labels: Arc::new(labels),
                taints,
                capacity: allocatable.clone(),
                allocatable,
                created: Timestamp::UNIX_EPOCH,
                deleting,
                life: NodeLife::default(),
                volume_limits: BTreeMap::new(),
                pods: pods.into_iter().map(Arc::new).collect(),
            }
        })
}

fn named_node(number: usize, mut node: Node, pools: usize) -> Node {
    node.name = format!("node-{number}").into();
    node.node_pool = node.node_pool.filter(|pool| (0..pools).any(|known| **pool == *format!("pool-{known}")));
    let mut labels = (*node.labels).clone();
    labels.insert(HOSTNAME.into(), node.name.clone());
    if let Some(pool) = &node.node_pool {
        labels.insert(NODE_POOL.into(), pool.clone());
    }
    node.labels = Arc::new(labels);
    let prefix = format!("b{number}-");
    let pods = node.pods.into_iter().enumerate();
    node.pods = pods.map(|(index, pod)| named_pod(&prefix, index, (*pod).clone())).collect();
    node
}

fn named_pod(prefix: &str, number: usize, mut pod: Pod) -> Arc<Pod> {
    pod.id.name = format!("{prefix}{number}").into();
    pod.id.uid = format!("uid-{prefix}{number}").into();
    Arc::new(pod)
}
