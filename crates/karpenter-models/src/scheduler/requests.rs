//! What a pod takes from its node: containers, sidecars, init containers, pod-level resources and overhead.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource;
use karpenter_quantity::{CPU, MEMORY, Quantity, ResourceList};

/// Reads quantities; the API server lets no unreadable ones through.
pub(crate) fn read_list(list: Option<&BTreeMap<String, resource::Quantity>>) -> ResourceList {
    let mut read = ResourceList::new();
    for (name, quantity) in list.into_iter().flatten() {
        read.insert(name.as_str(), quantity.0.parse().unwrap_or(Quantity::ZERO));
    }
    read
}

/// Returns what a pod takes from its node, without the pod itself.
///
/// While a running pod is resized in place the larger of what it asks and what it holds counts, unless the node said
/// that it cannot.
pub(crate) fn pod_requests(spec: &PodSpec, status: Option<&PodStatus>) -> ResourceList {
    let refused = is_resize_refused(status);
    let statuses = status.and_then(|status| status.container_statuses.as_ref());
    let mut total = ResourceList::new();
    for container in &spec.containers {
        total.merge_add(&container_requests(container, find(container, statuses), refused));
    }
    add_init_containers(&mut total, spec, status, refused);
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    for (name, quantity) in &read_list(pod_level) {
        if name == CPU || name == MEMORY || name.starts_with("hugepages-") {
            total.insert(name, quantity);
        }
    }
    total.merge_add(&read_list(spec.overhead.as_ref()));
    total
}

/// Init containers run one after the other beside the sidecars started before them; sidecars stay.
fn add_init_containers(total: &mut ResourceList, spec: &PodSpec, status: Option<&PodStatus>, refused: bool) {
    let statuses = status.and_then(|status| status.init_container_statuses.as_ref());
    let mut sidecars = ResourceList::new();
    let mut peak = ResourceList::new();
    for container in spec.init_containers.iter().flatten() {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let status = find(container, statuses).filter(|_| is_sidecar);
        let mut requests = container_requests(container, status, refused);
        if is_sidecar {
            total.merge_add(&requests);
            sidecars.merge_add(&requests);
            peak.merge_max(&sidecars);
        } else {
            requests.merge_add(&sidecars);
            peak.merge_max(&requests);
        }
    }
    total.merge_max(&peak);
}

fn find<'a>(
    container: &Container,
    statuses: Option<&'a Vec<ContainerStatus>>,
) -> Option<&'a ContainerStatus> {
    statuses.into_iter().flatten().find(|status| status.name == container.name)
}

fn container_requests(
    container: &Container,
    status: Option<&ContainerStatus>,
    refused: bool,
) -> ResourceList {
    let wanted = read_list(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    let Some(actual) = status.and_then(|status| status.resources.as_ref()) else { return wanted };
    let mut held = read_list(actual.requests.as_ref());
    held.merge_max(&read_list(status.and_then(|status| status.allocated_resources.as_ref())));
    if !refused {
        held.merge_max(&wanted);
    }
    held
}

fn is_resize_refused(status: Option<&PodStatus>) -> bool {
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(spec: Value, status: Value, expected: &[(&str, &str)]) {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let status: Option<PodStatus> = serde_json::from_value(status).unwrap();
        let found = pod_requests(&spec, status.as_ref());
        let found: Vec<(String, String)> =
            found.iter().map(|(name, quantity)| (name.to_owned(), quantity.to_string())).collect();
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        assert_eq!(found, expected);
    }

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn containers_add_up_and_a_larger_init_container_wins() {
        let with_init = |cpu: &str| json!({"containers": [container("1"), container("500m")], "initContainers": [container(cpu)]});
        check(with_init("2"), Value::Null, &[("cpu", "2")]);
        check(with_init("1"), Value::Null, &[("cpu", "1500m")]);
    }

    #[test]
    fn a_sidecar_runs_beside_later_init_containers_and_all_containers() {
        check(
            json!({"containers": [container("1")], "initContainers": [sidecar("2"), container("3")]}),
            Value::Null,
            &[("cpu", "5")],
        );
        check(
            json!({"containers": [container("4")], "initContainers": [container("3"), sidecar("2")]}),
            Value::Null,
            &[("cpu", "6")],
        );
    }

    #[test]
    fn pod_level_requests_replace_the_sum_and_overhead_comes_on_top() {
        let spec = json!({
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}],
            "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "100m"},
        });
        check(spec, Value::Null, &[("cpu", "3100m"), ("example.com/gpu", "1")]);
    }

    #[test]
    fn while_a_pod_is_resized_the_larger_amount_counts_unless_the_node_refused() {
        let spec = json!({"containers": [container("3")]});
        let held = json!([{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "2"}}}]);
        check(spec.clone(), json!({"containerStatuses": held}), &[("cpu", "3")]);
        let refused = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        check(spec, json!({"containerStatuses": held, "conditions": refused}), &[("cpu", "2")]);
    }
}
