//! Server-side apply: several managers, conflicts, force, transfer of ownership, removal of fields.

use serde_json::{Value, json};

use super::Library;
use crate::random::Random;
use crate::samples::Resource;
use crate::script::{APPLY_PATCH, MERGE_PATCH, Request, Script};

/// Kinds whose objects are applied by people and controllers.
const APPLIED: &[&str] = &[
    "v1/configmaps",
    "v1/services",
    "v1/pods",
    "v1/nodes",
    "v1/secrets",
    "v1/serviceaccounts",
    "apps/v1/deployments",
    "apps/v1/daemonsets",
    "apps/v1/statefulsets",
    "batch/v1/jobs",
    "policy/v1/poddisruptionbudgets",
    "storage.k8s.io/v1/storageclasses",
    "coordination.k8s.io/v1/leases",
    "rbac.authorization.k8s.io/v1/clusterroles",
];

const MANAGERS: &[&str] = &["one", "two", "three"];

pub(super) fn script(library: &Library, script: &mut Script) {
    let path = script.random.pick(APPLIED);
    let resource = library.resource(path);
    let full = script.sample(resource, "a");
    if script.random.chance(30) {
        script.create(resource, full.clone());
    }
    for _ in 0..5 + script.random.below(6) {
        match script.random.below(10) {
            0 => {
                let label = script.random.pick(&["x", "y"]);
                let labels = json!({"metadata": {"labels": {"shared": label}}});
                let request = Request::new("PATCH", script.item(resource, "a")).patch(MERGE_PATCH, labels);
                script.send(request.query("fieldManager", "editor"));
            }
            1 if has_status(resource) => {
                let status = status(&mut script.random, resource);
                apply(script, resource, status, "/status");
            }
            _ => {
                let configuration = partial(&mut script.random, &full);
                apply(script, resource, configuration, "");
            }
        }
    }
    script.get(resource, "a");
}

fn apply(script: &mut Script, resource: &Resource, mut configuration: Value, subresource: &str) {
    let name = script.name(resource, "a");
    configuration["apiVersion"] = resource.api_version().into();
    configuration["kind"] = resource.kind().into();
    configuration["metadata"]["name"] = name.into();
    if script.random.chance(30) {
        let label = script.random.pick(&["x", "y", "z"]);
        configuration["metadata"]["labels"] = json!({"shared": label, (label): "own"});
    }
    match script.random.below(40) {
        0 => configuration["metadata"]["managedFields"] = json!([{"manager": "x"}]),
        1 => configuration["kind"] = json!(""),
        2 => configuration["metadata"]["name"] = json!("other"),
        3 => configuration["metadata"]["resourceVersion"] = json!("1"),
        4 => configuration["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000003"),
        5 => configuration["unheardOf"] = json!(1),
        _ => {}
    }
    let manager = script.random.pick(MANAGERS);
    let path = format!("{}{subresource}", script.item(resource, "a"));
    let mut request = Request::new("PATCH", path).patch(APPLY_PATCH, configuration);
    if !script.random.chance(3) {
        request = request.query("fieldManager", manager);
    }
    if script.random.chance(35) {
        request = request.query("force", "true");
    }
    if script.random.chance(10) {
        request = request.query("dryRun", "All");
    }
    script.send(request);
}

/// Some of the fields of an object, some with other values.
fn partial(random: &mut Random, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut kept = serde_json::Map::new();
            for (name, field) in fields {
                // What identifies items of lists, and what kinds cannot do without, mostly stays.
                let essential = matches!(
                    name.as_str(),
                    "name"
                        | "containers"
                        | "spec"
                        | "template"
                        | "selector"
                        | "image"
                        | "port"
                        | "containerPort"
                        | "mountPath"
                );
                if essential || random.chance(70) {
                    kept.insert(name.clone(), partial(random, field));
                }
            }
            Value::Object(kept)
        }
        Value::Array(items) => {
            let kept: Vec<Value> = items.iter().filter(|_| random.chance(85)).cloned().collect();
            let mut kept: Vec<Value> = kept.iter().map(|item| partial(random, item)).collect();
            if random.chance(10) {
                kept.reverse();
            }
            Value::Array(kept)
        }
        Value::Number(number) if random.chance(30) => json!(number.as_i64().unwrap_or(0) + 1),
        Value::Bool(flag) if random.chance(30) => json!(!flag),
        other => other.clone(),
    }
}

fn has_status(resource: &Resource) -> bool {
    matches!(resource.plural(), "pods" | "nodes" | "services" | "deployments" | "daemonsets" | "jobs")
}

fn status(random: &mut Random, resource: &Resource) -> Value {
    let condition = json!({"type": random.pick(&["Ready", "Available"]), "status": random.pick(&["True", "False"]),
        "reason": "R", "message": "m", "lastTransitionTime": "2024-01-01T00:00:00Z"});
    match resource.plural() {
        "services" => json!({"metadata": {}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}}),
        "pods" => {
            json!({"metadata": {}, "status": {"phase": random.pick(&["Running", "Pending"]), "conditions": [condition]}})
        }
        "nodes" => json!({"metadata": {}, "status": {"conditions": [condition], "capacity": {"cpu": "8"}}}),
        _ => json!({"metadata": {}, "status": {"conditions": [condition]}}),
    }
}
