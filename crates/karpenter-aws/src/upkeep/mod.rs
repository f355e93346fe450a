//! What is done beside launches and terminations: prices, types and zones are looked at again, templates cleaned up, instances tagged,
//! claims on reservations kept true.

mod memory;
mod partitions;
mod periodic;
pub(crate) mod prices;
mod reservations;
mod tagging;
mod zonal_shift;

pub(crate) use memory::MemoryKeeper;
pub(crate) use partitions::{AGAIN, PartitionQuestion, Partitions, awaits_partition};
pub(crate) use periodic::{Periodic, Work};
pub(crate) use reservations::{Expirations, Fallbacks};
pub(crate) use tagging::{Tagging, TaggingRequest};
pub(crate) use zonal_shift::{Look, ZonalShifts, Zones, shifted_zones};
