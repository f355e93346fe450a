//! A cluster from nothing, as kOps writes it for one control-plane node and workers made by Karpenter.

use karpenter_api::yaml::to_yaml;
use serde_json::{Value, json};

use super::{CreateError, CreateOptions, discovery_store_missing, group, instance_group};
use crate::channel;
use crate::edit::insert;
use crate::store::Change;

const NETWORK: [u8; 2] = [172, 20];
const ZONES_MAX: usize = 8;

pub(super) fn changes(options: &CreateOptions) -> Result<Vec<Change>, CreateError> {
    let wrong = |reason: &str| CreateError::Options(reason.to_owned());
    if options.discovery_store.is_none() {
        return Err(discovery_store_missing());
    }
    let Some(zone) = options.zones.first() else {
        return Err(wrong("a new cluster needs --zones"));
    };
    if options.zones.len() > ZONES_MAX {
        return Err(wrong("a cluster's network is divided among eight zones at most"));
    }
    let Some(version) = &options.kubernetes_version else {
        return Err(wrong("a new cluster needs --kubernetes-version"));
    };
    let control_plane = format!("control-plane-{zone}");
    let image = options.image.clone().or_else(|| channel::image(version, "amd64"));
    let Some(image) = image.as_deref() else {
        return Err(wrong("the channel has no image for this version of Kubernetes: give --image"));
    };
    let mut cluster = cluster(options, &control_plane, zone);
    for (path, value) in &options.set {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        if !insert(&mut cluster, &path, value) {
            return Err(CreateError::Options(format!(
                "{} cannot be set: a part of it is no mapping",
                path.join(".")
            )));
        }
    }
    let control_plane_group = instance_group(
        options,
        &control_plane,
        &json!({
            "image": image,
            "machineType": options.control_plane_size,
            "maxSize": 1,
            "minSize": 1,
            "nodeLabels": {"kops.k8s.io/instancegroup": control_plane},
            "role": "Master",
            "subnets": [zone],
        }),
    );
    let workers = group(options, image, &options.zones);
    let written = |path: String, object: &Value| Change { path, before: None, after: to_yaml(object) };
    let name = &options.cluster;
    Ok(vec![
        written(format!("{name}/config"), &cluster),
        written(format!("{name}/instancegroup/{control_plane}"), &control_plane_group),
        written(format!("{name}/instancegroup/{}", options.group), &workers),
    ])
}

fn cluster(options: &CreateOptions, control_plane: &str, zone: &str) -> Value {
    let name = &options.cluster;
    let below = |store: &str| format!("{}/{name}", store.trim_end_matches('/'));
    let everywhere = json!(["0.0.0.0/0", "::/0"]);
    json!({
        "apiVersion": "kops.k8s.io/v1alpha2",
        "kind": "Cluster",
        "metadata": {"creationTimestamp": options.now, "name": name},
        "spec": {
            "api": {"loadBalancer": {"class": "Network", "type": "Public"}},
            "authorization": {"rbac": {}},
            "channel": "stable",
            "cloudProvider": "aws",
            "configBase": below(&options.state),
            "etcdClusters": [
                etcd("main", "200m", control_plane, zone),
                etcd("events", "100m", control_plane, zone),
            ],
            "iam": {
                "allowContainerRegistry": true,
                "legacy": false,
                "useServiceAccountExternalPermissions": true,
            },
            "karpenter": {"enabled": true},
            "kubelet": {"anonymousAuth": false},
            "kubernetesApiAccess": everywhere,
            "kubernetesVersion": options.kubernetes_version,
            "networkCIDR": format!("{}.{}.0.0/16", NETWORK[0], NETWORK[1]),
            "networking": {&options.networking: {}},
            "nonMasqueradeCIDR": "100.64.0.0/10",
            "serviceAccountIssuerDiscovery": {
                "discoveryStore": options.discovery_store.as_deref().map(below),
                "enableAWSOIDCProvider": true,
            },
            "sshAccess": everywhere,
            "subnets": subnets(&options.zones),
            "topology": {"dns": {"type": "None"}},
        },
    })
}

fn etcd(name: &str, cpu: &str, control_plane: &str, zone: &str) -> Value {
    // Members go by the last letter of their zone.
    let member = zone.chars().next_back().map(String::from);
    json!({
        "cpuRequest": cpu,
        "etcdMembers": [{"encryptedVolume": true, "instanceGroup": control_plane, "name": member}],
        "manager": {"backupRetentionDays": 90},
        "memoryRequest": "100Mi",
        "name": name,
    })
}

/// The network in 1, 2, 4 or 8 equal parts, given out in the order of the zones' names.
fn subnets(zones: &[String]) -> Vec<Value> {
    let parts = zones.len().next_power_of_two();
    let bits = 16 + parts.trailing_zeros();
    let mut sorted: Vec<&String> = zones.iter().collect();
    sorted.sort();
    let part = |zone: &String| sorted.iter().position(|sorted| *sorted == zone).unwrap_or_default();
    let cidr = |zone| format!("{}.{}.{}.0/{bits}", NETWORK[0], NETWORK[1], part(zone) * 256 / parts);
    zones
        .iter()
        .map(|zone| json!({"cidr": cidr(zone), "name": zone, "type": "Public", "zone": zone}))
        .collect()
}
