//! A Kubernetes write as data: printed, compared, and performed later.

use std::fmt;

use kube::Resource;
use serde_json::{Value, json};

use crate::key::Key;
use crate::kind::Kind;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// POST to the collection, or to a subresource of an object.
    Create,
    /// A JSON merge patch (RFC 7386).
    MergePatch,
    /// A JSON patch (RFC 6902).
    JsonPatch,
    /// A strategic merge patch.
    StrategicPatch,
    /// Server-side apply.
    Apply,
    /// PUT of the whole object.
    Replace,
    /// DELETE of one object.
    Delete,
}

/// One write to the Kubernetes API.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub(crate) kind: WriteKind,
    pub(crate) group: String,
    pub(crate) plural: String,
    /// The kind as people write it, for messages.
    pub(crate) singular: String,
    /// The path of the collection.
    pub(crate) collection: String,
    pub(crate) key: Key,
    pub(crate) subresource: Option<&'static str>,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Value,
    /// Answers that are as good as success.
    pub(crate) tolerated: Vec<u16>,
}

impl Write {
    /// Creates `object`. With `generateName` the server picks the name.
    pub fn create<K: Kind>(object: &K) -> Self {
        Self::create_json::<K>(&Key::of(object), object.json())
    }

    /// Creates the object that `body` describes.
    pub fn create_json<K: Resource<DynamicType = ()>>(key: &Key, mut body: Value) -> Self {
        declare::<K>(&mut body);
        Self::new::<K>(WriteKind::Create, key.clone(), body)
    }

    /// Patches an object with a JSON merge patch.
    pub fn merge_patch<K: Resource<DynamicType = ()>>(key: &Key, patch: Value) -> Self {
        Self::new::<K>(WriteKind::MergePatch, key.clone(), patch)
    }

    /// Patches an object with a JSON patch: a list of operations.
    pub fn json_patch<K: Resource<DynamicType = ()>>(key: &Key, operations: Value) -> Self {
        Self::new::<K>(WriteKind::JsonPatch, key.clone(), operations)
    }

    /// Patches an object with a strategic merge patch.
    pub fn strategic_patch<K: Resource<DynamicType = ()>>(key: &Key, patch: Value) -> Self {
        Self::new::<K>(WriteKind::StrategicPatch, key.clone(), patch)
    }

    /// Applies `body` server-side as `manager`, taking fields over from others.
    pub fn apply<K: Resource<DynamicType = ()>>(key: &Key, manager: &str, mut body: Value) -> Self {
        declare::<K>(&mut body);
        let mut write = Self::new::<K>(WriteKind::Apply, key.clone(), body);
        write.query = vec![("fieldManager", manager.to_owned()), ("force", "true".to_owned())];
        write
    }

    /// Replaces an object; its resourceVersion, if set, must be the server's.
    pub fn replace<K: Kind>(object: &K) -> Self {
        Self { kind: WriteKind::Replace, ..Self::create(object) }
    }

    /// Deletes an object.
    pub fn delete<K: Resource<DynamicType = ()>>(key: &Key) -> Self {
        Self::new::<K>(WriteKind::Delete, key.clone(), json!({"apiVersion": "v1", "kind": "DeleteOptions"}))
    }

    /// Evicts a pod: deletes it if its disruption budgets allow that.
    pub fn evict(pod: &Key) -> Self {
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata(pod)});
        Self::new::<k8s_openapi::api::core::v1::Pod>(WriteKind::Create, pod.clone(), body).at("eviction")
    }

    /// Binds a pod to a node.
    pub fn bind(pod: &Key, node: &str) -> Self {
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
        let body =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata(pod), "target": target});
        Self::new::<k8s_openapi::api::core::v1::Pod>(WriteKind::Create, pod.clone(), body).at("binding")
    }

    /// Whether it deletes an object of this kind.
    pub fn is_deletion_of<K: Resource<DynamicType = ()>>(&self) -> bool {
        self.kind == WriteKind::Delete && self.group == K::group(&()) && self.plural == K::plural(&())
    }

    fn new<K: Resource<DynamicType = ()>>(kind: WriteKind, key: Key, body: Value) -> Self {
        Self {
            kind,
            group: K::group(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            singular: K::kind(&()).into_owned(),
            collection: K::url_path(&(), key.namespace()),
            key,
            subresource: None,
            query: Vec::new(),
            body,
            tolerated: Vec::new(),
        }
    }

    /// Writes the status only.
    #[must_use]
    pub fn status(self) -> Self {
        self.at("status")
    }

    /// Writes a subresource.
    #[must_use]
    pub fn at(mut self, subresource: &'static str) -> Self {
        self.subresource = Some(subresource);
        self
    }

    /// Only while the object is the one with this uid.
    #[must_use]
    pub fn if_uid(self, uid: &str) -> Self {
        self.precondition("uid", uid)
    }

    /// Only while the object has this resourceVersion.
    #[must_use]
    pub fn if_version(self, version: &str) -> Self {
        self.precondition("resourceVersion", version)
    }

    fn precondition(mut self, field: &str, value: &str) -> Self {
        match (self.kind, self.subresource) {
            (WriteKind::Delete, _) => self.body["preconditions"][field] = value.into(),
            (_, Some("eviction")) => self.body["deleteOptions"]["preconditions"][field] = value.into(),
            (WriteKind::JsonPatch, _) => {
                let test = json!({"op": "test", "path": format!("/metadata/{field}"), "value": value});
                self.body.as_array_mut().expect("a JSON patch is a list").insert(0, test);
            }
            _ => self.body["metadata"][field] = value.into(),
        }
        self
    }

    /// Gives the pods of a deletion or eviction this many seconds.
    #[must_use]
    pub fn grace(mut self, seconds: i64) -> Self {
        if self.subresource == Some("eviction") {
            self.body["deleteOptions"]["gracePeriodSeconds"] = seconds.into();
        } else {
            self.body["gracePeriodSeconds"] = seconds.into();
        }
        self
    }

    /// Says what becomes of the dependents of a deleted object: `Background`, `Foreground` or `Orphan`.
    #[must_use]
    pub fn propagation(mut self, policy: &str) -> Self {
        self.body["propagationPolicy"] = policy.into();
        self
    }

    /// Takes an answer with this HTTP status as done: 404 for a deletion, 409 for a creation that may have happened before.
    #[must_use]
    pub fn tolerating(mut self, status: u16) -> Self {
        self.tolerated.push(status);
        self
    }

    /// Returns what the write does.
    pub fn kind(&self) -> WriteKind {
        self.kind
    }

    /// Returns the key of the object it is about.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the subresource it goes to.
    pub fn subresource(&self) -> Option<&'static str> {
        self.subresource
    }

    /// Returns what it does to which kind: "create NodeClaim".
    pub fn sort(&self) -> String {
        format!("{} {}", self.verb(), self.singular)
    }

    fn verb(&self) -> &'static str {
        match (self.kind, self.subresource) {
            (_, Some("eviction")) => "evict",
            (_, Some("binding")) => "bind",
            (WriteKind::Create, _) => "create",
            (WriteKind::MergePatch | WriteKind::JsonPatch | WriteKind::StrategicPatch, _) => "patch",
            (WriteKind::Apply, _) => "apply",
            (WriteKind::Replace, _) => "replace",
            (WriteKind::Delete, _) => "delete",
        }
    }

    /// Returns the body sent.
    pub fn body(&self) -> &Value {
        &self.body
    }
}

/// Says of what kind an object is.
fn declare<K: Resource<DynamicType = ()>>(body: &mut Value) {
    if let Some(fields) = body.as_object_mut() {
        fields.insert("apiVersion".into(), K::api_version(&()).into());
        fields.insert("kind".into(), K::kind(&()).into());
    }
}

fn metadata(key: &Key) -> Value {
    json!({"namespace": key.namespace(), "name": key.name()})
}

impl fmt::Display for Write {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.verb(), self.singular, self.key)?;
        match self.subresource {
            Some(part @ ("status" | "scale")) => write!(formatter, " ({part})"),
            _ => Ok(()),
        }
    }
}
