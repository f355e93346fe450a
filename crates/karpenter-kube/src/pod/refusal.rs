//! Pods that no node can be planned for because what they ask of nodes is not written as Kubernetes demands.
//!
//! The API server refuses most of this, but not in every version. The core refuses the rest: what is well written but not
//! for users to ask.

use k8s_openapi::api::core::v1 as kube;
use karpenter_api::label_syntax::{label_value, qualified_name};
use karpenter_api::{LabelRules, Operator};

/// Why the pod cannot be planned for, if it cannot.
pub fn refusal(spec: &kube::PodSpec, rules: &LabelRules) -> Option<String> {
    let mut selected = spec.node_selector.iter().flatten();
    selected.find_map(|(key, value)| problem(key, &Operator::In, std::slice::from_ref(value), rules)).or_else(
        || {
            let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
            let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
            let terms = required.node_selector_terms.iter();
            let mut lines = terms.flat_map(|term| term.match_expressions.iter().flatten());
            lines.find_map(|line| {
                let operator = Operator::from(line.operator.clone());
                problem(&line.key, &operator, line.values.as_deref().unwrap_or_default(), rules)
            })
        },
    )
}

fn problem(key: &str, operator: &Operator, values: &[String], rules: &LabelRules) -> Option<String> {
    if let Operator::Unknown(word) = operator {
        return Some(format!(
            "the pod uses operator {word:?} on node label {key:?}; use one of {}",
            Operator::WORDS.join(", ")
        ));
    }
    let syntax =
        qualified_name(key).err().or_else(|| values.iter().find_map(|value| label_value(value).err()));
    if let Some(error) = syntax {
        return Some(format!("the pod asks for node label {key:?}: {error}"));
    }
    let known = rules
        .known_values(rules.normalize(key))
        .filter(|_| *operator == Operator::In && !values.is_empty())?;
    let none_known = !values.iter().any(|value| known.contains(&value.as_str()));
    none_known.then(|| {
        format!("the pod asks for node label {key:?}, which can only be one of {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(key: &str, operator: &str, values: &Value) -> bool {
        let term = json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        let required =
            json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } });
        let spec = json!({ "containers": [], "affinity": { "nodeAffinity": required } });
        refusal(&serde_json::from_value(spec).unwrap(), &LabelRules::default()).is_some()
    }

    #[test]
    fn keys_values_and_operators_must_be_well_written() {
        assert!(!refused("team", "In", &json!(["a"])));
        assert!(!refused("example.com/team", "Exists", &Value::Null));
        assert!(refused("bad key", "In", &json!(["a"])));
        assert!(refused("Team/", "Exists", &Value::Null));
        assert!(refused("team", "In", &json!(["a b"])));
        assert!(refused("team", "Like", &json!(["a"])));
    }

    #[test]
    fn a_capacity_type_must_exist() {
        assert!(refused("karpenter.sh/capacity-type", "In", &json!(["magic"])));
        assert!(!refused("karpenter.sh/capacity-type", "In", &json!(["magic", "spot"])));
        assert!(!refused("karpenter.sh/capacity-type", "NotIn", &json!(["magic"])));
    }

    #[test]
    fn node_selectors_are_held_to_the_same_rules() {
        let spec = json!({ "containers": [], "nodeSelector": { "team": "not a value" } });
        let found = refusal(&serde_json::from_value(spec).unwrap(), &LabelRules::default()).unwrap();
        assert!(found.contains("\"team\""), "{found}");
    }
}
