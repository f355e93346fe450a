//! Requirements on several keys at once, combined key by key.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parse::Requirement;
use super::value_set::ValueSet;

/// One [`ValueSet`] per label key; a key that is not listed accepts anything.
///
/// A copy shares everything with its original until one of them is changed: an instance type has dozens of labels, and every pool
/// has its own copy of every type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequirementSet {
    keys: Arc<BTreeMap<Arc<str>, ValueSet>>,
}

impl RequirementSet {
    /// Adds one more condition on `key`.
    pub fn add(&mut self, key: Arc<str>, set: &ValueSet) {
        let combined = self.keys.get(&key).map_or_else(|| set.clone(), |present| present.intersect(set));
        Arc::make_mut(&mut self.keys).insert(key, combined);
    }

    /// Adds a requirement as written.
    pub fn require(&mut self, requirement: &Requirement) {
        self.add(requirement.key.clone(), &ValueSet::of(requirement.operator, &requirement.values));
    }

    /// The condition on `key`, if there is one.
    pub fn get(&self, key: &str) -> Option<&ValueSet> {
        self.keys.get(key)
    }

    /// Keys and their conditions, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &ValueSet)> {
        self.keys.iter()
    }

    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The first key on which nothing is acceptable.
    pub fn contradiction(&self) -> Option<&Arc<str>> {
        self.keys.iter().find(|(_, set)| set.is_contradiction()).map(|(key, _)| key)
    }

    /// Both sets of conditions.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let mut result = self.clone();
        for (key, set) in other.iter() {
            result.add(key.clone(), set);
        }
        result
    }

    /// Whether a node with exactly these labels satisfies every condition.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.keys.iter().all(|(key, set)| set.accepts(label(key)))
    }

    /// The set as requirements, as a `NodeClaim` would list them; read again they mean the same. `Gt` and `Lt` appear as `Gte`
    /// and `Lte`, and one key may need several lines.
    pub fn to_requirements(&self) -> Vec<Requirement> {
        self.keys.iter().flat_map(|(key, set)| requirements_of(key, set)).collect()
    }
}

impl<'a> FromIterator<&'a Requirement> for RequirementSet {
    fn from_iter<I: IntoIterator<Item = &'a Requirement>>(requirements: I) -> Self {
        let mut set = Self::default();
        for requirement in requirements {
            set.require(requirement);
        }
        set
    }
}

fn requirements_of(key: &Arc<str>, set: &ValueSet) -> impl Iterator<Item = Requirement> + use<> {
    let key = key.clone();
    set.written().into_iter().map(move |(operator, values)| Requirement {
        key: key.clone(),
        operator,
        values,
        min_values: None,
    })
}
