//! Scenario files from outside: what they become, what is refused, and that nothing makes the reader panic.

mod mutation;
mod never_panics;
mod nodes;
mod objects;
mod pods;
mod refusals;

use karpenter_kube::scenario::{Problem, load};
use serde_json::Value;

/// The example of the documentation, which uses every field.
const EXAMPLE: &str = include_str!("../../../docs/examples/scenario.json");

fn loaded(scenario: &Value) -> Problem {
    load(scenario.to_string().as_bytes()).unwrap_or_else(|invalid| panic!("{invalid}: {scenario}"))
}
