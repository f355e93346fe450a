//! The binding subresource: a scheduler assigns a pod to a node.

use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::Write;
use crate::error::{ApiError, FieldError};
use crate::server::Core;
use crate::store::{Expected, Key};
use crate::wire::{Answer, Call};

impl Core {
    pub(super) fn bind(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let binding = call.decode()?;
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            let error = FieldError::required("target.name", "");
            return Err(ApiError::invalid("", "Binding", call.name(), &[error]));
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
        if let Some(generation) = pod["metadata"]["generation"].as_i64() {
            pod["metadata"]["generation"] = (generation + 1).into();
        }
        for (name, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
            pod["metadata"]["annotations"][name] = value.clone();
        }
        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": self.now(),
        }));
        pod["status"]["conditions"] = Value::Array(conditions);
    }
}

fn check(call: &Call<'_>, binding: &Value, pod: &Value, deleting: bool) -> Result<(), ApiError> {
    let conflict = |why: String| Err(ApiError::conflict("pods/binding", call.name(), why));
    let (wanted, uid) = (&binding["metadata"]["uid"], &pod["metadata"]["uid"]);
    if wanted.as_str().is_some_and(|wanted| !wanted.is_empty()) && wanted != uid {
        return conflict(format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
        ));
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
