//! The loop: news enters the caches and wakes keys, due keys are reconciled, their effects are performed.

use std::any::{Any, TypeId};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use karpenter_environment::Environment;
use kube::Client;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cache::{Caches, Change};
use crate::controller::{Controller, Effect, Outcome, Pace, Request as _, View, Wakes, Watches};
use crate::dry_run::Witness;
use crate::key::Key;
use crate::meter::{Ending, LookMeter, Meter, Unheard};
use crate::perform::{Done, Performer, Step, describe};
use crate::permit::Permit;
use crate::queue::{Item, Queue};
use crate::watch::{Observation, Watch};
use crate::write::{Write, WriteKind};

/// Writes under way at a time.
const WRITES_AT_A_TIME: usize = 32;
/// News that may wait to be taken in before watches wait themselves.
const NEWS_WAITING: usize = 1024;
/// How long effects under way may take once the runtime is told to stop.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A controller with its types out of sight.
trait Member: Send {
    fn name(&self) -> &'static str;
    fn watches(&self, watches: &mut Watches);
    fn begin(&mut self, caches: &Caches, wakes: &mut Wakes);
    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes);
    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> (Vec<Vec<Step>>, Option<Duration>);
    fn hear(&mut self, key: &Key, reply: Box<dyn Any + Send>, view: &View<'_>);
    fn written(&mut self, key: &Key, write: &Write, view: &View<'_>);
    fn refused(&mut self, key: &Key, write: &Write, status: &kube::core::Status, view: &View<'_>);
    fn pace(&self) -> Pace;
}

/// A controller and whoever answers its requests.
struct Staffed<C, H> {
    controller: C,
    handler: H,
}

impl<C, H> Member for Staffed<C, H>
where
    C: Controller,
    H: Fn(C::Request) -> BoxFuture<'static, C::Reply> + Send,
{
    fn name(&self) -> &'static str {
        self.controller.name()
    }

    fn watches(&self, watches: &mut Watches) {
        self.controller.watches(watches);
    }

    fn begin(&mut self, caches: &Caches, wakes: &mut Wakes) {
        self.controller.begin(caches, wakes);
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        self.controller.wake(change, caches, wakes);
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> (Vec<Vec<Step>>, Option<Duration>) {
        let Outcome { stages, again } = self.controller.reconcile(key, view);
        let step = |effect: Effect<C::Request>| match effect {
            Effect::Write(write) => Step::Write(write),
            Effect::Request(request) => {
                let action = request.action();
                let reply = (self.handler)(request);
                let reply = Box::pin(async move { Box::new(reply.await) as Box<dyn Any + Send> });
                Step::Call { reply, action }
            }
        };
        (stages.into_iter().map(|stage| stage.into_iter().map(step).collect()).collect(), again)
    }

    fn hear(&mut self, key: &Key, reply: Box<dyn Any + Send>, view: &View<'_>) {
        let reply = reply.downcast().expect("the handler of a controller replies in its type");
        self.controller.hear(key, *reply, view);
    }

    fn written(&mut self, key: &Key, write: &Write, view: &View<'_>) {
        self.controller.written(key, write, view);
    }

    fn refused(&mut self, key: &Key, write: &Write, status: &kube::core::Status, view: &View<'_>) {
        self.controller.refused(key, write, status, view);
    }

    fn pace(&self) -> Pace {
        self.controller.pace()
    }
}

type Outside = (&'static str, Key);

/// Wakes keys from outside: a timer of the provider, a message from a queue of the cloud.
#[derive(Clone)]
pub struct Handle {
    wakes: mpsc::UnboundedSender<Outside>,
}

impl Handle {
    /// Has the controller of that name look at `key`. Nothing happens if the runtime has stopped.
    pub fn wake(&self, controller: &'static str, key: Key) {
        let _ = self.wakes.send((controller, key));
    }
}

/// Controllers and what they run on.
pub struct Runtime {
    client: Client,
    environment: Arc<dyn Environment>,
    members: Vec<Box<dyn Member>>,
    outside: (mpsc::UnboundedSender<Outside>, mpsc::UnboundedReceiver<Outside>),
    listed: watch::Sender<bool>,
    meter: Arc<dyn Meter>,
    permit: Permit,
    witness: Option<Arc<dyn Witness>>,
}

impl Runtime {
    /// A runtime without controllers.
    pub fn new(client: Client, environment: Arc<dyn Environment>) -> Self {
        let listed = watch::Sender::new(false);
        let (members, outside) = (Vec::new(), mpsc::unbounded_channel());
        let (meter, permit, witness) = (Arc::new(Unheard), Permit::always(), None);
        Self { client, environment, members, outside, listed, meter, permit, witness }
    }

    /// Changes nothing outside the cluster unless `permit` covers it. Writes are the business of the client, see [`Permit`].
    pub fn permitted_by(&mut self, permit: Permit) {
        self.permit = permit;
    }

    /// Performs nothing that changes anything, but shows it to `witness`.
    pub fn only_show(&mut self, witness: Arc<dyn Witness>) {
        self.witness = Some(witness);
    }

    /// Adds a controller that needs nothing but the Kubernetes API.
    pub fn add<C: Controller<Request = Infallible>>(&mut self, controller: C) {
        self.add_with(controller, |request| match request {});
    }

    /// Adds a controller and whoever answers its requests.
    pub fn add_with<C, H>(&mut self, controller: C, handler: H)
    where
        C: Controller,
        H: Fn(C::Request) -> BoxFuture<'static, C::Reply> + Send + 'static,
    {
        self.members.push(Box::new(Staffed { controller, handler }));
    }

    /// Has `meter` hear how busy the controllers are.
    pub fn measure_with(&mut self, meter: Arc<dyn Meter>) {
        self.meter = meter;
    }

    /// A way to wake keys from outside.
    pub fn handle(&self) -> Handle {
        Handle { wakes: self.outside.0.clone() }
    }

    /// Time and chance, as the controllers have them.
    pub fn environment(&self) -> Arc<dyn Environment> {
        Arc::clone(&self.environment)
    }

    /// Tells when every watched kind has been listed once.
    pub fn listed(&self) -> watch::Receiver<bool> {
        self.listed.subscribe()
    }

    /// Runs until `stop` is ready and what was begun has ended.
    ///
    /// # Panics
    ///
    /// If two controllers ask for different selections of one kind.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        self.run_once_allowed(std::future::ready(()), stop).await;
    }

    /// As [`Runtime::run`], but watches only, and so stays up to date, until `permission` is ready.
    ///
    /// # Panics
    ///
    /// If two controllers ask for different selections of one kind.
    pub async fn run_once_allowed(
        self,
        permission: impl Future<Output = ()>,
        stop: impl Future<Output = ()>,
    ) {
        let (observations, heard) = mpsc::channel(NEWS_WAITING);
        let mut running = Running::new(self, heard);
        let _followers = running.follow(&observations);
        drop(observations);
        running.run(permission, stop).await;
    }
}

/// A key whose effects have come to an end: what came of them, when to look again, and since when it was looked at.
type Performed = (Item, Vec<Done>, Option<Duration>, Instant);

struct Running {
    client: Client,
    environment: Arc<dyn Environment>,
    members: Vec<Box<dyn Member>>,
    /// Which members read a kind.
    readers: FxHashMap<TypeId, Vec<usize>>,
    watches: Vec<Watch>,
    unlisted: BTreeSet<TypeId>,
    listed: watch::Sender<bool>,
    /// Whether anything may be reconciled yet.
    allowed: bool,
    caches: Caches,
    queue: Queue,
    failures: FxHashMap<Item, u32>,
    performer: Performer,
    performing: JoinSet<Performed>,
    /// Who takes note of each member's work.
    meters: Vec<Box<dyn LookMeter>>,
    heard: mpsc::Receiver<Observation>,
    outside: mpsc::UnboundedReceiver<Outside>,
    /// Keeps the channel from outside open while nobody holds a handle.
    _handle: mpsc::UnboundedSender<Outside>,
}

impl Running {
    fn new(runtime: Runtime, heard: mpsc::Receiver<Observation>) -> Self {
        let mut readers: FxHashMap<TypeId, Vec<usize>> = FxHashMap::default();
        let mut watches: Vec<Watch> = Vec::new();
        for (index, member) in runtime.members.iter().enumerate() {
            let mut wanted = Watches::default();
            member.watches(&mut wanted);
            for kind in wanted.kinds() {
                readers.entry(kind).or_default().push(index);
            }
            for watch in wanted.watches {
                match watches.iter().find(|known| known.kind() == watch.kind()) {
                    Some(known) => {
                        assert!(
                            known.same_selection(&watch),
                            "{} selects otherwise than others",
                            member.name()
                        );
                    }
                    None => watches.push(watch),
                }
            }
        }
        let meters =
            runtime.members.iter().map(|member| runtime.meter.of_controller(member.name())).collect();
        let mut caches = Caches::default();
        watches.iter().for_each(|watch| watch.prepare(&mut caches));
        Self {
            performer: Performer::new(
                runtime.client.clone(),
                WRITES_AT_A_TIME,
                runtime.permit,
                runtime.witness,
            ),
            client: runtime.client,
            environment: runtime.environment,
            members: runtime.members,
            readers,
            unlisted: watches.iter().map(Watch::kind).collect(),
            listed: runtime.listed,
            allowed: false,
            watches,
            caches,
            queue: Queue::default(),
            failures: FxHashMap::default(),
            performing: JoinSet::new(),
            meters,
            heard,
            outside: runtime.outside.1,
            _handle: runtime.outside.0,
        }
    }

    fn follow(&self, observations: &mpsc::Sender<Observation>) -> JoinSet<()> {
        let mut followers = JoinSet::new();
        for watch in &self.watches {
            followers.spawn(watch.start(self.client.clone(), observations.clone()));
        }
        followers
    }

    async fn run(&mut self, permission: impl Future<Output = ()>, stop: impl Future<Output = ()>) {
        let mut permission = std::pin::pin!(permission);
        let mut stop = std::pin::pin!(stop);
        self.begin_if_possible();
        loop {
            self.take_in_what_is_there();
            let due = if self.may_act() {
                if self.reconcile_next() {
                    continue;
                }
                self.queue.next_due()
            } else {
                None
            };
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = &mut permission, if !self.allowed => {
                    self.allowed = true;
                    self.begin_if_possible();
                }
                Some(observation) = self.heard.recv() => self.observe(observation),
                Some(finished) = self.performing.join_next() => self.finished(finished),
                Some((name, key)) = self.outside.recv() => self.wake_from_outside(name, key),
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        self.let_finish().await;
    }

    /// Takes in everything that can be had without waiting, so that decisions see the latest.
    fn take_in_what_is_there(&mut self) {
        while let Ok(observation) = self.heard.try_recv() {
            self.observe(observation);
        }
        while let Some(finished) = self.performing.try_join_next() {
            self.finished(finished);
        }
        while let Ok((name, key)) = self.outside.try_recv() {
            self.wake_from_outside(name, key);
        }
    }

    async fn let_finish(&mut self) {
        let all = async { while self.performing.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_WORDS, all).await.is_err() {
            tracing::warn!(
                "{} keys still had work under way when the time to stop was up",
                self.queue.busy()
            );
        }
    }

    fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::News(news) => {
                let changes = news(&mut self.caches);
                self.spread(&changes);
            }
            Observation::Listed(kind) => {
                if self.unlisted.remove(&kind) {
                    self.begin_if_possible();
                }
            }
        }
    }

    /// Nothing is decided on half a picture, or before it is allowed.
    fn may_act(&self) -> bool {
        self.allowed && self.unlisted.is_empty()
    }

    fn begin_if_possible(&mut self) {
        if self.unlisted.is_empty() {
            self.listed.send_replace(true);
        }
        if !self.may_act() {
            return;
        }
        for index in 0..self.members.len() {
            let mut wakes = Wakes::default();
            self.members[index].begin(&self.caches, &mut wakes);
            self.enqueue(index, wakes);
        }
    }

    /// Tells the readers of a kind what changed in it.
    fn spread(&mut self, changes: &[Change]) {
        for change in changes {
            let Some(readers) = self.readers.get(&change.kind()) else { continue };
            for index in readers.clone() {
                let mut wakes = Wakes::default();
                self.members[index].wake(change, &self.caches, &mut wakes);
                self.enqueue(index, wakes);
            }
        }
    }

    fn enqueue(&mut self, member: usize, wakes: Wakes) {
        let now = Instant::now();
        for (key, wait) in wakes.keys {
            self.meters[member].asked();
            self.queue.wake((member, key), now + wait);
        }
    }

    fn wake_from_outside(&mut self, name: &str, key: Key) {
        if let Some(index) = self.members.iter().position(|member| member.name() == name) {
            self.meters[index].asked();
            self.queue.wake((index, key), Instant::now());
        }
    }

    /// Reconciles the next key that is due; `false` if there is none.
    fn reconcile_next(&mut self) -> bool {
        let begun = Instant::now();
        let Some(item) = self.queue.take(begun) else { return false };
        let (stages, again) = {
            let view =
                View { now: self.environment.now(), caches: &self.caches, environment: &*self.environment };
            self.members[item.0].reconcile(&item.1, &view)
        };
        if stages.is_empty() {
            self.failures.remove(&item);
            let ending = if again.is_some() { Ending::Again } else { Ending::Done };
            self.meters[item.0].ended(ending, begun.elapsed());
            self.queue.finish(item, again.map(|wait| Instant::now() + wait));
        } else {
            let (performer, name) = (self.performer.clone(), self.members[item.0].name());
            self.performing.spawn(async move { (item, performer.perform(name, stages).await, again, begun) });
        }
        true
    }

    /// Takes in what came of a key's effects.
    fn finished(&mut self, finished: Result<Performed, tokio::task::JoinError>) {
        let (item, done, again, begun) = match finished {
            Ok(finished) => finished,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let good = done.iter().all(Done::is_good);
        let replied = done.iter().any(|done| matches!(done, Done::Replied(_)));
        let withheld = done.iter().any(|done| matches!(done, Done::Withheld));
        for step in done {
            self.learn(&item, step);
        }
        let now = Instant::now();
        let again = if good && !withheld {
            self.failures.remove(&item);
            if replied { Some(now) } else { again.map(|wait| now + wait) }
        } else {
            let failures = self.failures.entry(item.clone()).or_default();
            *failures += 1;
            let wait = self.members[item.0].pace().wait(*failures);
            // What was withheld is as it was: to look at once again would be to look for ever.
            if good { again.map(|again| now + again.max(wait)) } else { Some(now + wait) }
        };
        let ending = match (good, again) {
            (false, _) => Ending::Failed,
            (true, Some(_)) => Ending::Again,
            (true, None) => Ending::Done,
        };
        self.meters[item.0].ended(ending, now - begun);
        self.queue.finish(item, again);
    }

    fn learn(&mut self, item: &Item, done: Done) {
        let good = done.is_good();
        let member = &mut self.members[item.0];
        let view =
            View { now: self.environment.now(), caches: &self.caches, environment: &*self.environment };
        match done {
            Done::Written(write, answer) => {
                member.written(&item.1, &write, &view);
                self.observe_answer(&write, &answer);
            }
            Done::Replied(reply) => member.hear(&item.1, reply, &view),
            Done::Withheld => {}
            Done::Refused(write, status) => {
                // A conflict or a missing object means that our picture is a little old: news is on its way.
                if !good && !matches!(status.code, 404 | 409) {
                    tracing::warn!(controller = member.name(), "cannot {write}: {}", status.message);
                }
                member.refused(&item.1, &write, &status, &view);
            }
            Done::Failed(write, error) => {
                tracing::warn!(controller = member.name(), "cannot {write}: {}", describe(&error));
            }
        }
    }

    /// Lets everybody see what a write did before its watch event arrives.
    fn observe_answer(&mut self, write: &Write, answer: &str) {
        if write.subresource.is_some_and(|part| part != "status") {
            return;
        }
        let removed = write.kind == WriteKind::Delete && is_status(answer);
        let mut changes = Vec::new();
        for watch in self.watches.iter().filter(|watch| watch.is_of(&write.group, &write.plural)) {
            changes.extend(if removed {
                watch.observe_removal(&mut self.caches, &write.key)
            } else {
                watch.observe_answer(&mut self.caches, answer)
            });
        }
        self.spread(&changes);
    }
}

/// Whether the answer to a deletion is "done" rather than the object that is still going.
fn is_status(answer: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Named {
        kind: String,
    }
    serde_json::from_str(answer).is_ok_and(|Named { kind }| kind == "Status")
}
