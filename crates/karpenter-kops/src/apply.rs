//! What has to happen in a cluster so that it holds the objects of its groups, and nothing of ours besides.
//!
//! [`plan`] decides from the objects that should be there and those that are. Objects are ours when they carry kOps' labels
//! *and* our annotation with the cluster's name; nothing else is ever changed or removed. The thin part that talks to a
//! cluster is [`LiveCluster`].

mod client;
mod diff;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub use client::{ApplyError, LiveCluster, Outcome};
pub use diff::line_diff;

use crate::model::Inventory;
use crate::objects::{LABELS, Pair};
use crate::version::{FIRST_WITH_OBJECTS, KopsVersion};

/// Says that we made an object, and for which cluster of kOps.
pub const ANNOTATION: &str = "kops.karpenter.sh/cluster";

/// What a cluster holds that matters here.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// All `EC2NodeClass`es and NodePools.
    pub objects: Vec<Value>,
    /// Names of nodes by the NodePool they belong to.
    pub nodes: BTreeMap<String, Vec<String>>,
    /// Objects of Karpenter v0.x, as `kind/name`.
    pub legacy: Vec<String>,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplyPlan {
    /// Objects to apply, in this order.
    pub apply: Vec<Value>,
    /// Objects to remove, NodePools before the classes they use.
    pub prune: Vec<Prune>,
}

/// An object whose group is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Prune {
    /// The object as it is.
    pub object: Value,
    /// The nodes that go with it.
    pub nodes: Vec<String>,
}

/// Decides what to do, or says why nothing can be done: every reason, each with its remedy.
///
/// # Errors
///
/// Reasons why the cluster must not be touched.
pub fn plan(
    inventory: &Inventory,
    pairs: &[Pair],
    live: &Live,
    version: Option<KopsVersion>,
) -> Result<ApplyPlan, Vec<String>> {
    let cluster = &inventory.cluster.name;
    let mut reasons: Vec<String> = delivered_by_kops(inventory, version).into_iter().collect();
    reasons.extend(legacy(live));
    let desired: Vec<Value> =
        pairs.iter().flat_map(Pair::objects).map(|object| annotated(object, cluster)).collect();
    for object in &desired {
        let existing = live.objects.iter().find(|existing| identity(existing) == identity(object));
        if let Some(existing) = existing {
            reasons.extend(ownership(existing, cluster));
            reasons.extend(mode_switch(existing, object));
        }
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let wanted: BTreeSet<(&str, &str)> = desired.iter().map(identity).collect();
    let gone =
        live.objects.iter().filter(|object| is_ours(object, cluster) && !wanted.contains(&identity(object)));
    let mut prune: Vec<Prune> = gone
        .map(|object| {
            let (kind, name) = identity(object);
            let nodes = live.nodes.get(name).filter(|_| kind == "NodePool");
            Prune { object: object.clone(), nodes: nodes.cloned().unwrap_or_default() }
        })
        .collect();
    prune.sort_by(|one, other| {
        let rank = |prune: &Prune| prune.object["kind"] != "NodePool";
        (rank(one), identity(&one.object).1).cmp(&(rank(other), identity(&other.object).1))
    });
    Ok(ApplyPlan { apply: desired, prune })
}

/// Reasons why an inventory cannot be used in a cluster as it is; for those who only want to know.
pub fn live_refusals(inventory: &Inventory, pairs: &[Pair], live: &Live) -> Vec<String> {
    plan(inventory, pairs, live, None).err().unwrap_or_default()
}

/// An object's kind and name.
pub fn identity(object: &Value) -> (&str, &str) {
    let text = |value: &'static str, object| {
        Value::pointer(object, value).and_then(Value::as_str).unwrap_or_default()
    };
    (text("/kind", object), text("/metadata/name", object))
}

fn annotated(object: &Value, cluster: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["annotations"][ANNOTATION] = Value::from(cluster);
    object
}

fn delivered_by_kops(inventory: &Inventory, version: Option<KopsVersion>) -> Option<String> {
    let version = version.filter(|version| *version >= FIRST_WITH_OBJECTS)?;
    inventory.cluster.has_karpenter().then(|| {
        format!(
            "kOps {version} delivers the EC2NodeClasses and NodePools of this cluster itself, with its addon karpenter.sh: change \
             the InstanceGroups and run kops update cluster --yes"
        )
    })
}

fn legacy(live: &Live) -> Option<String> {
    (!live.legacy.is_empty()).then(|| {
        format!(
            "the cluster holds objects of Karpenter v0.x, which cannot be upgraded: {}; remove them and the old installation \
             first",
            live.legacy.join(", ")
        )
    })
}

fn has_kops_labels(object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    LABELS.iter().take(2).all(|(key, value)| labels[key] == **value)
}

fn is_ours(object: &Value, cluster: &str) -> bool {
    has_kops_labels(object) && object["metadata"]["annotations"][ANNOTATION] == *cluster
}

/// Why an object of this name must not be applied over.
fn ownership(existing: &Value, cluster: &str) -> Option<String> {
    if is_ours(existing, cluster) {
        return None;
    }
    let (kind, name) = identity(existing);
    Some(match existing["metadata"]["annotations"][ANNOTATION].as_str() {
        Some(other) if other != cluster => {
            format!("{kind} {name} belongs to cluster {other}: rename the InstanceGroup")
        }
        None if has_kops_labels(existing) => format!(
            "{kind} {name} is delivered by kOps itself (1.36 or later): change the InstanceGroup and run kops update cluster --yes"
        ),
        _ => {
            format!("{kind} {name} was made by somebody else: rename the InstanceGroup, or delete the object")
        }
    })
}

/// Karpenter does not let a NodePool change between a fixed and a decided number of nodes.
fn mode_switch(existing: &Value, desired: &Value) -> Option<String> {
    let is_static = |object: &Value| !object["spec"]["replicas"].is_null();
    let (kind, name) = identity(existing);
    let mode = |is_static| if is_static { "static" } else { "dynamic" };
    (kind == "NodePool" && is_static(existing) != is_static(desired)).then(|| {
        format!(
            "NodePool {name} is {} and would become {}, which Karpenter does not allow: delete it first (kubectl delete nodepool \
             {name}), its nodes are replaced",
            mode(is_static(existing)),
            mode(is_static(desired))
        )
    })
}
