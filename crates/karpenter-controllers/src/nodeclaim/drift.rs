//! Drift: in which way a launched claim is no longer what its NodePool asks for.
//!
//! Three things are compared without asking anybody: the hash of the pool's template, the pool's requirements, and, with the list of what
//! can be bought, the claim's machine. A fourth, whether the machine is what its NodeClass asks for, only the provider knows.

use std::sync::Arc;

use karpenter_api::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use karpenter_api::condition::nodeclaim::{NODEPOOL_DRIFTED, REQUIREMENTS_DRIFTED};
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_core::catalog::{CAPACITY_TYPE, INSTANCE_TYPE, InstanceType, ON_DEMAND, Offering, RESERVED};
use karpenter_core::requirements::RequirementSet;
use karpenter_kube::selector::api_requirement;

/// What can be seen from the objects alone: the template first, then the requirements.
pub(super) fn seen(claim: &NodeClaim, pool: &NodePool, rules: &LabelRules) -> Option<&'static str> {
    if template_changed(claim, pool) {
        Some(NODEPOOL_DRIFTED)
    } else if !meets_requirements(claim, pool, rules) {
        Some(REQUIREMENTS_DRIFTED)
    } else {
        None
    }
}

/// Whether the pool's template is not the one the claim was made from. Hashes of different versions are never compared.
fn template_changed(claim: &NodeClaim, pool: &NodePool) -> bool {
    let stamp = |annotations: Option<&std::collections::BTreeMap<String, String>>, key: &str| {
        annotations.and_then(|all| all.get(key)).cloned()
    };
    let of_claim = |key| stamp(claim.metadata.annotations.as_ref(), key);
    let of_pool = |key| stamp(pool.metadata.annotations.as_ref(), key);
    let versions = of_claim(NODEPOOL_HASH_VERSION).zip(of_pool(NODEPOOL_HASH_VERSION));
    let hashes = of_claim(NODEPOOL_HASH).zip(of_pool(NODEPOOL_HASH));
    versions.is_some_and(|(ours, theirs)| ours == theirs)
        && hashes.is_some_and(|(ours, theirs)| ours != theirs)
}

/// Whether the claim's labels still meet the pool's requirements.
fn meets_requirements(claim: &NodeClaim, pool: &NodePool, rules: &LabelRules) -> bool {
    let read = |lines: &[karpenter_api::Requirement]| -> RequirementSet {
        let mut set = RequirementSet::default();
        // A line that cannot be read asks for nothing: the pool says so itself and gets no nodes.
        lines.iter().filter_map(|line| api_requirement(line, rules).ok()).for_each(|line| set.require(&line));
        set
    };
    let own = read(&claim.spec.requirements);
    read(&pool.spec.template.spec.requirements).iter().all(|(key, wanted)| match label(claim, key, rules) {
        Some(value) => wanted.contains(value),
        // A label that the claim left open has no value to be wrong: what the claim may be is compared instead.
        None => wanted.allows_absent() || own.get(key).is_some_and(|open| open.meets(wanted)),
    })
}

/// Whether the claim's machine is still sold, in stock or not.
pub(super) fn is_sold(claim: &NodeClaim, types: &[Arc<InstanceType>], rules: &LabelRules) -> bool {
    let Some(name) = label(claim, INSTANCE_TYPE, rules) else { return true };
    let found = types.iter().find(|instance_type| &*instance_type.name == name);
    found.is_some_and(|found| found.offerings.iter().any(|offering| is_of(claim, offering, rules)))
}

/// Whether the claim's machine may have been bought this way. What was bought in a reservation may since have become an ordinary machine, so
/// both are as good, and which reservation it was does not matter.
fn is_of(claim: &NodeClaim, offering: &Offering, rules: &LabelRules) -> bool {
    let reserved = label(claim, CAPACITY_TYPE, rules) == Some(RESERVED);
    offering.requirements.iter().all(|(key, set)| {
        let Some(value) = label(claim, key, rules) else { return true };
        if !reserved {
            return set.contains(value);
        }
        if &**key == CAPACITY_TYPE {
            return set.contains(RESERVED) || set.contains(ON_DEMAND);
        }
        let names_reservation = offering.reservation.as_ref().is_some_and(|known| set.contains(&known.id));
        names_reservation || set.contains(value)
    })
}

/// The value of a claim's label, whatever name of the label was used.
fn label<'c>(claim: &'c NodeClaim, key: &str, rules: &LabelRules) -> Option<&'c str> {
    let labels = claim.metadata.labels.as_ref()?;
    let found = labels
        .get(key)
        .or_else(|| labels.iter().find(|(name, _)| rules.normalize(name) == key).map(|(_, value)| value));
    found.map(String::as_str)
}

#[cfg(test)]
mod tests {
    use karpenter_core::catalog::{Overlaid, Reservation, ZONE};
    use karpenter_core::requirements::ValueSet;
    use serde_json::{Value, json};

    use super::*;

    fn claim(labels: &Value) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "c", "labels": labels, "annotations": {NODEPOOL_HASH: "1", NODEPOOL_HASH_VERSION: "v3"}},
            "spec": {"requirements": [{"key": "example.com/open", "operator": "In", "values": ["a", "b"]}]},
        }))
        .unwrap()
    }

    fn pool(annotations: &Value, requirements: &Value) -> NodePool {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"template": {"spec": {"requirements": requirements}}},
        }))
        .unwrap()
    }

    fn hashed(hash: &str, version: &str) -> Value {
        json!({NODEPOOL_HASH: hash, NODEPOOL_HASH_VERSION: version})
    }

    fn found(claim: &NodeClaim, annotations: &Value, requirements: &Value) -> Option<&'static str> {
        seen(claim, &pool(annotations, requirements), &LabelRules::default())
    }

    #[test]
    fn a_changed_template_is_drift_only_where_hashes_can_be_compared() {
        let claim = claim(&json!({}));
        assert_eq!(found(&claim, &hashed("1", "v3"), &json!([])), None);
        assert_eq!(found(&claim, &hashed("2", "v3"), &json!([])), Some(NODEPOOL_DRIFTED));
        assert_eq!(found(&claim, &hashed("2", "v4"), &json!([])), None, "another version");
        assert_eq!(found(&claim, &json!({NODEPOOL_HASH: "2"}), &json!([])), None, "no version");
        assert_eq!(found(&claim, &json!({}), &json!([])), None, "never stamped");
        let unmet = json!([{"key": "team", "operator": "Exists"}]);
        assert_eq!(
            found(&claim, &hashed("2", "v3"), &unmet),
            Some(NODEPOOL_DRIFTED),
            "the template comes first"
        );
    }

    #[test]
    fn labels_that_no_longer_meet_the_requirements_are_drift() {
        let claim = claim(&json!({"team": "a", "size": "4", "failure-domain.beta.kubernetes.io/zone": "z"}));
        let cases = [
            (json!([]), true),
            (json!([{"key": "team", "operator": "In", "values": ["a", "b"]}]), true),
            (json!([{"key": "team", "operator": "In", "values": ["b"]}]), false),
            (json!([{"key": "team", "operator": "NotIn", "values": ["a"]}]), false),
            (json!([{"key": "team", "operator": "DoesNotExist"}]), false),
            (json!([{"key": "other", "operator": "NotIn", "values": ["a"]}]), true),
            (json!([{"key": "other", "operator": "DoesNotExist"}]), true),
            (json!([{"key": "other", "operator": "Exists"}]), false),
            (json!([{"key": "size", "operator": "Gt", "values": ["3"]}]), true),
            (json!([{"key": "size", "operator": "Lt", "values": ["4"]}]), false),
            (json!([{"key": ZONE, "operator": "In", "values": ["z"]}]), true),
            (json!([{"key": "example.com/open", "operator": "In", "values": ["b", "c"]}]), true),
            (json!([{"key": "example.com/open", "operator": "In", "values": ["c"]}]), false),
        ];
        for (requirements, met) in cases {
            let expected = (!met).then_some(REQUIREMENTS_DRIFTED);
            assert_eq!(found(&claim, &hashed("1", "v3"), &requirements), expected, "{requirements}");
        }
    }

    fn offering(capacity_type: &str, zone: &str, reservation: Option<&str>) -> Offering {
        let mut requirements = RequirementSet::default();
        requirements.add(CAPACITY_TYPE.into(), &ValueSet::only([capacity_type]));
        requirements.add(ZONE.into(), &ValueSet::only([zone]));
        if let Some(id) = reservation {
            requirements.add("example.com/reservation".into(), &ValueSet::only([id]));
        }
        Offering {
            requirements: requirements.into(),
            price: 1.0,
            available: false,
            reservation: reservation.map(|id| Reservation { id: id.into(), remaining: 0 }),
            capacity_override: None,
            overhead_override: None,
        }
    }

    fn sold(labels: &Value, offerings: Vec<Offering>) -> bool {
        let types = [Arc::new(InstanceType {
            name: "large".into(),
            requirements: RequirementSet::default(),
            offerings,
            capacity: karpenter_quantity::ResourceList::default(),
            overhead: karpenter_quantity::ResourceList::default(),
            volume_limits: std::collections::BTreeMap::new(),
            overlaid: Overlaid::default(),
        })];
        is_sold(&claim(labels), &types, &LabelRules::default())
    }

    #[test]
    fn a_machine_that_is_no_longer_sold_is_drift_one_out_of_stock_is_not() {
        let spot = json!({INSTANCE_TYPE: "large", ZONE: "z", CAPACITY_TYPE: "spot"});
        assert!(sold(&spot, vec![offering("spot", "z", None)]));
        assert!(!sold(&spot, vec![offering("spot", "y", None), offering("on-demand", "z", None)]));
        assert!(!sold(&json!({INSTANCE_TYPE: "gone"}), vec![offering("spot", "z", None)]));
    }

    #[test]
    fn a_reserved_machine_may_be_sold_on_demand_or_in_another_reservation() {
        let labels = json!({
            INSTANCE_TYPE: "large", ZONE: "z", CAPACITY_TYPE: "reserved", "example.com/reservation": "r-1",
        });
        assert!(sold(&labels, vec![offering("reserved", "z", Some("r-2"))]));
        assert!(sold(&labels, vec![offering("on-demand", "z", None)]));
        assert!(!sold(&labels, vec![offering("spot", "z", None)]));
        assert!(!sold(&labels, vec![offering("reserved", "y", Some("r-1"))]));
    }
}
