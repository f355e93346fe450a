//! AL2: a shell script that calls EKS's own, after whatever the user runs first.

use super::{Input, UserDataError, dns, kubelet_arguments};
use crate::mime::{Archive, Part, SHELL_SCRIPT};

pub(super) fn user_data(input: &Input<'_>) -> Result<String, UserDataError> {
    let mut archive = match input.custom.filter(|text| !text.is_empty()) {
        None => Archive::default(),
        Some(text) if Archive::is_archive(text) => Archive::parse(text)?,
        Some(text) => Archive { parts: vec![Part::new(SHELL_SCRIPT, text)] },
    };
    archive.parts.push(Part::new(SHELL_SCRIPT, script(input)));
    Ok(archive.to_string())
}

fn script(input: &Input<'_>) -> String {
    let cluster = input.cluster;
    let mut words = vec![
        format!("/etc/eks/bootstrap.sh '{}'", cluster.name),
        format!("--apiserver-endpoint '{}'", cluster.endpoint),
    ];
    words.extend(cluster.ca_bundle.as_ref().map(|bundle| format!("--b64-cluster-ca '{bundle}'")));
    let dns = dns(input);
    if dns.is_some_and(|address| address.contains(':')) {
        words.push("--ip-family ipv6".to_owned());
    }
    words.extend(dns.map(|address| format!("--dns-cluster-ip '{address}'")));
    words.push("--use-max-pods false".to_owned());
    let arguments = kubelet_arguments(input);
    if !arguments.is_empty() {
        words.push(format!("--kubelet-extra-args '{arguments}'"));
    }
    if input.raid0 {
        words.push("--local-disks raid0".to_owned());
    }
    let log = "exec > >(tee /var/log/user-data.log | logger -t user-data -s 2>/dev/console) 2>&1";
    format!("#!/bin/bash -xe\n{log}\n{}", words.join(" \\\n"))
}
