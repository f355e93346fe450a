//! Bottlerocket: settings in TOML; those of the cluster win, all others of the user stay.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Input, UserData, UserDataError, dns};
use crate::kubelet::MaxPods;

/// The settings below `settings.kubernetes` that Bottlerocket has; it does not start with others.
const KUBERNETES_SETTINGS: &[&str] = &[
    "allowed-unsafe-sysctls",
    "api-server",
    "cloud-provider",
    "cluster-certificate",
    "cluster-dns-ip",
    "cluster-domain",
    "cluster-name",
    "container-log-max-files",
    "container-log-max-size",
    "container-log-max-workers",
    "container-log-monitor-interval",
    "cpu-cfs-quota-enforced",
    "cpu-manager-policy",
    "cpu-manager-policy-options",
    "cpu-manager-reconcile-period",
    "credential-providers",
    "device-ownership-from-security-context",
    "event-burst",
    "event-qps",
    "eviction-hard",
    "eviction-max-pod-grace-period",
    "eviction-soft",
    "eviction-soft-grace-period",
    "hostname-override-source",
    "ids-per-pod",
    "image-gc-high-threshold-percent",
    "image-gc-low-threshold-percent",
    "kube-api-burst",
    "kube-api-qps",
    "kube-reserved",
    "log-level",
    "max-pods",
    "memory-manager-policy",
    "memory-manager-reserved-memory",
    "node-labels",
    "node-taints",
    "pod-pids-limit",
    "registry-burst",
    "registry-qps",
    "seccomp-default",
    "server-tls-bootstrap",
    "shutdown-grace-period",
    "shutdown-grace-period-for-critical-pods",
    "single-process-oom-kill",
    "static-pods",
    "system-reserved",
    "topology-manager-policy",
    "topology-manager-policy-options",
    "topology-manager-scope",
];
/// From this release on, binding local storage needs no list of folders.
const BINDS_BY_ITSELF: (u32, u32, u32) = (1, 46, 0);

pub(super) fn user_data(input: &Input<'_>) -> Result<UserData, UserDataError> {
    let mut document: Table = input
        .custom
        .unwrap_or_default()
        .parse()
        .map_err(|error: toml::de::Error| UserDataError::Toml(error.to_string().trim().to_owned()))?;
    let settings = table(&mut document, "settings");
    if input.raid0 {
        let commands = table(settings, "bootstrap-commands");
        commands.insert("000-mount-instance-storage".to_owned(), mount_local_disks(input).into());
    }
    let kubernetes = table(settings, "kubernetes");
    let known = |name: &str| KUBERNETES_SETTINGS.contains(&name);
    let ignored = kubernetes.keys().filter(|name| !known(name));
    let ignored: Vec<String> = ignored.map(|name| format!("settings.kubernetes.{name}")).collect();
    kubernetes.retain(|name, _| known(name));
    overwrite(kubernetes, input);
    let text = toml::to_string(&document).map_err(|error| UserDataError::Toml(error.to_string()))?;
    Ok(UserData { text, ignored })
}

/// The table at `name`, made if there is none.
fn table<'t>(parent: &'t mut Table, name: &str) -> &'t mut Table {
    let entry = parent.entry(name).or_insert_with(|| Value::Table(Table::new()));
    if !entry.is_table() {
        *entry = Value::Table(Table::new());
    }
    entry.as_table_mut().expect("it was made a table")
}

fn overwrite(kubernetes: &mut Table, input: &Input<'_>) {
    let (cluster, kubelet) = (input.cluster, input.kubelet);
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            kubernetes.insert(name.to_owned(), value);
        }
    };
    let text = |text: &str| Value::String(text.to_owned());
    set("cluster-name", Some(text(&cluster.name)));
    set("api-server", Some(text(&cluster.endpoint)));
    set("cluster-certificate", cluster.ca_bundle.as_deref().map(text));
    set("node-taints", (!input.taints.is_empty()).then(|| taints(input).into()));
    if let Some(MaxPods::Number(number)) = kubelet.max_pods {
        set("max-pods", Some(number.into()));
    }
    set("cluster-dns-ip", dns(input).map(text));
    let maps = [
        ("system-reserved", &kubelet.system_reserved),
        ("kube-reserved", &kubelet.kube_reserved),
        ("eviction-hard", &kubelet.eviction_hard),
        ("eviction-soft", &kubelet.eviction_soft),
        ("eviction-soft-grace-period", &kubelet.eviction_soft_grace_period),
    ];
    for (name, map) in maps {
        set(name, (!map.is_empty()).then(|| Value::Table(texts(map))));
    }
    set("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period.map(Value::from));
    let percent = |number: Option<i64>| number.map(|number| Value::String(number.to_string()));
    set("image-gc-high-threshold-percent", percent(kubelet.image_gc_high_threshold_percent));
    set("image-gc-low-threshold-percent", percent(kubelet.image_gc_low_threshold_percent));
    set("cpu-cfs-quota-enforced", kubelet.cpu_cfs_quota.map(Value::from));
    if !input.labels.is_empty() {
        table(kubernetes, "node-labels").extend(texts(input.labels));
    }
}

fn texts(map: &BTreeMap<String, String>) -> Table {
    map.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect()
}

/// Taints by key: a key may have several values and effects.
fn taints(input: &Input<'_>) -> Table {
    let mut all = Table::new();
    for taint in input.taints {
        let text = format!("{}:{}", taint.value.as_deref().unwrap_or_default(), taint.effect);
        let list = all.entry(taint.key.as_str()).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut().expect("every entry is a list").push(text.into());
    }
    all
}

fn mount_local_disks(input: &Input<'_>) -> Table {
    let words = |words: &[&str]| Value::Array(words.iter().map(|word| (*word).into()).collect());
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    if !binds_by_itself(input.bottlerocket_release) {
        bind.extend(["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]);
    }
    let commands = vec![words(&["apiclient", "ephemeral-storage", "init"]), words(&bind)];
    Table::from_iter([
        ("commands".to_owned(), Value::Array(commands)),
        ("essential".to_owned(), true.into()),
        ("mode".to_owned(), "always".into()),
    ])
}

fn binds_by_itself(release: Option<&str>) -> bool {
    release.is_some_and(|release| {
        release == "latest" || version(release).is_some_and(|version| version >= BINDS_BY_ITSELF)
    })
}

/// Reads `v1.46.0` or `1.46.0`, perhaps followed by a hyphen and more.
fn version(text: &str) -> Option<(u32, u32, u32)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut numbers = text.split('-').next()?.split('.').map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some((next()?, next()?, next()?))
}

/// The release of Bottlerocket: what the alias says, else what is found in the names of images, in this order.
pub fn release<'n>(alias: Option<&str>, image_names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    if let Some(release) = alias {
        return Some(release.to_owned());
    }
    let names = image_names.into_iter().filter(|name| name.contains("bottlerocket"));
    let mut words = names.flat_map(|name| name.split('-'));
    words.find(|word| word.starts_with('v') && version(word).is_some()).map(str::to_owned)
}
