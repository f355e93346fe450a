//! How much a machine of a type has for pods: capacity, and what is kept from it.

use std::sync::Arc;

use karpenter_alibabacloud_client::ecs;
use karpenter_quantity::{Format, Quantity, ResourceList};

use super::labels::mebibytes;
use crate::node_class::{Kubelet, Network};

/// Pods on a node where neither the class nor the network says how many.
const PODS: u64 = 110;
/// Pods that use the host's address and need none of the network's.
const HOST_PODS: u64 = 3;
/// With fewer addresses than this, Terway's own pods leave no room.
const TERWAY_LEAST_ADDRESSES: u64 = 11;
/// A type with fewer network interfaces than this cannot give pods their own.
const EXCLUSIVE_LEAST_INTERFACES: u64 = 7;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// What the kubelet keeps free where the class does not say.
const EVICTION_MEMORY: &str = "100Mi";
const EVICTION_STORAGE: &str = "10%";

/// What, besides the type, says how much of a machine pods can have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Terms<'a> {
    pub(super) network: Network,
    pub(super) kubelet: &'a Kubelet,
    pub(super) system_disk_gib: u32,
    /// The share of memory that never reaches the system.
    pub(super) memory_overhead: f64,
}

/// Types that have too little for the pods of some networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unsuited {
    /// Those with too few addresses for Terway.
    pub few_addresses: Vec<Arc<str>>,
    /// Those with too few interfaces to give pods their own.
    pub few_interfaces: Vec<Arc<str>>,
}

impl Unsuited {
    /// Looks through what is sold.
    pub fn of(types: &[Arc<ecs::InstanceType>]) -> Self {
        let without = |network: Network| {
            let unsuited = types.iter().filter(|described| pods_of_network(described, network).is_none());
            unsuited.map(|described| described.instance_type_id.as_str().into()).collect()
        };
        Self { few_addresses: without(Network::Terway), few_interfaces: without(Network::TerwayExclusive) }
    }
}

/// How many pods the network has room for; none if the type's interfaces do not suffice.
fn pods_of_network(described: &ecs::InstanceType, network: Network) -> Option<u64> {
    let interfaces = u64::from(described.eni_quantity.unwrap_or_default());
    let further = interfaces.saturating_sub(1);
    match network {
        Network::Terway => {
            let addresses =
                further * u64::from(described.eni_private_ip_address_quantity.unwrap_or_default());
            (addresses >= TERWAY_LEAST_ADDRESSES).then_some(addresses + HOST_PODS)
        }
        Network::TerwayExclusive => (interfaces >= EXCLUSIVE_LEAST_INTERFACES).then_some(further + HOST_PODS),
        Network::Flannel { addresses } => Some(addresses.into()),
        Network::Other => Some(PODS),
    }
}

/// How many pods a machine carries; none if its network interfaces do not suffice.
pub(super) fn pods(described: &ecs::InstanceType, terms: &Terms<'_>) -> Option<u64> {
    let of_network = pods_of_network(described, terms.network)?;
    let positive = |number: Option<i32>| number.and_then(|number| u64::try_from(number).ok());
    let most = positive(terms.kubelet.max_pods).unwrap_or(of_network);
    let by_cores = positive(terms.kubelet.pods_per_core)
        .filter(|per_core| *per_core > 0)
        .map(|per_core| per_core * u64::from(described.cpu_core_count));
    Some(by_cores.map_or(most, |by_cores| by_cores.min(most)))
}

/// Everything the machine has.
pub(super) fn capacity(described: &ecs::InstanceType, pods: u64, terms: &Terms<'_>) -> ResourceList {
    let total = mebibytes(described);
    let lost = (total as f64 * terms.memory_overhead).ceil() as u64;
    let mut capacity: ResourceList = [
        ("cpu", units(described.cpu_core_count.into())),
        ("memory", bytes(total.saturating_sub(lost) * MIB)),
        ("ephemeral-storage", bytes(u64::from(terms.system_disk_gib) * GIB)),
        ("pods", units(pods)),
    ]
    .into_iter()
    .collect();
    gpus(described, &mut capacity);
    let interfaces = u64::from(described.eni_quantity.unwrap_or_default()).saturating_sub(1);
    if matches!(terms.network, Network::Terway | Network::TerwayExclusive) && interfaces > 0 {
        capacity.insert("aliyun/eni", units(interfaces));
    }
    if terms.network == Network::TerwayExclusive {
        capacity.insert("alibabacloud.com/exclusive-eni", units(interfaces));
    }
    capacity
}

fn gpus(described: &ecs::InstanceType, capacity: &mut ResourceList) {
    let amount = u64::from(described.gpu_amount.unwrap_or_default());
    let maker =
        described.gpu_spec.as_deref().and_then(|spec| spec.split_whitespace().next()).unwrap_or_default();
    let resource = match maker.to_lowercase().as_str() {
        "nvidia" => "nvidia.com/gpu",
        "amd" => "amd.com/gpu",
        _ => return,
    };
    if amount == 0 {
        return;
    }
    capacity.insert(resource, units(amount));
    let memory = described.gpu_memory_size.unwrap_or_default().max(0.0) as u64 * amount;
    if resource == "nvidia.com/gpu" && memory > 0 {
        capacity.insert("aliyun.com/gpu-mem", units(memory));
    }
}

/// What pods cannot have: ACK's reservations for Kubernetes, the class's for the system, and what the kubelet keeps free.
pub(super) fn overhead(described: &ecs::InstanceType, pods: u64, terms: &Terms<'_>) -> ResourceList {
    let kubelet = terms.kubelet;
    let mut overhead: ResourceList = [
        ("cpu", Quantity::from_milli(reserved_cpu(described.cpu_core_count) as i64)),
        ("memory", bytes(reserved_memory(mebibytes(described), pods) * MIB)),
    ]
    .into_iter()
    .collect();
    for (name, text) in &kubelet.kube_reserved {
        if let Ok(quantity) = text.parse::<Quantity>() {
            overhead.insert(name.as_str(), quantity);
        }
    }
    let system = kubelet.system_reserved.iter().filter_map(|(name, text)| Some((name, text.parse().ok()?)));
    overhead.merge_add(&system.map(|(name, quantity): (_, Quantity)| (name.as_str(), quantity)).collect());
    let evicted = [
        ("memory", "memory.available", mebibytes(described) * MIB, EVICTION_MEMORY),
        ("ephemeral-storage", "nodefs.available", u64::from(terms.system_disk_gib) * GIB, EVICTION_STORAGE),
    ];
    overhead.merge_add(
        &evicted
            .into_iter()
            .map(|(resource, signal, total, default)| {
                let text = kubelet.eviction_hard.get(signal).map_or(default, String::as_str);
                (resource, threshold(text, total))
            })
            .collect(),
    );
    // Process ids are no resource of nodes.
    overhead.remove("pid");
    overhead
}

/// 60m of the first core, 10m of the second, 5m of the third and fourth each, and a quarter of a percent of the rest.
fn reserved_cpu(cores: u32) -> u64 {
    let first = [60, 10, 5, 5].into_iter().take(cores as usize).sum::<u64>();
    first + u64::from(cores.saturating_sub(4)) * 1000 / 400
}

/// MiB: 11 for each pod and 255, at most a quarter of all, and 200 that machines lack in practice.
fn reserved_memory(total: u64, pods: u64) -> u64 {
    (11 * pods + 255).min(total / 4) + 200
}

/// A threshold as the kubelet reads it: an amount, or a share of the total.
fn threshold(text: &str, total: u64) -> Quantity {
    let share = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    match share {
        Some(percent) => bytes((total as f64 * percent.clamp(0.0, 100.0) / 100.0).ceil() as u64),
        None => text.parse().unwrap_or(Quantity::ZERO),
    }
}

fn units(number: u64) -> Quantity {
    Quantity::from_units(i64::try_from(number).unwrap_or(i64::MAX))
}

fn bytes(number: u64) -> Quantity {
    units(number).with_format(Format::BinarySI)
}
