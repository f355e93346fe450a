//! Pods as the controllers remember them: what the core needs, and what draining needs; nothing else is kept.

mod reading;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::LabelRules;
use karpenter_api::annotations::{BUFFER_FAKE_POD, DISRUPTION_COST, DO_NOT_DISRUPT, POD_DELETION_COST};
use karpenter_api::duration::parse_duration;
use karpenter_core::cluster;
use karpenter_kube::Interner;
use karpenter_kube::pod::requests::effective_limits;
use karpenter_kube::pod::{awaits_scheduler, is_provisionable, pod, refusal};
use karpenter_quantity::ResourceList;
use rustc_hash::FxHashSet;

pub(crate) use reading::LeanPod;

/// Annotations of pods that mean something here.
const KEPT_ANNOTATIONS: &[&str] = &[BUFFER_FAKE_POD, DISRUPTION_COST, DO_NOT_DISRUPT, POD_DELETION_COST];
/// Priority classes whose pods leave a node last.
const CRITICAL: &[&str] = &["system-cluster-critical", "system-node-critical"];
/// How long a pod gets to stop when it does not say.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// A pod, reduced to what matters here.
#[derive(Debug)]
pub struct ObservedPod {
    metadata: ObjectMeta,
    /// The pod as the core sees it, or why the core cannot work with it.
    pub pod: Result<Arc<cluster::Pod>, String>,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// Whether it waits for a node that Karpenter should provide.
    pub provisionable: bool,
    /// Whether its scheduler has yet to look at it.
    pub awaits_scheduler: bool,
    /// The scheduler that is to place it.
    pub scheduler: Arc<str>,
    /// Why Karpenter will not provide for it although it waits.
    pub refusal: Option<String>,
    /// Its phase, as the API has it.
    pub phase: &'static str,
    /// What made it, as a path of the API.
    pub owner: Option<Arc<str>>,
    /// When it was bound to its node.
    pub bound: Option<Timestamp>,
    /// Since when it has been ready, if it is.
    pub ready: Option<Timestamp>,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it must be gone, if it is being deleted.
    pub deletion: Option<Timestamp>,
    /// How many seconds it gets to stop.
    pub grace_seconds: i64,
    /// Whether it leaves a node last.
    pub critical: bool,
    /// What it may use at most.
    pub limits: Arc<ResourceList>,
}

impl k8s_openapi::Resource for ObservedPod {
    const API_VERSION: &'static str = Pod::API_VERSION;
    const GROUP: &'static str = Pod::GROUP;
    const KIND: &'static str = Pod::KIND;
    const VERSION: &'static str = Pod::VERSION;
    const URL_PATH_SEGMENT: &'static str = Pod::URL_PATH_SEGMENT;
    type Scope = <Pod as k8s_openapi::Resource>::Scope;
}

impl k8s_openapi::Metadata for ObservedPod {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl ObservedPod {
    /// Its UID.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The version of the object it was read from.
    pub(crate) fn version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }

    /// Its namespace and name.
    pub fn names(&self) -> (&str, &str) {
        (
            self.metadata.namespace.as_deref().unwrap_or_default(),
            self.metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// Its annotations that mean something here.
    pub fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.annotations.as_ref()
    }

    /// When it ceases to refuse disruption, if it refuses for a while.
    pub fn protected_until(&self) -> Option<Timestamp> {
        let value = self.annotations()?.get(DO_NOT_DISRUPT)?;
        let duration = parse_duration(value).ok().filter(SignedDuration::is_positive)?;
        self.started?.checked_add(duration).ok()
    }

    /// Whether it refuses to be disrupted now.
    pub fn refuses_disruption(&self, now: Timestamp) -> bool {
        let Some(value) = self.annotations().and_then(|all| all.get(DO_NOT_DISRUPT)) else { return false };
        let for_a_while = || parse_duration(value).is_ok_and(|duration| duration.is_positive());
        value == "true" || for_a_while() && self.protected_until().is_none_or(|end| now < end)
    }

    /// Whether it takes room on a node.
    pub(crate) fn takes_room(&self) -> bool {
        self.node.is_some() && !self.is_terminal()
    }

    /// Whether it has run to its end.
    pub fn is_terminal(&self) -> bool {
        self.pod.as_ref().is_ok_and(|pod| pod.phase == cluster::PodPhase::Terminal)
    }
}

/// Makes observed pods; pods that look alike share their parts.
#[derive(Clone)]
pub(crate) struct PodObserver {
    rules: Arc<LabelRules>,
    interner: Arc<Mutex<Interner>>,
    limits: Arc<Mutex<FxHashSet<Arc<ResourceList>>>>,
    ignores_deletion_cost: bool,
}

impl PodObserver {
    /// An observer that reads labels by `rules`.
    pub(crate) fn new(rules: Arc<LabelRules>, ignores_deletion_cost: bool) -> Self {
        Self { rules, interner: Arc::default(), limits: Arc::default(), ignores_deletion_cost }
    }

    /// Reduces a pod to what matters. Whether it refuses disruption at a given moment is asked later, from its annotations.
    pub(crate) fn observe(&self, LeanPod(object): LeanPod) -> ObservedPod {
        let mut interner = self.interner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut converted = pod(&object, Timestamp::UNIX_EPOCH, &self.rules, &mut interner);
        let annotations = object.metadata.annotations.as_ref();
        let is_said = annotations.is_some_and(|all| all.contains_key(DISRUPTION_COST));
        if let (Ok(converted), true) = (&mut converted, self.ignores_deletion_cost && !is_said) {
            converted.disruption_cost = 0;
        }
        let spec = object.spec.as_ref();
        let node = spec.and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty());
        let provisionable = is_provisionable(&object);
        let awaits_scheduler = awaits_scheduler(&object);
        let waits = provisionable || awaits_scheduler;
        let class = spec.and_then(|spec| spec.priority_class_name.as_deref()).unwrap_or_default();
        ObservedPod {
            pod: converted.map(Arc::new).map_err(|error| error.to_string()),
            node: node.map(|name| interner.string(name)),
            provisionable,
            awaits_scheduler,
            scheduler: interner.string(scheduler(&object)),
            refusal: if waits { spec.and_then(|spec| refusal(spec, &self.rules)) } else { None },
            phase: phase(&object),
            owner: owner(&object).map(|path| interner.string(&path)),
            bound: since(&object, "PodScheduled"),
            ready: since(&object, "Ready"),
            started: object.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            deletion: object.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            grace_seconds: spec
                .and_then(|spec| spec.termination_grace_period_seconds)
                .unwrap_or(DEFAULT_GRACE_SECONDS),
            critical: CRITICAL.contains(&class),
            limits: self.limits(spec),
            metadata: trimmed(object.metadata),
        }
    }

    fn limits(&self, spec: Option<&PodSpec>) -> Arc<ResourceList> {
        let limits = spec.and_then(|spec| effective_limits(spec).ok()).unwrap_or_default();
        let mut known = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.get(&limits) {
            return Arc::clone(same);
        }
        let limits = Arc::new(limits);
        known.insert(Arc::clone(&limits));
        limits
    }
}

/// Since when a condition of the pod has been true.
fn since(pod: &Pod, type_: &str) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|found| found.type_ == type_ && found.status == "True")?;
    found.last_transition_time.as_ref().map(|time| time.0)
}

fn phase(pod: &Pod) -> &'static str {
    match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Running") => "Running",
        Some("Succeeded") => "Succeeded",
        Some("Failed") => "Failed",
        Some("Unknown") => "Unknown",
        _ => "Pending",
    }
}

fn owner(pod: &Pod) -> Option<String> {
    let owner = pod.metadata.owner_references.as_ref()?.first()?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Some(owner_path(&owner.api_version, &owner.kind, namespace, &owner.name))
}

/// The path in the API by which the maker of a pod is known.
pub(crate) fn owner_path(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("/apis/{api_version}/namespaces/{namespace}/{}s/{name}", kind.to_lowercase())
}

fn scheduler(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or("default-scheduler")
}

/// Only what identifies the pod, and the annotations that mean something here. Labels are in the core's pod.
fn trimmed(metadata: ObjectMeta) -> ObjectMeta {
    let annotations = metadata.annotations.map(|mut annotations| {
        annotations.retain(|key, _| KEPT_ANNOTATIONS.contains(&key.as_str()));
        annotations
    });
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        annotations: annotations.filter(|annotations| !annotations.is_empty()),
        ..ObjectMeta::default()
    }
}
