//! Rules of security contexts, of pods and of containers, and which of them an operating system knows.

use serde_json::json;

use super::volume::descending_path;
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const PROFILE_LENGTH_MAX: usize = 4095;

/// Checks the security context of a pod.
pub(super) fn of_pod(spec: &Place<'_, '_>, errors: &mut Errors) {
    let context = spec.field("securityContext");
    let id_max = i64::from(i32::MAX);
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        let id = context.field(name);
        if let Some(number) = id.number() {
            errors.form(&id, format::in_range(number, 0, id_max));
        }
    }
    for group in context.field("supplementalGroups").items() {
        errors.form(&group, format::in_range(group.number().unwrap_or(0), 0, id_max));
    }
    if spec.field("shareProcessNamespace").flag() && spec.field("hostPID").flag() {
        let rule = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(context.field("shareProcessNamespace").invalid_value(&json!(true), rule));
    }
    seccomp_profile(&context.field("seccompProfile"), errors);
    app_armor_profile(&context.field("appArmorProfile"), errors);
    sysctls(&context.field("sysctls"), errors);
    errors.one_of_or_none(&context.field("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    errors.one_of_or_none(&context.field("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    errors.one_of_or_none(&context.field("seLinuxChangePolicy"), &["Recursive"]);
}

/// Checks the security context of a container; `host_users` says that its pod has no users of its own.
pub(super) fn of_container(context: &Place<'_, '_>, host_users: bool, errors: &mut Errors) {
    for name in ["runAsUser", "runAsGroup"] {
        let id = context.field(name);
        if let Some(number) = id.number() {
            errors.form(&id, format::in_range(number, 0, i64::from(i32::MAX)));
        }
    }
    let mount = context.field("procMount");
    if mount.is_set() {
        if !matches!(mount.text(), "Default" | "Unmasked") {
            errors.push(mount.unsupported(&["Default", "Unmasked"]));
        }
        if host_users && mount.text() == "Unmasked" {
            errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
        }
    }
    seccomp_profile(&context.field("seccompProfile"), errors);
    app_armor_profile(&context.field("appArmorProfile"), errors);
    let escalation = context.field("allowPrivilegeEscalation");
    if escalation.is_set() && !escalation.flag() {
        if context.field("privileged").flag() {
            let rule = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(context.invalid(rule));
        }
        let added = context.field("capabilities").field("add").value.clone();
        if added.as_array().is_some_and(|list| list.iter().any(|name| name == "CAP_SYS_ADMIN")) {
            let rule = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(context.invalid(rule));
        }
    }
}

fn seccomp_profile(profile: &Place<'_, '_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, file) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "" => errors.push(kind.required("type is required when seccompProfile is set")),
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        _ => errors.push(kind.unsupported(&["Localhost", "RuntimeDefault", "Unconfined"])),
    }
    match (kind.text() == "Localhost", file.is_set()) {
        (true, false) => errors.push(file.required("must be set when seccomp type is Localhost")),
        (true, true) => descending_path(file.text(), &file.path(), errors),
        (false, true) => {
            let rule = "can only be set when seccomp type is Localhost";
            errors.push(file.invalid_value(profile.value, rule));
        }
        (false, false) => {}
    }
}

fn app_armor_profile(profile: &Place<'_, '_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, file) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "" => errors.push(kind.required("type is required when appArmorProfile is set")),
        "Localhost" => {
            if file.text().trim() != file.text() {
                errors.push(file.invalid("must not be padded with whitespace"));
            } else if file.text().is_empty() {
                errors.push(file.required("must be set when AppArmor type is Localhost"));
            }
            if file.text().len() > PROFILE_LENGTH_MAX {
                errors.push(FieldError::too_long(file.path(), PROFILE_LENGTH_MAX));
            }
        }
        "RuntimeDefault" | "Unconfined" if file.is_set() => {
            errors.push(file.invalid("can only be set when AppArmor type is Localhost"));
        }
        "RuntimeDefault" | "Unconfined" => {}
        _ => errors.push(kind.unsupported(&["Localhost", "RuntimeDefault", "Unconfined"])),
    }
}

/// What a pod cannot have on Linux.
pub(super) fn linux(spec: &Place<'_, '_>, errors: &mut Errors) {
    refuse(
        spec,
        &[],
        &["windowsOptions"],
        &["windowsOptions"],
        "windows options cannot be set for a linux pod",
        errors,
    );
}

/// What a pod cannot have on Windows.
pub(super) fn windows(spec: &Place<'_, '_>, errors: &mut Errors) {
    const OF_SPEC: &[&str] = &["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];
    const OF_POD: &[&str] = &[
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const OF_CONTAINER: &[&str] = &[
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    refuse(spec, OF_SPEC, OF_POD, OF_CONTAINER, "cannot be set for a windows pod", errors);
}

/// Refuses fields of a pod's spec, of its security context and of those of its containers.
fn refuse(
    spec: &Place<'_, '_>,
    of_spec: &[&str],
    of_pod: &[&str],
    of_container: &[&str],
    rule: &str,
    errors: &mut Errors,
) {
    for name in of_spec {
        let field = spec.field(name);
        // Sharing what is the host's is no wish unless it is true.
        let plain = matches!(*name, "hostPID" | "hostIPC");
        if if plain { field.flag() } else { field.is_set() } {
            errors.push(field.forbidden(rule));
        }
    }
    let context = spec.field("securityContext");
    for name in of_pod {
        let field = context.field(name);
        if field.is_set() && !(*name == "sysctls" && field.len() == 0) {
            errors.push(field.forbidden(rule));
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.field(list).items() {
            let context = container.field("securityContext");
            for name in of_container {
                let field = context.field(name);
                if field.is_set() {
                    errors.push(field.forbidden(rule));
                }
            }
        }
    }
}

fn sysctls(list: &Place<'_, '_>, errors: &mut Errors) {
    const EXPRESSION: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut seen = Vec::new();
    for sysctl in list.items() {
        let name = sysctl.field("name");
        let part = |part: &str| {
            let bytes = part.as_bytes();
            let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            bytes.first().copied().is_some_and(edge)
                && bytes.last().copied().is_some_and(edge)
                && bytes.iter().all(|byte| edge(*byte) || b"-_".contains(byte))
        };
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else if name.text().len() > 253 || !name.text().split(['.', '/']).all(part) {
            let rule = format!("must have at most 253 characters and match regex {EXPRESSION}");
            errors.push(name.invalid(rule));
        } else if seen.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        seen.push(name.text());
    }
}
