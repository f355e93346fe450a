//! What can be bought: instance types, their offerings and prices, per NodePool.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_quantity::ResourceList;

use crate::requirements::RequirementSet;

mod overlay;

pub use overlay::{NodeOverlay, OverlayConflict, OverlayPrice, apply_overlays};

/// Label key of the zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Label key of the capacity type (`spot`, `on-demand`, `reserved`).
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Label key of the instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Label key of the node's own name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Label key of the owning NodePool.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// The capacity type of spare machines that can be taken back.
pub const SPOT: &str = "spot";
/// The capacity type of machines at the list price.
pub const ON_DEMAND: &str = "on-demand";
/// The capacity type of offerings backed by a reservation.
pub const RESERVED: &str = "reserved";

/// One way to buy an instance type.
#[derive(Clone, Debug)]
pub struct Offering {
    /// Zone, capacity type, and what else distinguishes it. Thousands of offerings have a handful of these: what is the same is best
    /// shared, because it is compiled once then.
    pub requirements: Arc<RequirementSet>,
    /// Price per hour.
    pub price: f64,
    /// Whether it is believed to be in stock.
    pub available: bool,
    /// For a reserved offering: the reservation and how many instances are left in it.
    pub reservation: Option<Reservation>,
    /// Capacity of this offering where it differs from the type's.
    pub capacity_override: Option<ResourceList>,
    /// Overhead of this offering where it differs from the type's.
    pub overhead_override: Option<ResourceList>,
}

impl Offering {
    /// Whether an instance can be started now: in stock, and with room left if it is a reservation.
    pub fn is_launchable(&self) -> bool {
        self.available && self.reservation.as_ref().is_none_or(|reservation| reservation.remaining > 0)
    }

    /// The zone, when it is fixed.
    pub fn zone(&self) -> Option<&Arc<str>> {
        self.requirements.get(ZONE).and_then(|set| set.single())
    }

    /// The capacity type, when it is fixed.
    pub fn capacity_type(&self) -> Option<&Arc<str>> {
        self.requirements.get(CAPACITY_TYPE).and_then(|set| set.single())
    }
}

/// Capacity paid for in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its id; offerings of several types may share it.
    pub id: Arc<str>,
    /// Instances left.
    pub remaining: u32,
}

/// A kind of machine.
#[derive(Clone, Debug)]
pub struct InstanceType {
    /// Its name.
    pub name: Arc<str>,
    /// Labels its nodes can have.
    pub requirements: RequirementSet,
    /// The ways to buy it, unavailable ones included.
    pub offerings: Vec<Offering>,
    /// Everything the machine has.
    pub capacity: ResourceList,
    /// What the system keeps for itself.
    pub overhead: ResourceList,
    /// CSI driver to the largest number of volumes; a driver not listed is unlimited.
    pub volume_limits: BTreeMap<Arc<str>, u32>,
    /// What of it operators have corrected.
    pub overlaid: Overlaid,
}

/// What `NodeOverlay`s have changed about an instance type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlaid {
    /// The price of an offering.
    pub price: bool,
    /// Its capacity.
    pub capacity: bool,
}

impl InstanceType {
    /// What pods may use: capacity less overhead and huge pages, never below zero.
    pub fn allocatable(&self) -> ResourceList {
        allocatable(&self.capacity, &self.overhead)
    }
}

/// Capacity less overhead; memory also less huge pages, which are set aside from it.
pub(crate) fn allocatable(capacity: &ResourceList, overhead: &ResourceList) -> ResourceList {
    let mut result = capacity.clone();
    for (name, quantity) in overhead {
        result.insert(name, capacity.get(name) - quantity);
    }
    for (name, quantity) in capacity {
        if name.starts_with("hugepages-") {
            result.insert("memory", result.get("memory") - quantity);
        }
    }
    result
        .iter()
        .map(|(name, quantity)| (name.to_owned(), quantity.max(karpenter_quantity::Quantity::ZERO)))
        .collect()
}

/// The instance types every NodePool may use.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Types by NodePool name. A pool that is not listed has none.
    pub by_pool: BTreeMap<Arc<str>, Arc<[Arc<InstanceType>]>>,
}

impl Catalog {
    /// A catalog in which every named pool sees the same types.
    pub fn shared(pools: impl IntoIterator<Item = Arc<str>>, types: Arc<[Arc<InstanceType>]>) -> Self {
        Self { by_pool: pools.into_iter().zip(std::iter::repeat(types)).collect() }
    }

    /// The types of one pool.
    pub fn types(&self, pool: &str) -> &[Arc<InstanceType>] {
        self.by_pool.get(pool).map_or(&[], |types| types)
    }
}
