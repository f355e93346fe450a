//! Labels, label selectors, and which label keys mean something to the providers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Labels or annotations of an object.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// Which label keys providers define, and which users may not set.
#[derive(Clone, Debug, Default)]
pub struct LabelRules {
    /// Keys a provider resolves: a pod may require them although no NodePool mentions them.
    pub well_known: BTreeSet<Arc<str>>,
    /// Domains reserved for Karpenter and its providers; well-known keys are exempt.
    pub restricted_domains: BTreeSet<Arc<str>>,
    /// Keys that may never be required by pods or NodePools.
    pub restricted_labels: BTreeSet<Arc<str>>,
}

impl LabelRules {
    /// Whether `key` may not be used by pods and NodePools.
    pub fn is_restricted(&self, key: &str) -> bool {
        if self.well_known.contains(key) {
            return false;
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        self.restricted_labels.contains(key)
            || self.restricted_domains.iter().any(|reserved| {
                domain == &**reserved
                    || domain.strip_suffix(&**reserved).is_some_and(|prefix| prefix.ends_with('.'))
            })
    }
}

/// How a selector expression compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// One `matchExpressions` line of a label selector; a `matchLabels` line is an `In` with one value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorExpression {
    /// The label key.
    pub key: Arc<str>,
    /// How the values are meant.
    pub operator: SelectorOperator,
    /// The values.
    pub values: BTreeSet<Arc<str>>,
}

/// A label selector. An empty one selects everything; `None` in its place selects nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    /// All of them must hold.
    pub expressions: BTreeSet<SelectorExpression>,
}

impl Selector {
    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.expressions.iter().all(|expression| expression.matches(labels.get(&expression.key)))
    }

    /// Adds `key In [value]`, as `matchLabels` and `matchLabelKeys` do.
    pub fn require(&mut self, key: Arc<str>, value: Arc<str>) {
        self.expressions.insert(SelectorExpression {
            key,
            operator: SelectorOperator::In,
            values: [value].into(),
        });
    }
}

impl SelectorExpression {
    fn matches(&self, value: Option<&Arc<str>>) -> bool {
        match self.operator {
            SelectorOperator::In => value.is_some_and(|value| self.values.contains(value)),
            SelectorOperator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}
