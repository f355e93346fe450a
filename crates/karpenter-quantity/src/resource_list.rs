//! Amounts of several resources, by resource name.
//!
//! A resource that a list does not name counts as zero, so lists of different resources add, subtract and compare.
//! Iteration is in the order of names, which keeps every result the same from run to run.

use std::collections::{BTreeMap, btree_map};
use std::iter;

use crate::quantity::Quantity;

/// The resource name of processor time, in cores.
pub const CPU: &str = "cpu";
/// The resource name of memory, in bytes.
pub const MEMORY: &str = "memory";
/// The resource name of the number of pods.
pub const PODS: &str = "pods";
/// The resource name of local disk space, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The resource name under which a `NodePool` limits its number of nodes.
pub const NODES: &str = "nodes";

/// A map from resource name to quantity, ordered by name.
///
/// Two lists are equal when they name the same resources with equal values; naming a resource with zero differs
/// from not naming it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct ResourceList(BTreeMap<String, Quantity>);

/// The entries of a [`ResourceList`] in the order of names.
pub type Iter<'a> =
    iter::Map<btree_map::Iter<'a, String, Quantity>, fn((&'a String, &'a Quantity)) -> (&'a str, Quantity)>;

impl ResourceList {
    /// Returns a list that names no resource.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns the quantity of a resource, zero when the list does not name it.
    pub fn get(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Returns whether the list names a resource, even with zero.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets the quantity of a resource.
    pub fn insert(&mut self, name: impl Into<String>, quantity: Quantity) {
        self.0.insert(name.into(), quantity);
    }

    /// Takes a resource out of the list and returns its quantity, if it was named.
    pub fn remove(&mut self, name: &str) -> Option<Quantity> {
        self.0.remove(name)
    }

    /// Returns the names and quantities in the order of names.
    pub fn iter(&self) -> Iter<'_> {
        self.0.iter().map(|(name, quantity)| (name.as_str(), *quantity))
    }

    /// Returns the names in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.0.keys().map(String::as_str)
    }

    /// Returns how many resources the list names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the list names no resource.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the other list's quantities; the result names the resources of both.
    pub fn merge_add(&mut self, other: &Self) {
        self.merge_with(other, |mine, theirs| mine + theirs);
    }

    /// Raises every quantity to the other list's where that is larger; the result names the resources of both.
    pub fn merge_max(&mut self, other: &Self) {
        self.merge_with(other, |mine, theirs| if theirs > mine { theirs } else { mine });
    }

    /// Subtracts the other list's quantities, below zero if need be.
    ///
    /// Resources that only the other list names are left out: what remains of a limit concerns nothing but what
    /// the limit names.
    pub fn subtract(&mut self, other: &Self) {
        for (name, quantity) in &mut self.0 {
            if let Some(theirs) = other.0.get(name) {
                *quantity -= *theirs;
            }
        }
    }

    /// Returns whether everything asked for here is available in `total`.
    ///
    /// Nothing fits into a total that is negative in any resource, asked for or not: that total is already
    /// overcommitted.
    pub fn fits_within(&self, total: &Self) -> bool {
        total.0.values().all(|quantity| !quantity.is_negative())
            && self.0.iter().all(|(name, quantity)| *quantity <= total.get(name))
    }

    fn merge_with(&mut self, other: &Self, combine: impl Fn(Quantity, Quantity) -> Quantity) {
        for (name, theirs) in &other.0 {
            match self.0.get_mut(name) {
                Some(mine) => *mine = combine(*mine, *theirs),
                None => {
                    self.0.insert(name.clone(), *theirs);
                }
            }
        }
    }
}

impl<N: Into<String>> FromIterator<(N, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(entries: I) -> Self {
        Self(entries.into_iter().map(|(name, quantity)| (name.into(), quantity)).collect())
    }
}

impl<N: Into<String>> Extend<(N, Quantity)> for ResourceList {
    fn extend<I: IntoIterator<Item = (N, Quantity)>>(&mut self, entries: I) {
        self.0.extend(entries.into_iter().map(|(name, quantity)| (name.into(), quantity)));
    }
}

impl<N: Into<String>, const COUNT: usize> From<[(N, Quantity); COUNT]> for ResourceList {
    fn from(entries: [(N, Quantity); COUNT]) -> Self {
        entries.into_iter().collect()
    }
}

impl IntoIterator for ResourceList {
    type Item = (String, Quantity);
    type IntoIter = btree_map::IntoIter<String, Quantity>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a ResourceList {
    type Item = (&'a str, Quantity);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
