//! Rules of what is written through the status subresource, and through that of a namespace's finalizers.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{node, pod_status, resources};
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

/// Counters that may not be negative, by resource.
const COUNTERS: &[(&str, &[&str])] = &[
    (
        "deployments.apps",
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
    ),
    ("replicasets.apps", SET_COUNTERS),
    ("replicationcontrollers", SET_COUNTERS),
    (
        "statefulsets.apps",
        &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
    ),
    (
        "daemonsets.apps",
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
    ),
    (
        "poddisruptionbudgets.policy",
        &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"],
    ),
];

const SET_COUNTERS: &[&str] = &[
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
];

/// How long the texts of a condition may be.
const REASON_MAX: usize = 1024;
const MESSAGE_MAX: usize = 32 * 1024;

/// Counters that cannot exceed the number of replicas.
const SHARES: &[&str] =
    &["updatedReplicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas", "currentReplicas"];

pub(super) fn validate(resource: &str, object: &Value, old: &Value, errors: &mut Errors) {
    let root = Place::root("", object);
    let status = root.field("status");
    if let Some((_, names)) = COUNTERS.iter().find(|(name, _)| *name == resource) {
        counters(resource, &status, names, errors);
        collisions(&status, &old["status"]["collisionCount"], errors);
    }
    match resource {
        "nodes" => node::update(object, old, errors),
        "pods" => pod_status::validate(&root, old, errors),
        "namespaces" => phase(object, errors),
        "persistentvolumeclaims" => {
            for (_, amount) in status.field("capacity").entries() {
                resources::basic(&amount, errors);
            }
        }
        "services" => load_balancer(&status, old, object["spec"]["type"] == "LoadBalancer", errors),
        "poddisruptionbudgets.policy" => conditions(&status.field("conditions"), errors),
        "ingresses.networking.k8s.io" => balanced_addresses(&status, old, errors),
        "resourcequotas" => {
            resources::quota(&status.field("hard"), errors);
            resources::quota(&status.field("used"), errors);
        }
        _ => {}
    }
}

/// Checks what keeps a namespace.
pub(super) fn finalizers(object: &Value, errors: &mut Errors) {
    let root = Place::root("", object);
    let spec = root.field("spec");
    for finalizer in spec.field("finalizers").items() {
        let name = finalizer.text();
        errors.form(&finalizer, format::label_key(name));
        if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(finalizer.invalid(rule));
        }
    }
}

fn counters(resource: &str, status: &Place<'_, '_>, names: &[&str], errors: &mut Errors) {
    for name in names {
        errors.not_negative(&status.field(name));
    }
    if !names.contains(&"replicas") {
        return;
    }
    let count = |name: &str| status.field(name).number().unwrap_or(0);
    for name in SHARES.iter().filter(|name| names.contains(name)) {
        if count(name) > count("replicas") {
            errors.push(status.field(name).invalid("cannot be greater than status.replicas"));
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let ready = if resource == "statefulsets.apps" { "status.readyReplicas" } else { "readyReplicas" };
        let rule = format!("cannot be greater than {ready}");
        errors.push(status.field("availableReplicas").invalid(rule));
    }
}

/// How often names collided only grows.
fn collisions(status: &Place<'_, '_>, before: &Value, errors: &mut Errors) {
    let place = status.field("collisionCount");
    if before.as_i64().is_some_and(|before| place.number().unwrap_or(0) < before) {
        errors.push(place.invalid_value(&json!(place.number().unwrap_or(0)), "cannot be decremented"));
    }
}

/// Conditions of the form that many kinds share.
fn conditions(list: &Place<'_, '_>, errors: &mut Errors) {
    let mut kinds = Vec::new();
    for condition in list.items() {
        let (kind, state, reason) =
            (condition.field("type"), condition.field("status"), condition.field("reason"));
        if kinds.contains(&kind.text()) {
            errors.push(FieldError::duplicate(kind.path(), &json!(kind.text())));
        }
        kinds.push(kind.text());
        errors.form(&kind, format::label_key(kind.text()));
        if !matches!(state.text(), "False" | "True" | "Unknown") {
            errors.push(state.unsupported(&["False", "True", "Unknown"]));
        }
        let seen = condition.field("observedGeneration");
        if seen.number().is_some_and(|number| number < 0) {
            errors.push(seen.invalid("must be greater than or equal to zero"));
        }
        let time = condition.field("lastTransitionTime");
        if time.text().is_empty() {
            errors.push(time.required(""));
        }
        if reason.text().is_empty() {
            errors.push(reason.required(""));
        } else {
            errors.form(&reason, format::condition_reason(reason.text()));
        }
        for (place, limit) in [(reason, REASON_MAX), (condition.field("message"), MESSAGE_MAX)] {
            if place.text().len() > limit {
                errors.push(FieldError::too_long(place.path(), limit));
            }
        }
    }
}

fn phase(namespace: &Value, errors: &mut Errors) {
    let phase = json!(namespace["status"]["phase"].as_str().unwrap_or_default());
    let (expected, state) = if namespace["metadata"]["deletionTimestamp"].is_string() {
        ("Terminating", "is not empty")
    } else {
        ("Active", "is empty")
    };
    if phase != expected {
        let rule = format!("may only be '{expected}' if `deletionTimestamp` {state}");
        errors.push(FieldError::invalid("status.Phase", &phase, rule));
    }
}

fn load_balancer(status: &Place<'_, '_>, old: &Value, balanced: bool, errors: &mut Errors) {
    let outside = status.field("loadBalancer");
    let ingress = outside.field("ingress");
    if ingress.len() > 0 && !balanced {
        errors.push(ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        return;
    }
    for point in ingress.items() {
        let (mode, has_address) = (point.field("ipMode"), !point.field("ip").text().is_empty());
        match mode.is_set() {
            true if !has_address => errors.push(mode.forbidden("may not be specified when `ip` is not set")),
            true => errors.one_of(&mode, &["Proxy", "VIP"]),
            false if has_address => errors.push(mode.required("must be specified when `ip` is set")),
            false => {}
        }
    }
    balanced_addresses(status, old, errors);
}

/// Where something is reached from outside; addresses that are there already may be anything.
fn balanced_addresses(status: &Place<'_, '_>, old: &Value, errors: &mut Errors) {
    let before = old["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let before: Vec<&str> = before.filter_map(|point| point["ip"].as_str()).collect();
    for point in status.field("loadBalancer").field("ingress").items() {
        let (address, host) = (point.field("ip"), point.field("hostname"));
        let known = address.text().is_empty() || before.contains(&address.text());
        if !known && address.text().parse::<IpAddr>().is_err() {
            errors.push(address.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
        }
        if !host.text().is_empty() {
            errors.form(&host, format::dns_subdomain(host.text()));
            if host.text().parse::<IpAddr>().is_ok() {
                errors.push(host.invalid("must be a DNS name, not an IP address"));
            }
        }
    }
}
