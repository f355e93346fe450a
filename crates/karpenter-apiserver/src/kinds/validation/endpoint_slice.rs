//! Rules of endpoint slices.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::configuration::endpoint_address;
use super::pod;
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

/// How many zones, or nodes, an endpoint may be meant for.
const HINTS_MAX: usize = 8;
const ADDRESSES_MAX: usize = 100;

/// Checks a slice; endpoints that stay as they were are not looked at again.
pub(super) fn validate(slice: &Place<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    let kind = slice.field("addressType");
    if kind.text().is_empty() {
        errors.push(kind.required(""));
    } else if !matches!(kind.text(), "FQDN" | "IPv4" | "IPv6") {
        errors.push(kind.unsupported(&["FQDN", "IPv4", "IPv6"]));
    }
    if old.is_none_or(|old| old["endpoints"] != slice.value["endpoints"]) {
        for endpoint in slice.field("endpoints").items() {
            self::endpoint(&endpoint, kind.text(), errors);
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for port in slice.field("ports").items() {
        let name = port.field("name");
        if !name.text().is_empty() {
            errors.form(&name, format::dns_label(name.text()));
        }
        if names.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        names.push(name.text());
        errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
        let application = port.field("appProtocol");
        if application.is_set() {
            errors.form(&application, format::label_key(application.text()));
        }
    }
}

fn endpoint(endpoint: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let addresses = endpoint.field("addresses");
    if addresses.len() == 0 {
        errors.push(addresses.required("must contain at least 1 address"));
    } else if addresses.len() > ADDRESSES_MAX {
        errors.push(too_many(&addresses, ADDRESSES_MAX));
    }
    for address in addresses.items() {
        match kind {
            "IPv4" | "IPv6" => ip_address(&addresses, &address, kind, errors),
            "FQDN" => domain_name(&address, errors),
            _ => {}
        }
    }
    let name = endpoint.field("hostname");
    if name.is_set() {
        errors.form(&name, format::dns_label(name.text()));
    }
    let node = endpoint.field("nodeName");
    if node.is_set() {
        errors.form(&node, format::dns_subdomain(node.text()));
    }
    let hints = endpoint.field("hints");
    let zones = hints.field("forZones");
    // Where there are too many zones, nodes are not looked at.
    if named_once(&zones, format::label_value, errors) {
        named_once(&hints.field("forNodes"), format::dns_subdomain, errors);
    }
}

/// Checks the names of hints; `false` when there are too many.
fn named_once(hints: &Place<'_, '_>, form: impl Fn(&str) -> Vec<String>, errors: &mut Errors) -> bool {
    if hints.len() > HINTS_MAX {
        errors.push(too_many(hints, HINTS_MAX));
        return false;
    }
    let mut seen = Vec::new();
    for hint in hints.items() {
        let name = hint.field("name");
        if seen.contains(&name.text()) {
            errors.push(FieldError::duplicate(name.path(), &json!(name.text())));
        }
        seen.push(name.text());
        errors.form(&name, form(name.text()));
    }
    true
}

fn too_many(list: &Place<'_, '_>, limit: usize) -> FieldError {
    let message = format!("Too many: {}: must have at most {limit} items", list.len());
    FieldError::new("FieldValueTooMany", list.path(), message)
}

/// Checks an address of a family; one of the other family is reported as if it were the whole list.
fn ip_address(list: &Place<'_, '_>, address: &Place<'_, '_>, family: &str, errors: &mut Errors) {
    let before = errors.0.len();
    pod::ip_address(address, errors);
    if errors.0.len() > before {
        return;
    }
    let parsed = address.text().parse::<IpAddr>().ok();
    if parsed.is_some_and(|parsed| parsed.is_ipv4() != (family == "IPv4")) {
        errors.push(list.invalid_value(address.value, format!("must be an {family} address")));
    }
    // Kubernetes refuses these; here nothing routes the addresses of Services, and a webhook behind one is a process
    // on the same host.
    if parsed.is_none_or(|parsed| !parsed.is_loopback()) {
        endpoint_address(address, errors);
    }
}

/// Checks the name of a host within a domain.
fn domain_name(place: &Place<'_, '_>, errors: &mut Errors) {
    if place.text().is_empty() {
        errors.push(place.required(""));
        return;
    }
    let name = place.text().strip_suffix('.').unwrap_or(place.text());
    let wrong = format::dns_subdomain(name);
    if !wrong.is_empty() {
        errors.push(place.invalid_value(&json!(name), wrong.join(",")));
    } else if !name.contains('.') {
        let rule = "should be a domain with at least two segments separated by dots";
        errors.push(place.invalid_value(&json!(name), rule));
    } else if let Some(label) = name.split('.').find(|label| !format::dns_label(label).is_empty()) {
        errors.push(place.invalid_value(&json!(label), format::dns_label(label).join(",")));
    }
}
