//! Warnings about single kinds that are repeated with every write, whatever it changes.

use karpenter_quantity::Quantity;
use serde_json::Value;

use super::{addresses, items, old_label, whole_bytes};

pub(super) fn repeated(resource: &str, object: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    let spec = &object["spec"];
    match resource {
        "ingresses.networking.k8s.io" if old.is_none() => warnings.extend(class_by_annotation(object)),
        "serviceaccounts" => warnings.extend(mountable_secrets(object, old)),
        "resourcequotas" if old.is_none() => quota(&spec["hard"], warnings),
        "cronjobs.batch" if old.is_some() => warnings.extend(zone_in_schedule(spec)),
        "statefulsets.apps" => stateful_set(spec, old.is_some(), warnings),
        "runtimeclasses.node.k8s.io" => {
            let labels = object["scheduling"]["nodeSelector"].as_object().into_iter().flatten();
            let old = labels.filter_map(|(key, _)| old_label(key));
            warnings.extend(old.map(|message| format!("scheduling.nodeSelector: {message}")));
        }
        "storageclasses.storage.k8s.io" => storage_class(&object["allowedTopologies"], warnings),
        "csistoragecapacities.storage.k8s.io" => topology(&object["nodeTopology"], warnings),
        "networkpolicies.networking.k8s.io" => network_policy(spec, warnings),
        "endpointslices.discovery.k8s.io" => endpoint_slice(object, old.is_none(), warnings),
        "resourceslices.resource.k8s.io" => warnings.extend(driver(spec)),
        "nodes" => {
            if spec["externalID"].as_str().is_some_and(|id| !id.is_empty()) {
                let warning = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
                warnings.push(warning.to_owned());
            }
            for (index, range) in items(&spec["podCIDRs"]) {
                let path = format!("spec.podCIDRs[{index}]");
                warnings.extend(addresses::range(&path, range.as_str().unwrap_or_default()));
            }
        }
        _ => {}
    }
}

fn class_by_annotation(ingress: &Value) -> Option<String> {
    let named = ingress["metadata"]["annotations"].get("kubernetes.io/ingress.class").is_some();
    (named && ingress["spec"]["ingressClassName"].is_null()).then(|| {
        "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
            .to_owned()
    })
}

fn mountable_secrets(account: &Value, old: Option<&Value>) -> Option<String> {
    const NAME: &str = "kubernetes.io/enforce-mountable-secrets";
    let has = |account: &Value| account["metadata"]["annotations"].get(NAME).is_some();
    (has(account) && !old.is_some_and(has)).then(|| {
        format!(
            "metadata.annotations[{NAME}]: deprecated in v1.32+; prefer separate namespaces to isolate access to \
             mounted secrets"
        )
    })
}

/// Requests that are allowed to be more than limits.
fn quota(hard: &Value, warnings: &mut Vec<String>) {
    for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let mut requests = format!("requests.{name}");
        if hard.get(&requests).is_none() && matches!(name, "cpu" | "memory") {
            name.clone_into(&mut requests);
        }
        let limits = format!("limits.{name}");
        if let (Some(request), Some(limit)) = (hard.get(&requests), hard.get(&limits))
            && amount(request) > amount(limit)
        {
            let text = |amount: &Value| amount.as_str().unwrap_or_default().to_owned();
            let (request, limit) = (text(request), text(limit));
            warnings
                .push(format!("ResourceQuota {requests} ({request}) should be less than {limits} ({limit})"));
        }
    }
}

fn amount(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

fn zone_in_schedule(spec: &Value) -> Option<String> {
    spec["schedule"].as_str().is_some_and(|schedule| schedule.contains("TZ")).then(|| {
        "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
         https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            .to_owned()
    })
}

fn stateful_set(spec: &Value, changed: bool, warnings: &mut Vec<String>) {
    for (index, claim) in items(&spec["volumeClaimTemplates"]) {
        // The path has one more step in changes.
        let step = if changed { ".Spec" } else { "" };
        for kind in ["requests", "limits"] {
            let path = format!("spec.volumeClaimTemplates[{index}]{step}.resources.{kind}");
            whole_bytes(&claim["spec"]["resources"][kind], &path, "storage", warnings);
        }
    }
    if spec["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        let warning = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                       recommended";
        warnings.push(warning.to_owned());
    }
}

fn storage_class(topologies: &Value, warnings: &mut Vec<String>) {
    for (at, topology) in items(topologies) {
        for (index, expression) in items(&topology["matchLabelExpressions"]) {
            if let Some(message) = expression["key"].as_str().and_then(old_label) {
                let path = format!("allowedTopologies[{at}].matchLabelExpressions[{index}].key");
                warnings.push(format!("{path}: {message}"));
            }
        }
    }
}

fn topology(selector: &Value, warnings: &mut Vec<String>) {
    for (index, expression) in items(&selector["matchExpressions"]) {
        let key = expression["key"].as_str().unwrap_or_default();
        if let Some(message) = old_label(key) {
            warnings.push(format!("nodeTopology.matchExpressions[{index}].key: {key} is {message}"));
        }
    }
    for (key, _) in selector["matchLabels"].as_object().into_iter().flatten() {
        if let Some(message) = old_label(key) {
            warnings.push(format!("nodeTopology.matchLabels.{key}: {message}"));
        }
    }
}

fn network_policy(spec: &Value, warnings: &mut Vec<String>) {
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in items(&spec[rules]) {
            for (index, peer) in items(&rule[peers]) {
                let path = format!("spec.{rules}[{at}].{peers}[{index}].ipBlock");
                let block = &peer["ipBlock"];
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                warnings.extend(addresses::range(&format!("{path}.cidr"), &text(&block["cidr"])));
                for (index, range) in items(&block["except"]) {
                    warnings.extend(addresses::range(&format!("{path}.except[{index}]"), &text(range)));
                }
            }
        }
    }
}

fn endpoint_slice(slice: &Value, is_new: bool, warnings: &mut Vec<String>) {
    if is_new && slice["addressType"] == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let manager = slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].as_str();
    // These write what others have given them.
    if let Some("endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") = manager {
        return;
    }
    for (at, endpoint) in items(&slice["endpoints"]) {
        for (index, address) in items(&endpoint["addresses"]) {
            let path = format!("endpoints[{at}].addresses[{index}]");
            warnings.extend(addresses::address(&path, address.as_str().unwrap_or_default()));
        }
    }
}

fn driver(spec: &Value) -> Option<String> {
    let driver = spec["driver"].as_str().unwrap_or_default();
    (driver != driver.to_lowercase()).then(|| {
        format!("spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters")
    })
}
