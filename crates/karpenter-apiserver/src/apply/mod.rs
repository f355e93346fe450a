//! Field ownership: who set which field, server-side apply and its conflicts.
//!
//! [`FieldSet`] is the `FieldsV1` of `managedFields` as a tree. [`Managers`] reads and writes `managedFields`;
//! [`Managers::update`] credits an ordinary write, [`apply`] merges an applied configuration.

mod compare;
mod field_set;
mod managers;
mod merge;

pub(crate) use compare::compare;
pub(crate) use field_set::FieldSet;
pub(crate) use managers::{Manager, Managers, Operation};
pub(crate) use merge::apply;
