//! Server-side apply: merging an applied configuration and moving ownership.
//!
//! Fields the configuration names are set; fields the same manager applied before, names no longer, and nobody else
//! owns are removed; fields that differ and belong to others are conflicts unless forced.

use serde_json::{Value, json};

use super::check::check;
use super::compare::compare;
use super::managers::{Entry, Identity, strip};
use super::merge::{merged, removed};
use super::{FieldSet, Manager, Managers};
use crate::error::ApiError;
use crate::schema::Node;

/// The outcome of an apply.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) object: Value,
    pub(crate) managers: Managers,
}

/// The name under which kubectl applies, with the rules for objects it used to apply on the client's side.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Applies `configuration` to `live`, whose `managedFields` are taken out into `managers`.
///
/// # Errors
/// 500 when the configuration does not fit the schema; 409 with one cause per field when others own fields with
/// different values and `force` is off.
pub(crate) fn apply(
    live: &Value,
    managers: Managers,
    configuration: &Value,
    node: &Node,
    manager: Manager<'_>,
    force: bool,
) -> Result<Applied, ApiError> {
    fit(configuration, node)?;
    let outcome = transfer(live, managers.clone(), configuration, node, manager, force);
    let mut applied = match outcome {
        Ok(applied) => applied,
        Err(conflicts) => {
            let left = if manager.name == KUBECTL { unforgiven(live, &conflicts, node) } else { conflicts };
            if !left.is_empty() {
                return Err(conflict(&left));
            }
            transfer(live, managers, configuration, node, manager, true).unwrap_or_else(|_| {
                unreachable!("a forced apply has no conflicts");
            })
        }
    };
    if manager.name == KUBECTL {
        record_last_applied(&mut applied.object, configuration);
    }
    Ok(applied)
}

fn fit(configuration: &Value, node: &Node) -> Result<(), ApiError> {
    let problems = check(configuration, node);
    let summary = match problems.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let metadata = &configuration["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&configuration["apiVersion"]);
    let message = format!(
        "failed to create typed patch object ({}/{}; {}, Kind={}): {summary}",
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        if api_version.contains('/') { api_version } else { format!("/{api_version}") },
        text(&configuration["kind"]),
    );
    Err(ApiError::unknown_failure(message))
}

/// Fields of one manager that an apply would change.
type Conflicts = Vec<(Identity, FieldSet)>;

fn transfer(
    live: &Value,
    mut managers: Managers,
    configuration: &Value,
    node: &Node,
    manager: Manager<'_>,
    force: bool,
) -> Result<Applied, Conflicts> {
    let identity = Identity::applier(manager);
    let last = managers.find(&identity).map(|entry| entry.fields.clone()).unwrap_or_default();
    let wanted = FieldSet::of(configuration, node).without(manager.ignored);
    let mut object = merged(Some(live), Some(configuration), node).unwrap_or_default();
    let api_version = manager.api_version.to_owned();
    let time = managers.find(&identity).map(|entry| entry.time.clone());
    managers.remove(&identity);
    if !last.is_empty() {
        object = pruned(&object, &last, &wanted, &managers, node);
    }
    let comparison = compare(Some(live), Some(&object), node).without(manager.ignored);
    managers.lose(&comparison, force)?;
    let changed = *live != object;
    let fields = strip(&wanted);
    if !fields.is_empty() {
        let time = if changed { manager.now.to_owned() } else { time.unwrap_or_default() };
        managers.insert(Entry { identity: Identity { api_version, ..identity }, time, fields });
    }
    Ok(Applied { object, managers })
}

/// Removes what the manager applied last time, does not apply now, and nobody owns.
fn pruned(merged: &Value, last: &FieldSet, wanted: &FieldSet, managers: &Managers, node: &Node) -> Value {
    let last = last.with_named_fields(node);
    let first = removed(merged, &last, node);
    let merged_set = FieldSet::of(merged, node).with_named_fields(node);
    let mut kept = FieldSet::of(&first, node).with_named_fields(node);
    let mut owned = wanted.clone();
    for entry in &managers.entries {
        owned.extend(&entry.fields);
    }
    kept.extend(&owned.with_named_fields(node));
    let second = removed(merged, &merged_set.difference(&kept), node);
    let second_set = FieldSet::of(&second, node).with_named_fields(node);
    removed(merged, &merged_set.difference(&second_set).intersection(&last), node)
}

/// Conflicts about fields that the client-side apply of kubectl had set and that nobody changed since are none.
fn unforgiven(live: &Value, conflicts: &Conflicts, node: &Node) -> Conflicts {
    let annotation = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let Some(last) = annotation.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return conflicts.clone();
    };
    if last["apiVersion"] != live["apiVersion"] || !check(&last, node).is_empty() {
        return conflicts.clone();
    }
    let comparison = compare(Some(&last), Some(live), node);
    let allowed = FieldSet::of(&last, node).difference(&comparison.written()).difference(&comparison.removed);
    conflicts
        .iter()
        .map(|(identity, fields)| (identity.clone(), fields.difference(&allowed)))
        .filter(|(_, fields)| !fields.is_empty())
        .collect()
}

/// Keeps the annotation of client-side apply in step, where there is one.
fn record_last_applied(object: &mut Value, configuration: &Value) {
    let annotations = &mut object["metadata"]["annotations"];
    if annotations[LAST_APPLIED].as_str().is_none_or(str::is_empty) {
        return;
    }
    let mut configuration = configuration.clone();
    if let Some(annotations) = configuration["metadata"]["annotations"].as_object_mut() {
        annotations.remove(LAST_APPLIED);
    }
    annotations[LAST_APPLIED] = format!("{configuration}\n").into();
}

fn conflict(conflicts: &Conflicts) -> ApiError {
    let mut conflicts = conflicts.clone();
    conflicts.sort_by_key(|(identity, _)| identity.encoded());
    let mut causes = Vec::new();
    let mut sentences = Vec::new();
    for (identity, fields) in &conflicts {
        let with = identity.shown();
        let paths = fields.paths();
        causes.extend(paths.iter().map(|path| {
            json!({"reason": "FieldManagerConflict", "message": format!("conflict with {with}"), "field": path})
        }));
        sentences.push(format!("conflicts with {with}:"));
        sentences.extend(paths.iter().map(|path| format!("- {path}")));
    }
    let message = match causes.as_slice() {
        [one] => {
            let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            format!("Apply failed with 1 conflict: {}: {}", text("message"), text("field"))
        }
        many => format!("Apply failed with {} conflicts: {}", many.len(), sentences.join("\n")),
    };
    ApiError::apply_conflict(message, &causes)
}

#[cfg(test)]
mod tests {
    use super::*;

    static NOTHING: FieldSet = FieldSet { member: false, children: std::collections::BTreeMap::new() };

    fn manager(name: &str) -> Manager<'_> {
        Manager { name, api_version: "v1", subresource: "", now: "2026-01-01T00:00:00Z", ignored: &NOTHING }
    }

    fn node() -> Node {
        Node::custom(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "color": {"type": "string"},
            "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}}},
        }}}}))
    }

    fn run(live: &Applied, name: &str, configuration: &Value, force: bool) -> Result<Applied, ApiError> {
        apply(&live.object, live.managers.clone(), configuration, &node(), manager(name), force)
    }

    fn empty() -> Applied {
        Applied { object: json!({}), managers: Managers::default() }
    }

    #[test]
    fn a_field_of_another_manager_is_a_conflict_until_forced() {
        let first = run(&empty(), "one", &json!({"spec": {"size": 1, "color": "red"}}), false).unwrap();
        let error = run(&first, "two", &json!({"spec": {"size": 2}}), false).unwrap_err();
        assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"one\": .spec.size");
        let same = run(&first, "two", &json!({"spec": {"size": 1}}), false).unwrap();
        assert_eq!(same.managers.entries.len(), 2);
        let forced = run(&first, "two", &json!({"spec": {"size": 2}}), true).unwrap();
        assert_eq!(forced.object["spec"], json!({"size": 2, "color": "red"}));
        let one = forced.managers.find(&Identity::applier(manager("one"))).unwrap();
        assert_eq!(one.fields.paths(), [".spec.color"]);
    }

    #[test]
    fn what_is_no_longer_applied_and_owned_by_nobody_else_goes() {
        let items = json!({"spec": {"size": 1, "items": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}});
        let first = run(&empty(), "one", &items, false).unwrap();
        let shared = run(&first, "two", &json!({"spec": {"items": [{"name": "b"}]}}), false).unwrap();
        let second = run(&shared, "one", &json!({"spec": {"items": [{"name": "c"}]}}), false).unwrap();
        assert_eq!(second.object["spec"], json!({"items": [{"name": "b"}, {"name": "c"}]}));
    }

    #[test]
    fn an_update_takes_fields_over() {
        let first = run(&empty(), "one", &json!({"spec": {"size": 1, "color": "red"}}), false).unwrap();
        let mut managers = first.managers.clone();
        let updated = json!({"spec": {"size": 5, "color": "red"}});
        managers.update(&first.object, &updated, &node(), manager("editor"));
        let one = managers.find(&Identity::applier(manager("one"))).unwrap();
        assert_eq!(one.fields.paths(), [".spec.color"]);
        let live = Applied { object: updated, managers };
        let error = run(&live, "one", &json!({"spec": {"size": 1, "color": "red"}}), false).unwrap_err();
        assert!(error.message.contains("conflict with \"editor\" using v1: .spec.size"), "{}", error.message);
    }

    #[test]
    fn a_configuration_must_fit_the_schema() {
        let configuration =
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"other": 1}});
        let error = run(&empty(), "one", &configuration, false).unwrap_err();
        assert_eq!(
            error.message,
            "failed to create typed patch object (/n; /v1, Kind=K): .spec.other: field not declared in schema"
        );
    }
}
