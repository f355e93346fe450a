//! Sets of states one label of one node can be in, and the conditions pods and node pools put on them.
//!
//! A label is either absent or present with a value. [`States`] is a set of such states, so a requirement is the
//! set it permits, a node that is not launched yet is the set it may end up with, and "the pod may run there"
//! is plain set inclusion. `NotIn` permits absence, as in Kubernetes; nothing ever reads an empty set as
//! "absent".

use std::collections::BTreeSet;

use crate::pod::{NodeSelectorTerm, PodSpec, Requirement};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub(crate) const NODE_POOL: &str = "karpenter.sh/nodepool";
pub(crate) const REGISTERED: &str = "karpenter.sh/registered";
pub(crate) const INITIALIZED: &str = "karpenter.sh/initialized";

/// The label that names the node class of the scenarios' test provider.
pub(crate) const NODE_CLASS: &str = "karpenter.test.sh/testnodeclass";
pub(crate) const NODE_CLASS_VALUE: &str = "default";

/// Label keys every provider has; a scenario may declare more.
pub(crate) const WELL_KNOWN: &[&str] = &[
    NODE_POOL,
    ZONE,
    "topology.kubernetes.io/region",
    INSTANCE_TYPE,
    "kubernetes.io/arch",
    "kubernetes.io/os",
    CAPACITY_TYPE,
    "node.kubernetes.io/windows-build",
];

/// Returns the current name of a label key that Kubernetes has renamed.
pub(crate) fn current_key(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => ZONE,
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
        _ => key,
    }
}

/// A set of states of one label: perhaps absence, and some values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct States {
    pub(crate) absent: bool,
    pub(crate) present: Present,
}

/// A set of label values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    Only(BTreeSet<String>),
    /// Every value but some; where a bound is set, only integers within it.
    AllBut {
        excluded: BTreeSet<String>,
        at_least: Option<i64>,
        at_most: Option<i64>,
    },
}

impl States {
    pub(crate) fn absent() -> Self {
        States { absent: true, present: Present::Only(BTreeSet::new()) }
    }

    pub(crate) fn anything() -> Self {
        States { absent: true, present: all_but(BTreeSet::new(), None, None) }
    }

    pub(crate) fn value(value: &str) -> Self {
        States { absent: false, present: Present::Only(BTreeSet::from([value.to_owned()])) }
    }

    pub(crate) fn values<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let values = values.into_iter().map(str::to_owned).collect();
        States { absent: false, present: Present::Only(values) }
    }

    /// Returns what a requirement permits. A requirement that makes no sense permits nothing.
    pub(crate) fn permitted(requirement: &Requirement) -> Self {
        let values: BTreeSet<String> = requirement.values.iter().cloned().collect();
        let bound = || requirement.values.first().and_then(|v| v.parse::<i64>().ok());
        let (absent, present) = match requirement.operator.as_str() {
            "In" => (false, Present::Only(values)),
            "NotIn" => (true, all_but(values, None, None)),
            "Exists" => (false, all_but(BTreeSet::new(), None, None)),
            "DoesNotExist" => (true, Present::Only(BTreeSet::new())),
            operator => match (operator, bound()) {
                ("Gt", Some(n)) if n < i64::MAX => (false, all_but(BTreeSet::new(), Some(n + 1), None)),
                ("Gte", Some(n)) => (false, all_but(BTreeSet::new(), Some(n), None)),
                ("Lt", Some(n)) if n > i64::MIN => (false, all_but(BTreeSet::new(), None, Some(n - 1))),
                ("Lte", Some(n)) => (false, all_but(BTreeSet::new(), None, Some(n))),
                _ => (false, Present::Only(BTreeSet::new())),
            },
        };
        States { absent, present }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.absent && self.present.is_empty()
    }

    /// Tells whether the label cannot be present at all.
    pub(crate) fn is_never_present(&self) -> bool {
        self.present.is_empty()
    }

    /// Tells whether the label may be present with this value.
    pub(crate) fn has_value(&self, value: &str) -> bool {
        self.present.contains(value)
    }

    pub(crate) fn intersection(&self, other: &States) -> States {
        States { absent: self.absent && other.absent, present: self.present.intersection(&other.present) }
    }

    pub(crate) fn intersects(&self, other: &States) -> bool {
        !self.intersection(other).is_empty()
    }

    pub(crate) fn is_within(&self, other: &States) -> bool {
        (!self.absent || other.absent) && self.present.is_within(&other.present)
    }

    /// Like [`States::is_within`], for a set read back from a plan: a printed requirement cannot carry excluded
    /// values beside a bound, so where there is a bound they are not held against it.
    pub(crate) fn is_within_printed(&self, other: &States) -> bool {
        if self.is_within(other) {
            return true;
        }
        let bounded = |p: &Present| matches!(p, Present::AllBut { at_least, at_most, .. } if at_least.or(*at_most).is_some());
        let Present::AllBut { at_least, at_most, .. } = other.present else { return false };
        bounded(&self.present)
            && self.is_within(&States {
                absent: other.absent,
                present: all_but(BTreeSet::new(), at_least, at_most),
            })
    }

    /// Returns the states one by one where there are finitely many, and more than one.
    fn split(&self) -> Option<Vec<States>> {
        let Present::Only(values) = &self.present else { return None };
        let states: Vec<States> = self
            .absent
            .then(States::absent)
            .into_iter()
            .chain(values.iter().map(|v| States::value(v)))
            .collect();
        (states.len() > 1).then_some(states)
    }
}

fn all_but(excluded: BTreeSet<String>, at_least: Option<i64>, at_most: Option<i64>) -> Present {
    Present::AllBut { excluded, at_least, at_most }
}

impl Present {
    fn is_empty(&self) -> bool {
        match self {
            Present::Only(values) => values.is_empty(),
            Present::AllBut { excluded, at_least: Some(low), at_most: Some(high) } => {
                let count = i128::from(*high) - i128::from(*low) + 1;
                // A short range may be excluded value by value.
                count <= 0
                    || count <= excluded.len() as i128
                        && (*low..=*high).all(|n| excluded.contains(&n.to_string()))
            }
            Present::AllBut { .. } => false,
        }
    }

    fn contains(&self, value: &str) -> bool {
        match self {
            Present::Only(values) => values.contains(value),
            Present::AllBut { excluded, at_least, at_most } => {
                !excluded.contains(value) && within(value, *at_least, *at_most)
            }
        }
    }

    fn intersection(&self, other: &Present) -> Present {
        match (self, other) {
            (Present::Only(values), set) | (set, Present::Only(values)) => {
                Present::Only(values.iter().filter(|v| set.contains(v)).cloned().collect())
            }
            (
                Present::AllBut { excluded: a, at_least: low_a, at_most: high_a },
                Present::AllBut { excluded: b, at_least: low_b, at_most: high_b },
            ) => all_but(a | b, tighter(*low_a, *low_b, i64::max), tighter(*high_a, *high_b, i64::min)),
        }
    }

    fn is_within(&self, other: &Present) -> bool {
        match (self, other) {
            _ if self.is_empty() => true,
            (Present::Only(values), set) => values.iter().all(|v| set.contains(v)),
            (Present::AllBut { .. }, Present::Only(_)) => false,
            (
                Present::AllBut { at_least: low_a, at_most: high_a, .. },
                Present::AllBut { excluded, at_least: low_b, at_most: high_b },
            ) => {
                low_b.is_none_or(|b| low_a.is_some_and(|a| a >= b))
                    && high_b.is_none_or(|b| high_a.is_some_and(|a| a <= b))
                    && excluded.iter().all(|v| !self.contains(v))
            }
        }
    }
}

fn tighter(a: Option<i64>, b: Option<i64>, pick: fn(i64, i64) -> i64) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(pick(a, b)),
        (one, other) => one.or(other),
    }
}

fn within(value: &str, at_least: Option<i64>, at_most: Option<i64>) -> bool {
    if at_least.is_none() && at_most.is_none() {
        return true;
    }
    value
        .parse::<i64>()
        .is_ok_and(|n| at_least.is_none_or(|low| n >= low) && at_most.is_none_or(|high| n <= high))
}

/// A node, as far as its labels are known.
pub(crate) trait Labelled {
    /// Returns the states the label may be in.
    fn label(&self, key: &str) -> &States;
}

/// One condition on one label.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) key: String,
    pub(crate) permitted: States,
}

impl Condition {
    pub(crate) fn from_requirement(requirement: &Requirement) -> Self {
        Condition { key: current_key(&requirement.key).to_owned(), permitted: States::permitted(requirement) }
    }
}

/// Conditions a node must meet: all of `all`, and one of the terms where there are any.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeConditions {
    pub(crate) all: Vec<Condition>,
    pub(crate) any_term: Vec<Vec<Condition>>,
}

impl NodeConditions {
    /// Returns the hard node requirements of a pod: its node selector and its required node affinity.
    pub(crate) fn of_pod(spec: &PodSpec) -> Self {
        let all = spec
            .node_selector
            .iter()
            .map(|(key, value)| Condition {
                key: current_key(key).to_owned(),
                permitted: States::value(value),
            })
            .collect();
        let terms = spec.affinity.node_affinity.required.as_ref().map(|r| r.node_selector_terms.as_slice());
        NodeConditions { all, any_term: terms.unwrap_or_default().iter().map(term_conditions).collect() }
    }

    /// Tells whether every state the node may be in meets the node selector part.
    pub(crate) fn selector_holds(&self, node: &impl Labelled) -> bool {
        holds(&self.all, node)
    }

    /// Tells whether one of the terms is met whatever state the node ends up in.
    pub(crate) fn terms_hold(&self, node: &impl Labelled) -> bool {
        self.any_term.is_empty() || any_term_holds(&self.any_term, node, &[])
    }

    pub(crate) fn hold(&self, node: &impl Labelled) -> bool {
        self.selector_holds(node) && self.terms_hold(node)
    }

    /// Tells whether the node may end up in a state that meets the conditions.
    pub(crate) fn may_hold(&self, node: &impl Labelled) -> bool {
        may_hold(&self.all, node)
            && (self.any_term.is_empty() || self.any_term.iter().any(|term| may_hold(term, node)))
    }

    /// Tells whether no node at all can meet the conditions, because they contradict each other.
    pub(crate) fn are_contradictory(&self) -> bool {
        let merged = |term: &[Condition]| {
            let conditions: Vec<&Condition> = self.all.iter().chain(term).collect();
            conditions.iter().any(|a| {
                let same_key = conditions.iter().filter(|b| b.key == a.key);
                same_key.fold(States::anything(), |s, b| s.intersection(&b.permitted)).is_empty()
            })
        };
        if self.any_term.is_empty() { merged(&[]) } else { self.any_term.iter().all(|term| merged(term)) }
    }
}

/// A term without expressions matches no node.
pub(crate) fn term_conditions(term: &NodeSelectorTerm) -> Vec<Condition> {
    if term.match_expressions.is_empty() {
        let never = States::values([]);
        return vec![Condition { key: HOSTNAME.to_owned(), permitted: never }];
    }
    term.match_expressions.iter().map(Condition::from_requirement).collect()
}

fn holds(conditions: &[Condition], node: &impl Labelled) -> bool {
    conditions.iter().all(|c| node.label(&c.key).is_within(&c.permitted))
}

fn may_hold(conditions: &[Condition], node: &impl Labelled) -> bool {
    conditions.iter().all(|c| node.label(&c.key).intersects(&c.permitted))
}

/// A label state assumed while alternatives are told apart.
type Assumption<'a> = (&'a str, &'a States);

/// Different terms may cover different states of one label, so undecided labels are taken apart.
fn any_term_holds(terms: &[Vec<Condition>], node: &impl Labelled, assumed: &[Assumption<'_>]) -> bool {
    let state =
        |key: &str| assumed.iter().find(|(k, _)| *k == key).map_or_else(|| node.label(key), |(_, s)| s);
    let met = |term: &Vec<Condition>| term.iter().all(|c| state(&c.key).is_within(&c.permitted));
    if terms.iter().any(met) {
        return true;
    }
    let undecided = terms.iter().flatten().find_map(|c| {
        let states = state(&c.key);
        let open = states.intersects(&c.permitted) && !states.is_within(&c.permitted);
        open.then(|| states.split().map(|parts| (c.key.as_str(), parts))).flatten()
    });
    let Some((key, parts)) = undecided else { return false };
    parts.iter().all(|part| {
        let mut deeper = vec![(key, part)];
        deeper.extend_from_slice(assumed);
        any_term_holds(terms, node, &deeper)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    struct Node(BTreeMap<&'static str, States>, States);

    impl Labelled for Node {
        fn label(&self, key: &str) -> &States {
            self.0.get(key).unwrap_or(&self.1)
        }
    }

    fn states(operator: &str, values: &[&str]) -> States {
        States::permitted(&Requirement {
            key: "k".into(),
            operator: operator.into(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
            min_values: None,
        })
    }

    #[test]
    fn a_contradiction_is_not_absence() {
        let both = states("In", &["gold"]).intersection(&states("In", &["silver"]));
        assert!(both.is_empty());
        assert!(!States::absent().is_within(&both));
        assert!(states("Gt", &["5"]).intersection(&states("Lt", &["6"])).is_empty());
        assert!(!states("NotIn", &["a"]).intersection(&states("NotIn", &["b"])).is_empty());
    }

    #[test]
    fn inclusion_follows_the_operators() {
        for (inner, outer, expected) in [
            (states("In", &["a"]), states("In", &["a", "b"]), true),
            (states("In", &["a", "b"]), states("In", &["a"]), false),
            (states("In", &["a"]), states("NotIn", &["b"]), true),
            (States::absent(), states("NotIn", &["b"]), true),
            (States::absent(), states("Exists", &[]), false),
            (states("Gt", &["4"]), states("Gte", &["5"]), true),
            (states("Gt", &["4"]), states("Gt", &["5"]), false),
            (states("In", &["8"]), states("Gt", &["7"]), true),
            (states("In", &["x"]), states("Gt", &["7"]), false),
            (states("Exists", &[]), states("In", &["a"]), false),
            (states("NotIn", &["a"]), states("Exists", &[]), false),
        ] {
            assert_eq!(inner.is_within(&outer), expected, "{inner:?} within {outer:?}");
        }
    }

    #[test]
    fn different_terms_may_cover_different_values() {
        let terms = vec![
            vec![Condition { key: "tier".into(), permitted: States::value("gold") }],
            vec![Condition { key: "tier".into(), permitted: States::value("silver") }],
        ];
        let conditions = NodeConditions { all: vec![], any_term: terms };
        let node = |values: [&str; 2]| Node([("tier", States::values(values))].into(), States::absent());
        assert!(conditions.terms_hold(&node(["gold", "silver"])));
        assert!(!conditions.terms_hold(&node(["gold", "bronze"])));
        assert!(conditions.may_hold(&node(["gold", "bronze"])));
    }
}
