//! CapacityBuffers: what each of them keeps free, and whether there is room for it.
//!
//! A buffer is resolved into pods that do not exist; plans place them like others, and what the last plan said of them is the
//! buffer's status.

mod reserve;

use std::convert::Infallible;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};
use karpenter_api::capacitybuffer::{ACTIVE_CAPACITY, LocalObjectRef, SCALABLE_KINDS, ScalableRef};
use karpenter_api::condition::capacitybuffer::{
    BUFFER_EMPTY, FITS_EXISTING_CAPACITY, NOT_READY_FOR_PROVISIONING, POD_TEMPLATE_NOT_FOUND, PROVISIONING,
    READY_FOR_PROVISIONING, REQUIRES_NEW_CAPACITY, RESOLUTION_FAILED, RESOLVED, SCALABLE_REF_NOT_FOUND,
};
use karpenter_api::{CapacityBuffer, LabelRules};
use karpenter_kube::Interner;
use karpenter_kube::buffer::{ChunkSource, virtual_pods};
use karpenter_runtime::{Caches, Change, Controller, Handle, Key, Outcome, View, Wakes, Watches};

use reserve::Verdict;
pub(crate) use reserve::{Chunks, Reserve, is_chunk};

use crate::conditions::Conditions;
use crate::patches::difference;
use crate::state::Shared;

/// The name under which plans wake this controller.
pub(crate) const NAME: &str = "capacitybuffer";
/// More chunks than this are not planned for: a slip of the finger must not exhaust memory.
const CHUNKS_MAX: usize = 20_000;

/// The controller of CapacityBuffers.
pub(crate) struct Buffers {
    state: Shared,
    rules: LabelRules,
    interner: Interner,
    handle: Handle,
}

/// A PodTemplate that a buffer names, and its generation.
type Template<'a> = (&'a LocalObjectRef, Option<i64>);

/// What a buffer refers to.
struct Found<'a> {
    source: ChunkSource<'a>,
    /// The PodTemplate and its generation, when the buffer names one.
    template: Option<Template<'a>>,
}

/// Why a buffer cannot be provided for: the reason of the condition, and a sentence.
type Trouble = (&'static str, String);

impl Buffers {
    /// A controller that has plans of `state` provide for buffers, and wakes the provisioner through `handle`.
    pub(crate) fn new(state: Shared, rules: LabelRules, handle: Handle) -> Self {
        Self { state, rules, interner: Interner::default(), handle }
    }

    /// The pods a buffer stands for.
    fn resolve(&mut self, buffer: &CapacityBuffer, found: &Found<'_>) -> Result<Chunks, Trouble> {
        let since = buffer.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let context = (&self.rules, &mut self.interner);
        virtual_pods(buffer, found.source, since, CHUNKS_MAX, context)
            .map(Chunks::new)
            .map_err(|error| (RESOLUTION_FAILED, error.to_string()))
    }

    /// The buffer with its status up to date.
    fn updated(
        &self,
        buffer: &CapacityBuffer,
        found: Result<(Option<Template<'_>>, usize), &Trouble>,
        view: &View<'_>,
    ) -> CapacityBuffer {
        let mut new = buffer.clone();
        let strategy = buffer.spec.provisioning_strategy.as_deref().unwrap_or(ACTIVE_CAPACITY);
        let status = new.status.get_or_insert_default();
        status.provisioning_strategy = Some(strategy.to_owned());
        let generation = buffer.metadata.generation;
        let list = status.conditions.get_or_insert_default();
        let mut conditions = Conditions::new(list, &[], generation, view.now);
        match found {
            Err((reason, message)) => {
                conditions.set_false(READY_FOR_PROVISIONING, reason, message);
                let message = "The buffer is not ready for provisioning";
                conditions.set_false(PROVISIONING, NOT_READY_FOR_PROVISIONING, message);
            }
            Ok((template, chunks)) => {
                conditions.set(READY_FOR_PROVISIONING, "True", RESOLVED, "");
                self.note_provisioning(&Key::of(buffer), chunks, &mut conditions);
                status.pod_template_ref = template.map(|(reference, _)| reference.clone());
                status.pod_template_generation = template.and_then(|(_, generation)| generation);
                status.replicas = Some(i32::try_from(chunks).unwrap_or(i32::MAX));
            }
        }
        new
    }

    /// Says what the last plan found; a buffer no plan has looked at says nothing yet.
    fn note_provisioning(&self, key: &Key, chunks: usize, conditions: &mut Conditions<'_>) {
        if chunks == 0 {
            return conditions.set_false(PROVISIONING, BUFFER_EMPTY, "The buffer asks for no capacity");
        }
        match self.state.lock().reserve().verdict(key) {
            Some(Verdict { placed }) if placed >= chunks => {
                conditions.set(PROVISIONING, "True", FITS_EXISTING_CAPACITY, "");
            }
            Some(Verdict { placed }) => {
                let message = format!("{placed} of {chunks} chunks fit on existing nodes");
                conditions.set_false(PROVISIONING, REQUIRES_NEW_CAPACITY, &message);
            }
            None => {}
        }
    }
}

impl Controller for Buffers {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add_if_served::<CapacityBuffer>();
        watches.add::<PodTemplate>();
        watches.add_as(|workload: Deployment| Deployment { status: None, ..workload });
        watches.reads::<StatefulSet>();
        watches.reads::<ReplicaSet>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        if change.of::<CapacityBuffer>().is_some() {
            return wakes.wake(change.key().clone());
        }
        let Some(namespace) = change.key().namespace() else { return };
        for buffer in caches.of::<CapacityBuffer>().in_namespace(namespace) {
            if refers_to(buffer, change) {
                wakes.wake(Key::of(&**buffer));
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let buffer = view.caches.of::<CapacityBuffer>().get(key);
        let buffer = buffer.filter(|buffer| buffer.metadata.deletion_timestamp.is_none());
        let resolved = buffer.map(|buffer| {
            let found = find(buffer, view.caches)?;
            Ok((found.template, self.resolve(buffer, &found)?))
        });
        let chunks = match &resolved {
            Some(Ok((_, chunks))) => chunks.clone(),
            _ => Chunks::default(),
        };
        let count = chunks.len();
        if self.state.lock().set_buffer(key, chunks) {
            self.handle.wake(crate::provisioning::NAME, Key::everything());
        }
        let (Some(buffer), Some(resolved)) = (buffer, resolved) else { return Outcome::done() };
        let found = resolved.as_ref().map(|(template, _)| (*template, count));
        Outcome::done().then_all(difference(&**buffer, &self.updated(buffer, found, view)))
    }
}

/// Whether a change is of what gives a buffer its shape.
fn refers_to(buffer: &CapacityBuffer, change: &Change) -> bool {
    let name = change.key().name();
    let follows = |kind: &str| {
        buffer.spec.scalable_ref.as_ref().is_some_and(|found| found.kind == kind && found.name == name)
    };
    if change.of::<PodTemplate>().is_some() {
        return buffer.spec.pod_template_ref.as_ref().is_some_and(|found| found.name == name);
    }
    change.of::<Deployment>().is_some() && follows("Deployment")
        || change.of::<StatefulSet>().is_some() && follows("StatefulSet")
        || change.of::<ReplicaSet>().is_some() && follows("ReplicaSet")
}

/// Looks up what a buffer refers to.
fn find<'a>(buffer: &'a CapacityBuffer, caches: &'a Caches) -> Result<Found<'a>, Trouble> {
    let namespace = buffer.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(reference) = &buffer.spec.pod_template_ref {
        let object = caches.of::<PodTemplate>().get(&Key::namespaced(namespace, &reference.name));
        let template = object.and_then(|object| object.template.as_ref());
        let missing = || {
            let sentence = format!("There is no PodTemplate {namespace}/{}; create it", reference.name);
            (POD_TEMPLATE_NOT_FOUND, sentence)
        };
        let template = template.ok_or_else(missing)?;
        let generation = object.and_then(|object| object.metadata.generation);
        let source = ChunkSource { template, workload_replicas: None };
        return Ok(Found { source, template: Some((reference, generation)) });
    }
    let Some(reference) = &buffer.spec.scalable_ref else {
        let sentence =
            "Give the buffer a podTemplateRef or a scalableRef, so that the shape of a chunk is known";
        return Err((RESOLUTION_FAILED, sentence.to_owned()));
    };
    let group = reference.api_group.as_deref().unwrap_or_default();
    if !matches!(group, "" | "apps") || !SCALABLE_KINDS.contains(&reference.kind.as_str()) {
        let sentence = format!(
            "{group}/{} cannot be followed; name a {} of apps",
            reference.kind,
            SCALABLE_KINDS.join(", ")
        );
        return Err((RESOLUTION_FAILED, sentence));
    }
    let (template, replicas) = workload(reference, namespace, caches).ok_or_else(|| {
        let sentence = format!("There is no {} {namespace}/{}; create it", reference.kind, reference.name);
        (SCALABLE_REF_NOT_FOUND, sentence)
    })?;
    // A workload that does not say how many pods it wants gets one.
    let source = ChunkSource { template, workload_replicas: Some(replicas.unwrap_or(1)) };
    Ok(Found { source, template: None })
}

/// The template of a workload, and how many pods it wants.
fn workload<'a>(
    reference: &ScalableRef,
    namespace: &str,
    caches: &'a Caches,
) -> Option<(&'a PodTemplateSpec, Option<i32>)> {
    let key = Key::namespaced(namespace, &reference.name);
    match reference.kind.as_str() {
        "Deployment" => {
            let spec = caches.of::<Deployment>().get(&key)?.spec.as_ref()?;
            Some((&spec.template, spec.replicas))
        }
        "StatefulSet" => {
            let spec = caches.of::<StatefulSet>().get(&key)?.spec.as_ref()?;
            Some((&spec.template, spec.replicas))
        }
        _ => {
            let spec = caches.of::<ReplicaSet>().get(&key)?.spec.as_ref()?;
            Some((spec.template.as_ref()?, spec.replicas))
        }
    }
}
