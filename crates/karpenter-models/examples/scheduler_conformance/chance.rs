//! Seeded choices for generated clusters.

use jiff::Timestamp;
use karpenter_environment::{Environment as _, SimulatedEnvironment};
use serde_json::{Value, json};

/// A sequence of choices that a seed decides.
pub(crate) struct Chance {
    sequence: SimulatedEnvironment,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { sequence: SimulatedEnvironment::new(seed, Timestamp::UNIX_EPOCH) }
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn number(&mut self, low: u64, high: u64) -> u64 {
        low + self.sequence.below(high - low + 1)
    }

    /// Whether something happens that does so in `percent` of all cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.sequence.below(100) < percent
    }

    /// One of several.
    pub(crate) fn one<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let place = self.number(0, choices.len() as u64 - 1);
        &choices[usize::try_from(place).expect("a place in a list")]
    }

    /// Some of several, perhaps none.
    pub(crate) fn some<'a, T>(&mut self, choices: &'a [T], percent: u64) -> Vec<&'a T> {
        choices.iter().filter(|_| self.percent(percent)).collect()
    }

    /// A selector by the labels that generated pods have.
    pub(crate) fn selector(&mut self) -> Value {
        match self.number(0, 5) {
            0 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}),
            1 => json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
            2 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
            _ => json!({"matchLabels": {"app": self.one(&super::pods::APPS)}}),
        }
    }

    /// A label of nodes to spread over or to gather in.
    pub(crate) fn topology_key(&mut self) -> &'static str {
        match self.number(0, 3) {
            0 => "rack",
            1 => "kubernetes.io/hostname",
            _ => "topology.kubernetes.io/zone",
        }
    }
}
