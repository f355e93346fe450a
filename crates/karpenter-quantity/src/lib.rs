//! Kubernetes resource quantities as exact integers, and lists of them by resource name.
//!
//! [`Quantity`] reads every form the Kubernetes API accepts (`100m`, `1.5Gi`, `1e3`, `110Ei`), computes without
//! rounding and prints the canonical form. [`ResourceList`] maps resource names such as `cpu` to quantities, with
//! the arithmetic that scheduling needs. Start at [`Quantity`].

mod parse;
mod quantity;
mod resource_list;
#[cfg(feature = "serde")]
mod wire;

pub use parse::ParseQuantityError;
pub use quantity::{Format, Quantity};
pub use resource_list::{CPU, EPHEMERAL_STORAGE, Iter, MEMORY, NODES, PODS, ResourceList};
