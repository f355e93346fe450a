//! Who called what, how often and how fast: tests prove budgets with it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// More calls of one operation are not kept one by one; the oldest go.
const KEPT: usize = 200_000;

/// Calls of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Calls {
    count: u64,
    /// Answers that were errors, by code.
    errors: BTreeMap<String, u64>,
    #[serde(skip)]
    times: Vec<Timestamp>,
}

/// All calls since the start or since the last [`clear`](Records::clear).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records(BTreeMap<String, Calls>);

impl Records {
    pub(crate) fn add(&mut self, operation: &str, now: Timestamp) {
        let calls = self.0.entry(operation.to_owned()).or_default();
        calls.count += 1;
        if calls.times.len() >= KEPT {
            calls.times.drain(..KEPT / 2);
        }
        calls.times.push(now);
    }

    pub(crate) fn failed(&mut self, operation: &str, code: &str) {
        if let Some(calls) = self.0.get_mut(operation) {
            *calls.errors.entry(code.to_owned()).or_default() += 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// How often an operation was called, refused calls included.
    pub fn count(&self, operation: &str) -> u64 {
        self.0.get(operation).map_or(0, |calls| calls.count)
    }

    /// How often each operation was called.
    pub fn counts(&self) -> BTreeMap<&str, u64> {
        self.0.iter().map(|(operation, calls)| (&**operation, calls.count)).collect()
    }

    /// How often a call was answered with an error of this code.
    pub fn errors(&self, operation: &str, code: &str) -> u64 {
        self.0.get(operation).and_then(|calls| calls.errors.get(code)).copied().unwrap_or(0)
    }

    /// When an operation was called, in order.
    pub fn times(&self, operation: &str) -> &[Timestamp] {
        self.0.get(operation).map_or(&[], |calls| &calls.times)
    }

    /// The most calls of an operation within any `window`.
    pub fn most_within(&self, operation: &str, window: SignedDuration) -> usize {
        let times = self.times(operation);
        let mut first = 0;
        let mut most = 0;
        for (last, time) in times.iter().enumerate() {
            while time.duration_since(times[first]) >= window {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        most
    }

    /// Everything, as the control endpoint shows it.
    pub(crate) fn show(&self) -> serde_json::Value {
        let second = SignedDuration::from_secs(1);
        let shown = self.0.iter().map(|(operation, calls)| {
            let calls = serde_json::json!({
                "count": calls.count,
                "errors": calls.errors,
                "mostPerSecond": self.most_within(operation, second),
            });
            (operation.clone(), calls)
        });
        serde_json::Value::Object(shown.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_second_is_found_wherever_it_begins() {
        let mut records = Records::default();
        for millisecond in [0, 600, 900, 1100, 1500, 3000] {
            records.add("A", Timestamp::from_millisecond(millisecond).unwrap());
        }
        assert_eq!(records.most_within("A", SignedDuration::from_secs(1)), 4);
        assert_eq!((records.count("A"), records.count("B")), (6, 0));
    }
}
