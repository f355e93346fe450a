//! Custom resources: reading CustomResourceDefinitions, validating their objects.
//!
//! A definition becomes one [`Resource`](crate::registry::Resource) per served version. Conversion between versions
//! is `None`: only `apiVersion` changes, and each version prunes and defaults with its own schema.

mod check;
mod definition;
mod replicas;
mod rules;
mod schema_check;
mod structural;
mod text_format;
mod validation;

pub(crate) use check::check;
pub(crate) use definition::{accept, prepare, resources, terminate, with_stored_versions};
pub(crate) use replicas::check_replicas;
pub(crate) use rules::too_deep;
pub(crate) use validation::Validation;
