//! Label keys and values as small integers, and requirements on them as bit sets.
//!
//! The universe of a key is every value anybody mentions. A set over it also says whether values nobody mentioned are acceptable
//! (`open`) and whether the label may be missing (`absent`); bounds are kept so that a set can be written out again.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bits::Bits;
use crate::requirements::{RequirementSet, ValueSet};

pub(crate) type KeyId = u16;
pub(crate) type ValueId = u32;

/// The keys and values of one problem.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelTable {
    keys: Vec<LabelKey>,
    /// The first keys are topology keys.
    topology_keys: KeyId,
    by_name: FxHashMap<Arc<str>, KeyId>,
}

#[derive(Clone, Debug)]
struct LabelKey {
    name: Arc<str>,
    values: Vec<Arc<str>>,
    by_value: FxHashMap<Arc<str>, ValueId>,
}

impl LabelTable {
    /// Makes `key` known.
    pub(crate) fn add_key(&mut self, name: &Arc<str>) -> KeyId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.keys.len() as KeyId;
        self.keys.push(LabelKey { name: name.clone(), values: Vec::new(), by_value: FxHashMap::default() });
        self.by_name.insert(name.clone(), id);
        id
    }

    /// Makes a topology key known. All of them come before other keys.
    pub(crate) fn add_topology_key(&mut self, name: &Arc<str>) {
        debug_assert_eq!(self.keys.len(), self.topology_keys as usize, "topology keys come first");
        self.add_key(name);
        self.topology_keys = self.keys.len() as KeyId;
    }

    pub(crate) fn topology_keys(&self) -> impl Iterator<Item = KeyId> + use<> {
        0..self.topology_keys
    }

    /// Makes a value of a known key known; unknown keys do not matter to anybody.
    pub(crate) fn add_value(&mut self, key: &str, value: &Arc<str>) {
        if let Some(id) = self.by_name.get(key) {
            let key = &mut self.keys[*id as usize];
            if !key.by_value.contains_key(value) {
                key.by_value.insert(value.clone(), key.values.len() as ValueId);
                key.values.push(value.clone());
            }
        }
    }

    /// Makes keys and values of a requirement set known.
    pub(crate) fn add_keys(&mut self, set: &RequirementSet) {
        for (key, _) in set.iter() {
            self.add_key(key);
        }
    }

    /// Makes the values of a requirement set known, for keys that are.
    pub(crate) fn add_values(&mut self, set: &RequirementSet) {
        for (key, values) in set.iter() {
            for value in values.mentioned() {
                self.add_value(key, value);
            }
            // Bounds are values somebody may exclude: a range that closes on one of them is then no longer open.
            for bound in <[Option<i64>; 2]>::from(values.bounds()).into_iter().flatten() {
                self.add_value(key, &bound.to_string().into());
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn key(&self, name: &str) -> Option<KeyId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn name(&self, key: KeyId) -> &Arc<str> {
        &self.keys[key as usize].name
    }

    pub(crate) fn value(&self, key: KeyId, value: &str) -> Option<ValueId> {
        self.keys[key as usize].by_value.get(value).copied()
    }

    pub(crate) fn value_name(&self, key: KeyId, value: ValueId) -> &Arc<str> {
        &self.keys[key as usize].values[value as usize]
    }

    pub(crate) fn value_count(&self, key: KeyId) -> usize {
        self.keys[key as usize].values.len()
    }

    /// The set over the universe of `key` that stands for `set`.
    pub(crate) fn compile(&self, key: KeyId, set: &ValueSet) -> LabelSet {
        let values = &self.keys[key as usize].values;
        let mut bits = Bits::none(values.len());
        match set.values() {
            Some(listed) => listed
                .filter_map(|value| self.value(key, value))
                .for_each(|value| bits.insert(value as usize)),
            None => {
                for (index, value) in values.iter().enumerate() {
                    if set.contains(value) {
                        bits.insert(index);
                    }
                }
            }
        }
        let range = set.excluded().is_some().then(|| self.range(key, set)).flatten();
        let open = set.excluded().is_some() && range.as_ref().is_none_or(Range::has_unknown);
        LabelSet { bits, open, absent: set.allows_absent(), range: range.filter(|_| open) }
    }

    fn range(&self, key: KeyId, set: &ValueSet) -> Option<Range> {
        let (at_least, at_most) = set.bounds();
        if at_least.is_none() && at_most.is_none() {
            return None;
        }
        let values = self.keys[key as usize].values.iter();
        let integer = |value: &Arc<str>| value.parse().ok().filter(|n: &i64| *n.to_string() == **value);
        let mut known: Vec<i64> = values.filter_map(integer).collect();
        known.sort_unstable();
        Some(Range { at_least, at_most, known: known.into() })
    }

    /// A compiled requirement set: only keys known here, by key id.
    pub(crate) fn compile_all(&self, set: &RequirementSet) -> LabelSets {
        let mut sets: LabelSets = set
            .iter()
            .filter_map(|(name, values)| self.key(name).map(|key| (key, self.compile(key, values))))
            .collect();
        sets.sort_unstable_by_key(|(key, _)| *key);
        sets
    }

    /// The set of exactly these values.
    pub(crate) fn only(&self, key: KeyId, values: impl IntoIterator<Item = ValueId>) -> LabelSet {
        let mut bits = Bits::none(self.value_count(key));
        values.into_iter().for_each(|value| bits.insert(value as usize));
        LabelSet { bits, open: false, absent: false, range: None }
    }

    /// Everything, present or not.
    pub(crate) fn anything(&self, key: KeyId) -> LabelSet {
        LabelSet { bits: Bits::all(self.value_count(key)), open: true, absent: true, range: None }
    }

    /// Everything a set does not accept, and with a range perhaps more.
    pub(crate) fn outside(&self, key: KeyId, set: &LabelSet) -> LabelSet {
        let mut bits = Bits::all(self.value_count(key));
        set.bits.iter().for_each(|value| bits.remove(value));
        LabelSet { bits, open: !set.open || set.range.is_some(), absent: !set.absent, range: None }
    }

    /// The set written out again.
    pub(crate) fn to_value_set(&self, key: KeyId, set: &LabelSet) -> ValueSet {
        let names = &self.keys[key as usize].values;
        if !set.open {
            let values: Vec<Arc<str>> = set.bits.iter().map(|value| names[value].clone()).collect();
            return if values.is_empty() { ValueSet::does_not_exist() } else { ValueSet::only(values) };
        }
        let (at_least, at_most) =
            set.range.as_ref().map_or((None, None), |range| (range.at_least, range.at_most));
        let within = ValueSet::between(at_least, at_most);
        let excluded =
            (0..names.len()).filter(|value| !set.bits.contains(*value) && within.contains(&names[*value]));
        let mut result = ValueSet::not_in(excluded.map(|value| names[value].clone()));
        if set.range.is_some() {
            result = result.intersect(&within);
        }
        if set.absent { result } else { result.without_absence() }
    }
}

/// Conditions on several keys, by key id.
pub(crate) type LabelSets = SmallVec<[(KeyId, LabelSet); 4]>;

/// The acceptable values of one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LabelSet {
    pub(crate) bits: Bits,
    /// Values nobody mentioned are acceptable.
    pub(crate) open: bool,
    /// A missing label is acceptable.
    pub(crate) absent: bool,
    /// The integers within which values nobody mentioned must lie.
    range: Option<Range>,
}

/// Bounds, inclusive, and all integers somebody mentions, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Range {
    at_least: Option<i64>,
    at_most: Option<i64>,
    known: Arc<[i64]>,
}

impl Range {
    fn meet(&self, other: &Self) -> Self {
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { at_least: self.at_least.max(other.at_least), at_most, known: self.known.clone() }
    }

    /// Whether an integer that nobody mentions lies within.
    fn has_unknown(&self) -> bool {
        let (low, high) = (self.at_least.unwrap_or(0), self.at_most.unwrap_or(i64::MAX));
        let known = self
            .known
            .partition_point(|n| *n <= high)
            .saturating_sub(self.known.partition_point(|n| *n < low));
        i128::from(high) - i128::from(low) + 1 > known as i128
    }
}

impl LabelSet {
    /// What both accept, or nothing when that is a contradiction.
    pub(crate) fn meet(&self, other: &Self) -> Option<Self> {
        let bits = self.bits.and(&other.bits);
        let range = match (&self.range, &other.range) {
            (Some(a), Some(b)) => Some(a.meet(b)),
            (a, b) => a.as_ref().or(b.as_ref()).cloned(),
        };
        let open = self.open && other.open && range.as_ref().is_none_or(Range::has_unknown);
        let absent = self.absent && other.absent;
        let met = Self { bits, open, absent, range: range.filter(|_| open) };
        (met.open || met.absent || !met.bits.is_empty()).then_some(met)
    }

    /// Whether both accept something.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.meet(other).is_some()
    }

    /// Whether a node with this value (or without the label) is acceptable.
    pub(crate) fn accepts(&self, value: Option<ValueId>) -> bool {
        value.map_or(self.absent, |value| self.bits.contains(value as usize))
    }

    /// The only acceptable value, when the label must be there and nothing else is possible.
    pub(crate) fn single(&self) -> Option<ValueId> {
        if self.open || self.absent { None } else { self.bits.single().map(|value| value as ValueId) }
    }
}
