//! Which objects have which value of the field that large lists are asked for by.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{Key, StoredObject};

/// The indexed field: whoever looks after a node asks for its pods, again and again.
const INDEXED_FIELD: &str = "spec.nodeName";

/// Where the indexed field stands among the selectable fields of a resource that has it.
pub fn indexed_position(selectable_fields: &[String]) -> Option<usize> {
    selectable_fields.iter().position(|path| path == INDEXED_FIELD)
}

/// The keys of the objects of one resource by the value of the field.
#[derive(Debug, Default)]
pub(super) struct FieldIndex {
    keys: HashMap<Arc<str>, BTreeSet<Arc<Key>>>,
}

impl FieldIndex {
    /// Notes what an object was and what it is now.
    pub(super) fn change(
        &mut self,
        position: usize,
        key: &Arc<Key>,
        before: Option<&StoredObject>,
        after: Option<&StoredObject>,
    ) {
        let value = |object: &StoredObject| object.fields.get(position).cloned();
        let (before, after) = (before.and_then(value), after.and_then(value));
        if before == after {
            return;
        }
        if let Some(before) = before
            && let Some(keys) = self.keys.get_mut(&before)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(&before);
            }
        }
        if let Some(after) = after {
            self.keys.entry(after).or_default().insert(Arc::clone(key));
        }
    }

    /// Returns the keys of the objects with a value, in order.
    pub(super) fn with(&self, value: &str) -> impl Iterator<Item = &Arc<Key>> {
        self.keys.get(value).into_iter().flatten()
    }
}
