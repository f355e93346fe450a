//! What a machine is told when it starts, by family, with the user's own part in it.

mod al2;
mod al2023;
mod bottlerocket;
mod windows;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Taint;
use karpenter_api::taints;
use serde_json::{Map, Value};

use crate::family::AmiFamily;
use crate::kubelet::{Kubelet, MaxPods};
use crate::mime::MimeError;

pub use bottlerocket::release as bottlerocket_release;

/// EC2 refuses more, before base64.
pub const LARGEST: usize = 16_384;
/// A label by which the controller knows that a node's taints are its own business.
const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// The kubelet may not set labels of these domains on its own node.
const RESTRICTED_DOMAINS: &[&str] = &["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"];

/// The cluster a machine joins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// The address of its API server.
    pub endpoint: String,
    /// How to trust it: PEM in base64.
    pub ca_bundle: Option<String>,
    /// The addresses of its services.
    pub service_cidr: Option<String>,
    /// The address of its DNS service.
    pub dns: Option<String>,
}

/// All that user data depends on.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The labels of the node, as [`node_labels`] returns them.
    pub labels: &'a BTreeMap<String, String>,
    /// Its taints, as [`node_taints`] returns them.
    pub taints: &'a [Taint],
    /// The kubelet's configuration, resolved for the machine's type; [`MaxPods::Number`] is written everywhere.
    pub kubelet: &'a Kubelet,
    /// The same as the user wrote it, for families that pass on every field.
    pub kubelet_fields: Option<&'a Map<String, Value>>,
    /// The user's own part.
    pub custom: Option<&'a str>,
    /// Whether local disks become one volume for the kubelet and its containers.
    pub raid0: bool,
    /// The release of Bottlerocket, if known; see [`bottlerocket_release`].
    pub bottlerocket_release: Option<&'a str>,
}

/// User data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserData {
    /// As the machine sees it.
    pub text: String,
    /// Settings of the user that the family does not know and that were left out.
    pub ignored: Vec<String>,
}

impl UserData {
    /// As EC2 wants it.
    pub fn encoded(&self) -> String {
        STANDARD.encode(&self.text)
    }

    /// Whether EC2 takes it.
    pub fn fits(&self) -> bool {
        self.text.len() <= LARGEST
    }
}

/// Why there is no user data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// The user's archive cannot be read.
    #[error("spec.userData: {0}")]
    Mime(#[from] MimeError),
    /// The user's TOML cannot be read.
    #[error("spec.userData is not valid TOML, which Bottlerocket needs: {0}")]
    Toml(String),
    /// nodeadm must be told the addresses of services.
    #[error(
        "the cluster's service CIDR is not known yet, and AL2023 nodes need it; allow eks:DescribeCluster"
    )]
    NoServiceCidr,
}

/// Writes the user data of a machine.
///
/// # Errors
/// When the user's part cannot be read, or something is missing.
pub fn user_data(family: AmiFamily, input: &Input<'_>) -> Result<UserData, UserDataError> {
    let plain = |text: String| UserData { text, ignored: Vec::new() };
    match family {
        AmiFamily::Al2 => al2::user_data(input).map(plain),
        AmiFamily::Al2023 => al2023::user_data(input).map(plain),
        AmiFamily::Bottlerocket => bottlerocket::user_data(input),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            Ok(plain(windows::user_data(input)))
        }
        AmiFamily::Custom => Ok(plain(input.custom.unwrap_or_default().to_owned())),
    }
}

/// The labels a machine gives its node: those of its claim that a kubelet may set.
pub fn node_labels(family: AmiFamily, labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = labels
        .iter()
        .filter(|(key, _)| !is_restricted(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if family != AmiFamily::Custom {
        all.insert(DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
    }
    all
}

fn is_restricted(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    RESTRICTED_DOMAINS.iter().any(|restricted| {
        domain == *restricted
            || domain.strip_suffix(restricted).is_some_and(|subdomain| subdomain.ends_with('.'))
    })
}

/// The taints a node joins with: those of its claim, and the one that says it is not registered yet.
pub fn node_taints(taints_: &[Taint], startup_taints: &[Taint]) -> Vec<Taint> {
    let unregistered = taints::unregistered();
    let mut all: Vec<Taint> = taints_.iter().chain(startup_taints).cloned().collect();
    if !all.iter().any(|taint| (&taint.key, &taint.effect) == (&unregistered.key, &unregistered.effect)) {
        all.push(unregistered);
    }
    all
}

/// The address of the DNS service: the user's, or the cluster's.
fn dns<'a>(input: &Input<'a>) -> Option<&'a str> {
    input.kubelet.cluster_dns.first().or(input.cluster.dns.as_ref()).map(String::as_str)
}

/// The kubelet's arguments, for families whose start-up script takes them.
fn kubelet_arguments(input: &Input<'_>) -> String {
    let kubelet = input.kubelet;
    let mut arguments = Vec::new();
    if !input.labels.is_empty() {
        arguments.push(format!("--node-labels=\"{}\"", joined(input.labels, "=")));
    }
    if !input.taints.is_empty() {
        let taints: Vec<String> = input.taints.iter().map(taint_text).collect();
        arguments.push(format!("--register-with-taints=\"{}\"", taints.join(",")));
    }
    if let Some(MaxPods::Number(number)) = kubelet.max_pods {
        arguments.push(format!("--max-pods={number}"));
    }
    arguments.extend(kubelet.pods_per_core.map(|number| format!("--pods-per-core={number}")));
    let maps = [
        ("system-reserved", &kubelet.system_reserved, "="),
        ("kube-reserved", &kubelet.kube_reserved, "="),
        ("eviction-hard", &kubelet.eviction_hard, "<"),
        ("eviction-soft", &kubelet.eviction_soft, "<"),
        ("eviction-soft-grace-period", &kubelet.eviction_soft_grace_period, "="),
    ];
    for (name, map, sign) in maps.into_iter().filter(|(_, map, _)| !map.is_empty()) {
        arguments.push(format!("--{name}=\"{}\"", joined(map, sign)));
    }
    let numbers = [
        ("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period),
        ("image-gc-high-threshold", kubelet.image_gc_high_threshold_percent),
        ("image-gc-low-threshold", kubelet.image_gc_low_threshold_percent),
    ];
    arguments.extend(numbers.into_iter().filter_map(|(name, number)| Some(format!("--{name}={}", number?))));
    arguments.extend(kubelet.cpu_cfs_quota.map(|quota| format!("--cpu-cfs-quota={quota}")));
    arguments.join(" ")
}

fn joined(map: &BTreeMap<String, String>, sign: &str) -> String {
    map.iter().map(|(key, value)| format!("{key}{sign}{value}")).collect::<Vec<_>>().join(",")
}

fn taint_text(taint: &Taint) -> String {
    match taint.value.as_deref() {
        Some(value) if !value.is_empty() => format!("{}={value}:{}", taint.key, taint.effect),
        _ => format!("{}:{}", taint.key, taint.effect),
    }
}
