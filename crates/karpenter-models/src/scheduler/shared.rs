//! Values that many users share, by what they are made from.
//!
//! Ids are small numbers and are used again after the last user has gone, so tables indexed by them stay small in
//! simulations that run for days.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Values of type `V`, each made once from its key `K`.
#[derive(Clone, Debug)]
pub(crate) struct Shared<K, V> {
    slots: Vec<Option<Slot<K, V>>>,
    free: Vec<u32>,
    index: FxHashMap<Arc<K>, u32>,
}

#[derive(Clone, Debug)]
struct Slot<K, V> {
    key: Arc<K>,
    value: V,
    users: u32,
}

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), index: FxHashMap::default() }
    }
}

impl<K: Eq + Hash, V> Shared<K, V> {
    /// Returns the id of the value of `key` if there is one, and counts one more user.
    pub(crate) fn join(&mut self, key: &K) -> Option<u32> {
        let id = *self.index.get(key)?;
        self.slot_mut(id).users += 1;
        Some(id)
    }

    /// Files a new value under `key` with its first user.
    pub(crate) fn insert(&mut self, key: impl Into<Arc<K>>, value: V) -> u32 {
        let key = key.into();
        let slot = Some(Slot { key: Arc::clone(&key), value, users: 1 });
        let id = if let Some(id) = self.free.pop() {
            self.slots[id as usize] = slot;
            id
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("fewer than four billion values")
        };
        self.index.insert(key, id);
        id
    }

    /// Counts one user less; returns the value after the last one.
    pub(crate) fn leave(&mut self, id: u32) -> Option<(Arc<K>, V)> {
        let slot = self.slot_mut(id);
        slot.users -= 1;
        if slot.users > 0 {
            return None;
        }
        let slot = self.slots[id as usize].take().expect("the slot was there a line ago");
        self.index.remove(&slot.key);
        self.free.push(id);
        Some((slot.key, slot.value))
    }

    pub(crate) fn key(&self, id: u32) -> &Arc<K> {
        &self.slot(id).key
    }

    pub(crate) fn get(&self, id: u32) -> &V {
        &self.slot(id).value
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut V {
        &mut self.slot_mut(id).value
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &K, &V)> {
        let ids = 0_u32..;
        ids.zip(&self.slots).filter_map(|(id, slot)| slot.as_ref().map(|slot| (id, &*slot.key, &slot.value)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &K, &mut V)> {
        let ids = 0_u32..;
        ids.zip(&mut self.slots)
            .filter_map(|(id, slot)| slot.as_mut().map(|slot| (id, &*slot.key, &mut slot.value)))
    }

    fn slot(&self, id: u32) -> &Slot<K, V> {
        self.slots[id as usize].as_ref().expect("an id is used only while its value has users")
    }

    fn slot_mut(&mut self, id: u32) -> &mut Slot<K, V> {
        self.slots[id as usize].as_mut().expect("an id is used only while its value has users")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_share_a_value_until_the_last_user_leaves() {
        let mut shared: Shared<&str, u8> = Shared::default();
        let first = shared.insert("a", 1);
        assert_eq!(shared.join(&"a"), Some(first));
        assert!(shared.leave(first).is_none());
        assert_eq!(shared.leave(first).map(|(_, value)| value), Some(1));
        assert_eq!(shared.join(&"a"), None);
        assert_eq!(shared.insert("b", 2), first);
    }
}
