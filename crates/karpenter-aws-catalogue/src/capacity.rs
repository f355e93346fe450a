//! What a node of a type has, and what kubelet and the system keep of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_quantity::{CPU, EPHEMERAL_STORAGE, Format, MEMORY, PODS, Quantity, ResourceList};

use crate::class::{ClassSettings, ControllerSettings, Expressions, MaxPods, Variables};
use crate::facts::TypeFacts;
use crate::types::RegionType;

/// Pods of a node where neither the class nor the network says how many.
const USUAL_PODS: u32 = 110;
/// Memory that Arm machines keep for devices and report all the same.
const ARM_DEVICE_MEMORY_MIB: u64 = 64;
const MIB: i64 = 1 << 20;
/// Kubelet's memory, in MiB: so much, and so much for each pod.
const KUBE_RESERVED_MIB: i64 = 255;
const KUBE_RESERVED_MIB_PER_POD: i64 = 11;
/// Kubelet's share of processor time: up to so many millicores, so many in ten thousand of them.
const KUBE_RESERVED_CPU: [(i64, i64); 4] = [(1000, 600), (2000, 100), (4000, 50), (i64::MAX, 25)];

/// What kubelet on a type is told, and what a node of it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeShape {
    /// Everything the machine has.
    pub capacity: ResourceList,
    /// What is kept of it altogether.
    pub overhead: ResourceList,
    /// The part of it that the class reserves for kubelet, with expressions evaluated.
    pub kube_reserved: ResourceList,
    /// The part of it that the class reserves for the system, with expressions evaluated.
    pub system_reserved: ResourceList,
    /// `maxPods`.
    pub max_pods: u32,
}

/// What a node of the type is like under a class.
pub fn node_shape(
    known: &RegionType,
    class: &ClassSettings,
    controller: ControllerSettings,
    expressions: Option<&dyn Expressions>,
) -> NodeShape {
    let facts = &*known.facts;
    let max_pods = max_pods(facts, class, controller, expressions);
    let reserved = |written: &BTreeMap<Arc<str>, Arc<str>>| {
        let about = variables(facts, max_pods);
        reserved(written, &about, expressions)
    };
    let kube_reserved = reserved(&class.kubelet.kube_reserved);
    let system_reserved = reserved(&class.kubelet.system_reserved);
    let memory = memory(facts, controller);
    let storage = ephemeral_storage(facts, class);
    let mut overhead = kube_overhead(facts, class, max_pods);
    for (name, quantity) in &kube_reserved {
        overhead.insert(name, quantity);
    }
    overhead.merge_add(&system_reserved);
    overhead.merge_add(&eviction_overhead(&class.kubelet.eviction_hard, memory, storage));
    let mut capacity = accelerators(facts, class);
    let branches = known.vpc_limits.branch_interfaces;
    let windows = class.family.windows_build.is_some();
    let addresses = if windows { known.vpc_limits.ipv4_per_interface.saturating_sub(1) } else { 0 };
    for (name, count) in
        [("vpc.amazonaws.com/pod-eni", branches), ("vpc.amazonaws.com/PrivateIPv4Address", addresses)]
    {
        insert_count(&mut capacity, name, count);
    }
    capacity.insert(CPU, units(facts.vcpus));
    capacity.insert(MEMORY, memory);
    capacity.insert(PODS, units(max_pods));
    capacity.insert(EPHEMERAL_STORAGE, storage);
    NodeShape { capacity, overhead, kube_reserved, system_reserved, max_pods }
}

/// Memory as kubelet will find it: less what the hypervisor keeps.
fn memory(facts: &TypeFacts, controller: ControllerSettings) -> Quantity {
    let first_is_arm = facts.architectures.first().is_some_and(|name| &**name == "arm64");
    let devices = if first_is_arm { ARM_DEVICE_MEMORY_MIB } else { 0 };
    let mib = facts.memory_mib.saturating_sub(devices) as i64;
    let kept = (mib as f64 * controller.vm_memory_overhead_percent).ceil() as i64;
    mebibytes(mib - kept)
}

/// The addresses that interfaces have for pods, and two pods that share the node's.
fn eni_limited_pods(facts: &TypeFacts, class: &ClassSettings, reserved_enis: u32) -> u32 {
    let without_addresses =
        class.network_interfaces.iter().filter(|interface| interface.efa_only && interface.card == 0).count();
    let interfaces = facts
        .default_card_interfaces()
        .saturating_sub(reserved_enis)
        .saturating_sub(without_addresses as u32);
    if interfaces == 0 { 0 } else { interfaces * facts.network.ipv4_per_interface.saturating_sub(1) + 2 }
}

fn max_pods(
    facts: &TypeFacts,
    class: &ClassSettings,
    controller: ControllerSettings,
    expressions: Option<&dyn Expressions>,
) -> u32 {
    let by_family = if class.family.eni_limited_pod_density {
        eni_limited_pods(facts, class, controller.reserved_enis)
    } else {
        USUAL_PODS
    };
    let asked = match &class.kubelet.max_pods {
        Some(MaxPods::Fixed(pods)) => Some(*pods),
        Some(MaxPods::Expression(expression)) => {
            expressions.and_then(|expressions| expressions.max_pods(expression, &variables(facts, by_family)))
        }
        None => None,
    };
    let pods = asked.unwrap_or(by_family);
    match class.kubelet.pods_per_core {
        Some(per_core) if per_core > 0 && class.family.pods_per_core => pods.min(per_core * facts.vcpus),
        _ => pods,
    }
}

fn variables(facts: &TypeFacts, max_pods: u32) -> Variables {
    Variables {
        instance_type: facts.name.clone(),
        vcpus: facts.vcpus,
        memory_mib: facts.memory_mib,
        default_enis: facts.default_card_interfaces(),
        ips_per_eni: facts.network.ipv4_per_interface,
        max_pods,
    }
}

/// Where pods' files are: disks of the machine, or a volume of the class, or what the family starts with.
fn ephemeral_storage(facts: &TypeFacts, class: &ClassSettings) -> Quantity {
    if let Some(store) = facts.instance_store.as_ref().filter(|_| class.raid0) {
        return Quantity::from_units(store.total_gb as i64 * 1_000_000_000);
    }
    let devices = &class.block_devices;
    if let Some(size) = devices.iter().filter(|device| device.root_volume).find_map(|device| device.size) {
        return size;
    }
    let device = match &class.family.ephemeral_device {
        // Custom images do not say where kubelet's files are: the last volume is as good a guess as any.
        None => devices.last(),
        wanted => devices.iter().find(|device| device.device_name == *wanted),
    };
    device.and_then(|device| device.size).unwrap_or(class.family.default_storage)
}

/// Accelerators and the interfaces that connect them. A resource the type does not have is not named.
fn accelerators(facts: &TypeFacts, class: &ClassSettings) -> ResourceList {
    let gpus = |manufacturer: &str| -> u32 {
        let of = facts.gpus.iter().filter(|gpu| &*gpu.manufacturer == manufacturer);
        of.map(|gpu| gpu.count).sum()
    };
    let neurons = facts.neuron_devices.iter().map(|device| device.count).sum();
    let first = facts.neuron_devices.first();
    let efas = if class.network_interfaces.is_empty() {
        facts.network.max_efa_interfaces.unwrap_or(0)
    } else {
        class.network_interfaces.iter().filter(|interface| interface.efa_only).count() as u32
    };
    let mut resources = ResourceList::new();
    for (name, count) in [
        ("nvidia.com/gpu", gpus("NVIDIA")),
        ("amd.com/gpu", gpus("AMD")),
        ("habana.ai/gaudi", gpus("Habana")),
        ("aws.amazon.com/neuron", neurons),
        ("aws.amazon.com/neuroncore", first.map_or(0, |device| device.count * device.cores_per_device)),
        ("vpc.amazonaws.com/efa", efas),
    ] {
        insert_count(&mut resources, name, count);
    }
    resources
}

/// What kubelet itself needs, unless the class says otherwise.
fn kube_overhead(facts: &TypeFacts, class: &ClassSettings, max_pods: u32) -> ResourceList {
    let pods =
        if class.family.eni_limited_memory_overhead { eni_limited_pods(facts, class, 0) } else { max_pods };
    let memory = mebibytes(KUBE_RESERVED_MIB + KUBE_RESERVED_MIB_PER_POD * i64::from(pods));
    let storage = mebibytes(1024);
    let mut from = 0;
    let mut cpu = 0;
    let total = i64::from(facts.vcpus) * 1000;
    for (to, share) in KUBE_RESERVED_CPU {
        cpu += (total.min(to) - from).max(0) * share / 10_000;
        from = to;
    }
    [(CPU, Quantity::from_milli(cpu)), (MEMORY, memory), (EPHEMERAL_STORAGE, storage)].into_iter().collect()
}

/// Reserved resources as written, with expressions evaluated. Process ids are reserved too, and are no resource of a node.
fn reserved(
    written: &BTreeMap<Arc<str>, Arc<str>>,
    about: &Variables,
    expressions: Option<&dyn Expressions>,
) -> ResourceList {
    let resources = written.iter().filter(|(name, _)| &***name != "pid");
    resources
        .filter_map(|(name, text)| {
            let evaluated = || expressions.and_then(|all| all.reserved(text, name, about));
            Some((&**name, text.parse::<Quantity>().ok().or_else(evaluated)?))
        })
        .collect()
}

/// What kubelet evicts pods to keep free. Soft thresholds keep nothing.
fn eviction_overhead(
    written: &BTreeMap<Arc<str>, Arc<str>>,
    memory: Quantity,
    storage: Quantity,
) -> ResourceList {
    let signal = |name: &str, capacity: Quantity| threshold(written.get(name)?, capacity);
    let memory = signal("memory.available", memory).unwrap_or(mebibytes(100));
    let storage = signal("nodefs.available", storage).unwrap_or_else(|| share(storage, 10.0));
    [(MEMORY, memory), (EPHEMERAL_STORAGE, storage)].into_iter().collect()
}

/// An eviction threshold: a quantity, or a share of the capacity. All of it means that nothing is ever evicted.
fn threshold(text: &str, capacity: Quantity) -> Option<Quantity> {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent.parse().ok()?;
            Some(if percent >= 100.0 { Quantity::ZERO } else { share(capacity, percent) })
        }
        None => text.parse().ok(),
    }
}

/// So many percent, rounded up to whole units.
fn share(capacity: Quantity, percent: f64) -> Quantity {
    let units = (capacity.ceil_units() as f64 / 100.0 * percent).ceil() as i64;
    Quantity::from_units(units).with_format(capacity.format())
}

fn insert_count(resources: &mut ResourceList, name: &str, count: u32) {
    if count > 0 {
        resources.insert(name, units(count));
    }
}

fn units(count: u32) -> Quantity {
    Quantity::from_units(i64::from(count))
}

fn mebibytes(mib: i64) -> Quantity {
    Quantity::from_units(mib * MIB).with_format(Format::BinarySI)
}
