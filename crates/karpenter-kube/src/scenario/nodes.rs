//! The existing nodes of a scenario, each with labels, taints and resources as its state implies.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::NodePool;
use karpenter_api::annotations::DO_NOT_DISRUPT;
use karpenter_api::labels::{INITIALIZED, REGISTERED};
use karpenter_core::catalog::{CAPACITY_TYPE, HOSTNAME, InstanceType, NODE_POOL, ZONE};
use karpenter_core::cluster::{Labels, Node, NodeLife, NodeStage, Taint};

use super::format::{ExistingNode, Scenario};
use super::pods::PodSource;
use super::{node_class, pool_name, unique};
use crate::invalid::{At, Invalid};
use crate::labels::{add_successors, to_labels};
use crate::taint::{lasting_taints, taints};

/// The age of a node that does not say otherwise.
const NODE_AGE_SECONDS: i64 = 3600;

/// What nodes of a scenario refer to by name.
struct Known<'a> {
    types: BTreeMap<&'a str, &'a InstanceType>,
    /// Template labels by pool.
    pools: BTreeMap<&'a str, Labels>,
    /// How long nodes live at most, by pool.
    expire_after: BTreeMap<&'a str, SignedDuration>,
}

/// The nodes, in the order of the file.
pub(super) fn nodes(
    scenario: &Scenario<'_>,
    types: &[Arc<InstanceType>],
    pools: &[NodePool],
    source: &mut PodSource<'_>,
) -> Result<Vec<Arc<Node>>, Invalid> {
    unique(scenario.nodes.iter().map(|node| node.name.as_str())).at("nodes")?;
    let known = Known {
        types: types.iter().map(|instance_type| (&*instance_type.name, &**instance_type)).collect(),
        pools: pools.iter().map(|pool| (pool_name(pool), template_labels(pool))).collect(),
        expire_after: pools.iter().filter_map(|pool| Some((pool_name(pool), expire_after(pool)?))).collect(),
    };
    let converted = scenario.nodes.iter().enumerate().map(|(index, line)| {
        let node = node(line, &known, source).at_index(index).at("nodes")?;
        Ok(Arc::new(node))
    });
    converted.collect()
}

fn template_labels(pool: &NodePool) -> Labels {
    to_labels(pool.spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref()))
}

fn expire_after(pool: &NodePool) -> Option<SignedDuration> {
    pool.spec.template.spec.expire_after.as_ref().and_then(karpenter_api::NillableDuration::value)
}

fn node(line: &ExistingNode<'_>, known: &Known<'_>, source: &mut PodSource<'_>) -> Result<Node, Invalid> {
    let is_managed = !line.node_pool.is_empty();
    let stage = stage(&line.state, is_managed).at("state")?;
    let name: Arc<str> = match stage {
        NodeStage::Launched => format!("nc-{}", line.name).into(),
        NodeStage::Initialized | NodeStage::Registered => line.name.as_str().into(),
    };
    let instance_type = known.types.get(line.instance_type.as_str()).copied();
    let capacity = line.capacity.clone().or_else(|| instance_type.map(|known| known.capacity.clone()));
    let allocatable = line.allocatable.clone().or_else(|| instance_type.map(InstanceType::allocatable));
    let own_limits =
        line.volume_limits.iter().map(|(driver, count)| (Arc::from(driver.as_str()), *count)).collect();
    let type_limits = || instance_type.map(|known| known.volume_limits.clone()).unwrap_or_default();
    Ok(Node {
        labels: source.interner().labels(labels(line, &name, stage, known)),
        node_pool: is_managed.then(|| line.node_pool.as_str().into()),
        stage,
        taints: effective_taints(line, stage)?,
        allocatable: allocatable.or_else(|| capacity.clone()).unwrap_or_default(),
        capacity: capacity.unwrap_or_default(),
        created: created(line, source.now()),
        deleting: line.deleting,
        life: life(line, known, source.now()),
        volume_limits: if line.volume_limits.is_empty() { type_limits() } else { own_limits },
        pods: source.bound(&line.pod_groups, &line.name, line.deleting).at("podGroups")?,
        name,
    })
}

/// Nodes that Karpenter does not manage count as initialised whatever they say.
fn stage(word: &str, is_managed: bool) -> Result<NodeStage, Invalid> {
    let stage = match word {
        "" | "initialized" => NodeStage::Initialized,
        "registered" => NodeStage::Registered,
        "launched" => NodeStage::Launched,
        other => {
            return Err(Invalid::new(format!("{other:?} is not one of initialized, registered, launched")));
        }
    };
    Ok(if is_managed { stage } else { NodeStage::Initialized })
}

fn created(line: &ExistingNode<'_>, now: Timestamp) -> Timestamp {
    let age = if line.age_seconds == 0 { NODE_AGE_SECONDS } else { line.age_seconds };
    now.checked_sub(SignedDuration::from_secs(age)).unwrap_or(Timestamp::MIN)
}

fn life(line: &ExistingNode<'_>, known: &Known<'_>, now: Timestamp) -> NodeLife {
    let annotation = line.annotations.get(DO_NOT_DISRUPT);
    let event = SignedDuration::from_secs(line.last_pod_event_seconds);
    NodeLife {
        do_not_disrupt: annotation.is_some_and(|value| value == "true"),
        initialized: Some(created(line, now)),
        last_pod_event: (line.last_pod_event_seconds > 0)
            .then(|| now.checked_sub(event).unwrap_or(Timestamp::MIN)),
        expire_after: known.expire_after.get(line.node_pool.as_str()).copied(),
        ..NodeLife::default()
    }
}

/// Labels from the instance type, then the placement, then the pool, then what the file says; later ones win.
fn labels(line: &ExistingNode<'_>, name: &Arc<str>, stage: NodeStage, known: &Known<'_>) -> Labels {
    let mut labels = Labels::new();
    let mut set = |key: &str, value: &Arc<str>| labels.insert(key.into(), value.clone());
    set(HOSTNAME, name);
    if let Some(instance_type) = known.types.get(line.instance_type.as_str()) {
        let requirements = instance_type.requirements.iter();
        for (key, values) in requirements.filter(|(key, _)| !matches!(&***key, ZONE | CAPACITY_TYPE)) {
            values.single().map(|value| set(key, value));
        }
    }
    for (key, value) in [(ZONE, &line.zone), (CAPACITY_TYPE, &line.capacity_type)] {
        if !value.is_empty() {
            set(key, &value.as_str().into());
        }
    }
    if !line.node_pool.is_empty() {
        set(NODE_POOL, &line.node_pool.as_str().into());
        let class = node_class();
        let (key, value) = crate::node_pool::node_class(&class);
        set(&key, &value.into());
        labels.extend(known.pools.get(line.node_pool.as_str()).cloned().unwrap_or_default());
    }
    labels.extend(to_labels(Some(&line.labels)));
    add_stage_labels(&mut labels, name, stage, !line.node_pool.is_empty());
    add_successors(&mut labels);
    labels
}

fn add_stage_labels(labels: &mut Labels, name: &Arc<str>, stage: NodeStage, is_managed: bool) {
    let steps: &[&str] = match (stage, is_managed) {
        (_, false) => &[],
        (NodeStage::Launched, true) => {
            // Nobody knows yet what the machine will be called, so its claim's name stands in.
            labels.insert(HOSTNAME.into(), name.clone());
            &[]
        }
        (NodeStage::Registered, true) => &[REGISTERED],
        (NodeStage::Initialized, true) => &[REGISTERED, INITIALIZED],
    };
    labels.extend(steps.iter().map(|key| (Arc::from(*key), Arc::from("true"))));
}

fn effective_taints(line: &ExistingNode<'_>, stage: NodeStage) -> Result<Vec<Taint>, Invalid> {
    let own = taints(&line.taints).at("taints")?;
    let startup = taints(&line.startup_taints).at("startupTaints")?;
    Ok(if stage == NodeStage::Initialized { own } else { lasting_taints(own, &startup) })
}
