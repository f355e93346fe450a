//! The hash by which a NodeClaim knows that its EC2NodeClass has changed.
//!
//! A version of our own: upstream hashes Go structs by reflection, and since a change of version makes the hash controller stamp
//! NodeClaims anew without calling them drifted, nothing is gained by repeating that. What counts is the same: selectors do not
//! (what they select is compared), the order of lists does not, and a field at its zero value is a field that is absent.

use serde_json::{Map, Value, json};

use super::EC2NodeClass;

/// Version of the hash; published beside the value.
pub const HASH_VERSION: &str = "rs1";

/// Fields that are compared in other ways, or enter in resolved form.
const LEFT_OUT: &[&str] = &[
    "amiFamily",
    "amiSelectorTerms",
    "capacityReservationSelectorTerms",
    "ipPrefixCount",
    "kubelet",
    "securityGroupSelectorTerms",
    "subnetSelectorTerms",
];

/// What besides the class ends up on machines.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashContext<'a> {
    /// The image family, by the field or by the alias.
    pub ami_family: &'a str,
    /// The bundle by which machines trust the API server.
    pub cluster_ca_bundle: Option<&'a str>,
}

impl EC2NodeClass {
    /// The value of `karpenter.k8s.aws/ec2nodeclass-hash`.
    ///
    /// # Panics
    /// Never: a specification always has a JSON form.
    pub fn hash(&self, context: HashContext<'_>) -> String {
        let mut spec = serde_json::to_value(&self.spec).expect("a specification has a JSON form");
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
        }
        // The kubelet's configuration is the user's own document: there, a zero is something else than nothing.
        let kubelet = self.spec.kubelet.as_ref().map(|kubelet| Value::Object(kubelet.clone()).to_string());
        let input = json!([canonical(spec), context.ami_family, context.cluster_ca_bundle, kubelet,]);
        fnv1a(input.to_string().as_bytes()).to_string()
    }
}

/// Sorts lists and leaves out what is at its zero value.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().map(|(name, value)| (name, canonical(value)));
            Value::Object(kept.filter(|(_, value)| !is_zero(value)).collect::<Map<_, _>>())
        }
        Value::Array(elements) => {
            let mut elements: Vec<Value> = elements.into_iter().map(canonical).collect();
            elements.sort_by_cached_key(Value::to_string);
            Value::Array(elements)
        }
        plain => plain,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// FNV-1a with 64 bits: no secret is kept, so any well-mixed hash will do.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
