//! `ECSNodeClass`: how machines on ECS are found, built and configured, in the words of each API group in use.
//!
//! Each group has its own type and schema; [`read`] turns any of them into the one [`Class`] that everything else reads.

pub mod cloud_pilot;
pub mod container_service;
mod conversion;
pub mod handbook;
mod hash;
pub mod k8s;
mod kubelet;
mod model;
mod schema;
mod status;

pub use conversion::{CATEGORIES, Draft, Found, read};
pub use hash::HASH_VERSION;
pub use kubelet::Kubelet;
pub use model::*;
pub use schema::definitions;
pub use status::{SelectedImage, SelectedSecurityGroup, SelectedVSwitch, Status};
