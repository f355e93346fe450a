//! What the server sets on new pods and jobs.

use serde_json::{Value, json};

/// The status a pod starts with.
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

/// Jobs find their pods by a label with their own uid.
pub(super) fn job_selector(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let text = |name: &str| json!(job["metadata"][name].as_str().unwrap_or_default());
    let (uid, name) = (text("uid"), text("name"));
    let spec = &mut job["spec"];
    // What is said about labels that the server chooses is left to be refused.
    let selected = &mut spec["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"];
    if selected.is_null() {
        *selected = uid.clone();
    }
    let template = &mut spec["template"]["metadata"]["labels"];
    let mut labels = template.as_object().cloned().unwrap_or_default();
    for prefix in ["", "batch.kubernetes.io/"] {
        labels.entry(format!("{prefix}controller-uid")).or_insert_with(|| uid.clone());
        labels.entry(format!("{prefix}job-name")).or_insert_with(|| name.clone());
    }
    *template = Value::Object(labels);
}

/// Whether a job gets its labels from the template in a body, together with what the server adds to those.
///
/// Kubernetes lets the one refer to the other. Only a copy of the whole object separates them, as is made to try
/// generated names.
pub(crate) fn shares_labels(body: &Value) -> bool {
    body["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty())
        && is_unlabelled(body)
        && body["spec"]["template"]["metadata"]["labels"].is_object()
}

/// Whether a job would be shown with the labels of its pods.
pub(crate) fn is_unlabelled(job: &Value) -> bool {
    job["metadata"]["labels"].as_object().is_none_or(serde_json::Map::is_empty)
}

/// Gives a job the labels of its pods.
pub(crate) fn copy_labels(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        job["metadata"]["labels"] = labels;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quality_of_service_follows_from_requests_and_limits() {
        let of = |resources: Value| quality_of_service(&json!({"containers": [{"resources": resources}]}));
        let all = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(of(json!({"requests": all, "limits": all})), "Guaranteed");
        assert_eq!(of(json!({"requests": {"cpu": "1"}})), "Burstable");
        assert_eq!(of(json!({})), "BestEffort");
    }
}
