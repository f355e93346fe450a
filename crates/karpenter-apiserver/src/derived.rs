//! Values computed from whole resources of the store and kept until one of their objects changes.

use std::sync::{Arc, Mutex, PoisonError};

use crate::store::{Key, Store, StoredObject};

/// The objects of a resource.
pub(crate) type Objects = Vec<(Arc<Key>, Arc<StoredObject>)>;

/// How many objects each resource has and the newest revision among them. Revisions only grow, so a state with the
/// same newest revision and the same number of objects has the same objects.
type Fingerprint<const N: usize> = [(usize, u64); N];

/// A value computed from `N` resources.
#[derive(Debug)]
pub(crate) struct Derived<T, const N: usize> {
    resources: [&'static str; N],
    latest: Mutex<Option<(Fingerprint<N>, Arc<T>)>>,
}

impl<T, const N: usize> Derived<T, N> {
    pub(crate) fn from(resources: [&'static str; N]) -> Self {
        Self { resources, latest: Mutex::new(None) }
    }

    /// Returns the value for the present state of the store.
    pub(crate) fn current(&self, store: &Store, compute: impl FnOnce(&[Objects; N]) -> T) -> Arc<T> {
        let objects = self.resources.map(|resource| {
            store.list(resource, None, None, None).map(|page| page.objects).unwrap_or_default()
        });
        let fingerprint: Fingerprint<N> = std::array::from_fn(|index| {
            let newest = objects[index].iter().map(|(_, object)| object.revision).max();
            (objects[index].len(), newest.unwrap_or(0))
        });
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some((known, value)) if *known == fingerprint => Arc::clone(value),
            _ => {
                let value = Arc::new(compute(&objects));
                *latest = Some((fingerprint, Arc::clone(&value)));
                value
            }
        }
    }
}
