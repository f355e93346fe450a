//! The hash of a NodePool's template, by which a NodeClaim knows that its pool has changed.
//!
//! The value equals upstream's for hash version [`NODEPOOL_HASH_VERSION`], so a cluster can change hands
//! in either direction without a single node drifting. Upstream hashes its Go structs by reflection; what
//! matters of that is restated here as three small rules over 64-bit FNV-1:
//! - a *record* starts from the hash of its type name and folds in, field by field in declaration order,
//!   every field that is not Go's zero value;
//! - a *map* and a *list* combine their entries by exclusive or, so order does not count (and, as a quirk
//!   kept for equality, two equal taints cancel each other out);
//! - text, numbers and times are hashed as bytes.
//!
//! Requirements are left out on purpose: nodes that stopped meeting them are found by comparing labels.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::NodePool;
use crate::nodepool::{NodeClaimTemplate, NodeClaimTemplateSpec, NodeClassReference, TemplateMetadata};

/// Version of the hash; it is published beside the value in `karpenter.sh/nodepool-hash-version`.
pub const NODEPOOL_HASH_VERSION: &str = "v3";

/// Returns the value of `karpenter.sh/nodepool-hash` for a pool.
pub fn nodepool_hash(pool: &NodePool) -> String {
    template_hash(&pool.spec.template).to_string()
}

/// Hashes the template of a pool.
pub fn template_hash(template: &NodeClaimTemplate) -> u64 {
    let metadata = template.metadata.as_ref().and_then(metadata);
    Record::new("NodeClaimTemplate")
        .field("ObjectMeta", metadata)
        .field("Spec", Some(spec(&template.spec)))
        .finish()
}

/// Metadata with neither labels nor annotations is the zero value; empty ones are not.
fn metadata(metadata: &TemplateMetadata) -> Option<u64> {
    let labels = metadata.labels.as_ref().map(string_map);
    let annotations = metadata.annotations.as_ref().map(string_map);
    labels.or(annotations)?;
    Some(Record::new("ObjectMeta").field("Labels", labels).field("Annotations", annotations).finish())
}

fn spec(spec: &NodeClaimTemplateSpec) -> u64 {
    let grace = spec.termination_grace_period.as_ref();
    let expiry = spec.expire_after.as_ref().and_then(crate::NillableDuration::value);
    Record::new("NodeClaimTemplateSpec")
        .field("Taints", spec.taints.as_deref().map(taints))
        .field("StartupTaints", spec.startup_taints.as_deref().map(taints))
        .field("NodeClassRef", node_class_ref(&spec.node_class_ref))
        .field("TerminationGracePeriod", grace.map(|grace| grace_period(grace.value())))
        .field("ExpireAfter", expiry.map(expire_after))
        .finish()
}

fn node_class_ref(reference: &NodeClassReference) -> Option<u64> {
    if *reference == NodeClassReference::default() {
        return None;
    }
    let record = Record::new("NodeClassReference")
        .field("Kind", non_empty(&reference.kind))
        .field("Name", non_empty(&reference.name))
        .field("Group", non_empty(&reference.group));
    Some(record.finish())
}

/// A plain duration of zero is the zero value of its only field, but the field that holds it is set.
fn grace_period(duration: SignedDuration) -> u64 {
    let nanos = nanoseconds(duration);
    Record::new("Duration").field("Duration", (nanos != 0).then(|| number(nanos))).finish()
}

/// An expiry of zero is a pointer to zero, which counts.
fn expire_after(duration: SignedDuration) -> u64 {
    Record::new("NillableDuration").field("Duration", Some(number(nanoseconds(duration)))).finish()
}

fn taints(taints: &[Taint]) -> u64 {
    taints.iter().fold(0, |set, taint| {
        let record = Record::new("Taint")
            .field("Key", non_empty(&taint.key))
            .field("Value", taint.value.as_deref().and_then(non_empty))
            .field("Effect", non_empty(&taint.effect))
            .field("TimeAdded", taint.time_added.as_ref().map(time));
        set ^ record.finish()
    })
}

/// Go's binary form of a time: a version, seconds since year 1, nanoseconds, minutes east of UTC. The zone
/// is that of the upstream process, which in a container is UTC.
fn time(time: &Time) -> u64 {
    const UNIX_EPOCH_SINCE_YEAR_1: i64 = 62_135_596_800;
    let mut bytes = vec![1];
    bytes.extend((time.0.as_second() + UNIX_EPOCH_SINCE_YEAR_1).to_be_bytes());
    bytes.extend(time.0.subsec_nanosecond().to_be_bytes());
    bytes.extend([0, 0]);
    Record::new("Time").field("Time", Some(fnv1(&bytes))).finish()
}

fn string_map<'m>(map: impl IntoIterator<Item = (&'m String, &'m String)>) -> u64 {
    let entries = map.into_iter().map(|(key, value)| ordered(text(key), text(value)));
    sealed(entries.fold(0, |set, entry| set ^ entry))
}

/// The running hash of a Go struct.
struct Record(u64);

impl Record {
    fn new(type_name: &str) -> Self {
        Self(text(type_name))
    }

    /// Folds in a field unless it is absent, which stands for Go's zero value.
    fn field(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => Self(sealed(self.0 ^ ordered(text(name), value))),
            None => self,
        }
    }

    fn finish(self) -> u64 {
        self.0
    }
}

fn non_empty(value: &str) -> Option<u64> {
    (!value.is_empty()).then(|| text(value))
}

fn nanoseconds(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn text(text: &str) -> u64 {
    fnv1(text.as_bytes())
}

fn number(number: i64) -> u64 {
    fnv1(&number.to_le_bytes())
}

fn ordered(first: u64, second: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    fnv1(&bytes)
}

/// Closes an unordered combination, so that entries cannot cancel across its border.
fn sealed(combination: u64) -> u64 {
    fnv1(&combination.to_le_bytes())
}

fn fnv1(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| hash.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_hash_is_fnv_1() {
        assert_eq!(fnv1(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1(b"foobar"), 0x340d_8765_a4dd_a9c2);
    }

    #[test]
    fn the_order_of_taints_and_all_of_the_requirements_do_not_count() {
        let read = |json: serde_json::Value| -> NodeClaimTemplate { serde_json::from_value(json).unwrap() };
        let first = read(serde_json::json!({"spec": {
            "requirements": [], "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
        }}));
        let second = read(serde_json::json!({"spec": {
            "requirements": [{"key": "x", "operator": "Exists"}],
            "taints": [{"key": "b", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]
        }}));
        assert_eq!(template_hash(&first), template_hash(&second));
    }
}
