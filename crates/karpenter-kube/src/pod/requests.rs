//! What a pod takes from its node: containers, sidecars, init containers, pod-level resources and overhead.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements};
use karpenter_quantity::{CPU, MEMORY, PODS, Quantity, ResourceList};

use crate::invalid::{At, Invalid};
use crate::resources::resource_list;

/// What stands for a request that is not written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingRequests {
    /// Nothing. The API server has already filled in what follows from limits.
    AreZero,
    /// The limit, if there is one: for templates, which the API server does not fill in.
    AreLimits,
}

/// The effective requests of a pod, with `pods: 1`.
///
/// While a pod is resized in place the larger of what it asks and what it holds counts.
pub fn effective_requests(
    spec: &PodSpec,
    status: Option<&PodStatus>,
    missing: MissingRequests,
) -> Result<ResourceList, Invalid> {
    let resize = Resize::of(status);
    let statuses = status.and_then(|status| status.container_statuses.as_ref());
    let mut total = ResourceList::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let status = status_of(container, statuses);
        total.merge_add(
            &container_requests(container, status, missing, resize).at_index(index).at("containers")?,
        );
    }
    add_init_containers(&mut total, spec, status, missing)?;
    if let Some(resources) = &spec.resources {
        set_pod_level(&mut total, resources, status, missing).at("resources")?;
    }
    total.merge_add(&resource_list(spec.overhead.as_ref()).at("overhead")?);
    total.insert(PODS, Quantity::from_units(1));
    Ok(total)
}

/// What the containers of a pod may use at most, as far as they have limits.
pub fn effective_limits(spec: &PodSpec) -> Result<ResourceList, Invalid> {
    let limits = |container: &Container| {
        resource_list(container.resources.as_ref().and_then(|resources| resources.limits.as_ref()))
    };
    let mut total = ResourceList::new();
    for container in &spec.containers {
        total.merge_add(&limits(container)?);
    }
    let (mut sidecars, mut peak) = (ResourceList::new(), ResourceList::new());
    for container in spec.init_containers.iter().flatten() {
        let mut running = limits(container)?;
        if container.restart_policy.as_deref() == Some("Always") {
            total.merge_add(&running);
            sidecars.merge_add(&running);
        } else {
            running.merge_add(&sidecars);
            peak.merge_max(&running);
        }
    }
    total.merge_max(&peak);
    Ok(total)
}

/// Init containers run one after the other, beside the sidecars started before them. Sidecars stay, so they also add to
/// the containers proper.
fn add_init_containers(
    total: &mut ResourceList,
    spec: &PodSpec,
    status: Option<&PodStatus>,
    missing: MissingRequests,
) -> Result<(), Invalid> {
    let resize = Resize::of(status);
    let statuses = status.and_then(|status| status.init_container_statuses.as_ref());
    let mut sidecars = ResourceList::new();
    let mut peak = ResourceList::new();
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let status = status_of(container, statuses).filter(|_| is_sidecar);
        let requests =
            container_requests(container, status, missing, resize).at_index(index).at("initContainers")?;
        if is_sidecar {
            total.merge_add(&requests);
            sidecars.merge_add(&requests);
            peak.merge_max(&sidecars);
        } else {
            let mut running = requests;
            running.merge_add(&sidecars);
            peak.merge_max(&running);
        }
    }
    total.merge_max(&peak);
    Ok(())
}

/// Whether a resize that the node refused is still on the wish list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resize {
    Possible,
    Infeasible,
}

impl Resize {
    fn of(status: Option<&PodStatus>) -> Self {
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let refused = |condition: &k8s_openapi::api::core::v1::PodCondition| {
            condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
        };
        if conditions.into_iter().any(refused) { Self::Infeasible } else { Self::Possible }
    }
}

fn status_of<'a>(
    container: &Container,
    statuses: Option<&'a Vec<ContainerStatus>>,
) -> Option<&'a ContainerStatus> {
    statuses.into_iter().flatten().find(|status| status.name == container.name)
}

fn container_requests(
    container: &Container,
    status: Option<&ContainerStatus>,
    missing: MissingRequests,
    resize: Resize,
) -> Result<ResourceList, Invalid> {
    let wanted = match &container.resources {
        Some(resources) => written_requests(resources, missing).at("resources")?,
        None => ResourceList::new(),
    };
    let Some(status) = status else { return Ok(wanted) };
    let used = status.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    if used.is_none() && status.allocated_resources.is_none() {
        return Ok(wanted);
    }
    let mut held = resource_list(used)?;
    held.merge_max(&resource_list(status.allocated_resources.as_ref())?);
    if resize == Resize::Possible {
        held.merge_max(&wanted);
    }
    Ok(held)
}

fn written_requests(
    resources: &ResourceRequirements,
    missing: MissingRequests,
) -> Result<ResourceList, Invalid> {
    let mut requests = resource_list(resources.requests.as_ref()).at("requests")?;
    if missing == MissingRequests::AreLimits {
        for (name, limit) in resource_list(resources.limits.as_ref()).at("limits")? {
            if !requests.contains(&name) {
                requests.insert(name, limit);
            }
        }
    }
    Ok(requests)
}

/// Requests of the pod as a whole replace the sum over its containers, for the resources that can be given that way.
fn set_pod_level(
    total: &mut ResourceList,
    resources: &ResourceRequirements,
    status: Option<&PodStatus>,
    missing: MissingRequests,
) -> Result<(), Invalid> {
    let mut requests = written_requests(resources, missing)?;
    let allocated = resource_list(status.and_then(|status| status.allocated_resources.as_ref()))?;
    for (name, quantity) in allocated.iter().filter(|(name, _)| requests.contains(name)).collect::<Vec<_>>() {
        let larger = requests.get(name).max(quantity);
        requests.insert(name, larger);
    }
    let is_pod_level = |name: &str| name == CPU || name == MEMORY || name.starts_with("hugepages-");
    for (name, quantity) in requests {
        if is_pod_level(&name) {
            total.insert(name, quantity);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(spec: Value, status: Value, missing: MissingRequests, expected: &[(&str, &str)]) {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let status: Option<PodStatus> = serde_json::from_value(status).unwrap();
        let found = effective_requests(&spec, status.as_ref(), missing).unwrap();
        let expected: ResourceList = expected
            .iter()
            .chain(&[("pods", "1")])
            .map(|(name, text)| (*name, text.parse().unwrap()))
            .collect();
        assert_eq!(found, expected);
    }

    fn container(cpu: &str) -> Value {
        json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } })
    }

    fn sidecar(cpu: &str) -> Value {
        json!({ "name": "s", "restartPolicy": "Always", "resources": { "requests": { "cpu": cpu } } })
    }

    #[test]
    fn containers_add_up_and_the_largest_init_container_wins_if_larger() {
        let spec =
            json!({ "containers": [container("1"), container("500m")], "initContainers": [container("2")] });
        check(spec, Value::Null, MissingRequests::AreZero, &[("cpu", "2")]);
        let spec =
            json!({ "containers": [container("1"), container("500m")], "initContainers": [container("1")] });
        check(spec, Value::Null, MissingRequests::AreZero, &[("cpu", "1500m")]);
    }

    #[test]
    fn a_sidecar_runs_beside_later_init_containers_and_all_containers() {
        let spec =
            json!({ "containers": [container("1")], "initContainers": [sidecar("2"), container("3")] });
        check(spec, Value::Null, MissingRequests::AreZero, &[("cpu", "5")]);
        let spec =
            json!({ "containers": [container("4")], "initContainers": [container("3"), sidecar("2")] });
        check(spec, Value::Null, MissingRequests::AreZero, &[("cpu", "6")]);
    }

    #[test]
    fn pod_level_requests_replace_the_sum_and_overhead_comes_on_top() {
        let spec = json!({
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1", "example.com/gpu": "1" } } }],
            "resources": { "requests": { "cpu": "3", "memory": "1Gi" } },
            "overhead": { "cpu": "100m" },
        });
        let expected = [("cpu", "3100m"), ("memory", "1Gi"), ("example.com/gpu", "1")];
        check(spec, Value::Null, MissingRequests::AreZero, &expected);
    }

    #[test]
    fn limits_stand_for_requests_in_templates_only() {
        let spec = json!({ "containers": [{ "name": "c", "resources": { "limits": { "cpu": "1" } } }] });
        check(spec.clone(), Value::Null, MissingRequests::AreZero, &[]);
        check(spec, Value::Null, MissingRequests::AreLimits, &[("cpu", "1")]);
    }

    #[test]
    fn while_a_pod_is_resized_the_larger_amount_counts_unless_the_node_refused() {
        let spec = json!({ "containers": [container("3")] });
        let held = json!([{ "name": "c", "allocatedResources": { "cpu": "1" }, "resources": { "requests": { "cpu": "2" } } }]);
        check(spec.clone(), json!({ "containerStatuses": held }), MissingRequests::AreZero, &[("cpu", "3")]);
        let refused = json!([{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }]);
        let status = json!({ "containerStatuses": held, "conditions": refused });
        check(spec, status, MissingRequests::AreZero, &[("cpu", "2")]);
    }
}
