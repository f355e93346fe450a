//! The node that a machine becomes: what its user data says, and what its hardware and the cloud add.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_simcloud::Boot;
use serde_json::{Map, Value};

use crate::types::InstanceType;
use crate::user_data::{self, Join};
use crate::world::{Cluster, Instance, World};

/// What firmware and kernel keep of the memory.
const MEMORY_LOSS: f64 = 0.055;
const MIB: f64 = 1024.0 * 1024.0;

/// The name of a machine's node; empty when there is no such machine.
pub(crate) fn node_name(world: &World, id: &str) -> String {
    world.instances.get(id).map(|found| format!("{}.{}", world.region, found.address)).unwrap_or_default()
}

/// The node that joins, or why none does.
pub(crate) fn boot(world: &World, id: &str, now: Timestamp) -> Result<Boot, String> {
    let instance = world.instances.get(id).ok_or("it is gone")?;
    let found = world.types.get(&instance.instance_type).ok_or("its type is gone")?;
    let join = user_data::join(&instance.user_data)?;
    let cluster = check_join(world, instance, &join, now)?;
    let capacity = capacity(found, instance, cluster, &join.kubelet);
    let allocatable = allocatable(&capacity, &join.kubelet);
    let mut labels = cloud_labels(world, instance, found);
    labels.insert("kubernetes.io/hostname".to_owned(), node_name(world, id));
    labels.extend(join.labels);
    Ok(Boot {
        provider_id: world.provider_id(id),
        node_name: node_name(world, id),
        labels,
        taints: join.taints,
        capacity: written(&capacity),
        allocatable: written(&allocatable),
    })
}

/// Whether the cluster lets the machine in.
fn check_join<'w>(
    world: &'w World,
    instance: &Instance,
    join: &Join,
    now: Timestamp,
) -> Result<&'w Cluster, String> {
    let token = world.join_tokens.get(&join.token).ok_or("its attach token is not one of a cluster")?;
    if token.expires <= now {
        return Err("its attach token has expired".to_owned());
    }
    let cluster = world.clusters.get(&token.cluster).ok_or("its cluster is gone")?;
    if join.endpoint != cluster.endpoint {
        return Err(format!("its attach script names {}, which is not where its cluster is", join.endpoint));
    }
    if world.vswitches.get(&instance.vswitch).is_none_or(|vswitch| vswitch.vpc != cluster.vpc) {
        return Err("it stands in another VPC than its cluster".to_owned());
    }
    let minor = cluster.version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
    if join.runtime == "docker" && minor >= 24 {
        return Err(
            "its container runtime is docker, which kubelets from 1.24 on do not start with".to_owned()
        );
    }
    Ok(cluster)
}

/// Labels of the cloud's controller and its disk driver, and those every kubelet sets.
fn cloud_labels(world: &World, instance: &Instance, found: &InstanceType) -> BTreeMap<String, String> {
    let arch = if found.architecture == "ARM" { "arm64" } else { "amd64" };
    [
        ("beta.kubernetes.io/arch", arch),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", arch),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", &found.id),
        ("topology.kubernetes.io/region", &world.region),
        ("topology.kubernetes.io/zone", &instance.zone),
        ("topology.diskplugin.csi.alibabacloud.com/zone", &instance.zone),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// Amounts in cores, bytes and pieces.
type Amounts = BTreeMap<String, f64>;

fn capacity(
    found: &InstanceType,
    instance: &Instance,
    cluster: &Cluster,
    kubelet: &Map<String, Value>,
) -> Amounts {
    let memory = found.memory_gib * 1024.0 * (1.0 - MEMORY_LOSS);
    let disk = instance.disks.first().map_or(40, |disk| disk.size_gib);
    let mut capacity = Amounts::from([
        ("cpu".to_owned(), f64::from(found.cpus)),
        ("memory".to_owned(), memory.floor() * MIB),
        ("ephemeral-storage".to_owned(), f64::from(disk) * 1024.0 * MIB),
        ("pods".to_owned(), f64::from(pods(found, cluster, kubelet))),
    ]);
    if found.gpus > 0 {
        capacity.insert("nvidia.com/gpu".to_owned(), f64::from(found.gpus));
    }
    capacity
}

/// As many pods as the kubelet is told, or as the cluster's network has addresses for.
fn pods(found: &InstanceType, cluster: &Cluster, kubelet: &Map<String, Value>) -> u32 {
    let said = |name: &str| kubelet.get(name).and_then(Value::as_u64).map(|value| value as u32);
    let network = cluster.network.to_lowercase();
    let addresses = if network.starts_with("terway") {
        found.enis.saturating_sub(1) * found.eni_addresses + 3
    } else if network == "flannel" {
        1u32.checked_shl(32u32.saturating_sub(cluster.node_cidr_mask)).unwrap_or(256)
    } else {
        110
    };
    let most = said("maxPods").unwrap_or(addresses);
    said("podsPerCore").filter(|each| *each > 0).map_or(most, |each| most.min(each * found.cpus))
}

/// What is left of the capacity after what the kubelet keeps for the system, for itself and for evictions.
fn allocatable(capacity: &Amounts, kubelet: &Map<String, Value>) -> Amounts {
    let of = |section: &str, name: &str| {
        let text = kubelet.get(section).and_then(|section| section.get(name)).and_then(Value::as_str);
        text.map(str::to_owned)
    };
    let amount = |text: &str, whole: f64| match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().unwrap_or(0.0) / 100.0 * whole,
        None => quantity(text).unwrap_or(0.0),
    };
    let pods = capacity.get("pods").copied().unwrap_or(0.0);
    capacity
        .iter()
        .map(|(name, &whole)| {
            let kube = of("kubeReserved", name)
                .map_or_else(|| own_share(name, whole, pods), |text| amount(&text, whole));
            let system = of("systemReserved", name).map_or(0.0, |text| amount(&text, whole));
            let (signal, default) = match name.as_str() {
                "memory" => ("memory.available", "100Mi"),
                "ephemeral-storage" => ("nodefs.available", "10%"),
                _ => ("", "0"),
            };
            let eviction = amount(of("evictionHard", signal).as_deref().unwrap_or(default), whole);
            (name.clone(), (whole - kube - system - eviction).max(0.0))
        })
        .collect()
}

/// What ACK lets a kubelet keep for itself when nothing else is said: less of each further core, and memory by the number of pods.
fn own_share(name: &str, whole: f64, pods: f64) -> f64 {
    match name {
        "cpu" => {
            let beyond = |cores: f64, milli: f64| if whole >= cores { milli } else { 0.0 };
            let first_four = beyond(1.0, 60.0) + beyond(2.0, 10.0) + beyond(3.0, 5.0) + beyond(4.0, 5.0);
            (first_four + ((whole - 4.0).max(0.0) * 2.5).floor()) / 1000.0
        }
        "memory" => ((11.0 * pods + 255.0) * MIB).min(0.25 * whole),
        _ => 0.0,
    }
}

/// The value of a quantity such as `100m`, `1.5Gi` or `2G`.
fn quantity(text: &str) -> Option<f64> {
    let at = text.find(|found: char| found.is_ascii_alphabetic()).unwrap_or(text.len());
    let scale = match &text[at..] {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => MIB,
        "Gi" => 1024.0 * MIB,
        "Ti" => MIB * MIB,
        _ => return None,
    };
    text[..at].parse::<f64>().ok().map(|number| number * scale)
}

fn written(amounts: &Amounts) -> BTreeMap<String, String> {
    let write = |(name, amount): (&String, &f64)| {
        let text = match name.as_str() {
            "cpu" => format!("{}m", (amount * 1000.0).round()),
            "memory" | "ephemeral-storage" => format!("{}Ki", (amount / 1024.0).floor()),
            _ => format!("{}", amount.floor()),
        };
        (name.clone(), text)
    };
    amounts.iter().map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        assert_eq!(quantity("100m"), Some(0.1));
        assert_eq!(quantity("1.5Gi"), Some(1.5 * 1024.0 * MIB));
        assert_eq!(quantity("2"), Some(2.0));
        assert_eq!(quantity("2x"), None);
    }

    #[test]
    fn a_kubelet_keeps_what_ack_says() {
        assert!((own_share("cpu", 2.0, 33.0) - 0.07).abs() < 1e-9);
        assert!((own_share("cpu", 8.0, 33.0) - 0.09).abs() < 1e-9);
        assert!((own_share("memory", 8192.0 * MIB, 33.0) - 618.0 * MIB).abs() < 1.0);
    }
}
