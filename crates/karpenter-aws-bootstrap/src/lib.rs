//! How a machine on EC2 becomes a node: its image, its volumes, and what it is told when it starts.
//!
//! Everything here is a function from plain values to plain values: no client, no clock. Start at [`AmiFamily`] and
//! [`user_data()`].

mod alias;
mod family;
pub mod kubelet;
pub mod mime;
mod user_data;
mod variant;

pub use alias::{Alias, AliasError, ImageParameter};
pub use family::{AmiFamily, DefaultVolume};
pub use user_data::{
    Cluster, Input, LARGEST, UserData, UserDataError, bottlerocket_release, node_labels, node_taints,
    user_data,
};
pub use variant::{Variant, fits, requirements};
