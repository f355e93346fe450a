//! Events as data.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use karpenter_runtime::{Key, View, Write};
use kube::Resource;
use serde_json::{Value, json};

/// The namespace of events about objects that live in none.
const DEFAULT_NAMESPACE: &str = "default";

/// Whom an event is about.
#[derive(Clone, Debug)]
pub(crate) struct About {
    reference: Value,
    namespace: String,
    name: String,
}

impl About {
    /// An object by its key and uid.
    pub(crate) fn new<K: Resource<DynamicType = ()>>(key: &Key, uid: &str) -> Self {
        let reference = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "name": key.name(),
            "namespace": key.namespace(), "uid": uid,
        });
        let namespace = key.namespace().unwrap_or(DEFAULT_NAMESPACE).to_owned();
        Self { reference, namespace, name: key.name().to_owned() }
    }

    /// An object at hand.
    pub(crate) fn object<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self::new::<K>(&Key::of(object), object.meta().uid.as_deref().unwrap_or_default())
    }

    /// Narrows an event down to a part of the object.
    pub(crate) fn at(mut self, field: &str) -> Self {
        self.reference["fieldPath"] = field.into();
        self
    }
}

/// Something worth knowing.
pub(crate) struct Happening<'a> {
    pub(crate) reason: &'a str,
    pub(crate) message: String,
    pub(crate) is_warning: bool,
}

impl<'a> Happening<'a> {
    pub(crate) fn normal(reason: &'a str, message: String) -> Self {
        Self { reason, message, is_warning: false }
    }

    pub(crate) fn warning(reason: &'a str, message: String) -> Self {
        Self { reason, message, is_warning: true }
    }
}

/// Returns the write that tells of a happening in the name of a component.
pub(crate) fn event(about: &About, happening: &Happening<'_>, component: &str, view: &View<'_>) -> Write {
    // Names must differ and mean nothing; the real ones end in the time.
    let tail =
        u64::from_le_bytes(*view.environment.entropy().first_chunk().expect("sixteen bytes hold eight"));
    let now = time(view.now);
    let key = Key::namespaced(&about.namespace, &format!("{}.{tail:016x}", about.name));
    let event = json!({
        "metadata": {"namespace": about.namespace, "name": key.name()},
        "involvedObject": about.reference,
        "reason": happening.reason,
        "message": happening.message,
        "type": if happening.is_warning { "Warning" } else { "Normal" },
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    });
    // A namespace that is going away takes no more events, and nobody misses them.
    Write::create_json::<Event>(&key, event).tolerating(403).tolerating(404).tolerating(409)
}

/// Writes a time as Kubernetes does: whole seconds.
pub(crate) fn time(time: Timestamp) -> Value {
    karpenter_environment::format_time(time).into()
}
