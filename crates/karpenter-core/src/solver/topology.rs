//! Where pods are counted: one counter per distinct (topology key, namespaces, selector, node filter).
//!
//! A [`Counter`] says which pods count and where; [`Rule`]s say what a pod does with the counts. Counts per domain are kept by the
//! [`World`](super::world::World). `minDomains` and `maxSkew` belong to the rule, not to the counter, so pods that differ only in them
//! still count each other.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bits::Bits;
use super::label_sets::KeyId;
use crate::cluster::{Labels, Selector, SelectorOperator};

pub(crate) type CounterId = u32;

/// What the domains of a counter are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Topology {
    /// Every node is a domain of its own.
    Host,
    /// Nodes with the same value of this label are one domain.
    Label(KeyId),
}

/// Which pods are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Counted {
    /// Pods that the selector matches.
    Matching,
    /// Pods that refuse, by required anti-affinity, what the selector matches.
    Refusing,
}

/// Identity of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counter {
    pub(crate) topology: Topology,
    pub(crate) counted: Counted,
    pub(crate) namespaces: BTreeSet<Arc<str>>,
    /// `None` matches nothing.
    pub(crate) selector: Option<Selector>,
    /// Index of the node filter; only nodes that pass it are counted.
    pub(crate) filter: Option<u32>,
}

impl Counter {
    fn matches(&self, namespace: &str, labels: &Labels) -> bool {
        self.namespaces.contains(namespace)
            && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// All counters, with an index that finds those matching a pod without trying each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) all: Vec<Counter>,
    ids: FxHashMap<Counter, CounterId>,
    /// Counters whose selector demands one of these values of this label.
    by_label: FxHashMap<Arc<str>, FxHashMap<Arc<str>, Vec<CounterId>>>,
    /// Counters that cannot be found by a label value.
    others: Vec<CounterId>,
}

impl Counters {
    pub(crate) fn intern(&mut self, counter: Counter) -> CounterId {
        if let Some(id) = self.ids.get(&counter) {
            return *id;
        }
        let id = self.all.len() as CounterId;
        let demanded = counter
            .selector
            .iter()
            .flat_map(|selector| &selector.expressions)
            .find(|expression| expression.operator == SelectorOperator::In);
        match demanded {
            Some(expression) => {
                let values = self.by_label.entry(expression.key.clone()).or_default();
                for value in &expression.values {
                    values.entry(value.clone()).or_default().push(id);
                }
            }
            None => self.others.push(id),
        }
        self.ids.insert(counter.clone(), id);
        self.all.push(counter);
        id
    }

    pub(crate) fn find(&self, counter: &Counter) -> Option<CounterId> {
        self.ids.get(counter).copied()
    }

    pub(crate) fn get(&self, id: CounterId) -> &Counter {
        &self.all[id as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The counters a pod with these labels matches, by id.
    pub(crate) fn matching(&self, namespace: &str, labels: &Labels) -> Vec<CounterId> {
        let mut found: Vec<CounterId> = Vec::new();
        if !self.by_label.is_empty() {
            for (key, value) in labels {
                let candidates = self.by_label.get(key).and_then(|values| values.get(value));
                found.extend(
                    candidates.into_iter().flatten().filter(|id| self.get(**id).matches(namespace, labels)),
                );
            }
        }
        found.extend(self.others.iter().filter(|id| self.get(**id).matches(namespace, labels)));
        found.sort_unstable();
        found
    }
}

/// What a pod does with a counter.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) kind: RuleKind,
    pub(crate) topology: Topology,
    pub(crate) counter: CounterId,
    /// Whether the pod itself matches the selector.
    pub(crate) selects_itself: bool,
}

/// The kinds of rules.
#[derive(Clone, Debug)]
pub(crate) enum RuleKind {
    /// Keep the domains even.
    Spread {
        max_skew: u32,
        min_domains: u32,
        /// `ScheduleAnyway`: a wish, given up where it cannot be met evenly.
        soft: bool,
        /// The domains that count for the smallest number: known domains the pod's own node selection accepts.
        domains: Bits,
    },
    /// Go where matching pods are.
    Affinity {
        /// Whether this is more than a preference.
        required: bool,
        /// Domains the pod's own node selection accepts.
        domains: Bits,
    },
    /// Go where no matching pod is.
    AntiAffinity {
        /// Whether this is more than a preference.
        required: bool,
    },
}

impl Rule {
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            RuleKind::Spread { .. } => "spread",
            RuleKind::Affinity { .. } => "affinity",
            RuleKind::AntiAffinity { .. } => "anti-affinity",
        }
    }
}
