//! Label and field selectors: parsing and matching against the indexed values of stored objects.

mod fields;
mod labels;

pub(crate) use fields::FieldSelector;
pub(crate) use labels::LabelSelector;
