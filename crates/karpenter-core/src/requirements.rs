//! What label values a pod, a `NodePool` or an instance type accepts: the requirement algebra.
//!
//! A [`Requirement`] is one line of YAML (`key operator values`). A [`ValueSet`] is what such lines mean once combined: which
//! values are acceptable *and* whether the label may be missing. Keeping the two apart is what makes a contradiction a
//! contradiction: upstream folds "nothing is acceptable" and "the label must not exist" into one representation.
//! [`RequirementSet`] holds one `ValueSet` per key. Start at [`ValueSet`].

mod parse;
mod set;
mod value_set;

pub use parse::{Operator, Requirement, RequirementError};
pub use set::RequirementSet;
pub use value_set::ValueSet;
