//! Field ownership: who set which field, server-side apply and its conflicts.
//!
//! [`FieldSet`] is the `FieldsV1` of `managedFields` as a tree, [`elements`] splits values into the parts that are
//! owned one by one, [`compare`] finds what a write changed, [`hollow`] what changed although it is written alike. [`Managers`] reads and writes `managedFields`;
//! [`Managers::update`] credits an ordinary write, [`apply`] merges an applied configuration.

mod check;
mod compare;
mod elements;
mod field_set;
mod hollow;
mod managers;
mod merge;
mod transfer;

pub(crate) use check::can_be_owned;
pub(crate) use field_set::FieldSet;
pub(crate) use hollow::hollow;
pub(crate) use managers::{Manager, Managers};
pub(crate) use transfer::apply;
