//! Rules of probes and hooks.

use serde_json::json;

use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

/// Checks one of the three probes of a container, if it is there.
pub(super) fn probe(probe: &Place<'_, '_>, grace_period: i64, errors: &mut Errors) {
    if !probe.is_set() {
        return;
    }
    handler(probe, grace_period, errors);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        errors.not_negative(&probe.field(name));
    }
    let own_grace = probe.field("terminationGracePeriodSeconds");
    if own_grace.number().is_some_and(|seconds| seconds <= 0) {
        errors.push(own_grace.invalid("must be greater than 0"));
    }
    if probe.path().ends_with(".readinessProbe") {
        if own_grace.is_set() {
            errors.push(own_grace.invalid("must not be set for readinessProbes"));
        }
        return;
    }
    let successes = probe.field("successThreshold");
    if successes.number() != Some(1) {
        errors.push(successes.invalid("must be 1"));
    }
}

/// Checks what a probe or hook does.
pub(super) fn handler(handler: &Place<'_, '_>, grace_period: i64, errors: &mut Errors) {
    let mut found = false;
    for name in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.field(name);
        if !action.is_set() {
            continue;
        }
        if found {
            errors.push(action.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match name {
            "exec" => {
                let command = action.field("command");
                if command.len() == 0 {
                    errors.push(command.required(""));
                }
            }
            "httpGet" => http_get(&action, errors),
            "tcpSocket" => port(&action.field("port"), errors),
            "grpc" => {
                let number = action.field("port");
                errors.form(&number, format::port_number(number.number().unwrap_or(0)));
            }
            _ => {
                let seconds = action.field("seconds").number().unwrap_or(0);
                if seconds < 0 || seconds > grace_period {
                    let rule = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
                    );
                    errors.push(action.invalid_value(&json!(seconds), rule));
                }
            }
        }
    }
    if !found {
        errors.push(handler.required("must specify a handler type"));
    }
}

fn http_get(action: &Place<'_, '_>, errors: &mut Errors) {
    let path = action.field("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
    }
    port(&action.field("port"), errors);
    let scheme = action.field("scheme");
    if !matches!(scheme.text(), "HTTP" | "HTTPS") {
        errors.push(scheme.unsupported(&["HTTP", "HTTPS"]));
    }
    let headers = action.field("httpHeaders");
    for header in headers.items() {
        let name = header.field("name");
        for rule in format::header_name(name.text()) {
            errors.push(headers.invalid_value(&json!(name.text()), rule));
        }
    }
}

/// Checks a port that is a number or a name.
pub(super) fn port(port: &Place<'_, '_>, errors: &mut Errors) {
    match port.number() {
        Some(number) => errors.form(port, format::port_number(number)),
        None if port.value.is_string() => errors.form(port, format::port_name(port.text())),
        None => {
            for rule in format::port_number(0) {
                errors.push(port.invalid_value(&json!(0), rule));
            }
        }
    }
}
