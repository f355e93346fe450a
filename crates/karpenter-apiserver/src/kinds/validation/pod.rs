//! Rules of pod specs, wherever they stand.

use serde_json::{Value, json};

use super::container::{self, Pod};
use super::scheduling;
use super::security;
use super::volume;
use crate::error::FieldError;
use crate::kinds::place::{Errors, Place};
use crate::kinds::{format, metadata};

const HOSTNAME_LENGTH_MAX: usize = 64;
const SEARCH_LETTERS_MAX: usize = 2048;
/// Says that a pod stands for one that its node started by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Says how much is lost with a pod, so that others are deleted first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Checks a pod template: labels, annotations and spec.
pub(super) fn template(template: &Place<'_, '_>, errors: &mut Errors) {
    // Kubernetes names the labels as if they stood in the template itself.
    let path = template.path();
    let inner = Place::root(&path, &template.value["metadata"]);
    metadata::labels(&inner.field("labels"), errors);
    metadata::annotations(&inner.field("annotations"), errors);
    annotations(&inner.field("annotations"), template.value, errors);
    let inner = template.field("spec");
    spec(&inner, "", false, errors);
    if inner.field("ephemeralContainers").len() > 0 {
        let rule = "ephemeral containers not allowed in pod template";
        errors.push(inner.field("ephemeralContainers").forbidden(rule));
    }
}

/// Checks a pod; some rules hold only for a new one.
pub(super) fn pod(pod: &Place<'_, '_>, is_new: bool, errors: &mut Errors) {
    let (metadata, body) = (pod.field("metadata"), pod.field("spec"));
    annotations(&metadata.field("annotations"), pod.value, errors);
    spec(&body, metadata.field("name").text(), true, errors);
    for list in ["containers", "initContainers"] {
        for container in body.field(list).items() {
            let image = container.field("image");
            if image.text().trim() != image.text() {
                errors.push(image.invalid("must not have leading or trailing whitespace"));
            }
        }
    }
    if !is_new {
        return;
    }
    if body.field("ephemeralContainers").len() > 0 {
        errors.push(body.field("ephemeralContainers").forbidden("cannot be set on create"));
    }
    let node = body.field("nodeName");
    if !node.text().is_empty() && body.field("schedulingGates").len() > 0 {
        errors.push(node.forbidden("cannot be set until all schedulingGates have been cleared"));
    }
}

/// Checks the annotations that Kubernetes itself reads on `holder`, a pod or its template.
fn annotations(annotations: &Place<'_, '_>, holder: &Value, errors: &mut Errors) {
    for (key, annotation) in annotations.entries() {
        match key {
            MIRROR if holder["spec"]["nodeName"].as_str().is_none_or(str::is_empty) => {
                errors.push(annotation.invalid("must set spec.nodeName if mirror pod annotation is set"));
            }
            DELETION_COST if !is_plain_number(annotation.text()) => {
                errors.push(annotation.invalid("must be a 32bit integer"));
            }
            _ => {}
        }
    }
}

/// Whether a text is a number as it would be printed: no plus, no leading zeros.
fn is_plain_number(text: &str) -> bool {
    let first = text.bytes().next().unwrap_or_default();
    text.parse::<i32>().is_ok() && (text == "0" || first == b'-' || (b'1'..=b'9').contains(&first))
}

/// Checks a pod spec; `name` is the pod's own, empty in templates.
pub(super) fn spec(spec: &Place<'_, '_>, name: &str, is_pod: bool, errors: &mut Errors) {
    let grace = spec.field("terminationGracePeriodSeconds");
    if !grace.is_set() {
        errors.push(grace.required(""));
    }
    let volumes = volume::volumes(&spec.field("volumes"), name, errors);
    let pod = Pod {
        volumes: &volumes,
        restart_policy: spec.field("restartPolicy").text(),
        grace_period: grace.number().unwrap_or(0),
        host_users: spec.value["hostUsers"] != false,
    };
    let regular = spec.field("containers");
    container::containers(&regular, pod, errors);
    container::init_containers(&spec.field("initContainers"), &regular, pod, errors);
    super::resources::of_pod(spec, errors);
    if spec.field("hostNetwork").flag() {
        host_network(spec, is_pod, errors);
    }
    errors.one_of(&spec.field("restartPolicy"), &["Always", "OnFailure", "Never"]);
    let dns = spec.field("dnsPolicy");
    errors.one_of(&dns, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    metadata::labels(&spec.field("nodeSelector"), errors);
    security::of_pod(spec, errors);
    scheduling::affinity(&spec.field("affinity"), errors);
    dns_config(&spec.field("dnsConfig"), dns.text(), errors);
    for gate in spec.field("readinessGates").items() {
        let kind = gate.field("conditionType");
        errors.form(&kind, format::label_key(kind.text()));
    }
    scheduling_gates(&spec.field("schedulingGates"), errors);
    scheduling::spread_constraints(&spec.field("topologySpreadConstraints"), errors);
    names(spec, errors);
    scheduling::tolerations(&spec.field("tolerations"), errors);
    host_aliases(&spec.field("hostAliases"), errors);
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() {
        errors.one_of(&preemption, &["PreemptLowerPriority", "Never"]);
    }
    let overhead = spec.field("overhead");
    super::resources::of_overhead(&overhead, errors);
    operating_system(spec, errors);
    if spec.value["hostUsers"] == false {
        own_users(spec, errors);
    }
}

fn operating_system(spec: &Place<'_, '_>, errors: &mut Errors) {
    let os = spec.field("os");
    let name = os.field("name");
    match name.text() {
        _ if !os.is_set() => {}
        "" => errors.push(name.required("")),
        "linux" => security::linux(spec, errors),
        "windows" => security::windows(spec, errors),
        _ => errors.push(FieldError::unsupported(os.path(), name.value, &["linux", "windows"])),
    }
}

/// What a pod with users of its own cannot share with its host.
fn own_users(spec: &Place<'_, '_>, errors: &mut Errors) {
    let rule = "when `hostUsers` is false";
    // Kubernetes spells some of the fields as its own code does.
    for (name, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.field(name).flag() {
            errors.push(spec.field(shown).forbidden(rule));
        }
    }
    for list in ["initContainers", "containers"] {
        for container in spec.field(list).items() {
            let devices = container.field("volumeDevices");
            if devices.len() > 0 {
                errors.push(devices.forbidden(rule));
            }
        }
    }
}

fn host_network(spec: &Place<'_, '_>, is_pod: bool, errors: &mut Errors) {
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let (host, own) = (port.field("hostPort"), port.field("containerPort"));
            let (from, to) = (host.number().unwrap_or(0), own.number().unwrap_or(0));
            if (is_pod || from != 0) && from != to {
                let rule = "must match `containerPort` when `hostNetwork` is true";
                errors.push(host.invalid_value(&json!(from), rule));
            }
        }
    }
}

fn dns_config(config: &Place<'_, '_>, policy: &str, errors: &mut Errors) {
    let servers = config.field("nameservers");
    if policy == "None" {
        if !config.is_set() {
            errors.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if servers.len() == 0 {
            let rule = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(servers.required(rule));
            return;
        }
    }
    if servers.len() > 3 {
        errors.push(servers.invalid("must not have more than 3 nameservers"));
    }
    for server in servers.items() {
        ip_address(&server, errors);
    }
    let searches = config.field("searches");
    if searches.len() > 32 {
        errors.push(searches.invalid("must not have more than 32 search paths"));
    }
    let letters: usize = searches.items().map(|search| search.text().len() + 1).sum();
    if letters > SEARCH_LETTERS_MAX + 1 {
        let rule = "must not have more than 2048 characters (including spaces) in the search list";
        errors.push(searches.invalid(rule));
    }
    for search in searches.items() {
        let text = search.text().strip_suffix('.').filter(|text| !text.is_empty()).unwrap_or(search.text());
        if text != "." {
            for rule in underscore_subdomain(text) {
                errors.push(search.invalid_value(&json!(text), rule));
            }
        }
    }
    for option in config.field("options").items() {
        if option.field("name").text().is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

/// A subdomain in which parts may have underscores.
fn underscore_subdomain(text: &str) -> Vec<String> {
    let plain = text.split('.').map(|part| part.strip_prefix('_').unwrap_or(part).replace('_', "-"));
    if format::dns_subdomain(&plain.collect::<Vec<_>>().join(".")).is_empty() {
        return Vec::new();
    }
    let sentence = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
                    must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                    '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
    vec![sentence.to_owned()]
}

/// Checks an address in one of the older fields, which take leading zeros.
pub(super) fn ip_address(place: &Place<'_, '_>, errors: &mut Errors) {
    let text = place.text();
    let lenient: Vec<String> = text
        .split('.')
        .map(|part| {
            let trimmed = part.trim_start_matches('0');
            if trimmed.is_empty() && !part.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
        })
        .collect();
    if text.parse::<std::net::IpAddr>().is_err() && lenient.join(".").parse::<std::net::Ipv4Addr>().is_err() {
        let rule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(place.invalid_value(&json!(text), rule));
    }
}

fn scheduling_gates(gates: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for gate in gates.items() {
        let name = gate.field("name").text();
        for rule in format::label_key(name) {
            errors.push(gate.invalid_value(&json!(name), rule));
        }
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(gate.path(), &json!(name)));
        }
        seen.push(name);
    }
}

fn names(spec: &Place<'_, '_>, errors: &mut Errors) {
    for name in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let place = spec.field(name);
        if !place.text().is_empty() || (name == "runtimeClassName" && place.is_set()) {
            errors.form(&place, format::dns_subdomain(place.text()));
        }
    }
    for name in ["hostname", "subdomain"] {
        let place = spec.field(name);
        if !place.text().is_empty() {
            errors.form(&place, format::dns_label(place.text()));
        }
    }
    hostname_override(spec, errors);
    let deadline = spec.field("activeDeadlineSeconds");
    if let Some(number) = deadline.number() {
        errors.form(&deadline, format::in_range(number, 1, i64::from(i32::MAX)));
    }
}

fn hostname_override(spec: &Place<'_, '_>, errors: &mut Errors) {
    let name = spec.field("hostnameOverride");
    if !name.is_set() {
        return;
    }
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.field(other).flag() {
            errors.push(name.forbidden(&format!("may not be specified when {other} is true")));
        }
    }
    if name.text().len() > HOSTNAME_LENGTH_MAX {
        errors.push(FieldError::too_long(name.path(), HOSTNAME_LENGTH_MAX));
    }
    errors.form(&name, format::dns_subdomain(name.text()));
}

fn host_aliases(list: &Place<'_, '_>, errors: &mut Errors) {
    for alias in list.items() {
        ip_address(&alias.field("ip"), errors);
        for name in alias.field("hostnames").items() {
            errors.form(&name, format::dns_subdomain(name.text()));
        }
    }
}

/// What a change of a pod may not touch.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let (root, before) = (Place::root("", new), Place::root("", old));
    let (after, was) = (root.field("spec"), before.field("spec"));
    mirror_update(&root.field("metadata"), &before.field("metadata"), errors);
    for list in ["containers", "initContainers"] {
        let (now, then) = (after.field(list), was.field(list));
        if now.len() != then.len() {
            errors.push(now.forbidden("pod updates may not add or remove containers"));
            return;
        }
    }
    let deadline = after.field("activeDeadlineSeconds");
    deadline_update(&deadline, &was.field("activeDeadlineSeconds"), errors);
    tolerations_update(&after.field("tolerations"), &was.field("tolerations"), errors);
    let held = was.field("schedulingGates").len() > 0;
    new_gates(&after.field("schedulingGates"), &was.field("schedulingGates"), errors);
    if held {
        scheduling::narrowed(&after, &was, errors);
    }
    fixed_part(new, old, held, errors);
}

/// Whether a pod stands for another never changes.
fn mirror_update(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    let annotations = new.field("annotations");
    let (now, then) = (annotations.value.get(MIRROR), old.value["annotations"].get(MIRROR));
    let change = match (now, then) {
        (now, then) if now == then => return,
        (_, Some(_)) => "remove or update",
        (_, None) => "add",
    };
    let path = format!("{}[{MIRROR}]", annotations.path());
    errors.push(FieldError::forbidden(path, &format!("may not {change} mirror pod annotation")));
}

/// No scheduling gate can be added.
fn new_gates(gates: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    let known: Vec<&str> = old.items().map(|gate| gate.field("name").text()).collect();
    for gate in gates.items() {
        let name = gate.field("name");
        if !known.contains(&name.text()) {
            let rule = format!("only deletion is allowed, but found new scheduling gate '{}'", name.text());
            errors.push(name.forbidden(&rule));
        }
    }
}

fn deadline_update(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    match (new.number(), old.number()) {
        (Some(now), Some(then)) if now > then => {
            errors.push(new.invalid("must be less than or equal to previous value"));
        }
        (None, Some(_)) => {
            errors.push(
                new.invalid_value(&Value::Null, "must not update from a positive integer to nil value"),
            );
        }
        _ => {}
    }
}

fn tolerations_update(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.as_object_mut().map(|fields| fields.remove("tolerationSeconds"));
        toleration
    };
    let kept = |wanted: &Value| {
        new.value
            .as_array()
            .into_iter()
            .flatten()
            .any(|toleration| without_time(toleration) == without_time(wanted))
    };
    if old.value.as_array().into_iter().flatten().any(|toleration| !kept(toleration)) {
        let rule = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(new.forbidden(rule));
    }
}

fn fixed_part(new: &Value, old: &Value, gated: bool, errors: &mut Errors) {
    let fixed = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container.as_object_mut().map(|container| container.remove("image"));
            }
        }
        if let Some(fields) = spec.as_object_mut() {
            for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
                fields.remove(name);
            }
            if gated {
                // Gated pods may still be narrowed to fewer nodes.
                fields.remove("nodeSelector");
                let affinity = fields.get_mut("affinity").and_then(Value::as_object_mut);
                if affinity
                    .is_some_and(|affinity| affinity.remove("nodeAffinity").is_some() && affinity.is_empty())
                {
                    fields.remove("affinity");
                }
            }
            if fields
                .get("terminationGracePeriodSeconds")
                .and_then(Value::as_i64)
                .is_some_and(|grace| grace < 0)
            {
                fields.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
            }
        }
        spec
    };
    if fixed(new) != fixed(old) {
        let rule = "pod updates may not change fields other than `spec.containers[*].image`,\
                    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                    existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously \
                    negative)";
        errors.push(FieldError::forbidden("spec", rule));
    }
}
