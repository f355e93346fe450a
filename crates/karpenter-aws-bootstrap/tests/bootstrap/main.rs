//! How machines become nodes, family by family.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod aliases;
mod archives;
mod families;
mod formulas;
mod kubelets;
mod user_data;
