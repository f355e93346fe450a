//! Which labels a node of a given pool, type, zone and capacity type can have, and what a pod's expressions make of it.
//!
//! Two readings are needed: an expression is *possible* when some node of that kind could satisfy it, and *certain*
//! when every one does. Pods count where they are possible, daemons only where they are certain: either way an
//! error can only lower the bound.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// `key operator values`, as in node selectors, node pools and instance types.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Expression {
    pub(super) key: String,
    pub(super) operator: String,
    #[serde(default)]
    pub(super) values: Vec<String>,
}

impl Expression {
    pub(super) fn is(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), operator: "In".to_owned(), values: vec![value.to_owned()] }
    }

    /// Whether a label with this value satisfies the expression.
    fn admits(&self, value: &str) -> bool {
        let listed = || self.values.iter().any(|listed| listed == value);
        let compared =
            |holds: fn(i64, i64) -> bool| match (value.parse(), self.values.first().map(|v| v.parse())) {
                (Ok(left), Some(Ok(right))) => holds(left, right),
                _ => false,
            };
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "DoesNotExist" => false,
            "Gt" => compared(|left, right| left > right),
            "Lt" => compared(|left, right| left < right),
            "Gte" => compared(|left, right| left >= right),
            "Lte" => compared(|left, right| left <= right),
            _ => true,
        }
    }

    /// Whether a node without the label satisfies the expression.
    fn admits_absence(&self) -> bool {
        matches!(self.operator.as_str(), "NotIn" | "DoesNotExist")
    }
}

/// What a label of the nodes of one kind can be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Values {
    Absent,
    OneOf(BTreeSet<String>),
    /// Present with a value that nothing lists.
    Any,
    /// Present or not, nobody says: a well-known label that neither pool nor type mentions.
    Unknown,
}

/// The labels of the nodes of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    values: BTreeMap<String, Values>,
    well_known: BTreeSet<String>,
}

impl Labels {
    /// Combines the expressions of pool and type; `None` when they contradict each other.
    pub(super) fn from_expressions<'a>(
        expressions: impl IntoIterator<Item = &'a Expression>,
        well_known: &BTreeSet<String>,
    ) -> Option<Self> {
        let mut by_key: BTreeMap<&str, Vec<&Expression>> = BTreeMap::new();
        for expression in expressions {
            by_key.entry(&expression.key).or_default().push(expression);
        }
        let mut values = BTreeMap::new();
        for (key, expressions) in by_key {
            values.insert(key.to_owned(), combined(&expressions)?);
        }
        Some(Self { values, well_known: well_known.clone() })
    }

    /// The labels of a node that exists: what it does not have is absent.
    pub(super) fn of_node(labels: &BTreeMap<String, String>) -> Self {
        let one = |value: &String| Values::OneOf([value.clone()].into());
        let values = labels.iter().map(|(key, value)| (key.clone(), one(value))).collect();
        Self { values, well_known: BTreeSet::new() }
    }

    fn get(&self, key: &str) -> &Values {
        match self.values.get(key) {
            Some(values) => values,
            None if self.well_known.contains(key) => &Values::Unknown,
            None => &Values::Absent,
        }
    }

    pub(super) fn possible(&self, expression: &Expression) -> bool {
        match self.get(&expression.key) {
            Values::Absent => expression.admits_absence(),
            Values::OneOf(values) => values.iter().any(|value| expression.admits(value)),
            Values::Any => expression.operator != "DoesNotExist",
            Values::Unknown => true,
        }
    }

    pub(super) fn certain(&self, expression: &Expression) -> bool {
        match self.get(&expression.key) {
            Values::Absent => expression.admits_absence(),
            Values::OneOf(values) => values.iter().all(|value| expression.admits(value)),
            Values::Any => expression.operator == "Exists",
            Values::Unknown => false,
        }
    }
}

/// What all the expressions on one key leave; `None` when nothing is left.
fn combined(expressions: &[&Expression]) -> Option<Values> {
    if expressions.iter().any(|expression| expression.operator == "DoesNotExist") {
        return expressions.iter().all(|expression| expression.admits_absence()).then_some(Values::Absent);
    }
    let Some(listing) = expressions.iter().find(|expression| expression.operator == "In") else {
        let present = expressions.iter().any(|expression| !expression.admits_absence());
        return Some(if present { Values::Any } else { Values::Unknown });
    };
    let left: BTreeSet<String> = listing
        .values
        .iter()
        .filter(|value| expressions.iter().all(|expression| expression.admits(value)))
        .cloned()
        .collect();
    (!left.is_empty()).then_some(Values::OneOf(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(text: &str) -> Expression {
        let mut words = text.split(' ').map(str::to_owned);
        let key = words.next().expect("an expression has a key");
        let operator = words.next().expect("an expression has an operator");
        Expression { key, operator, values: words.collect() }
    }

    fn labels(expressions: &[&str]) -> Option<Labels> {
        let expressions: Vec<Expression> = expressions.iter().map(|text| expression(text)).collect();
        Labels::from_expressions(&expressions, &["arch".to_owned()].into())
    }

    #[test]
    fn contradicting_expressions_leave_no_node() {
        assert!(labels(&["cpu In 4 8", "cpu Gt 8"]).is_none());
        assert!(labels(&["gpu DoesNotExist", "gpu In a"]).is_none());
        assert!(labels(&["cpu In 4 8", "cpu Lt 8"]).is_some());
    }

    #[test]
    fn what_some_nodes_satisfy_is_possible_and_what_all_satisfy_is_certain() {
        let labels = labels(&["zone In a b", "cpu In 4"]).expect("no contradiction");
        for (text, possible, certain) in [
            ("zone In a", true, false),
            ("zone In a b c", true, true),
            ("zone NotIn a b", false, false),
            ("cpu Gt 3", true, true),
            ("cpu Gt 4", false, false),
            ("team In x", false, false),
            ("team NotIn x", true, true),
            ("arch In amd64", true, false),
        ] {
            assert_eq!(labels.possible(&expression(text)), possible, "{text}");
            assert_eq!(labels.certain(&expression(text)), certain, "{text}");
        }
    }

    #[test]
    fn a_node_that_exists_has_no_labels_but_its_own() {
        let labels = Labels::of_node(&BTreeMap::from([("arch".to_owned(), "arm64".to_owned())]));
        assert!(!labels.possible(&expression("zone Exists")));
        assert!(labels.possible(&expression("arch In arm64")));
    }
}
