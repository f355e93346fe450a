//! What the server sets on new pods and jobs.

use std::collections::BTreeMap;

use karpenter_quantity::Quantity;
use serde_json::{Value, json};

use super::validation::quantity;

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
    let of_containers = containers.iter().flat_map(|list| spec[*list].as_array().into_iter().flatten());
    // What a pod says as a whole is all that counts.
    let all: Vec<&Value> = match &spec["resources"] {
        Value::Null => of_containers.map(|container| &container["resources"]).collect(),
        whole => vec![whole],
    };
    let (mut requests, mut limits) = (Amounts::default(), Amounts::default());
    let mut limited = true;
    for resources in all {
        requests.add(&resources["requests"]);
        limited &= limits.add(&resources["limits"]) == QUALITY_RESOURCES.len();
    }
    if requests.0.is_empty() && limits.0.is_empty() {
        return "BestEffort";
    }
    if limited && requests.0 == limits.0 { "Guaranteed" } else { "Burstable" }
}

const QUALITY_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Sums of amounts above zero by resource.
#[derive(Default)]
struct Amounts(BTreeMap<&'static str, Quantity>);

impl Amounts {
    /// Adds a list of amounts and returns how many of them count.
    fn add(&mut self, list: &Value) -> usize {
        let mut found = 0;
        for name in QUALITY_RESOURCES {
            let amount = quantity(&list[name]);
            if list[name].is_null() || amount.is_zero() || amount.is_negative() {
                continue;
            }
            found += 1;
            self.0.entry(name).and_modify(|sum| *sum = sum.saturating_add(amount)).or_insert(amount);
        }
        found
    }
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
        assert_eq!(of(json!({"requests": {"cpu": "0"}})), "BestEffort");
        let whole = |resources: Value| {
            quality_of_service(
                &json!({"resources": resources, "containers": [{"resources": {"requests": all}}]}),
            )
        };
        assert_eq!(whole(json!({})), "BestEffort");
        assert_eq!(whole(json!({"limits": all, "requests": all})), "Guaranteed");
    }
}
