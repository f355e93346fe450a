//! Label selectors over pods and namespaces, and tolerations over taints.

use std::collections::BTreeSet;

use crate::pod::{LabelSelector, LabelSelectorRequirement, PodAffinityTerm, Taint, Toleration};
use crate::scenario::StringMap;

/// Tells whether a selector picks an object with these labels. No selector picks nothing, an empty one all.
pub(crate) fn selects(selector: Option<&LabelSelector>, labels: &StringMap) -> bool {
    selector.is_some_and(|s| {
        s.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && s.match_expressions.iter().all(|e| expression_holds(e, labels))
    })
}

fn expression_holds(expression: &LabelSelectorRequirement, labels: &StringMap) -> bool {
    let value = labels.get(&expression.key);
    let listed = value.is_some_and(|v| expression.values.contains(v));
    match expression.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// Returns the namespaces an affinity term of a pod in `own` looks at.
pub(crate) fn namespaces_of_term(
    term: &PodAffinityTerm,
    own: &str,
    labels_by_namespace: &std::collections::BTreeMap<String, StringMap>,
) -> BTreeSet<String> {
    if term.namespaces.is_empty() && term.namespace_selector.is_none() {
        return BTreeSet::from([own.to_owned()]);
    }
    let selected = labels_by_namespace
        .iter()
        .filter(|(_, labels)| selects(term.namespace_selector.as_ref(), labels))
        .map(|(name, _)| name.clone());
    term.namespaces.iter().cloned().chain(selected).collect()
}

/// Returns the first taint that keeps a pod with these tolerations away. `PreferNoSchedule` keeps nobody away.
pub(crate) fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule")
        .find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    effect && key && value_tolerated(toleration, taint)
}

fn value_tolerated(toleration: &Toleration, taint: &Taint) -> bool {
    let numbers = || Some((taint.value.parse::<i64>().ok()?, toleration.value.parse::<i64>().ok()?));
    match toleration.operator.as_str() {
        "Exists" => true,
        "" | "Equal" => toleration.value == taint.value,
        "Gt" => numbers().is_some_and(|(taint, bound)| taint > bound),
        "Lt" => numbers().is_some_and(|(taint, bound)| taint < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        Toleration { key: key.into(), operator: operator.into(), value: value.into(), effect: effect.into() }
    }

    #[test]
    fn tolerations_match_key_value_and_effect() {
        let taint = Taint { key: "dedicated".into(), value: "a".into(), effect: "NoSchedule".into() };
        for (tolerant, expected) in [
            (toleration("dedicated", "Equal", "a", ""), true),
            (toleration("dedicated", "", "a", "NoSchedule"), true),
            (toleration("dedicated", "", "b", "NoSchedule"), false),
            (toleration("dedicated", "Exists", "", "NoExecute"), false),
            (toleration("", "Exists", "", ""), true),
            (toleration("other", "Exists", "", ""), false),
        ] {
            let taints = [taint.clone()];
            assert_eq!(
                untolerated(&taints, std::slice::from_ref(&tolerant)).is_none(),
                expected,
                "{tolerant:?}"
            );
        }
    }

    #[test]
    fn no_selector_picks_nothing_and_an_empty_one_everything() {
        let labels = StringMap::from([("app".to_owned(), "a".to_owned())]);
        assert!(!selects(None, &labels));
        assert!(selects(Some(&LabelSelector::default()), &labels));
    }
}
