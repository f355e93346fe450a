//! Scenarios with the answers they must get, packed in `tests/oracle` at the root of the repository.

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::Value;

use crate::expected::Expected;
use crate::plan::PlanResult;
use crate::scenario::Scenario;

const SCHEDULING: &[u8] = include_bytes!("../../../tests/oracle/scheduling.jsonl.gz");
const QUIRKS: &[u8] = include_bytes!("../../../tests/oracle/quirks.jsonl.gz");
const DISRUPTION: &[u8] = include_bytes!("../../../tests/oracle/disruption.jsonl.gz");
const UPSTREAM_PLANS: &[u8] = include_bytes!("../../../tests/oracle/upstream-plans.jsonl.gz");

/// A scheduling scenario and what upstream answered.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// The scenario as written, for programs with a model of their own.
    pub scenario: Value,
    /// Upstream's answers, as far as they are compared.
    pub expected: Expected,
}

impl Case {
    /// Returns the scenario's name.
    pub fn name(&self) -> &str {
        self.scenario["name"].as_str().unwrap_or_default()
    }

    /// Returns the scenario as the checker reads it.
    ///
    /// # Panics
    ///
    /// If the packed file does not hold a scenario.
    pub fn scenario(&self) -> Scenario {
        serde_json::from_value(self.scenario.clone()).expect("packed cases hold scenarios")
    }
}

/// A consolidation scenario and the distinct decisions upstream came to.
#[derive(Clone, Debug, Deserialize)]
pub struct DisruptionCase {
    /// The scenario as written.
    pub scenario: Value,
    /// Whether all runs agreed (`stable`), and the answers seen (`variants`).
    pub expected: Value,
}

/// Returns the 250 scheduling cases, in order.
///
/// # Panics
///
/// If the packed file is damaged.
pub fn scheduling() -> impl Iterator<Item = Case> {
    unpack(SCHEDULING)
}

/// Returns the scenarios in which upstream is wrong, with the right answers.
///
/// # Panics
///
/// If the packed file is damaged.
pub fn quirks() -> impl Iterator<Item = Case> {
    unpack(QUIRKS)
}

/// Returns the 80 consolidation cases, in order.
///
/// # Panics
///
/// If the packed file is damaged.
pub fn disruption() -> impl Iterator<Item = DisruptionCase> {
    unpack(DISRUPTION)
}

/// Returns one of upstream's plans for each of the [`scheduling`] cases, in the same order.
///
/// # Panics
///
/// If the packed file is damaged.
pub fn upstream_plans() -> impl Iterator<Item = PlanResult> {
    unpack(UPSTREAM_PLANS)
}

fn unpack<T: for<'de> Deserialize<'de>>(packed: &'static [u8]) -> impl Iterator<Item = T> {
    let lines = BufReader::new(GzDecoder::new(packed)).lines();
    lines.map(|line| {
        let line = line.expect("the packed cases are whole");
        serde_json::from_str(&line).expect("every line of the packed cases is one JSON value")
    })
}
