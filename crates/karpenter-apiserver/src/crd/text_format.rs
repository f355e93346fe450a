//! The formats of texts that schemas may ask for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use jiff::civil::Date;

use crate::kinds::format::{dns_label, dns_subdomain};

/// Formats without a check here hold any text.
const UNCHECKED: &[&str] = &[
    "bsonobjectid",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "rgbcolor",
    "byte",
    "password",
    "duration",
];
const CHECKED: &[&str] = &[
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "hexcolor",
    "date",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Whether schemas may use a format; dashes do not count.
pub(super) fn is_known(format: &str) -> bool {
    let plain = format.replace('-', "");
    UNCHECKED.contains(&plain.as_str()) || CHECKED.contains(&plain.as_str())
}

/// Whether a text has a format.
pub(super) fn is(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "datetime" => text.parse::<Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<Date>().is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(address, bits)| is_prefix(address, bits)),
        "uri" => text.starts_with('/') || text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()),
        "hostname" => dns_subdomain(&text.to_lowercase()).is_empty(),
        "mac" => text.split([':', '-']).count() >= 6 && text.split([':', '-']).all(|part| is_hex(part, 2)),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_hex(&text.replace('-', ""), 32),
        "hexcolor" => {
            let digits = text.trim_start_matches('#');
            is_hex(digits, 3) || is_hex(digits, 6)
        }
        "k8sshortname" => dns_label(text).is_empty(),
        "k8slongname" => dns_subdomain(text).is_empty(),
        _ => true,
    }
}

fn is_prefix(address: &str, bits: &str) -> bool {
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
