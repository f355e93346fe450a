//! What node a machine becomes: its hardware, less what its boot script reserves.

use std::collections::BTreeMap;

use karpenter_aws_catalogue::TypeFacts;
use karpenter_quantity::Quantity;
use karpenter_simcloud::Boot;

use crate::description::Description;
use crate::images::Family;
use crate::instances::Instance;
use crate::user_data::{self, Kubelet};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// What of a machine's memory its operating system never sees, in thousandths.
const HIDDEN_PER_MILLE: u64 = 65;
/// What a kubelet takes without being told otherwise.
const DEFAULT_MAX_PODS: u32 = 110;

/// The node, or why there will be none.
pub(crate) fn boot(instance: &Instance, description: &Description) -> Result<Boot, String> {
    let kubelet = user_data::read(instance.image.family, &instance.user_data, &description.cluster_name)?;
    let facts = &*instance.facts;
    let pods = pods(facts, &kubelet);
    let memory = facts.memory_mib * MIB - facts.memory_mib * MIB * HIDDEN_PER_MILLE / 1000;
    let storage = storage(instance, &kubelet);

    let mut capacity = BTreeMap::from([
        ("cpu".to_owned(), facts.vcpus.to_string()),
        ("memory".to_owned(), format!("{}Ki", memory / 1024)),
        ("ephemeral-storage".to_owned(), storage.to_string()),
        ("pods".to_owned(), pods.to_string()),
    ]);
    capacity.extend(devices(instance));
    let mut allocatable = capacity.clone();
    let cpu = u64::from(facts.vcpus) * 1000;
    let reserved = |resource: &str| reserved(resource, &kubelet, facts, pods);
    let cpu = cpu.saturating_sub(reserved("cpu")? / 1_000_000);
    allocatable.insert("cpu".to_owned(), format!("{cpu}m"));
    let evicted = eviction(&kubelet, "memory.available", memory, 100 * MIB)?;
    let free = memory.saturating_sub(reserved("memory")? / 1_000_000_000).saturating_sub(evicted);
    allocatable.insert("memory".to_owned(), format!("{}Ki", free / 1024));
    let evicted = eviction(&kubelet, "nodefs.available", storage, storage.div_ceil(10))?;
    let free = storage.saturating_sub(reserved("ephemeral-storage")? / 1_000_000_000).saturating_sub(evicted);
    allocatable.insert("ephemeral-storage".to_owned(), free.to_string());

    Ok(Boot {
        provider_id: instance.provider_id(),
        node_name: instance.dns_name.clone(),
        labels: labels(instance, &kubelet, description),
        taints: kubelet.taints,
        capacity,
        allocatable,
    })
}

fn windows(instance: &Instance) -> bool {
    instance.image.family == Family::Windows
}

fn pods(facts: &TypeFacts, kubelet: &Kubelet) -> u32 {
    let by_addresses = || {
        let interfaces = facts.default_card_interfaces();
        interfaces * facts.network.ipv4_per_interface.saturating_sub(1) + 2
    };
    let default = if kubelet.counts_addresses { by_addresses() } else { DEFAULT_MAX_PODS };
    let pods = kubelet.max_pods.unwrap_or(default);
    match kubelet.pods_per_core {
        Some(per_core) if per_core > 0 => pods.min(per_core * facts.vcpus),
        _ => pods,
    }
}

/// The kubelet's disk: those inside the machine, the volume for data, or the root volume.
fn storage(instance: &Instance, kubelet: &Kubelet) -> u64 {
    if let Some(store) = instance.facts.instance_store.as_ref().filter(|_| kubelet.raid0) {
        return store.total_gb * 1_000_000_000;
    }
    let data = if instance.image.family == Family::Bottlerocket {
        "/dev/xvdb"
    } else {
        &*instance.image.root_device
    };
    let volume = instance.volumes.iter().find(|volume| volume.device == data).or(instance.volumes.first());
    volume.map_or(20, |volume| volume.gib) * GIB
}

/// What device plugins announce.
fn devices(instance: &Instance) -> BTreeMap<String, String> {
    let facts = &instance.facts;
    let mut devices = BTreeMap::new();
    let mut add = |name: &str, count: u32| {
        if count > 0 {
            devices.insert(name.to_owned(), count.to_string());
        }
    };
    for (manufacturer, name) in
        [("NVIDIA", "nvidia.com/gpu"), ("AMD", "amd.com/gpu"), ("Habana", "habana.ai/gaudi")]
    {
        let gpus = facts.gpus.iter().filter(|gpu| &*gpu.manufacturer == manufacturer);
        add(name, gpus.map(|gpu| gpu.count).sum());
    }
    add("aws.amazon.com/neuron", facts.neuron_devices.iter().map(|device| device.count).sum());
    let cores = facts.neuron_devices.iter().map(|device| device.count * device.cores_per_device).sum();
    add("aws.amazon.com/neuroncore", cores);
    let efa = instance.interfaces.iter().filter(|interface| interface.kind.starts_with("efa"));
    add("vpc.amazonaws.com/efa", efa.count() as u32);
    if windows(instance) {
        add("vpc.amazonaws.com/PrivateIPv4Address", facts.network.ipv4_per_interface.saturating_sub(1));
    }
    devices
}

/// What is reserved of a resource, in thousand-millionths of its unit.
fn reserved(resource: &str, kubelet: &Kubelet, facts: &TypeFacts, pods: u32) -> Result<u64, String> {
    let told =
        |map: &BTreeMap<String, String>| map.get(resource).map(|text| nano(resource, text)).transpose();
    let own = || if kubelet.reserves_by_itself { by_itself(resource, facts, pods) } else { 0 };
    Ok(told(&kubelet.kube_reserved)?.unwrap_or_else(own) + told(&kubelet.system_reserved)?.unwrap_or(0))
}

/// What the images of EKS reserve when nobody says otherwise.
fn by_itself(resource: &str, facts: &TypeFacts, pods: u32) -> u64 {
    const NANO: u64 = 1_000_000_000;
    match resource {
        "memory" => (11 * u64::from(pods) + 255) * MIB * NANO,
        "ephemeral-storage" => GIB * NANO,
        _ => {
            // Of the first core 6 %, of the second 1 %, of the next two half a percent, of the rest a quarter.
            let cores = u64::from(facts.vcpus);
            let tenths = 600
                + if cores > 1 { 100 } else { 0 }
                + 50 * cores.clamp(2, 4).saturating_sub(2)
                + 25 * cores.saturating_sub(4);
            tenths / 10 * 1_000_000
        }
    }
}

fn nano(resource: &str, text: &str) -> Result<u64, String> {
    let wrong = |_| format!("the boot script reserves {text:?} of {resource}, which is not a quantity");
    let quantity: Quantity = text.parse().map_err(wrong)?;
    Ok(u64::try_from(quantity.ceil_milli()).unwrap_or(0) * 1_000_000)
}

fn eviction(kubelet: &Kubelet, signal: &str, total: u64, default: u64) -> Result<u64, String> {
    let Some(text) = kubelet.eviction_hard.get(signal) else { return Ok(default) };
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 =
            percent.parse().map_err(|_| format!("{signal} is {text:?}, which is not a percentage"))?;
        return Ok((total as f64 * percent / 100.0).ceil() as u64);
    }
    Ok(nano(signal, text)? / 1_000_000_000)
}

/// The kubelet's labels, and those that the cloud's controller adds.
fn labels(instance: &Instance, kubelet: &Kubelet, description: &Description) -> BTreeMap<String, String> {
    let architecture = if instance.image.architecture == "arm64" { "arm64" } else { "amd64" };
    let own = [
        ("kubernetes.io/arch", architecture),
        ("kubernetes.io/os", if windows(instance) { "windows" } else { "linux" }),
        ("kubernetes.io/hostname", &*instance.dns_name),
        ("node.kubernetes.io/instance-type", &*instance.facts.name),
        ("topology.kubernetes.io/region", &*description.region),
        ("topology.kubernetes.io/zone", &*instance.zone.name),
        ("topology.k8s.aws/zone-id", &*instance.zone.id),
    ];
    let own = own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut labels: BTreeMap<String, String> = own.collect();
    if windows(instance) {
        let builds = [("2019", "10.0.17763"), ("2022", "10.0.20348"), ("2025", "10.0.26100")];
        if let Some((_, build)) = builds.iter().find(|(year, _)| instance.image.name.contains(year)) {
            labels.insert("node.kubernetes.io/windows-build".to_owned(), (*build).to_owned());
        }
    }
    labels.extend(kubelet.labels.clone());
    labels
}
