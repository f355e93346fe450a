//! The binding subresource: a scheduler assigns a pod to a node.

use http::StatusCode;
use serde_json::{Value, json};

use super::decode::body_as;
use crate::admission::Write;
use crate::error::ApiError;
use crate::server::Core;
use crate::store::{Expected, Key};
use crate::wire::{Answer, Call};

impl Core {
    pub(super) fn bind(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let binding = body_as(call, "v1", "Binding")?;
        if binding["metadata"]["name"] != call.name() {
            return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
        }
        let target = &binding["target"];
        let (kind, node) =
            (target["kind"].as_str().unwrap_or_default(), target["name"].as_str().unwrap_or_default());
        let mut wrong = Vec::new();
        if !matches!(kind, "" | "Node") {
            wrong.push(format!(
                "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
            ));
        }
        if node.is_empty() {
            wrong.push("target.name: Required value".to_owned());
        }
        match wrong.as_slice() {
            [] => {}
            [one] => return Err(ApiError::unknown_failure(one.clone())),
            many => return Err(ApiError::unknown_failure(format!("[{}]", many.join(", ")))),
        }
        let kind = Some(("", "v1", "Binding"));
        self.admit(call, &Write { kind, ..Write::of(call, "CREATE", Some(&binding), None)? })?;
        loop {
            let current = self.current(call)?;
            let mut pod = current.value();
            check(call, &binding, &pod, current.deleting)?;
            self.assign(&mut pod, node, &binding);
            if call.dry_run()? {
                break;
            }
            let key = Key::new(call.namespace(), call.name());
            let (expected, fields) = (Expected::Revision(current.revision), &call.resource.selectable_fields);
            if self.store.write(&call.resource.name, &key, expected, &mut pod, fields).is_ok() {
                break;
            }
        }
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(Answer::value(StatusCode::CREATED, &status))
    }

    fn assign(&self, pod: &mut Value, node: &str, binding: &Value) {
        pod["spec"]["nodeName"] = node.into();
        for (name, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
            pod["metadata"]["annotations"][name] = value.clone();
        }
        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        set_condition(
            &mut conditions,
            json!({
                "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": self.now(),
            }),
        );
        pod["status"]["conditions"] = Value::Array(conditions);
        pod["status"].as_object_mut().map(|status| status.remove("nominatedNodeName"));
    }
}

/// Sets a condition in the place of the one of the same type; its time moves when its status does.
pub(super) fn set_condition(conditions: &mut Vec<Value>, mut condition: Value) {
    match conditions.iter_mut().find(|other| other["type"] == condition["type"]) {
        Some(other) => {
            if other["status"] == condition["status"] {
                condition["lastTransitionTime"] = other["lastTransitionTime"].clone();
            }
            *other = condition;
        }
        None => conditions.push(condition),
    }
}

fn check(call: &Call<'_>, binding: &Value, pod: &Value, deleting: bool) -> Result<(), ApiError> {
    let conflict = |why: String| Err(ApiError::conflict("pods/binding", call.name(), why));
    for (what, wanted, actual) in [
        ("UID", &binding["metadata"]["uid"], &pod["metadata"]["uid"]),
        ("ResourceVersion", &binding["metadata"]["resourceVersion"], &pod["metadata"]["resourceVersion"]),
    ] {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if !text(wanted).is_empty() && wanted != actual {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: {what} in precondition: {}, {what} in object meta: {}",
                call.namespace(),
                call.name(),
                text(wanted),
                text(actual)
            );
            return Err(ApiError::conflict("pods", call.name(), why));
        }
    }
    if deleting {
        return conflict(format!("pod {} is being deleted, cannot be assigned to a host", call.name()));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return conflict(format!("pod {} is already assigned to node {node:?}", call.name()));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return conflict(format!("pod {} has non-empty .spec.schedulingGates", call.name()));
    }
    Ok(())
}
