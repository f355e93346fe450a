//! Label selectors, compiled once and matched often.
//!
//! The same requirements serve label selectors and node affinity, which adds `Gt` and `Lt`. Requirements are kept in a
//! normal form (sorted, values sorted), so that two ways to write a selector compare equal and share their counts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelectorRequirement;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels of an object, by key.
pub type Labels = BTreeMap<String, String>;

/// What is asked of one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// The label has one of the values.
    In(Vec<String>),
    /// The label is missing or has none of the values.
    NotIn(Vec<String>),
    /// The label is there.
    Exists,
    /// The label is missing.
    DoesNotExist,
    /// The label is a whole number above the bound.
    Gt(i64),
    /// The label is a whole number below the bound.
    Lt(i64),
    /// The requirement cannot be read, so nothing satisfies it.
    Never,
}

/// A label key with what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What is asked of the label.
    pub test: Test,
}

impl Requirement {
    /// Reads an operator and its values as users write them.
    pub fn new(key: &str, operator: &str, values: &[String]) -> Self {
        let test = match operator {
            "In" if !values.is_empty() => Test::In(sorted(values)),
            "NotIn" if !values.is_empty() => Test::NotIn(sorted(values)),
            "Exists" if values.is_empty() => Test::Exists,
            "DoesNotExist" if values.is_empty() => Test::DoesNotExist,
            "Gt" => bound(values).map_or(Test::Never, Test::Gt),
            "Lt" => bound(values).map_or(Test::Never, Test::Lt),
            _ => Test::Never,
        };
        Self { key: key.to_owned(), test }
    }

    fn equals(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), test: Test::In(vec![value.to_owned()]) }
    }

    /// Returns whether a label with this value, or none, satisfies the requirement.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| holds(values, value)),
            Test::NotIn(values) => value.is_none_or(|value| !holds(values, value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Gt(bound) => number().is_some_and(|number| number > *bound),
            Test::Lt(bound) => number().is_some_and(|number| number < *bound),
            Test::Never => false,
        }
    }

    /// Returns whether labels satisfy the requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.accepts(labels.get(&self.key).map(String::as_str))
    }
}

impl From<&NodeSelectorRequirement> for Requirement {
    fn from(requirement: &NodeSelectorRequirement) -> Self {
        let values = requirement.values.as_deref().unwrap_or_default();
        Self::new(&requirement.key, &requirement.operator, values)
    }
}

fn sorted(values: &[String]) -> Vec<String> {
    let mut values = values.to_vec();
    values.sort();
    values.dedup();
    values
}

fn holds(sorted: &[String], value: &str) -> bool {
    sorted.binary_search_by(|held| held.as_str().cmp(value)).is_ok()
}

fn bound(values: &[String]) -> Option<i64> {
    match values {
        [value] => value.parse().ok(),
        _ => None,
    }
}

/// All of several requirements, or the selector that selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    requirements: Option<Vec<Requirement>>,
}

impl Selector {
    /// Selects nothing.
    pub const NOTHING: Self = Self { requirements: None };
    /// Selects everything.
    pub const EVERYTHING: Self = Self { requirements: Some(Vec::new()) };

    /// Reads a label selector; a missing one selects nothing, an empty one everything.
    pub fn new(selector: Option<&LabelSelector>) -> Self {
        let Some(selector) = selector else { return Self::NOTHING };
        let equalities = selector.match_labels.iter().flatten();
        let expressions = selector.match_expressions.iter().flatten();
        let mut requirements: Vec<Requirement> =
            equalities.map(|(key, value)| Requirement::equals(key, value)).collect();
        requirements.extend(expressions.map(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            Requirement::new(&expression.key, &expression.operator, values)
        }));
        requirements.sort();
        requirements.dedup();
        Self { requirements: Some(requirements) }
    }

    /// Reads a selector that is a plain map of labels.
    pub fn from_labels(labels: &Labels) -> Self {
        let requirements = labels.iter().map(|(key, value)| Requirement::equals(key, value)).collect();
        Self { requirements: Some(requirements) }
    }

    /// Adds a requirement; the selector that selects nothing stays what it is.
    pub fn require(&mut self, requirement: Requirement) {
        if let Some(requirements) = &mut self.requirements
            && let Err(place) = requirements.binary_search(&requirement)
        {
            requirements.insert(place, requirement);
        }
    }

    /// Adds all that another selector asks for; what either selects nothing of, both together do not select.
    pub fn narrow(&mut self, other: &Self) {
        match &other.requirements {
            Some(requirements) => requirements.iter().for_each(|one| self.require(one.clone())),
            None => *self = Self::NOTHING,
        }
    }

    /// Returns whether labels are selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|one| one.matches(labels)))
    }

    /// Returns the keys the selector looks at.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().flatten().map(|requirement| requirement.key.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn selector(value: serde_json::Value) -> Selector {
        Selector::new(Some(&serde_json::from_value(value).unwrap()))
    }

    #[test]
    fn a_missing_selector_selects_nothing_and_an_empty_one_everything() {
        assert!(!Selector::new(None).matches(&labels(&[])));
        assert!(selector(json!({})).matches(&labels(&[("a", "b")])));
    }

    #[test]
    fn every_operator_looks_at_presence_and_value() {
        let check = |operator: &str, values: &[&str], value: Option<&str>| {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            Requirement::new("key", operator, &values).accepts(value)
        };
        assert!(check("In", &["b", "a"], Some("a")) && !check("In", &["a"], None));
        assert!(check("NotIn", &["a"], None) && !check("NotIn", &["a"], Some("a")));
        assert!(check("Exists", &[], Some("")) && !check("Exists", &[], None));
        assert!(check("DoesNotExist", &[], None) && !check("DoesNotExist", &[], Some("a")));
        assert!(
            check("Gt", &["4"], Some("5"))
                && !check("Gt", &["5"], Some("5"))
                && !check("Gt", &["4"], Some("x"))
        );
        assert!(check("Lt", &["5"], Some("-1")) && !check("Lt", &["5"], None));
        assert!(!check("In", &[], Some("a")) && !check("Near", &["a"], Some("a")));
    }

    #[test]
    fn two_ways_to_write_a_selector_are_equal() {
        let short = selector(json!({"matchLabels": {"app": "web", "tier": "front"}}));
        let long = selector(json!({"matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front"]},
            {"key": "app", "operator": "In", "values": ["web"]},
        ]}));
        assert_eq!(short, long);
    }
}
