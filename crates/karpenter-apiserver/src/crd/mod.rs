//! Custom resources: reading CustomResourceDefinitions, validating their objects.
//!
//! A definition becomes one [`Resource`](crate::registry::Resource) per served version. Conversion between versions
//! is `None`: only `apiVersion` changes, and each version prunes and defaults with its own schema.

mod definition;
mod validation;

pub(crate) use definition::{check, prepare, resources, with_status};
pub(crate) use validation::Validation;
