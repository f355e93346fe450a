//! Warnings about pods and templates of pods.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{items, node_selector_term, old_label, paths, whole_bytes};

/// Warns about a pod or a template; `outer` is the path that leads to it.
pub(super) fn of_template(template: &Value, outer: &str, warnings: &mut Vec<String>) {
    let spec = &template["spec"];
    let path = format!("{outer}spec");
    placement(spec, &path, warnings);
    paths::overlaps(&spec["volumes"], warnings);
    repeated(&spec["hostAliases"], &format!("{path}.hostAliases"), "ip", warnings);
    repeated(&spec["imagePullSecrets"], &format!("{path}.imagePullSecrets"), "name", warnings);
    for (index, secret) in items(&spec["imagePullSecrets"]) {
        if secret["name"].as_str().is_none_or(str::is_empty) {
            warnings.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    for name in ["memory", "ephemeral-storage"] {
        whole_bytes(&spec["overhead"], &format!("{path}.overhead"), name, warnings);
    }
    for (path, container) in containers(spec, &path) {
        for name in ["memory", "ephemeral-storage"] {
            for kind in ["limits", "requests"] {
                let amounts = &container["resources"][kind];
                whole_bytes(amounts, &format!("{path}.resources.{kind}"), name, warnings);
            }
        }
        hidden_variables(container, &path, warnings);
    }
    ports(spec, &path, warnings);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    unselective_terms(spec, &path, warnings);
}

fn containers<'v>(spec: &'v Value, path: &str) -> Vec<(String, &'v Value)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists
        .iter()
        .flat_map(|list| {
            items(&spec[*list]).map(move |(index, item)| (format!("{path}.{list}[{index}]"), item))
        })
        .collect()
}

fn placement(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for (key, _) in spec["nodeSelector"].as_object().into_iter().flatten() {
        if let Some(message) = old_label(key) {
            warnings.push(format!("{path}.nodeSelector[{key}]: {message}"));
        }
    }
    let affinity = &spec["affinity"]["nodeAffinity"];
    let inside = format!("{path}.affinity.nodeAffinity");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in items(&affinity[required]["nodeSelectorTerms"]) {
        node_selector_term(term, &format!("{inside}.{required}.nodeSelectorTerms[{index}]"), false, warnings);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in items(&affinity[preferred]) {
        let path = format!("{inside}.{preferred}[{index}].preference");
        node_selector_term(&term["preference"], &path, true, warnings);
    }
    for (index, constraint) in items(&spec["topologySpreadConstraints"]) {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        let key = constraint["topologyKey"].as_str().unwrap_or_default();
        if let Some(message) = old_label(key) {
            warnings.push(format!("{path}.topologyKey: {key} is {message}"));
        }
        if constraint["labelSelector"].is_null() {
            warnings.push(format!("{path}.labelSelector: a null labelSelector results in matching no pod"));
        }
    }
}

fn unselective_terms(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (list, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", ".podAffinityTerm"),
        ] {
            for (index, term) in items(&spec["affinity"][kind][list]) {
                let term = if inner.is_empty() { term } else { &term["podAffinityTerm"] };
                if term["labelSelector"].is_null() {
                    warnings.push(format!(
                        "{path}.affinity.{kind}.{list}[{index}]{inner}.labelSelector: a null labelSelector results in \
                         matching no pod"
                    ));
                }
            }
        }
    }
}

/// Items of a list that have the same name.
fn repeated(list: &Value, path: &str, name: &str, warnings: &mut Vec<String>) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, item) in items(list) {
        let text = item[name].as_str().unwrap_or_default();
        if seen.contains(&text) {
            warnings.push(format!("{path}[{index}].{name}: duplicate {name} {text:?}"));
        }
        seen.push(text);
    }
}

/// A variable may be defined again in terms of itself only.
fn hidden_variables(container: &Value, path: &str, warnings: &mut Vec<String>) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, variable) in items(&container["env"]) {
        let name = variable["name"].as_str().unwrap_or_default();
        let (value, itself) = (variable["value"].as_str().unwrap_or_default(), format!("$({name})"));
        let extends = variable["valueFrom"].is_null() && value != itself && value.contains(&itself);
        if seen.contains(&name) && !extends {
            warnings.push(format!(
                "{path}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
        seen.push(name);
    }
}

fn ports(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    let all: Vec<(String, &Value)> = containers(spec, path)
        .into_iter()
        .flat_map(|(path, container)| {
            items(&container["ports"])
                .map(|(index, port)| (format!("{path}.ports[{index}]"), port))
                .collect::<Vec<_>>()
        })
        .collect();
    let host = |port: &Value| {
        (port["hostIP"].as_str().unwrap_or_default().to_owned(), port["hostPort"].as_i64().unwrap_or(0))
    };
    for (index, (path, port)) in all.iter().enumerate() {
        let (address, number) = host(port);
        let same = |other: &&(String, &Value)| {
            other.1["containerPort"] == port["containerPort"] && other.1["protocol"] == port["protocol"]
        };
        for (other_path, other) in all[..index].iter().filter(same) {
            let (other_address, other_number) = host(other);
            let what = if (&address, number) == (&other_address, other_number) {
                "duplicate"
            } else if number == 0 || other_number == 0 {
                "overlapping"
            } else if number == other_number && address.is_empty() != other_address.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{path}: {what} port definition with {other_path}"));
        }
    }
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    for (path, port) in &all {
        let Some(name) = port["name"].as_str().filter(|name| !name.is_empty()) else { continue };
        if let Some(first) = named.get(name) {
            warnings.push(format!(
                "{path}: duplicate port name {name:?} with {first}, services and probes that select ports by name will \
                 use {first}"
            ));
        } else {
            named.insert(name, path);
        }
    }
}
