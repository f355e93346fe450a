//! What EC2 sells: instance types as the solver sees them, from what EC2 says, what prices are, and what a NodeClass asks of kubelets.
//!
//! [`TypeFacts`] is what EC2 says about one type; [`Embedded`] holds those of a recent day, with offerings and prices. [`RegionTypes`] is
//! what one region sells, [`ClassSettings`] what a class asks for, [`Market`] what prices and stock are at a moment. [`Resolver::resolve`]
//! makes instance types of the three.

mod capacity;
mod class;
mod compatibility;
mod embedded;
mod facts;
mod market;
mod offerings;
mod resolver;
mod types;

pub use capacity::{NodeShape, node_shape};
pub use class::{
    BlockDevice, CapacityReservation, ClassSettings, ClassZone, ControllerSettings, Expressions, Family,
    Kubelet, MaxPods, NetworkInterface, PlacementGroup, Variables,
};
pub use compatibility::{Incompatible, compatibility};
pub use embedded::{Embedded, FALLBACK_REGION, Region, Zone};
pub use facts::{
    Ebs, Gpu, InferenceAccelerator, InstanceStore, Network, NetworkCard, NeuronDevice, TypeFacts, VpcLimits,
};
pub use market::{DiscoveredMemory, Market, Prices, Refused, RefusedOffering};
pub use resolver::Resolver;
pub use types::{RegionType, RegionTypes};
