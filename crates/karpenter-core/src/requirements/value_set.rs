//! The meaning of requirements on one label key: acceptable values, integer bounds, and whether the label may be absent.
//!
//! Values are text; a bound accepts the text of an integer, leading zeros included (`Gt 4` accepts `05`), as Kubernetes does.
//! No label value starts with a sign, so there is nothing below zero: `Lt 0` accepts nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::parse::Operator;

/// The label values one key may take, and whether the key may be missing.
///
/// `listed` holds the acceptable values, or the unacceptable ones when `complement` is set. Bounds are inclusive, only integers
/// lie within them, and only a complement has them; `absent` is never set beside them. The empty set with `absent == false` is
/// a contradiction: no node can ever satisfy it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueSet {
    listed: BTreeSet<Arc<str>>,
    complement: bool,
    at_least: Option<i64>,
    at_most: Option<i64>,
    absent: bool,
}

impl ValueSet {
    /// Every value, present or not: what a missing requirement means.
    pub fn anything() -> Self {
        Self { listed: BTreeSet::new(), complement: true, at_least: None, at_most: None, absent: true }
    }

    /// The label must be present with one of `values`.
    pub fn only<V: Into<Arc<str>>>(values: impl IntoIterator<Item = V>) -> Self {
        let listed = values.into_iter().map(Into::into).collect();
        Self { listed, complement: false, at_least: None, at_most: None, absent: false }
    }

    /// The label must not be present.
    pub fn does_not_exist() -> Self {
        Self { listed: BTreeSet::new(), complement: false, at_least: None, at_most: None, absent: true }
    }

    /// The label must be present, with any value.
    pub fn exists() -> Self {
        Self { absent: false, ..Self::anything() }
    }

    /// Any value but `values`, or no label at all.
    pub fn not_in<V: Into<Arc<str>>>(values: impl IntoIterator<Item = V>) -> Self {
        Self { listed: values.into_iter().map(Into::into).collect(), ..Self::anything() }
    }

    /// An integer of at least `at_least` and at most `at_most`.
    pub fn between(at_least: Option<i64>, at_most: Option<i64>) -> Self {
        Self { at_least, at_most, ..Self::exists() }.normalized()
    }

    /// The set one requirement stands for. Values of numeric operators have been validated; an unreadable one accepts nothing.
    pub fn of(operator: Operator, values: &[Arc<str>]) -> Self {
        let bound = || values.first().and_then(|value| value.parse::<i64>().ok());
        let nothing = || Self::only::<Arc<str>>([]);
        match operator {
            Operator::In => Self::only(values.iter().cloned()),
            Operator::NotIn => Self::not_in(values.iter().cloned()),
            Operator::Exists => Self::exists(),
            Operator::DoesNotExist => Self::does_not_exist(),
            Operator::Gt => match bound().and_then(|n| n.checked_add(1)) {
                Some(n) => Self::between(Some(n), None),
                None => nothing(),
            },
            Operator::Lt => match bound().and_then(|n| n.checked_sub(1)) {
                Some(n) => Self::between(None, Some(n)),
                None => nothing(),
            },
            Operator::Gte => bound().map_or_else(nothing, |n| Self::between(Some(n), None)),
            Operator::Lte => bound().map_or_else(nothing, |n| Self::between(None, Some(n))),
        }
    }

    /// The values acceptable to both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let at_least = self.at_least.max(other.at_least);
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let listed = match (self.complement, other.complement) {
            (true, true) => self.listed.union(&other.listed).cloned().collect(),
            (true, false) => other.listed.difference(&self.listed).cloned().collect(),
            (false, true) => self.listed.difference(&other.listed).cloned().collect(),
            (false, false) => self.listed.intersection(&other.listed).cloned().collect(),
        };
        let complement = self.complement && other.complement;
        Self { listed, complement, at_least, at_most, absent: self.absent && other.absent }.normalized()
    }

    /// Whether something is acceptable to both: the same as asking whether their intersection is no contradiction, without
    /// building it where one side lists its values.
    pub fn meets(&self, other: &Self) -> bool {
        if self.absent && other.absent {
            return true;
        }
        match (self.complement, other.complement) {
            (true, true) => !self.intersect(other).is_contradiction(),
            (true, false) => other.listed.iter().any(|value| self.contains(value)),
            (false, _) => self.listed.iter().any(|value| other.contains(value)),
        }
    }

    /// Whether no value at all is acceptable and absence is not either.
    ///
    /// A range from which every integer is excluded counts as empty: the same integers with leading zeros would be within it,
    /// but unless somebody lists such a value, nobody means it.
    pub fn is_contradiction(&self) -> bool {
        !self.absent && !self.has_values()
    }

    /// Whether some value is acceptable.
    pub fn has_values(&self) -> bool {
        self.is_open() || (!self.complement && !self.listed.is_empty())
    }

    /// Whether a node without the label is acceptable.
    pub fn allows_absent(&self) -> bool {
        self.absent
    }

    /// Whether a node with this value is acceptable.
    pub fn contains(&self, value: &str) -> bool {
        self.listed.contains(value) != self.complement && self.within_bounds(value)
    }

    /// Whether a node carrying `value`, or lacking the label, is acceptable.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        value.map_or(self.absent, |value| self.contains(value))
    }

    /// The finite list of acceptable values, when there is one.
    pub fn values(&self) -> Option<impl ExactSizeIterator<Item = &Arc<str>>> {
        let acceptable = if self.complement { 0 } else { self.listed.len() };
        (!self.is_open()).then(|| self.listed.iter().take(acceptable))
    }

    /// The values excluded from an otherwise open set, when it is open.
    pub fn excluded(&self) -> Option<impl ExactSizeIterator<Item = &Arc<str>>> {
        self.is_open().then(|| self.listed.iter())
    }

    /// Every value named in the set, acceptable or excluded.
    pub fn mentioned(&self) -> impl Iterator<Item = &Arc<str>> {
        self.listed.iter()
    }

    /// The single acceptable value, when exactly one is left.
    pub fn single(&self) -> Option<&Arc<str>> {
        (!self.complement && self.listed.len() == 1).then(|| self.listed.first()).flatten()
    }

    /// The same set for a node known to carry the label.
    #[must_use]
    pub fn without_absence(mut self) -> Self {
        self.absent = false;
        self
    }

    /// Inclusive integer bounds.
    pub fn bounds(&self) -> (Option<i64>, Option<i64>) {
        (self.at_least, self.at_most)
    }

    /// The set as operators and values, which combined mean the same again. `Gt` and `Lt` come out as `Gte` and `Lte`.
    pub(super) fn written(&self) -> Vec<(Operator, Vec<Arc<str>>)> {
        let listed = || self.listed.iter().cloned().collect();
        match (self.complement, self.listed.is_empty(), self.absent) {
            (false, false, _) => return vec![(Operator::In, listed())],
            (false, true, true) => return vec![(Operator::DoesNotExist, Vec::new())],
            // No single line accepts nothing at all; `DoesNotExist` alone would accept nodes without the label.
            (false, true, false) => {
                return vec![(Operator::Exists, Vec::new()), (Operator::DoesNotExist, Vec::new())];
            }
            (true, ..) => {}
        }
        let bound =
            |operator, bound: Option<i64>| bound.map(|bound| (operator, vec![bound.to_string().into()]));
        let mut lines: Vec<_> = bound(Operator::Gte, self.at_least).into_iter().collect();
        lines.extend(bound(Operator::Lte, self.at_most));
        if lines.is_empty() && !self.absent {
            lines.push((Operator::Exists, Vec::new()));
        }
        if !self.listed.is_empty() {
            lines.push((Operator::NotIn, listed()));
        }
        lines
    }

    fn is_bounded(&self) -> bool {
        self.at_least.is_some() || self.at_most.is_some()
    }

    /// Whether values that nobody mentions are acceptable.
    fn is_open(&self) -> bool {
        self.complement && !self.excludes_whole_range()
    }

    fn within_bounds(&self, value: &str) -> bool {
        if !self.is_bounded() {
            return true;
        }
        integer(value).is_some_and(|n| {
            self.at_least.is_none_or(|bound| n >= bound) && self.at_most.is_none_or(|bound| n <= bound)
        })
    }

    /// Drops what bounds make redundant.
    fn normalized(mut self) -> Self {
        if !self.is_bounded() {
            return self;
        }
        self.at_least = self.at_least.map(|bound| bound.max(0));
        let kept: BTreeSet<_> =
            self.listed.iter().filter(|value| self.within_bounds(value)).cloned().collect();
        self.listed = kept;
        if self.at_most.is_some_and(|high| high < self.at_least.unwrap_or(0)) {
            self.listed.clear();
            self.complement = false;
        }
        if !self.complement {
            self.at_least = None;
            self.at_most = None;
        }
        self
    }

    /// Whether bounds are there and every integer between them is excluded.
    fn excludes_whole_range(&self) -> bool {
        if !(self.complement && self.is_bounded()) {
            return false;
        }
        let (low, high) = (self.at_least.unwrap_or(0), self.at_most.unwrap_or(i64::MAX));
        let width = i128::from(high) - i128::from(low) + 1;
        width <= self.listed.len() as i128
            && (low..=high).all(|n| self.listed.contains(n.to_string().as_str()))
    }
}

/// The integer a label value spells.
fn integer(value: &str) -> Option<i64> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { value.parse().ok() } else { None }
}
