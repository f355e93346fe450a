//! The cells of built-in kinds, one for each of their columns.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{age, duration};
use super::pieces::{
    access_modes, condition, containers, count, first, items, labels, or, selector, size, text,
};
use super::{network, pods};

/// Returns the cells of an object.
pub(super) fn cells(resource: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let created = text(&object["metadata"]["creationTimestamp"]);
    let aged = |between: Vec<Value>, after: &[Value]| {
        let mut cells = vec![name.clone()];
        cells.extend(between);
        cells.push(json!(age(created, now)));
        cells.extend_from_slice(after);
        cells
    };
    let (spec, status) = (&object["spec"], &object["status"]);
    match resource {
        "pods" => pods::cells(object, now),
        "events" => event(object, now),
        "podtemplates" => {
            let [names, images] = containers(&object["template"]);
            vec![name, names, images, json!(labels(&object["template"]["metadata"]["labels"]))]
        }
        "ipaddresses.networking.k8s.io" => {
            let parent = &spec["parentRef"];
            let parts = ["resource", "group", "namespace", "name"].map(|part| text(&parent[part]));
            let [resource, group, namespace, parent] = parts;
            let kind = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
            let place =
                if namespace.is_empty() { parent.to_owned() } else { format!("{namespace}/{parent}") };
            vec![name, json!(format!("{kind}/{place}"))]
        }
        "nodes" => aged(node(object), &node_wide(status)),
        "services" => aged(network::service(object), &[json!(labels(&spec["selector"]))]),
        "storageclasses.storage.k8s.io" => {
            let mut cells = aged(storage_class(object), &[]);
            mark_default(&mut cells, object, "storageclass");
            cells
        }
        "ingressclasses.networking.k8s.io" => {
            let mut cells = aged(network::ingress_class(spec), &[]);
            mark_default(&mut cells, object, "ingressclass");
            cells
        }
        "persistentvolumes" | "persistentvolumeclaims" => {
            let between = if resource == "persistentvolumes" { volume(object) } else { claim(object) };
            aged(between, &[json!(or(&spec["volumeMode"], "<unset>"))])
        }
        "priorityclasses.scheduling.k8s.io" => {
            let between = vec![json!(count(&object["value"])), json!(object["globalDefault"] == true)];
            aged(between, &[json!(text(&object["preemptionPolicy"]))])
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => {
            let role = &object["roleRef"];
            let role = format!("{}/{}", text(&role["kind"]), text(&role["name"]));
            aged(vec![json!(role)], &subjects(&object["subjects"]))
        }
        _ => match workload(resource, object, now) {
            Some((between, after)) => aged(between, &after),
            None => match plain(resource, object) {
                Some(between) => aged(between, &[]),
                None => vec![name, json!(created)],
            },
        },
    }
}

/// Cells before and after the age of kinds that run pods.
fn workload(resource: &str, object: &Value, now: Timestamp) -> Option<(Vec<Value>, Vec<Value>)> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let counts = |values: &[&Value]| values.iter().map(|value| json!(count(value))).collect::<Vec<_>>();
    let ready = || json!(format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"])));
    let [names, images] = containers(&spec["template"]);
    Some(match resource {
        "replicationcontrollers" | "replicasets.apps" => {
            let own = &spec["selector"];
            let shown = if resource == "replicasets.apps" { selector(own) } else { labels(own) };
            let between = counts(&[&spec["replicas"], &status["replicas"], &status["readyReplicas"]]);
            (between, vec![names, images, json!(shown)])
        }
        "deployments.apps" => {
            let mut between = vec![ready()];
            between.extend(counts(&[&status["updatedReplicas"], &status["availableReplicas"]]));
            (between, vec![names, images, json!(selector(&spec["selector"]))])
        }
        "statefulsets.apps" => (vec![ready()], vec![names, images]),
        "daemonsets.apps" => {
            let mut between = counts(&[
                &status["desiredNumberScheduled"],
                &status["currentNumberScheduled"],
                &status["numberReady"],
                &status["updatedNumberScheduled"],
                &status["numberAvailable"],
            ]);
            between.push(json!(labels(&spec["template"]["spec"]["nodeSelector"])));
            (between, vec![names, images, json!(selector(&spec["selector"]))])
        }
        "jobs.batch" => (job(object, now), vec![names, images, json!(selector(&spec["selector"]))]),
        "cronjobs.batch" => {
            let suspended = match spec["suspend"].as_bool() {
                Some(true) => "True",
                Some(false) => "False",
                None => "<unset>",
            };
            let last = status["lastScheduleTime"].as_str().map_or("<none>".to_owned(), |time| age(time, now));
            let between = vec![
                spec["schedule"].clone(),
                json!(or(&spec["timeZone"], "<none>")),
                json!(suspended),
                json!(size(&status["active"])),
                json!(last),
            ];
            let job = &spec["jobTemplate"]["spec"];
            let [names, images] = containers(&job["template"]);
            (between, vec![names, images, json!(selector(&job["selector"]))])
        }
        _ => return None,
    })
}

/// Cells between name and age of kinds without columns for wide output.
fn plain(resource: &str, object: &Value) -> Option<Vec<Value>> {
    let (spec, status) = (&object["spec"], &object["status"]);
    Some(match resource {
        "serviceaccounts" | "resourceclaimtemplates.resource.k8s.io" | "deviceclasses.resource.k8s.io" => {
            Vec::new()
        }
        "namespaces" => vec![json!(text(&status["phase"]))],
        "configmaps" => vec![json!(size(&object["data"]) + size(&object["binaryData"]))],
        "secrets" => vec![object["type"].clone(), json!(size(&object["data"]))],
        "leases.coordination.k8s.io" => vec![json!(text(&spec["holderIdentity"]))],
        "resourceslices.resource.k8s.io" => {
            [&spec["nodeName"], &spec["driver"], &spec["pool"]["name"]].map(|value| json!(text(value))).into()
        }
        "resourceclaims.resource.k8s.io" => vec![json!(resource_claim(object))],
        "volumeattributesclasses.storage.k8s.io" => vec![object["driverName"].clone()],
        "runtimeclasses.node.k8s.io" => vec![object["handler"].clone()],
        "servicecidrs.networking.k8s.io" => {
            let ranges: Vec<&str> = items(&spec["cidrs"]).map(text).collect();
            vec![json!(ranges.join(","))]
        }
        "csinodes.storage.k8s.io" => vec![json!(size(&spec["drivers"]))],
        "csidrivers.storage.k8s.io" => driver(spec),
        "volumeattachments.storage.k8s.io" => {
            let texts = [&spec["attacher"], &spec["source"]["persistentVolumeName"], &spec["nodeName"]];
            let mut cells: Vec<Value> = texts.map(|value| json!(text(value))).into();
            cells.push(json!(status["attached"] == true));
            cells
        }
        "poddisruptionbudgets.policy" => {
            let bound = |value: &Value| match value {
                Value::Null => json!("N/A"),
                Value::String(text) => json!(text),
                other => json!(other.to_string()),
            };
            let allowed = json!(count(&status["disruptionsAllowed"]));
            vec![bound(&spec["minAvailable"]), bound(&spec["maxUnavailable"]), allowed]
        }
        "resourcequotas" => quota(status),
        "controllerrevisions.apps" => controller_revision(object),
        "horizontalpodautoscalers.autoscaling" => network::autoscaler(object),
        "endpoints" => vec![json!(network::endpoints(object))],
        "endpointslices.discovery.k8s.io" => network::endpoint_slice(object),
        "ingresses.networking.k8s.io" => network::ingress(object),
        "networkpolicies.networking.k8s.io" => vec![json!(selector(&spec["podSelector"]))],
        "validatingwebhookconfigurations.admissionregistration.k8s.io"
        | "mutatingwebhookconfigurations.admissionregistration.k8s.io" => {
            vec![json!(size(&object["webhooks"]))]
        }
        "validatingadmissionpolicies.admissionregistration.k8s.io" => {
            let kind = &spec["paramKind"];
            let shown = match kind["kind"].as_str() {
                Some(name) => format!("{}/{name}", text(&kind["apiVersion"])),
                None => "<unset>".to_owned(),
            };
            vec![json!(size(&spec["validations"])), json!(shown)]
        }
        "validatingadmissionpolicybindings.admissionregistration.k8s.io" => {
            let shown = match spec["paramRef"]["name"].as_str() {
                Some(name) => format!("{}/{name}", or(&spec["paramRef"]["namespace"], "*")),
                None => "<unset>".to_owned(),
            };
            vec![spec["policyName"].clone(), json!(shown)]
        }
        _ => return None,
    })
}

fn node(node: &Value) -> Vec<Value> {
    let known = items(&node["status"]["conditions"]).any(|condition| condition["type"] == "Ready");
    let mut status = match (known, condition(node, "Ready")) {
        (true, true) => "Ready".to_owned(),
        (true, false) => "NotReady".to_owned(),
        (false, _) => "Unknown".to_owned(),
    };
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let own = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = own
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (key == "kubernetes.io/role").then(|| text(value)),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    let roles = if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") };
    vec![json!(status), json!(roles)]
}

fn node_wide(status: &Value) -> [Value; 6] {
    let info = &status["nodeInfo"];
    let address = |kind: &str| {
        let found = items(&status["addresses"]).find(|address| address["type"] == kind);
        json!(found.map_or("<none>", |address| text(&address["address"])))
    };
    let mut kernel = or(&info["kernelVersion"], "<unknown>").to_owned();
    if let Some(architecture) = info["architecture"].as_str().filter(|text| !text.is_empty()) {
        kernel = format!("{kernel} ({architecture})");
    }
    [
        json!(text(&info["kubeletVersion"])),
        address("InternalIP"),
        address("ExternalIP"),
        json!(or(&info["osImage"], "<unknown>")),
        json!(kernel),
        json!(or(&info["containerRuntimeVersion"], "<unknown>")),
    ]
}

fn storage_class(class: &Value) -> Vec<Value> {
    vec![
        class["provisioner"].clone(),
        json!(or(&class["reclaimPolicy"], "Delete")),
        json!(or(&class["volumeBindingMode"], "Immediate")),
        json!(class["allowVolumeExpansion"] == true),
    ]
}

/// Adds a word to the name of the class that is used where none is named.
fn mark_default(cells: &mut [Value], object: &Value, kind: &str) {
    let annotations = &object["metadata"]["annotations"];
    let names = [
        format!("{kind}.kubernetes.io/is-default-class"),
        format!("{kind}.beta.kubernetes.io/is-default-class"),
    ];
    if names.iter().any(|name| annotations[name] == "true") {
        cells[0] = json!(format!("{} (default)", text(&cells[0])));
    }
}

fn class_name(object: &Value) -> Value {
    let annotated = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    json!(or(annotated, text(&object["spec"]["storageClassName"])))
}

fn phase(object: &Value) -> Value {
    let deleting = object["metadata"]["deletionTimestamp"].is_string();
    json!(if deleting { "Terminating" } else { text(&object["status"]["phase"]) })
}

fn volume(volume: &Value) -> Vec<Value> {
    let spec = &volume["spec"];
    let claim = if spec["claimRef"].is_object() {
        format!("{}/{}", text(&spec["claimRef"]["namespace"]), text(&spec["claimRef"]["name"]))
    } else {
        String::new()
    };
    vec![
        json!(or(&spec["capacity"]["storage"], "0")),
        json!(access_modes(&spec["accessModes"])),
        json!(text(&spec["persistentVolumeReclaimPolicy"])),
        phase(volume),
        json!(claim),
        class_name(volume),
        json!(or(&spec["volumeAttributesClassName"], "<unset>")),
        json!(text(&volume["status"]["reason"])),
    ]
}

fn claim(claim: &Value) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let bound = !text(&spec["volumeName"]).is_empty();
    vec![
        phase(claim),
        json!(text(&spec["volumeName"])),
        json!(if bound { or(&status["capacity"]["storage"], "0") } else { "" }),
        json!(if bound { access_modes(&status["accessModes"]) } else { String::new() }),
        class_name(claim),
        json!(or(&spec["volumeAttributesClassName"], "<unset>")),
    ]
}

fn driver(spec: &Value) -> Vec<Value> {
    let texts = |list: &Value, field: Option<&str>| {
        let texts = items(list).map(|item| field.map_or(text(item), |field| text(&item[field])));
        texts.collect::<Vec<_>>().join(",")
    };
    let modes = texts(&spec["volumeLifecycleModes"], None);
    let tokens = if spec["tokenRequests"].is_array() {
        texts(&spec["tokenRequests"], Some("audience"))
    } else {
        "<unset>".to_owned()
    };
    vec![
        json!(spec["attachRequired"] != false),
        json!(spec["podInfoOnMount"] == true),
        json!(spec["storageCapacity"] == true),
        json!(tokens),
        json!(spec["requiresRepublish"] == true),
        json!(if modes.is_empty() { "<none>" } else { &modes }),
    ]
}

fn resource_claim(claim: &Value) -> String {
    let mut states = Vec::new();
    let deleting = claim["metadata"]["deletionTimestamp"].is_string();
    if deleting {
        states.push("deleted");
    }
    if claim["status"]["allocation"].is_object() {
        states.push("allocated");
        if size(&claim["status"]["reservedFor"]) > 0 {
            states.push("reserved");
        }
    } else if !deleting {
        states.push("pending");
    }
    states.join(",")
}

fn quota(status: &Value) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
        let used = or(&status["used"][resource], "0");
        let entry = format!("{resource}: {used}/{}", text(hard));
        if resource.starts_with("limits.") { limits.push(entry) } else { requests.push(entry) }
    }
    vec![json!(requests.join(", ")), json!(limits.join(", "))]
}

fn controller_revision(revision: &Value) -> Vec<Value> {
    let owners = &revision["metadata"]["ownerReferences"];
    let owner = items(owners).find(|owner| owner["controller"] == true);
    let owner = owner.map_or("<none>".to_owned(), |owner| {
        let group = text(&owner["apiVersion"]).split_once('/').map(|(group, _)| group);
        let kind = text(&owner["kind"]).to_lowercase();
        let kind = group.map_or(kind.clone(), |group| format!("{kind}.{group}"));
        format!("{kind}/{}", text(&owner["name"]))
    });
    vec![json!(owner), json!(count(&revision["revision"]))]
}

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let state = ["Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet"]
        .into_iter()
        .find(|state| match *state {
            "Terminating" => job["metadata"]["deletionTimestamp"].is_string(),
            condition_type => condition(job, condition_type),
        });
    let done = count(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), count(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        (None, _) => format!("{done}/1"),
    };
    let second = |value: &Value| value.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_second);
    let took = second(&status["startTime"])
        .map(|start| duration(second(&status["completionTime"]).unwrap_or(now.as_second()) - start));
    vec![json!(state.unwrap_or("Running")), json!(completions), json!(took.unwrap_or_default())]
}

fn subjects(subjects: &Value) -> [Value; 3] {
    ["User", "Group", "ServiceAccount"].map(|kind| {
        let own = items(subjects).filter(|subject| subject["kind"] == kind);
        let names = own.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
            _ => text(&subject["name"]).to_owned(),
        });
        json!(names.collect::<Vec<_>>().join(", "))
    })
}

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    // Served from either group: the same facts under two names.
    let either = |first: &str, second: &str| {
        if event[first].is_null() { event[second].clone() } else { event[first].clone() }
    };
    let since = |time: &Value| time.as_str().map(|time| age(time, now));
    let unknown = || "<unknown>".to_owned();
    let began = since(&either("firstTimestamp", "deprecatedFirstTimestamp"));
    let began = began.or_else(|| since(&event["eventTime"])).unwrap_or_else(unknown);
    let mut last =
        since(&either("lastTimestamp", "deprecatedLastTimestamp")).unwrap_or_else(|| began.clone());
    let mut times = count(&either("count", "deprecatedCount")).max(1);
    if event["series"].is_object() {
        last = since(&event["series"]["lastObservedTime"]).unwrap_or_else(unknown);
        times = count(&event["series"]["count"]);
    }
    let object = either("involvedObject", "regarding");
    let kind = text(&object["kind"]).to_lowercase();
    let target = match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = either("source", "deprecatedSource");
    let component = either("reportingComponent", "reportingController");
    let (component, host) =
        (or(&source["component"], text(&component)), or(&source["host"], text(&event["reportingInstance"])));
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    vec![
        json!(last),
        json!(text(&event["type"])),
        json!(text(&event["reason"])),
        json!(target),
        json!(text(&object["fieldPath"])),
        json!(source),
        json!(text(&either("message", "note")).trim()),
        json!(began),
        json!(times),
        event["metadata"]["name"].clone(),
    ]
}

/// Three texts at most, or a word when there are none.
pub(super) fn few(texts: &[String], none: &str) -> String {
    if texts.is_empty() { none.to_owned() } else { first(texts, 3) }
}

#[cfg(test)]
mod tests {
    use super::super::columns::{columns, listed};
    use super::*;

    #[test]
    fn every_row_has_a_cell_for_every_column() {
        for resource in listed().chain(["roles.rbac.authorization.k8s.io"]) {
            let cells = cells(resource, &json!({"metadata": {"name": "x"}}), Timestamp::UNIX_EPOCH);
            assert_eq!(cells.len(), columns(resource).len(), "{resource}");
        }
    }

    #[test]
    fn a_deployment_shows_readiness_images_and_selector() {
        let deployment = json!({
            "metadata": {"name": "web", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}},
            },
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        });
        let shown = cells("deployments.apps", &deployment, Timestamp::from_second(30).unwrap());
        let expected = json!(["web", "2/3", 3, 1, "30s", "a,b", "i:1,j", "app=web"]);
        assert_eq!(json!(shown), expected);
    }

    #[test]
    fn a_node_shows_what_its_kubelet_says() {
        let node = json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}}, "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "Unknown"}], "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
                "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6.1", "architecture": "amd64"},
            },
        });
        let shown = cells("nodes", &node, Timestamp::UNIX_EPOCH);
        let expected = json!([
            "n",
            "NotReady,SchedulingDisabled",
            "worker",
            "<unknown>",
            "v1",
            "1.2.3.4",
            "<none>",
            "<unknown>",
            "6.1 (amd64)",
            "<unknown>",
        ]);
        assert_eq!(json!(shown), expected);
    }
}
