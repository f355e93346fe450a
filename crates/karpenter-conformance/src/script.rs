//! A script: requests that are sent in order to both servers.
//!
//! What only a server knows (uids, resource versions, continue tokens) is written as a reference to an earlier
//! answer, `$(3/metadata/uid)`, and filled in per server when the request is sent.

use serde_json::{Value, json};

use crate::mutate::Edit;
use crate::random::Random;
use crate::samples::Resource;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Empty,
    /// Sent as it is.
    Text(String),
    /// JSON with references filled in.
    Json(Value),
    /// The answer to an earlier step with some places changed; `None` removes.
    Edited {
        step: usize,
        edits: Vec<Edit>,
    },
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Body,
}

impl Request {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: Body::Empty }
    }

    pub(crate) fn json(mut self, body: Value) -> Self {
        self.body = Body::Json(body);
        self.header("content-type", JSON)
    }

    pub(crate) fn text(mut self, content_type: &str, body: impl Into<String>) -> Self {
        self.body = Body::Text(body.into());
        self.header("content-type", content_type)
    }

    pub(crate) fn patch(mut self, content_type: &str, body: Value) -> Self {
        self.body = Body::Json(body);
        self.header("content-type", content_type)
    }

    pub(crate) fn edited(mut self, step: usize, edits: Vec<Edit>) -> Self {
        self.body = Body::Edited { step, edits };
        self.header("content-type", JSON)
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds a query parameter.
    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        let sign = if self.path.contains('?') { '&' } else { '?' };
        self.path.push(sign);
        self.path.push_str(name);
        self.path.push('=');
        self.path.push_str(&encode(value));
        self
    }
}

/// Escapes a query value; references stay readable because they are filled in later.
fn encode(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$()/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text = format!("{text}%{byte:02X}");
        }
    }
    text
}

/// What is waited for before the script goes on.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// GET of the path answers with the code.
    Code(String, u16),
    /// GET of the path answers an object with this value at the JSON pointer.
    Value(String, String, Value),
}

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Request),
    /// Opens a watch; its events are read by `Drain`.
    Watch(Request),
    /// Reads the events of the watch opened by a step, up to the first one about the object with this name.
    Drain {
        watch: usize,
        until: String,
    },
    Await(Condition),
}

/// Requests about one subject in a namespace of their own.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) family: &'static str,
    pub(crate) namespace: String,
    pub(crate) random: Random,
    pub(crate) steps: Vec<Step>,
}

impl Script {
    /// Starts a script with the creation of its namespace.
    pub(crate) fn new(family: &'static str, namespace: &str, random: Random) -> Self {
        let mut script = Self { family, namespace: namespace.to_owned(), random, steps: Vec::new() };
        script.send(Request::new("POST", "/api/v1/namespaces").json(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        })));
        // Pods need an account; one without token keeps the volume of the token out of them.
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        script.send(Request::new("POST", accounts).json(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
            "automountServiceAccountToken": false,
        })));
        script
    }

    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    pub(crate) fn send(&mut self, request: Request) -> usize {
        self.push(Step::Send(request))
    }

    pub(crate) fn watch(&mut self, request: Request) -> usize {
        self.push(Step::Watch(request))
    }

    pub(crate) fn drain(&mut self, watch: usize, until: &str) -> usize {
        self.push(Step::Drain { watch, until: until.to_owned() })
    }

    pub(crate) fn wait(&mut self, condition: Condition) -> usize {
        self.push(Step::Await(condition))
    }

    /// A name for an object: as given in the script's namespace, made unique in the cluster's scope.
    pub(crate) fn name(&self, resource: &Resource, name: &str) -> String {
        if resource.namespaced { name.to_owned() } else { format!("{}-{name}", self.namespace) }
    }

    pub(crate) fn collection(&self, resource: &Resource) -> String {
        resource.collection(&self.namespace)
    }

    pub(crate) fn item(&self, resource: &Resource, name: &str) -> String {
        format!("{}/{}", self.collection(resource), self.name(resource, name))
    }

    /// A valid object, one of the resource's samples.
    pub(crate) fn sample(&mut self, resource: &Resource, name: &str) -> Value {
        let index = self.random.below(resource.objects.len());
        resource.object(index, &self.namespace, &self.name(resource, name))
    }

    pub(crate) fn create(&mut self, resource: &Resource, object: Value) -> usize {
        self.send(Request::new("POST", self.collection(resource)).json(object))
    }

    pub(crate) fn get(&mut self, resource: &Resource, name: &str) -> usize {
        self.send(Request::new("GET", self.item(resource, name)))
    }
}

/// A reference to a place in an earlier answer.
pub(crate) fn reference(step: usize, pointer: &str) -> Value {
    Value::String(format!("$({step}{pointer})"))
}
