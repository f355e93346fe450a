//! Defaults of built-in kinds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Sets a field that is absent.
fn default(object: &mut Value, name: &str, value: impl Into<Value>) {
    if let Some(fields) = object.as_object_mut()
        && !fields.contains_key(name)
    {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Returns a field as an object, made when it is absent.
fn nested<'v>(object: &'v mut Value, name: &str) -> &'v mut Value {
    default(object, name, Map::new());
    &mut object[name]
}

/// Fills in the defaults of an object of a built-in resource.
pub(super) fn apply(resource: &str, object: &mut Value) {
    match resource {
        "pods" => pod_spec(nested(object, "spec"), true),
        "podtemplates" => pod_spec(&mut nested(object, "template")["spec"], true),
        "namespaces" => namespace(object),
        "nodes" => {
            nested(object, "spec");
        }
        "secrets" => secret(object),
        "services" => service(nested(object, "spec")),
        "persistentvolumes" => {
            let spec = nested(object, "spec");
            default(spec, "persistentVolumeReclaimPolicy", "Retain");
            default(spec, "volumeMode", "Filesystem");
        }
        "persistentvolumeclaims" => default(nested(object, "spec"), "volumeMode", "Filesystem"),
        "storageclasses.storage.k8s.io" => {
            default(object, "reclaimPolicy", "Delete");
            default(object, "volumeBindingMode", "Immediate");
        }
        "priorityclasses.scheduling.k8s.io" => default(object, "preemptionPolicy", "PreemptLowerPriority"),
        "horizontalpodautoscalers.autoscaling" => default(nested(object, "spec"), "minReplicas", 1),
        "deployments.apps"
        | "replicasets.apps"
        | "statefulsets.apps"
        | "daemonsets.apps"
        | "replicationcontrollers" => workload(resource, nested(object, "spec")),
        "jobs.batch" => job(nested(object, "spec")),
        "cronjobs.batch" => {
            let spec = nested(object, "spec");
            default(spec, "concurrencyPolicy", "Allow");
            default(spec, "suspend", false);
            default(spec, "successfulJobsHistoryLimit", 3);
            default(spec, "failedJobsHistoryLimit", 1);
        }
        _ => {}
    }
}

fn namespace(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    nested(&mut object["metadata"], "labels")["kubernetes.io/metadata.name"] = name;
}

fn secret(object: &mut Value) {
    default(object, "type", "Opaque");
    let Some(texts) = object.as_object_mut().and_then(|fields| fields.remove("stringData")) else { return };
    let data = nested(object, "data");
    for (name, text) in texts.as_object().into_iter().flatten() {
        data[name] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

fn service(spec: &mut Value) {
    default(spec, "type", "ClusterIP");
    default(spec, "sessionAffinity", "None");
    if spec["type"] != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        default(port, "protocol", "TCP");
        let target = port["port"].clone();
        default(port, "targetPort", target);
    }
}

fn workload(resource: &str, spec: &mut Value) {
    let rolling = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
    match resource {
        "deployments.apps" => {
            default(spec, "replicas", 1);
            default(spec, "revisionHistoryLimit", 10);
            default(spec, "progressDeadlineSeconds", 600);
            let strategy = nested(spec, "strategy");
            default(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate" {
                let parameters = nested(strategy, "rollingUpdate");
                for (name, value) in rolling.as_object().into_iter().flatten() {
                    default(parameters, name, value.clone());
                }
            }
        }
        "daemonsets.apps" => {
            default(spec, "revisionHistoryLimit", 10);
            let strategy = nested(spec, "updateStrategy");
            default(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate" {
                let parameters = nested(strategy, "rollingUpdate");
                default(parameters, "maxSurge", 0);
                default(parameters, "maxUnavailable", 1);
            }
        }
        "statefulsets.apps" => {
            default(spec, "replicas", 1);
            default(spec, "revisionHistoryLimit", 10);
            default(spec, "podManagementPolicy", "OrderedReady");
            default(
                spec,
                "persistentVolumeClaimRetentionPolicy",
                json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
            );
            let strategy = nested(spec, "updateStrategy");
            default(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate" {
                default(nested(strategy, "rollingUpdate"), "partition", 0);
            }
        }
        _ => default(spec, "replicas", 1),
    }
    template(spec, true);
}

fn job(spec: &mut Value) {
    default(spec, "backoffLimit", 6);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "podReplacementPolicy", "TerminatingOrFailed");
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    template(spec, false);
}

/// Jobs find their pods by a label with their own uid.
pub(super) fn job_selector(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    let spec = &mut job["spec"];
    spec["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    let labels = nested(nested(nested(spec, "template"), "metadata"), "labels");
    for prefix in ["", "batch.kubernetes.io/"] {
        labels[format!("{prefix}controller-uid")] = uid.clone();
        labels[format!("{prefix}job-name")] = name.clone();
    }
}

fn template(spec: &mut Value, restart_always: bool) {
    if let Some(pod) = spec.get_mut("template").and_then(|template| template.get_mut("spec")) {
        pod_spec(pod, restart_always);
    }
}

fn pod_spec(spec: &mut Value, restart_always: bool) {
    if !spec.is_object() {
        return;
    }
    if restart_always {
        default(spec, "restartPolicy", "Always");
    }
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "securityContext", Map::new());
    default(spec, "schedulerName", "default-scheduler");
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        default(spec, "serviceAccount", account);
    } else if let Some(account) = spec.get("serviceAccount").cloned() {
        default(spec, "serviceAccountName", account);
    }
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            pod_container(container);
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for source in ["secret", "configMap", "projected", "downwardAPI"] {
            if volume[source].is_object() {
                default(&mut volume[source], "defaultMode", 420);
            }
        }
    }
}

fn pod_container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image.rsplit('/').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
    let latest = !image.contains('@') && matches!(tag, None | Some("latest"));
    default(container, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" });
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    let resources = nested(container, "resources");
    // A limit without a request is also the request.
    if let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() {
        let requests = nested(resources, "requests");
        for (name, limit) in limits {
            default(requests, &name, limit);
        }
    }
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        default(port, "protocol", "TCP");
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[probe].is_object() {
            let probe = &mut container[probe];
            for (name, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                default(probe, name, value);
            }
            if probe["httpGet"].is_object() {
                default(&mut probe["httpGet"], "scheme", "HTTP");
                default(&mut probe["httpGet"], "path", "/");
            }
        }
    }
}

/// Sets the status of a pod nobody has looked at.
pub(super) fn initial_pod_status(pod: &mut Value) {
    let quality = quality_of_service(&pod["spec"]);
    pod["status"] = json!({"phase": "Pending", "qosClass": quality});
    let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    if gated {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates", "lastProbeTime": null,
            "lastTransitionTime": pod["metadata"]["creationTimestamp"],
        }]);
    }
}

fn quality_of_service(spec: &Value) -> &'static str {
    let containers = ["initContainers", "containers"];
    let containers: Vec<&Value> =
        containers.iter().flat_map(|list| spec[*list].as_array().into_iter().flatten()).collect();
    let set = |container: &Value, kind: &str, name: &str| container["resources"][kind].get(name).is_some();
    let any = |container: &&Value| {
        ["requests", "limits"]
            .iter()
            .any(|kind| ["cpu", "memory"].iter().any(|name| set(container, kind, name)))
    };
    if !containers.iter().any(any) {
        return "BestEffort";
    }
    let guaranteed = containers.iter().all(|container| {
        ["cpu", "memory"].iter().all(|name| {
            let resources = &container["resources"];
            set(container, "limits", name) && resources["requests"][*name] == resources["limits"][*name]
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_the_defaults_a_cluster_gives_them() {
        let mut pod = json!({"metadata": {}, "spec": {"containers": [
            {"name": "a", "image": "repo:5000/web", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        ]}});
        apply("pods", &mut pod);
        initial_pod_status(&mut pod);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["imagePullPolicy"], "Always");
        assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
        assert_eq!(pod["spec"]["restartPolicy"], "Always");
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "Guaranteed"}));
    }

    #[test]
    fn secrets_take_plain_texts() {
        let mut secret = json!({"stringData": {"password": "hunter2"}});
        apply("secrets", &mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"password": "aHVudGVyMg=="}}));
    }

    #[test]
    fn deployments_roll_by_a_quarter() {
        let mut deployment = json!({"spec": {"template": {"spec": {"containers": []}}}});
        apply("deployments.apps", &mut deployment);
        assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
        assert_eq!(deployment["spec"]["replicas"], 1);
    }
}
