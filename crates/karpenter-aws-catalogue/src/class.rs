//! What an EC2NodeClass and the controller's flags say that matters for instance types, as plain data.
//!
//! Two classes with equal settings get the very same instance types.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_quantity::Quantity;

/// What a class asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClassSettings {
    /// Of the images.
    pub family: Family,
    /// Names the set of images, for memory that was discovered with them.
    pub images: Arc<str>,
    /// `spec.kubelet`.
    pub kubelet: Kubelet,
    /// `spec.blockDeviceMappings`.
    pub block_devices: Vec<BlockDevice>,
    /// `spec.instanceStorePolicy` is `RAID0`.
    pub raid0: bool,
    /// `spec.networkInterfaces`.
    pub network_interfaces: Vec<NetworkInterface>,
    /// `spec.cpuOptions.nestedVirtualization` is `enabled`.
    pub nested_virtualization: bool,
    /// There is a `spec.connectionTracking`.
    pub connection_tracking: bool,
    /// The group `spec.placementGroupSelector` found.
    pub placement_group: Option<PlacementGroup>,
    /// The zones of the subnets.
    pub zones: Vec<ClassZone>,
    /// The capacity reservations that were found; how much is left in them is the [`Market`](crate::Market)'s to say.
    pub reservations: Vec<CapacityReservation>,
}

/// How images of a family turn a machine into a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a column of the table of families, and all combinations mean something"
)]
pub struct Family {
    /// The build, for Windows.
    pub windows_build: Option<Arc<str>>,
    /// Kubelet's memory is reserved for as many pods as interfaces have addresses, whatever `maxPods` is.
    pub eni_limited_memory_overhead: bool,
    /// Without `maxPods` there are as many pods as interfaces have addresses, else 110.
    pub eni_limited_pod_density: bool,
    /// `podsPerCore` has an effect.
    pub pods_per_core: bool,
    /// The device kubelet's files are on; custom images do not say.
    pub ephemeral_device: Option<Arc<str>>,
    /// How large that device is by default.
    pub default_storage: Quantity,
    /// The images boot on the first Graviton machines (`a1`).
    pub runs_a1: bool,
}

/// 20Gi, what every family but Windows starts with.
const DEFAULT_STORAGE: i64 = 20 << 30;

impl Default for Family {
    /// Custom images.
    fn default() -> Self {
        Self {
            windows_build: None,
            eni_limited_memory_overhead: true,
            eni_limited_pod_density: true,
            pods_per_core: true,
            ephemeral_device: None,
            default_storage: Quantity::from_units(DEFAULT_STORAGE)
                .with_format(karpenter_quantity::Format::BinarySI),
            runs_a1: true,
        }
    }
}

/// What kubelet is told, as far as it changes what a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kubelet {
    /// `maxPods`.
    pub max_pods: Option<MaxPods>,
    /// `podsPerCore`.
    pub pods_per_core: Option<u32>,
    /// `kubeReserved`: quantities, or expressions.
    pub kube_reserved: BTreeMap<Arc<str>, Arc<str>>,
    /// `systemReserved`: quantities, or expressions.
    pub system_reserved: BTreeMap<Arc<str>, Arc<str>>,
    /// `evictionHard`: quantities or percentages.
    pub eviction_hard: BTreeMap<Arc<str>, Arc<str>>,
}

/// `maxPods`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MaxPods {
    /// So many on every type.
    Fixed(u32),
    /// A function of the type.
    Expression(Arc<str>),
}

/// What an expression in a class's kubelet may speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    /// `instance_type`.
    pub instance_type: Arc<str>,
    /// `vcpus`.
    pub vcpus: u32,
    /// `memory_mib`.
    pub memory_mib: u64,
    /// `default_enis`.
    pub default_enis: u32,
    /// `ips_per_eni`.
    pub ips_per_eni: u32,
    /// `max_pods`: the family's for `maxPods` itself, the resolved one elsewhere.
    pub max_pods: u32,
}

/// Evaluates expressions. What cannot be evaluated counts as not written.
pub trait Expressions: Send + Sync {
    /// `maxPods` of a type.
    fn max_pods(&self, expression: &str, about: &Variables) -> Option<u32>;
    /// A resource of `kubeReserved` or `systemReserved` on a type.
    fn reserved(&self, expression: &str, resource: &str, about: &Variables) -> Option<Quantity>;
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockDevice {
    /// `deviceName`.
    pub device_name: Option<Arc<str>>,
    /// `rootVolume`.
    pub root_volume: bool,
    /// `ebs.volumeSize`; a volume made from a snapshot may leave it out.
    pub size: Option<Quantity>,
}

/// A network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NetworkInterface {
    /// `networkCardIndex`.
    pub card: u32,
    /// `deviceIndex`.
    pub device: u32,
    /// `interfaceType` is `efa-only`.
    pub efa_only: bool,
}

/// A placement group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlacementGroup {
    /// `pg-…`.
    pub id: Arc<str>,
    /// `cluster`, `partition` or `spread`.
    pub strategy: Arc<str>,
    /// How many partitions there are, where that is the strategy.
    pub partitions: u32,
}

impl PlacementGroup {
    /// The partitions as label values, none unless that is the strategy.
    pub(crate) fn partition_values(&self) -> impl Iterator<Item = Arc<str>> {
        let last = if &*self.strategy == "partition" { self.partitions } else { 0 };
        (1..=last).map(|number| number.to_string().into())
    }
}

/// A zone that a class has a subnet in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassZone {
    /// `us-east-1a`.
    pub name: Arc<str>,
    /// `use1-az4`, once it is known.
    pub id: Option<Arc<str>>,
    /// The class's subnets there, by id.
    pub subnets: Vec<Arc<str>>,
}

/// A capacity reservation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CapacityReservation {
    /// `cr-…`.
    pub id: Arc<str>,
    /// The type it is for.
    pub instance_type: Arc<str>,
    /// The zone it is for.
    pub zone: Arc<str>,
    /// `default` or `capacity-block`.
    pub reservation_type: Arc<str>,
    /// Its owner may take it back.
    pub interruptible: bool,
    /// It is active and about to end: nothing new is started in it.
    pub expiring: bool,
}

/// Flags of the controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControllerSettings {
    /// `--vm-memory-overhead-percent`: the share of memory the hypervisor keeps, 0.075 by default.
    pub vm_memory_overhead_percent: f64,
    /// `--reserved-enis`: interfaces that no pod gets addresses of.
    pub reserved_enis: u32,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self { vm_memory_overhead_percent: 0.075, reserved_enis: 0 }
    }
}
