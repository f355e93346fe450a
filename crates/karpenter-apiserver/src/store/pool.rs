//! One copy of what many objects have in common.
//!
//! Pods of one workload have the same labels, the same owner, the same list of owned fields; nodes of one pool differ in
//! little more than their name. Such parts are kept once and shared. The pool belongs to the process, not to a store:
//! it holds nothing but text, and a part that no object has any more is dropped when the pool has doubled.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::Owner;

/// The labels of an object, sorted by key.
pub type Labels = [(Box<str>, Box<str>)];

/// Parts are looked through for unused ones when there are at least this many.
const SWEEP_MIN: usize = 1024;

#[derive(Debug, Default)]
struct Pool {
    texts: Parts<str>,
    labels: Parts<Labels>,
    owners: Parts<Owner>,
}

static POOL: LazyLock<Mutex<Pool>> = LazyLock::new(Mutex::default);

/// What an object asks the pool for.
pub(super) struct Wanted<'v> {
    /// Texts that may be the same in other objects.
    pub(super) texts: Vec<&'v str>,
    pub(super) labels: Vec<(Box<str>, Box<str>)>,
    pub(super) owners: Vec<Owner>,
}

/// What it gets, in the same order.
pub(super) struct Shared {
    pub(super) texts: Vec<Arc<str>>,
    pub(super) labels: Arc<Labels>,
    pub(super) owners: Box<[Arc<Owner>]>,
}

/// Shares parts of an object with others that have the same.
pub(super) fn share(wanted: Wanted<'_>) -> Shared {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    Shared {
        texts: wanted.texts.into_iter().map(|text| pool.texts.shared(text, Arc::from)).collect(),
        labels: pool.labels.shared(wanted.labels, Arc::from),
        owners: wanted.owners.into_iter().map(|owner| pool.owners.shared(owner, Arc::new)).collect(),
    }
}

#[derive(Debug)]
struct Parts<T: ?Sized> {
    known: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Parts<T> {
    fn default() -> Self {
        Self { known: HashSet::new(), sweep_at: SWEEP_MIN }
    }
}

impl<T: ?Sized + Eq + Hash> Parts<T> {
    fn shared<B: std::borrow::Borrow<T>>(&mut self, part: B, make: impl FnOnce(B) -> Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(part.borrow()) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|part| Arc::strong_count(part) > 1);
            self.sweep_at = SWEEP_MIN.max(self.known.len() * 2);
        }
        let new = make(part);
        self.known.insert(Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_are_one_and_unused_ones_are_dropped() {
        let mut parts = Parts::<str>::default();
        let first = parts.shared("a", Arc::from);
        assert!(Arc::ptr_eq(&first, &parts.shared("a", Arc::from)));
        for index in 0..10 * SWEEP_MIN {
            parts.shared(index.to_string().as_str(), Arc::from);
        }
        assert!(parts.known.len() <= SWEEP_MIN);
        assert!(Arc::ptr_eq(&first, &parts.shared("a", Arc::from)), "what is in use stays");
    }
}
