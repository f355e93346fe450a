//! The differences we live with, each with its reason, in `accepted.yaml`.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::compare::Difference;

/// One accepted difference. Texts are patterns in which `*` stands for anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    /// `METHOD path` of the request.
    #[serde(default = "anything")]
    pub(crate) request: String,
    /// The place in the answer, such as `/body/spec/*`.
    pub(crate) path: String,
    #[serde(default = "anything")]
    pub(crate) ours: String,
    #[serde(default = "anything")]
    pub(crate) real: String,
    /// Whether the servers are no longer in the same state, so that nothing after this can be compared.
    #[serde(default)]
    pub(crate) ends: bool,
    /// Why it stays.
    pub(crate) reason: String,
}

fn anything() -> String {
    "*".to_owned()
}

pub(crate) fn read() -> Result<Vec<Accepted>> {
    serde_saphyr::from_str(include_str!("accepted.yaml")).context("reading the accepted differences")
}

impl Accepted {
    pub(crate) fn covers(&self, request: &str, difference: &Difference) -> bool {
        matches(&self.request, request)
            && matches(&self.path, &difference.path)
            && matches(&self.ours, &shown(difference.ours.as_ref()))
            && matches(&self.real, &shown(difference.real.as_ref()))
    }
}

/// A value as patterns see it; an absent value is empty.
pub(crate) fn shown(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => {
            let Some(tail) = text.strip_prefix(start) else { return false };
            rest.is_empty()
                || (0..=tail.len()).any(|at| tail.is_char_boundary(at) && matches(rest, &tail[at..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches("GET */pods/*", "GET /api/v1/pods/a"));
        assert!(!matches("GET */pods/*", "PUT /api/v1/pods/a"));
        assert!(matches("*", ""));
        assert!(!matches("a*b", "ac"));
    }

    #[test]
    fn every_entry_has_a_reason() {
        for entry in read().unwrap() {
            assert!(entry.reason.len() > 10, "{entry:?}");
        }
    }
}
