//! What was asked, for tests that count calls.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::Serialize;

/// How many requests are kept; the counts go on beyond.
const KEPT: usize = 50_000;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recorded {
    /// When it came.
    pub time: Timestamp,
    /// `ecs`, `vpc`, `cs`, `sts`, `ram`, `cms` or `mns`.
    pub service: String,
    /// The action.
    pub action: String,
    /// Its decoded parameters.
    pub params: BTreeMap<String, String>,
    /// Its body, for ROA services.
    pub body: String,
    /// The access key of its sender; empty when it was not signed.
    pub key: String,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The error code of the answer; empty when all was well.
    pub code: String,
}

/// How often an action was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All requests.
    pub total: u64,
    /// Those that were refused or failed.
    pub refused: u64,
    /// The most within one second.
    pub most_per_second: u64,
    #[serde(skip)]
    second: (i64, u64),
    #[serde(skip)]
    pub(crate) minute: (i64, u32),
}

/// Requests and their counts.
#[derive(Clone, Debug, Default)]
pub struct Records {
    requests: VecDeque<Recorded>,
    counts: BTreeMap<String, Count>,
}

impl Records {
    /// The requests, the oldest first.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = &Recorded> {
        self.requests.iter()
    }

    /// The requests of an action, the oldest first.
    pub fn of<'a>(&'a self, action: &'a str) -> impl DoubleEndedIterator<Item = &'a Recorded> {
        self.requests.iter().filter(move |request| request.action == action)
    }

    /// How often an action was asked for.
    pub fn count(&self, action: &str) -> Count {
        self.counts.get(action).copied().unwrap_or_default()
    }

    /// All counts by action.
    pub fn counts(&self) -> &BTreeMap<String, Count> {
        &self.counts
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Counts a call of this minute and returns how many there were, this one included.
    pub(crate) fn this_minute(&mut self, action: &str, now: Timestamp) -> u32 {
        let minute = now.as_second().div_euclid(60);
        let count = self.counts.entry(action.to_owned()).or_default();
        count.minute = if count.minute.0 == minute { (minute, count.minute.1 + 1) } else { (minute, 1) };
        count.minute.1
    }

    pub(crate) fn add(&mut self, request: Recorded) {
        let count = self.counts.entry(request.action.clone()).or_default();
        count.total += 1;
        count.refused += u64::from(request.status >= 400);
        let second = request.time.as_second();
        count.second = if count.second.0 == second { (second, count.second.1 + 1) } else { (second, 1) };
        count.most_per_second = count.most_per_second.max(count.second.1);
        if self.requests.len() == KEPT {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }
}
