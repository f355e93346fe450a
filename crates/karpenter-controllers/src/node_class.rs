//! NodeClasses, as far as pools care: is it there, is it ready.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use karpenter_api::condition::READY;
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_provider::NodeClassObject;
use karpenter_runtime::{Caches, Change, Controller, Handle, Key, Kind, Outcome, View, Wakes, Watches};

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
type Known = BTreeMap<NodeClassReference, (Readiness, Option<i64>)>;

/// Every NodeClass there is, shared between the controllers of one process.
#[derive(Clone, Debug, Default)]
pub struct NodeClasses {
    known: Arc<Mutex<Known>>,
}

impl NodeClasses {
    /// Returns whether nodes can be launched with the NodeClass.
    pub fn readiness(&self, class: &NodeClassReference) -> Readiness {
        self.lock().get(class).map_or(Readiness::Missing, |(readiness, _)| readiness.clone())
    }

    /// Returns how often what the NodeClass asks for has changed.
    pub fn generation(&self, class: &NodeClassReference) -> Option<i64> {
        self.lock().get(class).and_then(|(_, generation)| *generation)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps [`NodeClasses`] up to date for one kind, and wakes the pools and claims that use what changed.
pub(crate) struct NodeClassKeeper<C> {
    classes: NodeClasses,
    handle: Handle,
    kind: PhantomData<fn() -> C>,
}

impl<C> NodeClassKeeper<C> {
    /// A keeper of `classes` that wakes pools through `handle`.
    pub(crate) fn new(classes: NodeClasses, handle: Handle) -> Self {
        Self { classes, handle, kind: PhantomData }
    }
}

impl<C: Kind + NodeClassObject> Controller for NodeClassKeeper<C> {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "nodeclass"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<C>();
        watches.reads::<NodePool>();
        watches.reads::<NodeClaim>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, _: &mut Wakes) {
        let Some(delta) = change.of::<C>() else { return };
        let reference = NodeClassReference {
            group: C::group(&()).into_owned(),
            kind: C::kind(&()).into_owned(),
            name: change.key().name().to_owned(),
        };
        let readiness = delta.new.map_or(Readiness::Missing, readiness);
        let generation = delta.new.and_then(|class| class.meta().generation);
        self.classes.lock().insert(reference.clone(), (readiness, generation));
        for (key, pool) in caches.of::<NodePool>().iter() {
            if pool.spec.template.spec.node_class_ref == reference {
                self.handle.wake(crate::nodepool::NAME, key.clone());
                self.handle.wake(crate::lint::NAME, key.clone());
            }
        }
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
