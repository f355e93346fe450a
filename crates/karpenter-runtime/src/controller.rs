//! What a controller is: it says what it watches, which keys a change wakes, and what to do about a key.

use std::any::TypeId;
use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_environment::Environment;
use kube::core::Status;

use crate::cache::{Caches, Change, Kept};
use crate::key::Key;
use crate::kind::Kind;
use crate::watch::Watch;
use crate::write::Write;

/// Decides; does nothing itself.
pub trait Controller: Send + 'static {
    /// Work outside the Kubernetes API that this controller asks for (a cloud call, a long computation), as data.
    /// `std::convert::Infallible` if there is none.
    type Request: Request;
    /// What comes back for a request.
    type Reply: Send + 'static;

    /// A short name for logs.
    fn name(&self) -> &'static str;

    /// Declares the kinds this controller reads.
    fn watches(&self, watches: &mut Watches);

    /// Wakes keys that must be looked at although nothing changed; called once everything has been listed.
    fn begin(&mut self, caches: &Caches, wakes: &mut Wakes) {
        let _ = (caches, wakes);
    }

    /// Wakes the keys that a change concerns. Also the place to keep indexes: every change passes here once, the first
    /// list included, in the order in which it entered the caches.
    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes);

    /// Says what to do about `key` now.
    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Self::Request>;

    /// Hears the reply to a request made for `key`; the key is reconciled again after that.
    fn hear(&mut self, key: &Key, reply: Self::Reply, view: &View<'_>) {
        let _ = (key, reply, view);
    }

    /// Hears that the server took a write made for `key`.
    fn written(&mut self, key: &Key, write: &Write, view: &View<'_>) {
        let _ = (key, write, view);
    }

    /// Hears that the server refused a write made for `key`, also if the refusal was tolerated.
    fn refused(&mut self, key: &Key, write: &Write, status: &Status, view: &View<'_>) {
        let _ = (key, write, status, view);
    }

    /// How soon a key is tried again whose effects failed.
    fn pace(&self) -> Pace {
        Pace::default()
    }
}

/// Work outside the Kubernetes API, as data.
pub trait Request: Send + 'static {
    /// Says what performing it changes, as the middle of a sentence ("launch a machine for …"); `None` if it only asks. What changes
    /// something is not performed in a dry run, nor by a replica that no longer leads.
    fn action(&self) -> Option<String>;
}

impl Request for Infallible {
    fn action(&self) -> Option<String> {
        match *self {}
    }
}

/// Waiting times after failures: doubled each time, up to a longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { first: Duration::from_millis(50), longest: Duration::from_mins(1) }
    }
}

impl Pace {
    /// The wait after `failures` failures in a row.
    pub(crate) fn wait(self, failures: u32) -> Duration {
        let doubled = 2u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

/// What a controller looks at while it decides: the caches at one moment.
pub struct View<'a> {
    /// The time of the decision.
    pub now: Timestamp,
    /// What is known of the cluster.
    pub caches: &'a Caches,
    /// Ids and chance; time is `now`.
    pub environment: &'a dyn Environment,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<R> {
    /// A write to the Kubernetes API.
    Write(Box<Write>),
    /// Work outside it.
    Request(R),
}

impl<R> From<Write> for Effect<R> {
    fn from(write: Write) -> Self {
        Self::Write(Box::new(write))
    }
}

/// What to do about a key, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<R> {
    /// Stages in order; the effects of one stage may be done at the same time. A stage begins when the one before has
    /// succeeded.
    pub stages: Vec<Vec<Effect<R>>>,
    /// How long to wait before the key is looked at again, if nothing wakes it before.
    pub again: Option<Duration>,
}

impl<R> Default for Outcome<R> {
    fn default() -> Self {
        Self { stages: Vec::new(), again: None }
    }
}

impl<R> Outcome<R> {
    /// Nothing to do until something changes.
    pub fn done() -> Self {
        Self::default()
    }

    /// Nothing to do; look again after `wait`.
    pub fn after(wait: Duration) -> Self {
        Self { stages: Vec::new(), again: Some(wait) }
    }

    /// Adds one effect, done after those before it.
    #[must_use]
    pub fn then(mut self, effect: impl Into<Effect<R>>) -> Self {
        self.stages.push(vec![effect.into()]);
        self
    }

    /// Adds effects that may be done at the same time, after those before them.
    #[must_use]
    pub fn then_all<E: Into<Effect<R>>>(mut self, effects: impl IntoIterator<Item = E>) -> Self {
        let stage: Vec<Effect<R>> = effects.into_iter().map(Into::into).collect();
        if !stage.is_empty() {
            self.stages.push(stage);
        }
        self
    }

    /// Looks again after `wait`, or sooner if that was asked for before.
    #[must_use]
    pub fn again(mut self, wait: Duration) -> Self {
        self.again = Some(self.again.map_or(wait, |sooner| sooner.min(wait)));
        self
    }
}

/// The kinds a controller reads.
#[derive(Default)]
pub struct Watches {
    pub(crate) watches: Vec<Watch>,
    read: Vec<TypeId>,
}

impl Watches {
    /// Watches every object of kind `K`. The kind must be served: until it is, nothing is reconciled.
    pub fn add<K: Kind>(&mut self) {
        self.watches.push(Watch::new::<K, K>(None, |object| object));
    }

    /// Watches kind `K` where the server has it; a server without it has no objects of it.
    pub fn add_if_served<K: Kind>(&mut self) {
        self.watches.push(Watch::new::<K, K>(None, |object| object).optional());
    }

    /// Watches the objects of kind `K` that a field selector admits. All controllers that read `K` must ask for the same.
    pub fn add_selected<K: Kind>(&mut self, fields: &str) {
        self.watches.push(Watch::new::<K, K>(Some(fields.to_owned()), |object| object));
    }

    /// Watches every object of kind `K` and keeps what `keep` makes of it, to be read as `V`.
    pub fn add_as<K: Kind, V: Kept>(&mut self, keep: impl Fn(K) -> V + Send + Sync + 'static) {
        self.watches.push(Watch::new::<K, V>(None, keep));
    }

    /// Reads what another controller of the runtime watches.
    pub fn reads<V: Kept>(&mut self) {
        self.read.push(TypeId::of::<V>());
    }

    pub(crate) fn kinds(&self) -> Vec<TypeId> {
        self.watches.iter().map(Watch::kind).chain(self.read.iter().copied()).collect()
    }
}

/// Keys to be looked at.
#[derive(Default)]
pub struct Wakes {
    pub(crate) keys: Vec<(Key, Duration)>,
}

impl Wakes {
    /// Looks at `key` now.
    pub fn wake(&mut self, key: Key) {
        self.wake_after(key, Duration::ZERO);
    }

    /// Looks at `key` after a while, or sooner if it is woken sooner.
    pub fn wake_after(&mut self, key: Key, wait: Duration) {
        self.keys.push((key, wait));
    }
}
