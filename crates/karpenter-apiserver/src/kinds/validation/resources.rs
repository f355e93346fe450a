//! Rules of resource names, quantities, requests and limits.

use karpenter_quantity::Quantity;
use serde_json::{Value, json};

use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Reads a quantity that decoding has found to be one.
pub(in crate::kinds) fn quantity(value: &Value) -> Quantity {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or(Quantity::from_units(0))
}

/// Whether a resource name is one of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.split('/').next().is_some_and(|domain| domain.contains("kubernetes.io"))
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_standard_in_container(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name)
}

fn is_standard(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
        "storage",
        "requests.storage",
    ];
    NAMES.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && format::label_key(&format!("requests.{name}")).is_empty()
}

/// Whether less may be asked for than is allowed.
pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

pub(super) fn resource_name(place: &Place<'_, '_>, name: &str, errors: &mut Errors) -> bool {
    let wrong = format::label_key(name);
    let good = wrong.is_empty();
    for rule in wrong {
        errors.push(place.invalid_value(&json!(name), rule));
    }
    if good && !name.contains('/') && !is_standard(name) {
        errors.push(place.invalid_value(&json!(name), "must be a standard resource type or fully qualified"));
    }
    good
}

pub(super) fn container_resource_name(place: &Place<'_, '_>, name: &str, errors: &mut Errors) {
    resource_name(place, name, errors);
    if !name.contains('/') {
        if !is_standard_in_container(name) {
            errors.push(place.invalid_value(&json!(name), "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(place.invalid_value(&json!(name), "doesn't follow extended resource name standard"));
    }
}

/// Checks a quantity: not negative, and whole where parts make no sense.
pub(super) fn amount(place: &Place<'_, '_>, name: &str, errors: &mut Errors) {
    let amount = quantity(place.value);
    if amount.is_negative() {
        errors.push(place.invalid(NOT_NEGATIVE));
    }
    let whole = is_extended(name)
        || matches!(
            name,
            "pods"
                | "resourcequotas"
                | "services"
                | "replicationcontrollers"
                | "secrets"
                | "configmaps"
                | "persistentvolumeclaims"
                | "services.nodeports"
                | "services.loadbalancers"
        );
    if whole && amount.ceil_milli() % 1000 != 0 {
        errors.push(place.invalid("must be an integer"));
    }
}

/// Checks the amount of a volume or a claim.
pub(super) fn basic(place: &Place<'_, '_>, errors: &mut Errors) {
    let units = quantity(place.value).ceil_units();
    if units < 0 {
        errors.push(place.invalid_value(&json!(units), "must be a valid resource quantity"));
    }
}

/// Checks what a pod needs beside its containers, as if they were limits.
pub(super) fn of_overhead(overhead: &Place<'_, '_>, errors: &mut Errors) {
    let path = format!("{}.limits", overhead.path());
    let limits = Place::root(&path, overhead.value);
    for (name, limit) in limits.entries() {
        container_resource_name(&limit, name, errors);
        amount(&limit, name, errors);
    }
}

/// Checks the requests and limits of a container.
pub(super) fn of_container(resources: &Place<'_, '_>, errors: &mut Errors) {
    requirements(resources, container_resource_name, errors);
}

/// Checks the requests and limits of a pod as a whole.
pub(super) fn of_pod(spec: &Place<'_, '_>, errors: &mut Errors) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    if spec.value["os"]["name"] == "windows" {
        errors.push(resources.forbidden("may not be set for a windows pod"));
        return;
    }
    let claims = resources.field("claims");
    if claims.is_set() {
        errors.push(claims.forbidden("claims may not be set for Resources at pod-level"));
    }
    requirements(&resources, pod_resource_name, errors);
    shares(spec, &resources, errors);
}

/// What the containers of a pod ask for must fit into what the pod asks for.
fn shares(spec: &Place<'_, '_>, resources: &Place<'_, '_>, errors: &mut Errors) {
    let containers = spec.field("containers");
    for (name, whole) in resources.field("requests").entries() {
        let parts = containers.items().filter_map(|part| part.value["resources"]["requests"].get(name));
        let sum = parts
            .map(quantity)
            .fold(None, |sum: Option<Quantity>, part| Some(sum.map_or(part, |sum| sum.saturating_add(part))));
        if let Some(sum) = sum.filter(|sum| *sum > quantity(whole.value)) {
            let rule = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.push(whole.invalid(rule));
        }
    }
    for (index, container) in containers.items().enumerate() {
        for (name, limit) in container.value["resources"]["limits"].as_object().into_iter().flatten() {
            let Some(whole) = resources.value["limits"].get(name) else { continue };
            if quantity(limit) > quantity(whole) {
                let path = format!("{}.containers[{index}][{name}].limits", resources.path());
                let shown = whole.as_str().unwrap_or_default();
                let rule = format!("must be less than or equal to pod limits of {shown}");
                errors.push(FieldError::invalid(path, limit, rule));
            }
        }
    }
}

fn pod_resource_name(place: &Place<'_, '_>, name: &str, errors: &mut Errors) {
    let before = errors.0.len();
    resource_name(place, name, errors);
    if errors.0.len() == before && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        errors.push(FieldError::unsupported(place.path(), &json!(name), &["cpu", "hugepages-", "memory"]));
    }
}

fn requirements(
    resources: &Place<'_, '_>,
    check_name: fn(&Place<'_, '_>, &str, &mut Errors),
    errors: &mut Errors,
) {
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    for (name, limit) in limits.entries() {
        check_name(&limit, name, errors);
        amount(&limit, name, errors);
    }
    for (name, request) in requests.entries() {
        check_name(&request, name, errors);
        amount(&request, name, errors);
        match limits.value.get(name) {
            Some(limit) => {
                let (asked, allowed) = (quantity(request.value), quantity(limit));
                let shown = limit.as_str().unwrap_or_default();
                if asked != allowed && !may_overcommit(name) {
                    let rule = format!("must be equal to {name} limit of {shown}");
                    errors.push(requests.invalid_value(request.value, rule));
                } else if asked > allowed {
                    let rule = format!("must be less than or equal to {name} limit of {shown}");
                    errors.push(requests.invalid_value(request.value, rule));
                }
            }
            None if !may_overcommit(name) => {
                errors.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            None => {}
        }
    }
    let has = |wanted: fn(&str) -> bool| {
        [&limits, &requests].iter().any(|list| list.entries().any(|(name, _)| wanted(name)))
    };
    if has(is_huge_page) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.push(resources.forbidden("HugePages require cpu or memory"));
    }
}

/// Checks a list of resources such as a quota's.
pub(super) fn quota(list: &Place<'_, '_>, errors: &mut Errors) {
    for (name, value) in list.entries() {
        resource_name(&value, name, errors);
        if !name.contains('/') && !is_quota_standard(name) {
            errors.push(value.invalid_value(&json!(name), "must be a standard resource for quota"));
        }
        amount(&value, name, errors);
    }
}

pub(super) fn is_quota_standard(name: &str) -> bool {
    is_standard(name) || name.starts_with("count/") || name.contains(".storageclass.storage.k8s.io/")
}
