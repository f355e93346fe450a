//! The scale subresource: replicas of any kind through one shape.

use serde_json::{Value, json};

use super::conversion::served;
use super::decode::{body_as, check_name};
use super::options::WriteOptions;
use super::patch::patched;
use super::update::{Proposal, Scope};
use crate::admission::Write;
use crate::apply::{FieldSet, Manager, Managers};
use crate::error::{ApiError, FieldError};
use crate::registry::ScalePaths;
use crate::selector::LabelSelector;
use crate::server::Core;
use crate::wire::{Answer, Call, Rendering};

const API_VERSION: &str = "autoscaling/v1";

impl Core {
    pub(super) fn scale(&self, call: &Call<'_>, paths: &ScalePaths) -> Result<Answer, ApiError> {
        let (options, given) = match call.method.as_str() {
            "GET" => {
                let object = served(&call.resource, self.current(call)?.value());
                if lacks_replicas(call, &object, paths) {
                    let path = paths.spec_replicas.join(".");
                    return Err(ApiError::internal(format!(
                        "the spec replicas field \".{path}\" does not exist"
                    )));
                }
                return Ok(Answer::ok(self.rendered_scale(call, scale_of(&object, paths))?));
            }
            "PUT" => {
                let given = body_as(call, API_VERSION, "Scale")?;
                check_name(call, &given)?;
                (WriteOptions::read(call, "UpdateOptions")?, Some(given))
            }
            "PATCH" => (WriteOptions::read(call, "PatchOptions")?, None),
            _ => return Err(ApiError::method_not_allowed()),
        };
        // Whatever the form of the answer, it is made from the whole object.
        let whole =
            Call { rendering: Rendering::Object, resource: std::sync::Arc::clone(&call.resource), ..*call };
        let body = self.change(&whole, Scope::Scale, &options, |old| {
            let before = scale_of(old, paths);
            let mut scale = given.clone().unwrap_or_else(|| before.clone());
            if given.is_none() {
                patched(call, &mut scale, options.validation)?;
            }
            if given.is_none() && scale["spec"]["replicas"].is_null() && lacks_replicas(call, old, paths) {
                let path = paths.spec_replicas.join(".");
                let message = format!("the spec replicas field \".{path}\" cannot be empty");
                return Err(ApiError::bad_request(message));
            }
            let replicas = checked_replicas(call, &scale)?;
            let kind = Some(("autoscaling", "v1", "Scale"));
            self.admit(call, &Write { kind, ..Write::of(call, "UPDATE", Some(&scale), Some(&before))? })?;
            let mut object = old.clone();
            *place(&mut object, &paths.spec_replicas) = replicas.into();
            object["metadata"]["resourceVersion"] = scale["metadata"]["resourceVersion"].clone();
            let managers = self.scalers(call, old, &object, paths, &options);
            Ok(Proposal { object, managers: Some(managers), hollow: FieldSet::default() })
        })?;
        let object = serde_json::from_slice(&body).map_err(ApiError::internal)?;
        Ok(Answer::ok(self.rendered_scale(call, scale_of(&object, paths))?))
    }
}

impl Core {
    /// Works out who owns the fields of a scaled object.
    fn scalers(
        &self,
        call: &Call<'_>,
        old: &Value,
        new: &Value,
        paths: &ScalePaths,
        options: &WriteOptions,
    ) -> Managers {
        let mut managers = Managers::take(&mut old.clone());
        let names: Vec<&str> = paths.spec_replicas.iter().map(String::as_str).collect();
        let replicas = FieldSet::of_fields(&[&names]);
        let api_version = call.resource.api_version();
        let now = call.session.draw("time", || self.now());
        let writer = Manager {
            name: &options.manager,
            api_version: &api_version,
            subresource: Scope::Scale.subresource(),
            now: &now,
            ignored: &FieldSet::default(),
        };
        let (before, after) = (read(old, &paths.spec_replicas), read(new, &paths.spec_replicas));
        // A Scale without replicas says nothing that could be owned.
        let owned = before != after && after.as_i64() != Some(0);
        managers.scale(&replicas, before != after, owned.then_some(writer));
        managers
    }
}

/// Whether a custom object does not say how many replicas it wants.
fn lacks_replicas(call: &Call<'_>, object: &Value, paths: &ScalePaths) -> bool {
    call.resource.is_custom() && read(object, &paths.spec_replicas).is_null()
}

fn checked_replicas(call: &Call<'_>, scale: &Value) -> Result<i64, ApiError> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    // The rules of custom resources speak of replicas themselves.
    if replicas >= 0 || call.resource.is_custom() {
        return Ok(replicas);
    }
    let rule = "must be greater than or equal to 0";
    let error = FieldError::invalid("spec.replicas", &json!(replicas), rule);
    Err(ApiError::invalid("autoscaling", "Scale", call.name(), &[error]))
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {},
        "status": {"replicas": read(object, &paths.status_replicas).as_i64().unwrap_or(0)},
    });
    if let Some(replicas) = read(object, &paths.spec_replicas).as_i64().filter(|replicas| *replicas != 0) {
        scale["spec"]["replicas"] = replicas.into();
    }
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
