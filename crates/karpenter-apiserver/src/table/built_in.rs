//! Columns of built-in kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::duration;
use super::{Column, age};

const fn column(name: &'static str, kind: &'static str) -> Column {
    Column { name, kind, priority: 0 }
}

const fn wide(name: &'static str, kind: &'static str) -> Column {
    Column { name, kind, priority: 1 }
}

const NAME: Column = column("Name", "string");
const AGE: Column = column("Age", "string");

/// Returns the columns of a resource.
pub(super) fn columns(resource: &str) -> Vec<Column> {
    let between: Vec<Column> = match resource {
        "pods" => vec![column("Ready", "string"), column("Status", "string"), column("Restarts", "string")],
        "nodes" => vec![column("Status", "string"), column("Roles", "string")],
        "namespaces" => vec![column("Status", "string")],
        "deployments.apps" => {
            vec![column("Ready", "string"), column("Up-to-date", "string"), column("Available", "string")]
        }
        "replicasets.apps" => {
            vec![column("Desired", "integer"), column("Current", "integer"), column("Ready", "integer")]
        }
        "statefulsets.apps" => vec![column("Ready", "string")],
        "daemonsets.apps" => ["Desired", "Current", "Ready", "Up-to-date", "Available"]
            .into_iter()
            .map(|name| column(name, "integer"))
            .collect(),
        "jobs.batch" => {
            vec![column("Status", "string"), column("Completions", "string"), column("Duration", "string")]
        }
        "services" => ["Type", "Cluster-IP", "External-IP", "Port(s)"]
            .into_iter()
            .map(|name| column(name, "string"))
            .collect(),
        "configmaps" => vec![column("Data", "integer")],
        "secrets" => vec![column("Type", "string"), column("Data", "integer")],
        "serviceaccounts" => vec![column("Secrets", "integer")],
        "poddisruptionbudgets.policy" => vec![
            column("Min Available", "string"),
            column("Max Unavailable", "string"),
            column("Allowed Disruptions", "integer"),
        ],
        "persistentvolumeclaims" => ["Status", "Volume", "Capacity", "Access Modes", "StorageClass"]
            .into_iter()
            .map(|name| column(name, "string"))
            .collect(),
        "storageclasses.storage.k8s.io" => ["Provisioner", "ReclaimPolicy", "VolumeBindingMode"]
            .into_iter()
            .map(|name| column(name, "string"))
            .collect(),
        "priorityclasses.scheduling.k8s.io" => {
            vec![column("Value", "integer"), column("Global-Default", "boolean")]
        }
        "leases.coordination.k8s.io" => vec![column("Holder", "string")],
        "customresourcedefinitions.apiextensions.k8s.io" => return vec![NAME, column("Created At", "date")],
        "events" => {
            return ["Last Seen", "Type", "Reason", "Object", "Message"]
                .into_iter()
                .map(|name| column(name, "string"))
                .chain([wide("Name", "string")])
                .collect();
        }
        _ => Vec::new(),
    };
    let mut columns = vec![NAME];
    columns.extend(between);
    columns.push(AGE);
    match resource {
        "pods" => {
            columns.extend([wide("IP", "string"), wide("Node", "string"), wide("Nominated Node", "string")]);
        }
        "nodes" => columns.push(column("Version", "string")),
        _ => {}
    }
    columns
}

/// Returns the cells of an object, one for each column.
pub(super) fn cells(resource: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let created = object["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    if resource == "events" {
        return event_cells(object, now);
    }
    let mut cells = vec![object["metadata"]["name"].clone()];
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let shown = |value: &Value| value.as_str().filter(|text| !text.is_empty()).unwrap_or("<none>").to_owned();
    match resource {
        "pods" => cells.extend(pod_cells(object)),
        "nodes" => cells.extend([node_status(object).into(), node_roles(object).into()]),
        "namespaces" => cells.push(status["phase"].clone()),
        "deployments.apps" => cells.extend([
            json!(format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"]))),
            json!(count(&status["updatedReplicas"]).to_string()),
            json!(count(&status["availableReplicas"]).to_string()),
        ]),
        "replicasets.apps" => cells.extend(
            [&spec["replicas"], &status["replicas"], &status["readyReplicas"]]
                .map(|value| json!(count(value))),
        ),
        "statefulsets.apps" => {
            cells.push(json!(format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"]))));
        }
        "daemonsets.apps" => cells.extend(
            [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            ]
            .map(|name| json!(count(&status[name]))),
        ),
        "jobs.batch" => cells.extend(job_cells(object, now)),
        "services" => cells.extend([
            spec["type"].clone(),
            json!(shown(&spec["clusterIP"])),
            json!("<none>"),
            json!(service_ports(spec)),
        ]),
        "customresourcedefinitions.apiextensions.k8s.io" => {
            cells.push(json!(created));
            return cells;
        }
        _ => cells.extend(plain_cells(resource, object)),
    }
    cells.push(age(created, now).into());
    match resource {
        "pods" => cells.extend(
            [&status["podIP"], &spec["nodeName"], &status["nominatedNodeName"]]
                .map(|value| json!(shown(value))),
        ),
        "nodes" => cells.push(json!(status["nodeInfo"]["kubeletVersion"].as_str().unwrap_or_default())),
        _ => {}
    }
    cells
}

/// Cells of kinds whose columns are plain fields.
fn plain_cells(resource: &str, object: &Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let mut cells = Vec::new();
    match resource {
        "configmaps" => cells.push(json!(size(&object["data"]) + size(&object["binaryData"]))),
        "secrets" => cells.extend([object["type"].clone(), json!(size(&object["data"]))]),
        "serviceaccounts" => cells.push(json!(object["secrets"].as_array().map_or(0, Vec::len))),
        "poddisruptionbudgets.policy" => {
            let bound = |value: &Value| match value {
                Value::Null => json!("N/A"),
                Value::String(text) => json!(text),
                other => json!(other.to_string()),
            };
            cells.extend([
                bound(&spec["minAvailable"]),
                bound(&spec["maxUnavailable"]),
                json!(count(&status["disruptionsAllowed"])),
            ]);
        }
        "persistentvolumeclaims" => {
            let modes = spec["accessModes"].as_array().into_iter().flatten().filter_map(Value::as_str);
            cells.extend([
                status["phase"].clone(),
                json!(spec["volumeName"].as_str().unwrap_or_default()),
                json!(status["capacity"]["storage"].as_str().unwrap_or_default()),
                json!(modes.collect::<Vec<_>>().join(",")),
                json!(spec["storageClassName"].as_str().unwrap_or_default()),
            ]);
        }
        "storageclasses.storage.k8s.io" => cells.extend([
            object["provisioner"].clone(),
            object["reclaimPolicy"].clone(),
            object["volumeBindingMode"].clone(),
        ]),
        "priorityclasses.scheduling.k8s.io" => {
            cells.extend([object["value"].clone(), json!(object["globalDefault"] == true)]);
        }
        "leases.coordination.k8s.io" => {
            cells.push(json!(spec["holderIdentity"].as_str().unwrap_or_default()));
        }
        _ => {}
    }
    cells
}

fn size(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

fn pod_cells(pod: &Value) -> [Value; 3] {
    let statuses = pod["status"]["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = statuses.iter().filter(|status| status["ready"] == true).count();
    let total = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let restarts: i64 = statuses.iter().filter_map(|status| status["restartCount"].as_i64()).sum();
    let waiting = statuses.iter().find_map(|status| status["state"]["waiting"]["reason"].as_str());
    let gated = pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
    let phase = pod["status"]["reason"].as_str().or(waiting);
    let phase = phase.or(gated.then_some("SchedulingGated")).or(pod["status"]["phase"].as_str());
    let shown = match phase.unwrap_or_default() {
        _ if pod["metadata"]["deletionTimestamp"].is_string() => "Terminating",
        "Succeeded" => "Completed",
        "Failed" => "Error",
        other => other,
    };
    [json!(format!("{ready}/{total}")), json!(shown), json!(restarts.to_string())]
}

fn node_status(node: &Value) -> String {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let mut status = match ready.and_then(|condition| condition["status"].as_str()) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn node_roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn job_cells(job: &Value, now: Timestamp) -> [Value; 3] {
    let condition = |kind: &str| {
        let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let status = if condition("Complete") {
        "Complete"
    } else if condition("Failed") {
        "Failed"
    } else if job["spec"]["suspend"] == true {
        "Suspended"
    } else {
        "Running"
    };
    let done = job["status"]["succeeded"].as_i64().unwrap_or(0);
    let wanted = job["spec"]["completions"].as_i64().unwrap_or(1);
    let second = |value: &Value| value.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_second);
    let took = second(&job["status"]["startTime"])
        .map(|start| duration(second(&job["status"]["completionTime"]).unwrap_or(now.as_second()) - start));
    [json!(status), json!(format!("{done}/{wanted}")), json!(took.unwrap_or_default())]
}

fn service_ports(spec: &Value) -> String {
    let ports = spec["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP")));
    let ports = ports.collect::<Vec<_>>().join(",");
    if ports.is_empty() { "<none>".to_owned() } else { ports }
}

fn event_cells(event: &Value, now: Timestamp) -> Vec<Value> {
    // Served from either group: the same facts under two names.
    let either = |first: &str, second: &str| {
        if event[first].is_null() { event[second].clone() } else { event[first].clone() }
    };
    let object = either("involvedObject", "regarding");
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let seen = ["lastTimestamp", "deprecatedLastTimestamp", "eventTime"]
        .into_iter()
        .find_map(|name| event[name].as_str())
        .or(event["metadata"]["creationTimestamp"].as_str());
    vec![
        json!(seen.map_or_else(|| "<unknown>".to_owned(), |time| age(time, now))),
        event["type"].clone(),
        event["reason"].clone(),
        json!(format!("{kind}/{}", object["name"].as_str().unwrap_or_default())),
        either("message", "note"),
        event["metadata"]["name"].clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_cell_for_every_column() {
        for resource in [
            "pods",
            "nodes",
            "namespaces",
            "deployments.apps",
            "replicasets.apps",
            "statefulsets.apps",
            "daemonsets.apps",
            "jobs.batch",
            "services",
            "configmaps",
            "secrets",
            "serviceaccounts",
            "poddisruptionbudgets.policy",
            "persistentvolumeclaims",
            "storageclasses.storage.k8s.io",
            "priorityclasses.scheduling.k8s.io",
            "leases.coordination.k8s.io",
            "events",
            "roles.rbac",
            "customresourcedefinitions.apiextensions.k8s.io",
        ] {
            let cells = cells(resource, &json!({"metadata": {"name": "x"}}), Timestamp::UNIX_EPOCH);
            assert_eq!(cells.len(), columns(resource).len(), "{resource}");
        }
    }

    #[test]
    fn a_pod_shows_readiness_and_phase() {
        let pod = json!({
            "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"containers": [{}, {}], "nodeName": "n"},
            "status": {"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 2}]},
        });
        let cells = cells("pods", &pod, Timestamp::from_second(30).unwrap());
        assert_eq!(cells[..5], [json!("a"), json!("1/2"), json!("Running"), json!("2"), json!("30s")]);
        assert_eq!(cells[6], "n");
    }
}
