//! What is known of the cluster: one cache per watched kind, fed by watches and by the answers to our own writes.
//!
//! Two sources may tell of one object in any order, so every object is kept at the newest resourceVersion heard of.
//! Since Kubernetes 1.35 resource versions of one kind may be compared as numbers; servers before that behave so too.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map};
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::key::Key;

/// An object type that can be kept in a cache: a watched one, or a lean one made from it with what matters.
pub trait Kept: Resource<DynamicType = ()> + Send + Sync + 'static {}

impl<K> Kept for K where K: Resource<DynamicType = ()> + Send + Sync + 'static {}

/// The objects of one kind, in the order of their keys.
#[derive(Debug)]
pub struct Cache<K> {
    places: Places,
    /// The objects in no order, with holes.
    objects: Vec<Option<Arc<K>>>,
    gone: Gone,
}

/// Where each object lies. It knows no kind, so an ordered map is compiled once and not for each of them.
#[derive(Debug, Default)]
struct Places {
    by_key: BTreeMap<Key, usize>,
    free: Vec<usize>,
}

impl Places {
    fn find(&self, key: &Key) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// Finds or makes the place of `key` among `len` places.
    fn take(&mut self, key: Key, len: usize) -> usize {
        let free = &mut self.free;
        *self.by_key.entry(key).or_insert_with(|| free.pop().unwrap_or(len))
    }

    fn give_back(&mut self, key: &Key) -> Option<usize> {
        let place = self.by_key.remove(key)?;
        self.free.push(place);
        Some(place)
    }

    fn iter(&self) -> btree_map::Iter<'_, Key, usize> {
        self.by_key.iter()
    }

    fn from(&self, key: &Key) -> btree_map::Range<'_, Key, usize> {
        self.by_key.range(key..)
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { places: Places::default(), objects: Vec::new(), gone: Gone::default() }
    }
}

impl<K: Kept> Cache<K> {
    /// Returns the object named `key`.
    pub fn get(&self, key: &Key) -> Option<&Arc<K>> {
        self.objects[self.places.find(key)?].as_ref()
    }

    /// Returns all objects in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Key, &Arc<K>)> {
        self.places.iter().map(|(key, place)| (key, self.at(*place)))
    }

    /// Returns the objects of one namespace in the order of their names.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        self.places
            .from(&Key::namespaced(namespace, ""))
            .take_while(move |(key, _)| key.namespace() == Some(namespace))
            .map(|(_, place)| self.at(*place))
    }

    /// Returns how many objects there are.
    pub fn len(&self) -> usize {
        self.places.by_key.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.by_key.is_empty()
    }

    fn at(&self, place: usize) -> &Arc<K> {
        self.objects[place].as_ref().expect("a place that is taken holds an object")
    }

    fn insert(&mut self, key: Key, object: Arc<K>) -> Option<Arc<K>> {
        let place = self.places.take(key, self.objects.len());
        if place == self.objects.len() {
            self.objects.push(None);
        }
        self.objects[place].replace(object)
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<K>> {
        self.objects[self.places.give_back(key)?].take()
    }

    /// Takes in an object as it is at its resourceVersion, unless something newer is known.
    pub(crate) fn observe(&mut self, object: K) -> Option<Change> {
        let key = Key::of(&object);
        if object.meta().uid.as_ref().is_some_and(|uid| self.gone.contains(uid)) {
            return None;
        }
        if self.get(&key).is_some_and(|known| !newer(&object, known)) {
            return None;
        }
        let object = Arc::new(object);
        let old = self.insert(key.clone(), Arc::clone(&object));
        Some(Change::new(key, old, Some(object)))
    }

    /// Takes in that the watch saw an object go. A namesake made since stays.
    pub(crate) fn observe_deletion(&mut self, gone: &ObjectMeta) -> Option<Change> {
        self.gone.note(gone.uid.as_deref());
        let key = Key::of_meta(gone);
        let known = self.get(&key)?;
        if known.meta().uid != gone.uid {
            return None;
        }
        let old = self.remove(&key);
        Some(Change::new(key, old, None))
    }

    /// Takes in that our own write removed the object `key`.
    pub(crate) fn forget(&mut self, key: &Key) -> Option<Change> {
        let old = self.remove(key)?;
        self.gone.note(old.meta().uid.as_deref());
        Some(Change::new(key.clone(), Some(old), None))
    }

    /// Takes in a complete list made at `version`: whatever it lacks and is not newer than it is gone.
    pub(crate) fn observe_list(&mut self, listed: &BTreeSet<Key>, version: Option<u64>) -> Vec<Change> {
        let gone: Vec<Key> = self
            .iter()
            .filter(|(key, object)| !listed.contains(*key) && !newer_than(&***object, version))
            .map(|(key, _)| key.clone())
            .collect();
        gone.into_iter()
            .map(|key| {
                let old = self.remove(&key);
                self.gone.note(old.as_ref().and_then(|old| old.meta().uid.as_deref()));
                Change::new(key, old, None)
            })
            .collect()
    }
}

/// How many deletions of a kind are remembered.
const REMEMBERED: usize = 4096;

/// Uids of objects that are gone for good. The answer to a write may arrive after the watch has told that the object is
/// gone, and a list may be older than a deletion of our own: what is gone must not come back.
#[derive(Debug, Default)]
struct Gone {
    uids: FxHashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Gone {
    fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    fn note(&mut self, uid: Option<&str>) {
        let Some(uid) = uid.filter(|uid| !self.contains(uid)) else { return };
        let uid: Arc<str> = uid.into();
        self.order.push_back(Arc::clone(&uid));
        self.uids.insert(uid);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

/// Whether `object` says more than `known`. Where versions are not numbers, the last word counts.
fn newer<K: Kept>(object: &K, known: &K) -> bool {
    let held = resource_version(known);
    held.is_none() || resource_version(object).is_none() || newer_than(object, held)
}

fn newer_than<K: Kept>(object: &K, version: Option<u64>) -> bool {
    matches!((resource_version(object), version), (Some(object), Some(version)) if object > version)
}

/// The resourceVersion as a number, if the server's are numbers.
pub(crate) fn resource_version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok())
}

type Erased = Arc<dyn Any + Send + Sync>;

/// One object became another, appeared or went.
#[derive(Clone, Debug)]
pub struct Change {
    kind: TypeId,
    key: Key,
    old: Option<Erased>,
    new: Option<Erased>,
}

/// A change of an object of a known kind.
#[derive(Debug)]
pub struct Delta<'a, K> {
    /// The object before, if it was there.
    pub old: Option<&'a K>,
    /// The object now, if it is there.
    pub new: Option<&'a K>,
}

impl<'a, K> Delta<'a, K> {
    /// Returns the object as it is, or as it was last if it is gone.
    ///
    /// # Panics
    ///
    /// Never: a change has an object before or after.
    pub fn latest(&self) -> &'a K {
        self.new.or(self.old).expect("a change has an object before or after")
    }
}

impl Change {
    fn new<K: Kept>(key: Key, old: Option<Arc<K>>, new: Option<Arc<K>>) -> Self {
        let erase = |object: Arc<K>| -> Erased { object };
        Self { kind: TypeId::of::<K>(), key, old: old.map(erase), new: new.map(erase) }
    }

    /// Returns the key of the object that changed.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the change if it is of kind `K`.
    pub fn of<K: Kept>(&self) -> Option<Delta<'_, K>> {
        (self.kind == TypeId::of::<K>()).then(|| Delta {
            old: self.old.as_ref().and_then(|object| object.downcast_ref()),
            new: self.new.as_ref().and_then(|object| object.downcast_ref()),
        })
    }

    pub(crate) fn kind(&self) -> TypeId {
        self.kind
    }
}

/// Every cache of a runtime, by kind.
#[derive(Default)]
pub struct Caches {
    caches: FxHashMap<TypeId, Box<dyn Any + Send>>,
}

impl Caches {
    /// Returns the cache of kind `K`.
    ///
    /// # Panics
    ///
    /// If no controller of the runtime watches `K`: a controller reads only what it declared in
    /// [`Controller::watches`](crate::Controller::watches).
    pub fn of<K: Kept>(&self) -> &Cache<K> {
        self.caches
            .get(&TypeId::of::<K>())
            .and_then(|cache| cache.downcast_ref())
            .unwrap_or_else(|| panic!("{} is read but not watched", std::any::type_name::<K>()))
    }

    pub(crate) fn of_mut<K: Kept>(&mut self) -> &mut Cache<K> {
        self.caches
            .entry(TypeId::of::<K>())
            .or_insert_with(|| Box::<Cache<K>>::default())
            .downcast_mut()
            .expect("a cache is filed under its own kind")
    }
}
