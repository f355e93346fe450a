//! The controller of the classes of one group: status, hash, finalizer. It asks the cloud what classes select and says what is wrong.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use karpenter_api::NodeClaim;
use karpenter_api::condition::nodeclaim::DRIFTED;
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches, Write,
};
use serde_json::{Map, Value, json};

use super::conditions::{Aspect, Says, conditions, sum_up};
use super::memory::Memory;
use super::question::{Answer, Question, Trouble};
use super::verdict::{Verdict, judge};
use crate::node_class::{
    ClassKey, Classes, Dialect, Draft, Found, HASH_VERSION, ResolvedClass, Status, read,
};
use crate::refresh::Refresh;

/// How often people are told again what a class waits for, or what cannot be refreshed.
const TOLD_AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// How many claims an event names.
const NAMED: usize = 5;

impl Request for Question {
    fn action(&self) -> Option<String> {
        None
    }
}

/// What came back, and for which question.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) question: Question,
    pub(super) answer: Result<Answer, Trouble>,
}

/// The controller of the classes of kind `F`.
pub(super) struct ClassController<F> {
    memory: Arc<Mutex<Memory>>,
    classes: Classes,
    refresh: Refresh,
    cluster_id: Option<String>,
    told: BTreeMap<(String, String), Timestamp>,
    kind: PhantomData<fn() -> F>,
}

impl<F: Found> ClassController<F> {
    /// A controller that shares `memory` with those of the other groups and keeps `classes` up to date.
    pub(super) fn new(
        memory: Arc<Mutex<Memory>>,
        classes: Classes,
        refresh: Refresh,
        cluster_id: Option<String>,
    ) -> Self {
        Self { memory, classes, refresh, cluster_id, told: BTreeMap::new(), kind: PhantomData }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn class_key(key: &Key) -> ClassKey {
        ClassKey { dialect: F::DIALECT, name: key.name().into() }
    }

    /// What the class asks for, the controller's cluster filled in.
    fn draft(&self, object: &F) -> Draft {
        let mut draft = read(object);
        if draft.class.cluster.id.is_none() {
            draft.class.cluster.id.clone_from(&self.cluster_id);
        }
        draft
    }

    /// Judges the class, and returns what to ask and when to look again.
    fn judge(&self, draft: &Draft, now: Timestamp) -> (Verdict, Vec<Question>, Duration) {
        let mut memory = self.memory();
        let mut questions = Vec::new();
        let mut wait = Duration::MAX;
        let verdict = judge(draft, |question| {
            let look = memory.look(question, now);
            if look.ask {
                questions.push(question.clone());
            }
            wait = wait.min(look.wait);
            look
        });
        (verdict, questions, wait)
    }

    fn live(&mut self, object: &F, view: &View<'_>) -> Outcome<Question> {
        let draft = self.draft(object);
        let (mut verdict, questions, wait) = self.judge(&draft, view.now);
        verdict.note_stock(&self.refresh.market().sales());
        verdict.said.push((Aspect::Permissions, permissions(&self.refresh.rights().missing())));
        let not_ready = match sum_up(&verdict.said, F::DIALECT) {
            Says::Yes { .. } => None,
            Says::No { message, .. } | Says::Unknown { message, .. } => Some(message),
        };
        let status = shown(object, &draft, &verdict, not_ready.is_none(), view.now);
        let hash = draft.class.hash.clone();
        let resolved = verdict.resolved.clone();
        self.classes.put(ResolvedClass { class: draft.class, resolved, not_ready });
        let mut outcome = Outcome::done();
        if wait < Duration::MAX {
            outcome = outcome.again(wait);
        }
        let events: Vec<Write> = verdict
            .stale
            .iter()
            .filter_map(|(aspect, trouble)| {
                let message =
                    format!("{} is as it was last known: {}", aspect.type_(F::DIALECT), trouble.message);
                self.tell(object, trouble.reason(), &message, view)
            })
            .collect();
        outcome
            .then_all(questions.into_iter().map(Effect::Request))
            .then_all(events)
            .then_all(stamped_claims::<F>(object, &hash, view))
            .then_all(marked(object, &hash).or_else(|| changed_status(object, &status)))
    }

    /// Keeps the class until no claim refers to it.
    fn ending(&mut self, object: &F, view: &View<'_>) -> Outcome<Question> {
        let finalizer = F::DIALECT.finalizer();
        let finalizers = object.meta().finalizers.clone().unwrap_or_default();
        if !finalizers.contains(&finalizer) {
            return Outcome::done();
        }
        let waiting: Vec<&str> = claims_of::<F>(object, view).map(|(key, _)| key.name()).collect();
        if waiting.is_empty() {
            let left: Vec<&String> = finalizers.iter().filter(|other| **other != finalizer).collect();
            let patch = json!({ "metadata": { "finalizers": left } });
            return Outcome::done()
                .then(versioned(object, Write::merge_patch::<F>(&Key::of(object), patch)).tolerating(404));
        }
        let more = if waiting.len() > NAMED { " and more" } else { "" };
        let named = waiting.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let message = format!("the class stays until these NodeClaims are gone: {named}{more}");
        let event = self.tell(object, "WaitingOnNodeClaimTermination", &message, view);
        Outcome::after(Duration::try_from(TOLD_AGAIN).unwrap_or_default()).then_all(event)
    }

    /// An event about the class, unless the same was told lately.
    fn tell(&mut self, object: &F, reason: &str, message: &str, view: &View<'_>) -> Option<Write> {
        let cause = (object.meta().uid.clone().unwrap_or_default(), format!("{reason} {message}"));
        let lately = |told: &Timestamp| view.now.duration_since(*told) < TOLD_AGAIN;
        if self.told.get(&cause).is_some_and(lately) {
            return None;
        }
        self.told.retain(|_, told| lately(told));
        self.told.insert(cause, view.now);
        Some(Write::create(&event(object, reason, message, view)))
    }
}

impl<F: Found> Controller for ClassController<F> {
    type Request = Question;
    type Reply = Reply;

    fn name(&self) -> &'static str {
        match F::DIALECT {
            Dialect::ContainerService => "ecsnodeclass.alibabacloud.com",
            Dialect::Handbook => "ecsnodeclass.k8s.alibabacloud.com",
            Dialect::CloudPilot => "ecsnodeclass.k8s.alibabacloud",
        }
    }

    fn watches(&self, watches: &mut Watches) {
        // Few clusters use all three groups, and not every chart installs all three definitions.
        watches.add_if_served::<F>();
        watches.reads::<NodeClaim>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<F>() {
            if delta.new.is_none() {
                self.classes.remove(&Self::class_key(change.key()));
            }
            wakes.wake(change.key().clone());
        }
        if let Some(delta) = change.of::<NodeClaim>()
            && delta.new.is_none()
            && let Some(key) = ClassKey::of(&delta.latest().spec.node_class_ref)
            && key.dialect == F::DIALECT
        {
            let key = Key::cluster(&key.name);
            let ending = |class: &Arc<F>| class.meta().deletion_timestamp.is_some();
            if caches.of::<F>().get(&key).is_some_and(ending) {
                wakes.wake(key);
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Question> {
        let Some(object) = view.caches.of::<F>().get(key).cloned() else { return Outcome::done() };
        if object.meta().deletion_timestamp.is_some() {
            return self.ending(&object, view);
        }
        self.live(&object, view)
    }

    fn hear(&mut self, _: &Key, reply: Reply, view: &View<'_>) {
        self.memory().hear(&reply.question, reply.answer, view.now);
    }
}

/// What the RAM policy lacks, and what each action is for.
fn permissions(missing: &[(String, &'static str)]) -> Says {
    if missing.is_empty() {
        return Says::yes();
    }
    let costs: Vec<String> =
        missing.iter().map(|(action, cost)| format!("without {action} {cost}")).collect();
    let remedy = "allow these actions in a RAM policy of the role or user that Karpenter runs as";
    Says::no("ActionsMissing", format!("{}; {remedy}", costs.join("; ")))
}

/// The claims that refer to a class, by group and name.
fn claims_of<'a, F: Found>(
    object: &'a F,
    view: &'a View<'_>,
) -> impl Iterator<Item = (&'a Key, &'a Arc<NodeClaim>)> {
    let name = object.meta().name.as_deref().unwrap_or_default();
    let claims = view.caches.of::<NodeClaim>().iter();
    claims.filter(move |(_, claim)| {
        ClassKey::of(&claim.spec.node_class_ref)
            .is_some_and(|key| key.dialect == F::DIALECT && *key.name == *name)
    })
}

/// Gives claims the hash that have none, or one made in another way: a new way of making hashes, or another provider before us, is no
/// reason to replace nodes. What counts as drifted stays so.
fn stamped_claims<F: Found>(object: &F, hash: &str, view: &View<'_>) -> Vec<Write> {
    let (key, version_key) = (F::DIALECT.hash_annotation(), F::DIALECT.hash_version_annotation());
    let stamp = |(name, claim): (&Key, &Arc<NodeClaim>)| {
        let annotation = |key: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let status = claim.status.as_ref()?;
        status.provider_id.as_ref()?;
        if annotation(&version_key).is_some_and(|version| version == HASH_VERSION) {
            return None;
        }
        let drifted =
            status.conditions.iter().flatten().any(|found| found.type_ == DRIFTED && found.status == "True");
        let kept = annotation(&key).filter(|_| drifted).map_or(hash, String::as_str);
        let annotations = json!({ &key: kept, &version_key: HASH_VERSION });
        let write =
            Write::merge_patch::<NodeClaim>(name, json!({ "metadata": { "annotations": annotations } }));
        Some(versioned(&**claim, write).tolerating(404))
    };
    claims_of(object, view).filter_map(stamp).collect()
}

/// The write that gives a class its finalizer and hash; none if it has both.
fn marked<F: Found>(object: &F, hash: &str) -> Option<Write> {
    let meta = object.meta();
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    let wanted = [(F::DIALECT.hash_annotation(), hash), (F::DIALECT.hash_version_annotation(), HASH_VERSION)];
    let missing: Map<String, Value> = wanted
        .into_iter()
        .filter(|(key, value)| {
            meta.annotations.as_ref().and_then(|annotations| annotations.get(key)).map(String::as_str)
                != Some(*value)
        })
        .map(|(key, value)| (key, json!(value)))
        .collect();
    let finalizer = F::DIALECT.finalizer();
    let mut changes = Map::new();
    if !finalizers.contains(&finalizer) {
        finalizers.push(finalizer);
        changes.insert("finalizers".to_owned(), json!(finalizers));
    }
    if !missing.is_empty() {
        changes.insert("annotations".to_owned(), Value::Object(missing));
    }
    (!changes.is_empty())
        .then(|| versioned(object, Write::merge_patch::<F>(&Key::of(object), json!({ "metadata": changes }))))
}

/// The status as it is to be.
fn shown<F: Found>(object: &F, draft: &Draft, verdict: &Verdict, ready: bool, now: Timestamp) -> Status {
    let mut status = object.status().cloned().unwrap_or_default();
    status.show(F::DIALECT, &verdict.resolved);
    status.ready = (F::DIALECT == Dialect::ContainerService).then_some(ready);
    let known = status.conditions.take().unwrap_or_default();
    status.conditions = Some(conditions(&known, &verdict.said, F::DIALECT, draft.class.generation, now));
    status
}

/// The write of a status that differs; fields that are gone are taken away.
fn changed_status<F: Found>(object: &F, status: &Status) -> Option<Write> {
    if object.status() == Some(status) {
        return None;
    }
    let json = |status: Option<&Status>| serde_json::to_value(status).expect("a status is JSON");
    let (old, new) = (json(object.status()), json(Some(status)));
    let mut patch = new.as_object().cloned().unwrap_or_default();
    for key in old.as_object().into_iter().flatten().map(|(key, _)| key) {
        patch.entry(key.clone()).or_insert(Value::Null);
    }
    let write = Write::merge_patch::<F>(&Key::of(object), json!({ "status": patch })).status();
    Some(versioned(object, write))
}

/// A decision on an old picture is refused and made again.
fn versioned<K: kube::Resource>(object: &K, write: Write) -> Write {
    match object.meta().resource_version.as_deref() {
        Some(version) => write.if_version(version),
        None => write,
    }
}

fn event<F: Found>(object: &F, reason: &str, message: &str, view: &View<'_>) -> Event {
    let name = object.meta().name.clone().unwrap_or_default();
    let component = Some("karpenter".to_owned());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{}", view.environment.suffix())),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(F::api_version(&()).into_owned()),
            kind: Some(F::kind(&()).into_owned()),
            name: Some(name),
            uid: object.meta().uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.chars().take(1024).collect()),
        source: Some(EventSource { component: component.clone(), ..EventSource::default() }),
        reporting_component: component,
        first_timestamp: Some(Time(view.now)),
        last_timestamp: Some(Time(view.now)),
        count: Some(1),
        ..Event::default()
    }
}
