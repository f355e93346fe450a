//! Rules of containers: names, ports, environment, mounts, probes, resources.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::probe;
use super::resources;
use super::security;
use super::volume;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const RESTART_POLICIES: &[&str] = &["Always", "Never", "OnFailure"];

/// What a pod says that matters to its containers.
#[derive(Clone, Copy)]
pub(super) struct Pod<'p> {
    /// The names of the volumes with nothing wrong about them, and their sources.
    pub(super) volumes: &'p [(String, &'p Value)],
    pub(super) restart_policy: &'p str,
    pub(super) grace_period: i64,
    /// Whether its users are those of the host.
    pub(super) host_users: bool,
}

pub(super) fn containers(list: &Place<'_, '_>, pod: Pod<'_>, errors: &mut Errors) {
    if list.len() == 0 {
        errors.push(list.required(""));
        return;
    }
    let mut names = BTreeSet::new();
    for container in list.items() {
        container_rules(&container, pod, errors);
        let name = container.field("name");
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        hooks_and_probes(&container, pod, errors);
        let policy = container.field("restartPolicy");
        errors.one_of_or_none(&policy, RESTART_POLICIES);
    }
    host_ports(list, list.items(), errors);
}

pub(super) fn init_containers(
    list: &Place<'_, '_>,
    regular: &Place<'_, '_>,
    pod: Pod<'_>,
    errors: &mut Errors,
) {
    let mut names: BTreeSet<String> =
        regular.items().map(|container| container.field("name").text().to_owned()).collect();
    for container in list.items() {
        container_rules(&container, pod, errors);
        let policy = container.field("restartPolicy");
        errors.one_of_or_none(&policy, RESTART_POLICIES);
        let name = container.field("name");
        if names.contains(name.text()) {
            errors.push(name.duplicate());
        } else if !name.text().is_empty() {
            names.insert(name.text().to_owned());
        }
        host_ports(list, std::iter::once(container), errors);
        if policy.text() == "Always" {
            hooks_and_probes(&container, pod, errors);
            continue;
        }
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let place = container.field(name);
            if place.is_set() {
                errors
                    .push(place.forbidden("may not be set for init containers without restartPolicy=Always"));
            }
        }
        for resize in container.field("resizePolicy").items() {
            let restart = resize.field("restartPolicy");
            if restart.text() == "RestartContainer" {
                let rule = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.push(restart.invalid(rule));
            }
        }
    }
}

fn hooks_and_probes(container: &Place<'_, '_>, pod: Pod<'_>, errors: &mut Errors) {
    let lifecycle = container.field("lifecycle");
    for name in ["postStart", "preStop"] {
        let hook = lifecycle.field(name);
        if hook.is_set() {
            probe::handler(&hook, pod.grace_period, errors);
        }
    }
    probe::probe(&container.field("livenessProbe"), pod.grace_period, errors);
    probe::probe(&container.field("readinessProbe"), pod.grace_period, errors);
    probe::probe(&container.field("startupProbe"), pod.grace_period, errors);
}

fn container_rules(container: &Place<'_, '_>, pod: Pod<'_>, errors: &mut Errors) {
    let name = container.field("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        errors.form(&name, format::dns_label(name.text()));
    }
    let image = container.field("image");
    if image.text().is_empty() {
        errors.push(image.required(""));
    }
    errors.one_of(&container.field("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
    ports(&container.field("ports"), errors);
    for variable in container.field("env").items() {
        environment(&variable, errors);
    }
    environment_sources(&container.field("envFrom"), errors);
    mounts(container, pod, errors);
    devices(container, pod, errors);
    errors.one_of(&container.field("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    resources::of_container(&container.field("resources"), errors);
    resize_policies(&container.field("resizePolicy"), pod, errors);
    security::of_container(&container.field("securityContext"), pod.host_users, errors);
}

fn ports(ports: &Place<'_, '_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.text().is_empty() {
            let wrong = format::port_name(name.text());
            if !wrong.is_empty() {
                errors.form(&name, wrong);
            } else if !names.insert(name.text()) {
                errors.push(name.duplicate());
            }
        }
        let number = port.field("containerPort");
        match number.number().unwrap_or(0) {
            0 => errors.push(number.required("")),
            value => errors.form(&number, format::port_number(value)),
        }
        let host = port.field("hostPort");
        if let Some(value) = host.number().filter(|value| *value != 0) {
            errors.form(&host, format::port_number(value));
        }
        errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn host_ports<'p>(
    list: &Place<'_, '_>,
    containers: impl Iterator<Item = Place<'p, 'p>>,
    errors: &mut Errors,
) {
    let mut used = BTreeSet::new();
    for (index, container) in containers.enumerate() {
        for (position, port) in container.field("ports").items().enumerate() {
            let Some(number) = port.field("hostPort").number().filter(|number| *number != 0) else {
                continue;
            };
            let (protocol, address) = (port.field("protocol").text(), port.field("hostIP").text());
            let identity = format!("{protocol}/{address}/{number}");
            if !used.insert(identity.clone()) {
                let path = format!("{}[{index}].ports[{position}].hostPort", list.path());
                errors.push(crate::error::FieldError::duplicate(path, &json!(identity)));
            }
        }
    }
}

const VARIABLE_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn environment(variable: &Place<'_, '_>, errors: &mut Errors) {
    let name = variable.field("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        errors.form(&name, format::variable_name(name.text()));
    }
    let from = variable.field("valueFrom");
    if !from.is_set() {
        return;
    }
    let mut sources = 0;
    let field = from.field("fieldRef");
    if field.is_set() {
        sources += 1;
        volume::field_reference(&field, VARIABLE_FIELDS, errors);
    }
    let resource = from.field("resourceFieldRef");
    if resource.is_set() {
        sources += 1;
        volume::resource_reference(&resource, false, errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        let reference = from.field(name);
        if reference.is_set() {
            sources += 1;
            key_reference(&reference, errors);
        }
    }
    sources += usize::from(from.field("fileKeyRef").is_set());
    let empty = json!("");
    if sources == 0 {
        let rule = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.push(from.invalid_value(&empty, rule));
    } else if !variable.field("value").text().is_empty() {
        errors.push(from.invalid_value(&empty, "may not be specified when `value` is not empty"));
    } else if sources > 1 {
        errors.push(from.invalid_value(&empty, "may not have more than one field specified at a time"));
    }
}

fn key_reference(reference: &Place<'_, '_>, errors: &mut Errors) {
    let name = reference.field("name");
    errors.form(&name, format::dns_subdomain(name.text()));
    let key = reference.field("key");
    if key.text().is_empty() {
        errors.push(key.required(""));
    } else {
        errors.form(&key, format::config_key(key.text()));
    }
}

fn environment_sources(list: &Place<'_, '_>, errors: &mut Errors) {
    for source in list.items() {
        let prefix = source.field("prefix");
        if !prefix.text().is_empty() {
            errors.form(&prefix, format::variable_name(prefix.text()));
        }
        let mut sources = 0;
        for name in ["configMapRef", "secretRef"] {
            let reference = source.field(name);
            if reference.is_set() {
                sources += 1;
                let name = reference.field("name");
                if name.text().is_empty() {
                    errors.push(name.required(""));
                } else {
                    errors.form(&name, format::dns_subdomain(name.text()));
                }
            }
        }
        let empty = json!("");
        if sources == 0 {
            errors.push(list.invalid_value(&empty, "must specify one of: `configMapRef` or `secretRef`"));
        } else if sources > 1 {
            errors.push(list.invalid_value(&empty, "may not have more than one field specified at a time"));
        }
    }
}

fn mounts(container: &Place<'_, '_>, pod: Pod<'_>, errors: &mut Errors) {
    let list = container.field("volumeMounts");
    let devices = container.field("volumeDevices");
    let mut paths = BTreeSet::new();
    for mount in list.items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        if name.text().is_empty() {
            errors.push(name.required(""));
        }
        if !pod.volumes.iter().any(|(volume, _)| volume == name.text()) {
            errors.push(crate::error::FieldError::not_found(name.path(), &json!(name.text())));
        }
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        if !paths.insert(path.text()) {
            errors.push(path.invalid_value(&json!(path.text()), "must be unique"));
        }
        if devices.items().any(|device| device.field("name").text() == name.text()) {
            errors.push(name.invalid("must not already exist in volumeDevices"));
        }
        if devices.items().any(|device| device.field("devicePath").text() == path.text()) {
            errors.push(path.invalid("must not already exist as a path in volumeDevices"));
        }
        mount_details(&list, &mount, container, errors);
    }
}

/// Some rules name the list and not the mount.
fn mount_details(
    list: &Place<'_, '_>,
    mount: &Place<'_, '_>,
    container: &Place<'_, '_>,
    errors: &mut Errors,
) {
    for name in ["subPath", "subPathExpr"] {
        let text = mount.field(name).text();
        if text.is_empty() {
            continue;
        }
        let at = Place::root("", &mount.value[name]);
        let path = list.field(name).path();
        if name == "subPathExpr" && !mount.field("subPath").text().is_empty() {
            errors.push(mount.field(name).invalid("subPathExpr and subPath are mutually exclusive"));
        }
        volume::descending_path(at.text(), &path, errors);
    }
    let propagation = mount.field("mountPropagation");
    if propagation.is_set() {
        let place = list.field("mountPropagation");
        let modes = ["Bidirectional", "HostToContainer", "None"];
        if !modes.contains(&propagation.text()) {
            errors.push(crate::error::FieldError::unsupported(place.path(), propagation.value, &modes));
        }
        let privileged = container.value["securityContext"]["privileged"] == true;
        if propagation.text() == "Bidirectional" && !privileged {
            let rule = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(place.forbidden(rule));
        }
    }
    recursive_read_only(list, mount, errors);
}

fn recursive_read_only(list: &Place<'_, '_>, mount: &Place<'_, '_>, errors: &mut Errors) {
    let mode = mount.field("recursiveReadOnly");
    if !mode.is_set() {
        return;
    }
    let place = list.field("recursiveReadOnly");
    match mode.text() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.field("readOnly").flag() {
                errors.push(place.forbidden("may only be specified when readOnly is true"));
            }
            if !matches!(mount.field("mountPropagation").text(), "" | "None") {
                errors.push(
                    place.forbidden("may only be specified when mountPropagation is None or not specified"),
                );
            }
        }
        _ => {
            let modes = ["Disabled", "Enabled", "IfPossible"];
            errors.push(crate::error::FieldError::unsupported(place.path(), mode.value, &modes));
        }
    }
}

fn devices(container: &Place<'_, '_>, pod: Pod<'_>, errors: &mut Errors) {
    let mounts = container.field("volumeMounts");
    let list = container.field("volumeDevices");
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in list.items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        let source = pod.volumes.iter().find(|(volume, _)| volume == name.text()).map(|(_, source)| *source);
        if name.text().is_empty() {
            errors.push(name.required(""));
        }
        if names.contains(name.text()) {
            errors.push(name.invalid("must be unique"));
        }
        match source {
            Some(source) if source["persistentVolumeClaim"].is_null() && source["ephemeral"].is_null() => {
                let rule =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(name.invalid(rule));
            }
            Some(_) => {}
            None => errors.push(crate::error::FieldError::not_found(name.path(), &json!(name.text()))),
        }
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        if paths.contains(path.text()) {
            errors.push(path.invalid_value(&json!(path.text()), "must be unique"));
        }
        if path.text().split('/').any(|part| part == "..") {
            errors.push(path.invalid("can not contain backsteps ('..')"));
        } else {
            paths.insert(path.text());
        }
        if mounts.items().any(|mount| mount.field("name").text() == name.text()) {
            errors.push(name.invalid("must not already exist in volumeMounts"));
        }
        if mounts.items().any(|mount| mount.field("mountPath").text() == path.text()) {
            errors.push(path.invalid("must not already exist as a path in volumeMounts"));
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
    }
}

fn resize_policies(list: &Place<'_, '_>, pod: Pod<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for policy in list.items() {
        let (resource, restart) = (policy.field("resourceName"), policy.field("restartPolicy"));
        if !seen.insert(resource.text()) {
            errors.push(crate::error::FieldError::duplicate(policy.path(), resource.value));
        }
        for (place, supported) in
            [(&resource, ["cpu", "memory"]), (&restart, ["NotRequired", "RestartContainer"])]
        {
            match place.text() {
                "" => errors.push(list.required("")),
                text if !supported.contains(&text) => {
                    errors.push(crate::error::FieldError::unsupported(list.path(), place.value, &supported));
                }
                _ => {}
            }
        }
        if pod.restart_policy == "Never" && restart.text() != "NotRequired" {
            let rule = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(list.invalid_value(restart.value, rule));
        }
    }
}
