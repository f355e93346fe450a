//! What the controller writes on objects besides the status: the finalizer and the hash of a class, the hash of its claims.

use std::sync::Arc;

use karpenter_api::NodeClaim;
use karpenter_api::condition::nodeclaim::DRIFTED;
use karpenter_api::nodepool::NodeClassReference;
use karpenter_runtime::{Key, Outcome, View, Write};
use serde_json::{Map, Value, json};

use super::controller::versioned;
use super::question::ClassRequest;
use super::{EC2NodeClass, FINALIZER, HASH_VERSION, HashContext};
use crate::names::{CLASS_HASH, CLASS_HASH_VERSION};

/// The writes that give a class its finalizer and its hash; `None` if it has both.
///
/// Claims go first: where the way to compute the hash has changed, theirs is written anew, so that nobody takes the difference for
/// drift. Claims that have drifted already keep theirs.
pub(super) fn stamps(
    key: &Key,
    class: &EC2NodeClass,
    ca_bundle: Option<&str>,
    view: &View<'_>,
) -> Option<Outcome<ClassRequest>> {
    let context = HashContext { ami_family: class.spec.family().name(), cluster_ca_bundle: ca_bundle };
    let hash = class.hash(context);
    let annotation = |name: &str| class.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let versioned_alike = annotation(CLASS_HASH_VERSION).is_some_and(|version| version == HASH_VERSION);
    let finalizers = class.metadata.finalizers.clone().unwrap_or_default();
    let finalized = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    if finalized && versioned_alike && annotation(CLASS_HASH) == Some(&hash) {
        return None;
    }
    let mut metadata = Map::new();
    metadata.insert("annotations".to_owned(), json!({CLASS_HASH: hash, CLASS_HASH_VERSION: HASH_VERSION}));
    if !finalized {
        let all: Vec<&str> = finalizers.iter().map(String::as_str).chain([FINALIZER]).collect();
        metadata.insert("finalizers".to_owned(), json!(all));
    }
    let patch = json!({"metadata": Value::Object(metadata)});
    let write = versioned(Write::merge_patch::<EC2NodeClass>(key, patch), class);
    let claims = if versioned_alike { Vec::new() } else { claim_stamps(key, &hash, view) };
    Some(Outcome::done().then_all(claims).then(write))
}

fn claim_stamps(key: &Key, hash: &str, view: &View<'_>) -> Vec<Write> {
    let stale = |claim: &&Arc<NodeClaim>| {
        let version = claim.metadata.annotations.as_ref().and_then(|all| all.get(CLASS_HASH_VERSION));
        version.is_none_or(|version| version != HASH_VERSION)
    };
    let stamp = |claim: &Arc<NodeClaim>| {
        let mut annotations = json!({CLASS_HASH_VERSION: HASH_VERSION});
        if !has_drifted(claim) {
            annotations[CLASS_HASH] = hash.into();
        }
        let patch = json!({"metadata": {"annotations": annotations}});
        let write = Write::merge_patch::<NodeClaim>(&Key::of(&**claim), patch).tolerating(404);
        match claim.metadata.resource_version.as_deref() {
            Some(version) => write.if_version(version),
            None => write,
        }
    };
    let claims = view.caches.of::<NodeClaim>();
    claims
        .iter()
        .map(|(_, claim)| claim)
        .filter(|claim| refers(&claim.spec.node_class_ref, key))
        .filter(stale)
        .map(stamp)
        .collect()
}

fn has_drifted(claim: &NodeClaim) -> bool {
    let conditions =
        claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == DRIFTED && condition.status == "True")
}

/// Whether a reference is to this class, and not to another provider's of the same name.
pub(super) fn refers(reference: &NodeClassReference, key: &Key) -> bool {
    reference.kind == "EC2NodeClass" && reference.name == key.name()
}

/// The claims that use a class.
pub(super) fn claims_of(key: &Key, view: &View<'_>) -> Vec<Key> {
    let claims = view.caches.of::<NodeClaim>();
    let ours = |claim: &NodeClaim| refers(&claim.spec.node_class_ref, key);
    claims.iter().filter(|(_, claim)| ours(claim)).map(|(key, _)| key.clone()).collect()
}
