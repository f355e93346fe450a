//! NodeClasses, as far as pools care: is it there, is it ready.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use karpenter_api::condition::READY;
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_environment::Environment;
use karpenter_provider::NodeClassObject;
use karpenter_runtime::{
    Caches, Change, Controller, Handle, Key, Kind, Outcome, Runtime, View, Wakes, Watches,
};

use crate::metrics::Transitions;

/// Whether nodes can be launched with a NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Readiness {
    Missing,
    Terminating,
    Unknown,
    NotReady { reason: String, message: String },
    Ready,
}

/// Readiness and generation of each NodeClass.
pub(crate) type Readinesses = BTreeMap<NodeClassReference, (Readiness, Option<i64>)>;

/// A NodeClass.
#[derive(Clone, Debug)]
struct Known {
    readiness: Readiness,
    /// What scrapes show of it, while it is there.
    object: Option<Conditioned>,
}

/// An object's name and conditions.
#[derive(Clone, Debug)]
pub(crate) struct Conditioned {
    pub(crate) meta: ObjectMeta,
    pub(crate) conditions: Vec<Condition>,
}

impl Conditioned {
    fn of<C: Kind + NodeClassObject>(class: &C) -> Self {
        let meta = class.meta();
        let meta = ObjectMeta {
            name: meta.name.clone(),
            generation: meta.generation,
            deletion_timestamp: meta.deletion_timestamp.clone(),
            ..ObjectMeta::default()
        };
        Self { meta, conditions: class.conditions().to_vec() }
    }
}

/// Every NodeClass there is, shared between the controllers of one process.
#[derive(Clone, Default)]
pub struct NodeClasses {
    known: Arc<Mutex<BTreeMap<NodeClassReference, Known>>>,
    transitions: Transitions,
}

impl NodeClasses {
    /// No classes yet; how their conditions change is counted in `transitions`.
    pub(crate) fn new(transitions: Transitions) -> Self {
        Self { known: Arc::default(), transitions }
    }

    /// Returns whether nodes can be launched with the NodeClass.
    pub fn readiness(&self, class: &NodeClassReference) -> Readiness {
        self.lock().get(class).map_or(Readiness::Missing, |known| known.readiness.clone())
    }

    /// Returns how often what the NodeClass asks for has changed.
    pub fn generation(&self, class: &NodeClassReference) -> Option<i64> {
        self.lock().get(class).and_then(Known::generation)
    }

    /// Everything that is known, to see later whether it has changed.
    pub(crate) fn readinesses(&self) -> Readinesses {
        let known = self.lock();
        let all = known.iter();
        all.map(|(class, known)| (class.clone(), (known.readiness.clone(), known.generation()))).collect()
    }

    /// The classes that are there.
    pub(crate) fn objects(&self) -> Vec<(NodeClassReference, Conditioned)> {
        let known = self.lock();
        known.iter().filter_map(|(class, known)| Some((class.clone(), known.object.clone()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeClassReference, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn generation(&self) -> Option<i64> {
        self.object.as_ref().and_then(|object| object.meta.generation)
    }
}

/// Adds a controller that keeps NodeClasses of one kind up to date; see [`keep`].
pub type KeepNodeClass = fn(&NodeClasses, &mut Runtime);

/// Adds a controller that keeps NodeClasses of kind `C` up to date.
pub fn keep<C: Kind + NodeClassObject>(classes: &NodeClasses, runtime: &mut Runtime) {
    let keeper = NodeClassKeeper::<C>::new(classes.clone(), runtime);
    runtime.add(keeper);
}

/// As [`keep`], for a kind that clusters may do without: until it is served, there are no classes of it.
pub fn keep_if_served<C: Kind + NodeClassObject>(classes: &NodeClasses, runtime: &mut Runtime) {
    let keeper = NodeClassKeeper::<C>::new(classes.clone(), runtime);
    runtime.add(NodeClassKeeper { is_optional: true, ..keeper });
}

/// Keeps [`NodeClasses`] up to date for one kind, and wakes the pools and claims that use what changed.
pub(crate) struct NodeClassKeeper<C> {
    classes: NodeClasses,
    handle: Handle,
    /// Whether clusters may do without the kind.
    is_optional: bool,
    environment: Arc<dyn Environment>,
    /// What is there at the beginning is no news.
    begun: bool,
    kind: PhantomData<fn() -> C>,
}

impl<C> NodeClassKeeper<C> {
    /// A keeper of `classes` on `runtime`.
    pub(crate) fn new(classes: NodeClasses, runtime: &Runtime) -> Self {
        let (handle, environment) = (runtime.handle(), runtime.environment());
        Self { classes, handle, is_optional: false, environment, begun: false, kind: PhantomData }
    }
}

impl<C: Kind + NodeClassObject> Controller for NodeClassKeeper<C> {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "nodeclass"
    }

    fn watches(&self, watches: &mut Watches) {
        if self.is_optional {
            watches.add_if_served::<C>();
        } else {
            watches.add::<C>();
        }
        watches.reads::<NodePool>();
        watches.reads::<NodeClaim>();
    }

    fn begin(&mut self, _: &Caches, _: &mut Wakes) {
        self.begun = true;
    }

    fn wake(&mut self, change: &Change, caches: &Caches, _: &mut Wakes) {
        let Some(delta) = change.of::<C>() else { return };
        let reference = NodeClassReference {
            group: C::group(&()).into_owned(),
            kind: C::kind(&()).into_owned(),
            name: change.key().name().to_owned(),
        };
        let readiness = delta.new.map_or(Readiness::Missing, readiness);
        let object = delta.new.map(Conditioned::of);
        if self.begun {
            let (old, now) = (delta.old.map(Conditioned::of), self.environment.now());
            self.classes.transitions.see_class(&reference, old.as_ref(), object.as_ref(), now);
        }
        self.classes.lock().insert(reference.clone(), Known { readiness, object });
        for (key, pool) in caches.of::<NodePool>().iter() {
            if pool.spec.template.spec.node_class_ref == reference {
                self.handle.wake(crate::nodepool::NAME, key.clone());
                self.handle.wake(crate::lint::NAME, key.clone());
            }
        }
        self.handle.wake(crate::overlays::NAME, Key::everything());
        for (key, claim) in caches.of::<NodeClaim>().iter() {
            if claim.spec.node_class_ref == reference {
                self.handle.wake(crate::nodeclaim::DRIFT_DETECTION, key.clone());
            }
        }
    }

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Infallible> {
        Outcome::done()
    }
}

fn readiness<C: Kind + NodeClassObject>(class: &C) -> Readiness {
    if class.meta().deletion_timestamp.is_some() {
        return Readiness::Terminating;
    }
    match class.conditions().iter().find(|condition| condition.type_ == READY) {
        Some(ready) if ready.status == "True" => Readiness::Ready,
        Some(ready) if ready.status == "False" => {
            Readiness::NotReady { reason: ready.reason.clone(), message: ready.message.clone() }
        }
        _ => Readiness::Unknown,
    }
}
