//! Subresources: status, scale, eviction, binding, tokens.

use serde_json::{Value, json};

use super::Library;
use crate::mutate::{Edit, mutation};
use crate::script::{JSON_PATCH, MERGE_PATCH, Request, STRATEGIC_PATCH, Script};

const WITH_STATUS: &[&str] = &[
    "v1/nodes",
    "v1/pods",
    "v1/services",
    "v1/namespaces",
    "v1/persistentvolumes",
    "v1/persistentvolumeclaims",
    "v1/resourcequotas",
    "apps/v1/deployments",
    "apps/v1/replicasets",
    "apps/v1/statefulsets",
    "apps/v1/daemonsets",
    "batch/v1/jobs",
    "batch/v1/cronjobs",
    "policy/v1/poddisruptionbudgets",
    "storage.k8s.io/v1/volumeattachments",
    "networking.k8s.io/v1/ingresses",
];

/// A status each kind accepts.
fn good_status(plural: &str) -> Value {
    let condition = json!({"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2024-01-01T00:00:00Z"});
    match plural {
        "nodes" => {
            json!({"conditions": [condition], "capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "c", "kernelVersion": "k",
                "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "o", "systemUUID": ""}})
        }
        "pods" => {
            json!({"phase": "Running", "conditions": [condition], "podIP": "10.0.0.3", "podIPs": [{"ip": "10.0.0.3"}],
            "startTime": "2024-01-01T00:00:00Z", "containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": true,
            "restartCount": 0, "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}}}]})
        }
        "services" => json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}),
        "namespaces" => json!({"phase": "Active"}),
        "persistentvolumes" => json!({"phase": "Bound"}),
        "persistentvolumeclaims" => {
            json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}})
        }
        "resourcequotas" => json!({"hard": {"requests.cpu": "1"}, "used": {"requests.cpu": "0"}}),
        "deployments" => {
            json!({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1,
            "conditions": [{"type": "Available", "status": "True", "reason": "R", "message": "m",
                "lastTransitionTime": "2024-01-01T00:00:00Z", "lastUpdateTime": "2024-01-01T00:00:00Z"}]})
        }
        "replicasets" => {
            json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "fullyLabeledReplicas": 2, "observedGeneration": 1})
        }
        "statefulsets" => {
            json!({"replicas": 1, "readyReplicas": 1, "currentReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "observedGeneration": 1})
        }
        "daemonsets" => {
            json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 1, "observedGeneration": 1})
        }
        "jobs" => json!({"active": 1, "startTime": "2024-01-01T00:00:00Z", "ready": 0}),
        "cronjobs" => json!({"lastScheduleTime": "2024-01-01T00:00:00Z"}),
        "poddisruptionbudgets" => {
            json!({"currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1, "expectedPods": 2, "observedGeneration": 1})
        }
        "volumeattachments" => json!({"attached": true, "attachmentMetadata": {"a": "b"}}),
        _ => json!({"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}),
    }
}

pub(super) fn status(library: &Library, script: &mut Script) {
    let path = script.random.pick(WITH_STATUS);
    let resource = library.resource(path);
    let object = script.sample(resource, "a");
    script.create(resource, object.clone());
    let status = good_status(resource.plural());
    let with_status = {
        let mut object = object;
        object["status"] = status.clone();
        object
    };
    let Some(root) = library.kinds.root(resource.api_version(), resource.kind()) else { return };
    let path = format!("{}/status", script.item(resource, "a"));
    for _ in 0..3 + script.random.below(4) {
        let base = script.get(resource, "a");
        let mut changed = with_status.clone();
        for _ in 0..script.random.below(2) {
            if let Some((pointer, value)) = mutation(&library.kinds, &mut script.random, &with_status, &root)
            {
                crate::side::edit(&mut changed, &pointer, value);
            }
        }
        let status = changed.get("status").cloned().unwrap_or_default();
        let request = Request::new(if script.random.chance(50) { "PUT" } else { "PATCH" }, path.clone());
        let request = if request.method == "PUT" {
            let mut edits: Vec<Edit> = vec![("/status".to_owned(), Some(status))];
            match script.random.below(5) {
                0 => edits.push(("/metadata/labels".to_owned(), Some(json!({"through": "status"})))),
                1 => edits.push(("/spec".to_owned(), Some(json!({})))),
                2 => edits.push(("/metadata/resourceVersion".to_owned(), Some(json!("1")))),
                _ => {}
            }
            request.edited(base, edits)
        } else {
            let format = script.random.pick(&[MERGE_PATCH, STRATEGIC_PATCH]);
            request.patch(format, json!({ "status": status }))
        };
        script.send(request);
    }
    script.send(Request::new("GET", path.clone()));
    let method = script.random.pick(&["DELETE", "POST", "GET"]);
    script.send(Request::new(method, path));
}

const SCALED: &[&str] =
    &["apps/v1/deployments", "apps/v1/replicasets", "apps/v1/statefulsets", "v1/replicationcontrollers"];

pub(super) fn scale(library: &Library, script: &mut Script) {
    let path = script.random.pick(SCALED);
    let resource = library.resource(path);
    let object = script.sample(resource, "a");
    script.create(resource, object);
    let path = format!("{}/scale", script.item(resource, "a"));
    let read = script.send(Request::new("GET", path.clone()));
    for _ in 0..4 {
        let replicas = script.random.pick(&[0, 1, 5, -1]);
        let request = match script.random.below(6) {
            0 | 1 => Request::new("PUT", path.clone())
                .edited(read, vec![("/spec/replicas".to_owned(), Some(json!(replicas)))]),
            2 => Request::new("PUT", path.clone()).edited(
                read,
                vec![
                    ("/spec/replicas".to_owned(), Some(json!(replicas))),
                    ("/metadata/resourceVersion".to_owned(), None),
                ],
            ),
            3 => Request::new("PATCH", path.clone())
                .patch(MERGE_PATCH, json!({"spec": {"replicas": replicas}})),
            4 => Request::new("PATCH", path.clone())
                .patch(JSON_PATCH, json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}])),
            _ => Request::new("PUT", path.clone()).json(json!({"spec": {"replicas": replicas}})),
        };
        script.send(request);
    }
    script.get(resource, "a");
    script.send(Request::new("GET", path.replace("/a/scale", "/missing/scale")));
}

pub(super) fn eviction(library: &Library, script: &mut Script) {
    let pods = library.resource("v1/pods");
    let budgets = library.resource("policy/v1/poddisruptionbudgets");
    for name in ["p1", "p2"] {
        let mut pod = pods.object(0, &script.namespace, name);
        pod["metadata"]["labels"] = json!({"app": "web"});
        if script.random.chance(70) {
            pod["spec"]["nodeName"] = json!("node-1");
        }
        script.create(pods, pod);
        if script.random.chance(60) {
            let ready = script.random.pick(&["True", "False"]);
            let phase = script.random.pick(&["Running", "Running", "Succeeded", "Pending"]);
            let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2024-01-01T00:00:00Z"}]}});
            let path = format!("{}/status", script.item(pods, name));
            script.send(Request::new("PATCH", path).patch(STRATEGIC_PATCH, status));
        }
    }
    for index in 0..script.random.below(3) {
        let name = format!("b{index}");
        let budget = script.sample(budgets, &name);
        let created = script.create(budgets, budget);
        if script.random.chance(85) {
            let allowed = script.random.pick(&[0, 1, 1, 2]);
            let status = json!({"currentHealthy": 2, "desiredHealthy": script.random.pick(&[1, 2, 3]), "disruptionsAllowed": allowed,
                "expectedPods": 2, "observedGeneration": script.random.pick(&[0, 1, 1, 1])});
            let path = format!("{}/status", script.item(budgets, &name));
            script
                .send(Request::new("PUT", path).edited(created, vec![("/status".to_owned(), Some(status))]));
        }
    }
    for _ in 0..3 {
        let name = script.random.pick(&["p1", "p2", "missing"]);
        let mut eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": script.namespace}});
        match script.random.below(10) {
            0 => eviction["deleteOptions"] = json!({"gracePeriodSeconds": 3}),
            1 => eviction["deleteOptions"] = json!({"dryRun": ["All"]}),
            2 => eviction["metadata"]["name"] = json!("other"),
            3 => {
                eviction["deleteOptions"] =
                    json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000009"}});
            }
            4 => eviction["apiVersion"] = json!("policy/v1beta1"),
            5 => eviction["deleteOptions"] = json!({"preconditions": {"resourceVersion": "1"}}),
            _ => {}
        }
        let path = format!("{}/eviction", script.item(pods, name));
        script.send(Request::new("POST", path).json(eviction));
        script.get(pods, name);
        script.get(budgets, "b0");
    }
}

pub(super) fn binding(library: &Library, script: &mut Script) {
    let pods = library.resource("v1/pods");
    let pod = script.sample(pods, "a");
    let created = script.create(pods, pod);
    for _ in 0..3 {
        let mut binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", "namespace": script.namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": script.random.pick(&["n1", "n2"])}});
        match script.random.below(8) {
            0 => binding["target"]["name"] = json!(""),
            1 => binding["target"]["kind"] = json!("Pod"),
            2 => binding["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000009"),
            3 => binding["metadata"]["uid"] = json!(format!("$({created}/metadata/uid)")),
            4 => binding["metadata"]["annotations"] = json!({"bound": "yes"}),
            5 => binding["metadata"]["name"] = json!("other"),
            _ => {}
        }
        let path = format!("{}/binding", script.item(pods, "a"));
        script.send(Request::new("POST", path).json(binding));
        script.get(pods, "a");
    }
    let gone = script.item(pods, "missing");
    script.send(Request::new("POST", format!("{gone}/binding")).json(json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "missing"}, "target": {"kind": "Node", "name": "n"},
    })));
}

pub(super) fn token(library: &Library, script: &mut Script) {
    let accounts = library.resource("v1/serviceaccounts");
    let account = script.sample(accounts, "a");
    script.create(accounts, account);
    for _ in 0..3 {
        let name = script.random.pick(&["a", "a", "missing"]);
        let mut request =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        match script.random.below(8) {
            0 => request["spec"]["expirationSeconds"] = json!(script.random.pick(&[600, 599, 3600, 7200])),
            1 => request["spec"]["audiences"] = json!(["other"]),
            2 => request["metadata"] = json!({"name": "b"}),
            4 => request["metadata"] = json!({"uid": "another"}),
            5 => request["metadata"] = json!({"labels": {"a": "b"}, "finalizers": ["a/b"], "generation": 3}),
            3 => {
                request["spec"]["boundObjectRef"] =
                    json!({"kind": "Pod", "apiVersion": "v1", "name": "none"});
            }
            _ => {}
        }
        let path = format!("{}/token", script.item(accounts, name));
        script.send(Request::new("POST", path).json(request));
    }
}
