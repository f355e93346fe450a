//! Sharing: equal pod specs, label maps and strings become one allocation each.
//!
//! A cluster has far fewer kinds of pods than pods. Sharing keeps memory proportional to the kinds, and lets the solver
//! recognise pods that look alike by comparing pointers.

use std::hash::Hash;
use std::sync::Arc;

use karpenter_core::cluster::{Labels, PodSpec};
use rustc_hash::FxHashSet;

/// Remembers what it has given out and gives it out again for equal values.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    strings: FxHashSet<Arc<str>>,
    labels: FxHashSet<Arc<Labels>>,
    specs: FxHashSet<Arc<PodSpec>>,
}

impl Interner {
    /// The shared copy of a string.
    pub fn string(&mut self, text: &str) -> Arc<str> {
        if let Some(present) = self.strings.get(text) {
            return present.clone();
        }
        let shared: Arc<str> = text.into();
        self.strings.insert(shared.clone());
        shared
    }

    /// The shared copy of a label map.
    pub fn labels(&mut self, labels: Labels) -> Arc<Labels> {
        share(&mut self.labels, labels)
    }

    /// The shared copy of a label map given as plain strings.
    pub fn label_map<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Arc<Labels> {
        let labels = labels.into_iter().map(|(key, value)| (self.string(key), self.string(value))).collect();
        self.labels(labels)
    }

    /// The shared copy of a pod spec.
    pub fn spec(&mut self, spec: PodSpec) -> Arc<PodSpec> {
        share(&mut self.specs, spec)
    }

    /// Forgets what nobody else holds any more. Call it now and then in a long-lived process.
    pub fn forget_unused(&mut self) {
        self.specs.retain(|spec| Arc::strong_count(spec) > 1);
        self.labels.retain(|labels| Arc::strong_count(labels) > 1);
        self.strings.retain(|text| Arc::strong_count(text) > 1);
    }
}

fn share<T: Eq + Hash>(known: &mut FxHashSet<Arc<T>>, value: T) -> Arc<T> {
    if let Some(present) = known.get(&value) {
        return present.clone();
    }
    let shared = Arc::new(value);
    known.insert(shared.clone());
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_specs_share_one_allocation_until_nobody_uses_them() {
        let mut interner = Interner::default();
        let first = interner.spec(PodSpec::default());
        let second = interner.spec(PodSpec::default());
        assert!(Arc::ptr_eq(&first, &second));
        let other = interner.spec(PodSpec { uses_dynamic_resources: true, ..PodSpec::default() });
        assert!(!Arc::ptr_eq(&first, &other));
        drop(other);
        interner.forget_unused();
        assert_eq!(interner.specs.len(), 1);
    }
}
