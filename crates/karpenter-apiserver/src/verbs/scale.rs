//! The scale subresource: replicas of any kind through one shape.

use http::StatusCode;
use serde_json::{Value, json};

use super::conversion::served;
use super::update::{Ownership, Refusal, Scope};
use crate::admission::Write;
use crate::error::{ApiError, FieldError};
use crate::patch::{JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, json_patch, merge_patch};
use crate::registry::ScalePaths;
use crate::selector::LabelSelector;
use crate::server::Core;
use crate::wire::{Answer, Call, decode_body};

impl Core {
    pub(super) fn scale(&self, call: &Call<'_>, paths: &ScalePaths) -> Result<Answer, ApiError> {
        loop {
            let current = self.current(call)?;
            let object = served(&call.resource, current.value());
            let before = scale_of(&object, paths);
            let mut scale = before.clone();
            match call.method.as_str() {
                "GET" => return Ok(Answer::value(StatusCode::OK, &before)),
                "PUT" => scale = call.decode()?,
                "PATCH" => patch(call, &mut scale)?,
                _ => return Err(ApiError::method_not_allowed()),
            }
            let given = scale["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            if !given.is_empty() && given != current.revision.to_string() {
                return Err(ApiError::modified(&call.resource.name, call.name()));
            }
            let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
            if replicas < 0 {
                let rule = "must be greater than or equal to 0";
                let error = FieldError::invalid("spec.replicas", &json!(replicas), rule);
                return Err(ApiError::invalid("autoscaling", "Scale", call.name(), &[error]));
            }
            let kind = Some(("autoscaling", "v1", "Scale"));
            self.admit(call, &Write { kind, ..Write::of(call, "UPDATE", Some(&scale), Some(&before))? })?;
            let mut scaled = object;
            *place(&mut scaled, &paths.spec_replicas) = replicas.into();
            // The answer of `replace` is the whole object; the scale is read from what was stored.
            match self.replace(call, &current, scaled.clone(), Scope::Main, Ownership::Credited) {
                Ok(_) if call.dry_run()? => {
                    return Ok(Answer::value(StatusCode::OK, &scale_of(&scaled, paths)));
                }
                Ok(_) => {
                    let object = served(&call.resource, self.current(call)?.value());
                    return Ok(Answer::value(StatusCode::OK, &scale_of(&object, paths)));
                }
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Raced) => {}
            }
        }
    }
}

fn patch(call: &Call<'_>, scale: &mut Value) -> Result<(), ApiError> {
    let patch = decode_body(call.body)?;
    match call.content_type() {
        JSON_PATCH => json_patch(scale, patch),
        MERGE_PATCH | STRATEGIC_MERGE_PATCH => {
            merge_patch(scale, &patch);
            Ok(())
        }
        _ => Err(ApiError::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH])),
    }
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": read(object, &paths.spec_replicas).as_i64().unwrap_or(0)},
        "status": {"replicas": read(object, &paths.status_replicas).as_i64().unwrap_or(0)},
    });
    if !metadata["namespace"].is_null() {
        scale["metadata"]["namespace"] = metadata["namespace"].clone();
    }
    match paths.selector.as_ref().map(|path| read(object, path)) {
        Some(Value::String(text)) => scale["status"]["selector"] = text.as_str().into(),
        Some(selector @ Value::Object(fields)) => {
            // ReplicationControllers select by a plain map.
            let structured = fields.contains_key("matchLabels") || fields.contains_key("matchExpressions");
            let selector = if structured { selector.clone() } else { json!({ "matchLabels": selector }) };
            scale["status"]["selector"] = LabelSelector::from_object(&selector).render().into();
        }
        _ => {}
    }
    scale
}

fn read<'v>(object: &'v Value, path: &[String]) -> &'v Value {
    path.iter().fold(object, |value, part| &value[part.as_str()])
}

fn place<'v>(object: &'v mut Value, path: &[String]) -> &'v mut Value {
    path.iter().fold(object, |value, part| &mut value[part.as_str()])
}
