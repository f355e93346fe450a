//! Topology spread (being written).
use super::Examination;
use crate::violation::Violation;
pub(super) fn violations(_: &Examination<'_>) -> Vec<Violation> {
    Vec::new()
}
