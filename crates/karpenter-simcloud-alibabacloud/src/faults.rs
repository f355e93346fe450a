//! What goes wrong on purpose.

use std::time::Duration;

use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::Refusal;

/// A fault of some requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fault {
    /// The call is refused as too frequent.
    Throttle {
        /// Seconds for the header `x-acs-retry-after`; without it when left out.
        #[serde(default)]
        retry_after: Option<u32>,
    },
    /// The service fails with status 500; nothing was done.
    InternalError,
    /// The service is not there, status 503; nothing was done.
    Unavailable,
    /// The connection breaks before anything was done.
    Reset,
    /// The connection breaks after everything was done.
    ResetAfterCommit,
    /// The answer comes late.
    Slow {
        /// How late.
        milliseconds: u64,
    },
    /// The answer is not JSON.
    MalformedJson,
    /// Of the answer's fields only identities are left.
    MissingFields,
    /// Any refusal one likes.
    Refuse {
        /// The HTTP status.
        status: u16,
        /// The error code.
        code: String,
        /// The message.
        #[serde(default)]
        message: String,
    },
}

/// Which requests have a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultRule {
    /// The action; `*` for any.
    pub action: String,
    /// What goes wrong.
    #[serde(flatten)]
    pub fault: Fault,
    /// How many times; for ever when left out.
    #[serde(default)]
    pub times: Option<u32>,
    /// Of how many requests of a thousand; all when left out.
    #[serde(default)]
    pub per_mille: Option<u64>,
}

/// The faults to come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    rules: Vec<FaultRule>,
}

impl Faults {
    /// Adds a fault for the next so many calls of an action.
    pub fn next(&mut self, action: &str, times: u32, fault: Fault) {
        self.add(FaultRule { action: action.to_owned(), fault, times: Some(times), per_mille: None });
    }

    /// Adds a rule.
    pub fn add(&mut self, rule: FaultRule) {
        self.rules.push(rule);
    }

    /// Removes all rules.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// The rules still in force.
    pub fn rules(&self) -> &[FaultRule] {
        &self.rules
    }

    /// The fault of a request, by `chance`, which gives a number below its argument.
    pub(crate) fn take(&mut self, action: &str, chance: impl Fn(u64) -> u64) -> Option<Fault> {
        let hits = |rule: &FaultRule| {
            (rule.action == "*" || rule.action == action)
                && rule.per_mille.is_none_or(|share| chance(1000) < share)
        };
        let at = self.rules.iter().position(hits)?;
        let rule = &mut self.rules[at];
        let fault = rule.fault.clone();
        if let Some(times) = &mut rule.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.rules.remove(at);
            }
        }
        Some(fault)
    }
}

/// What a server must do to an answer besides sending it; found among the answer's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Break the connection instead.
    Reset,
    /// Wait first.
    Slow(Duration),
}

impl Trouble {
    /// The trouble of an answer.
    pub fn of<T>(response: &Response<T>) -> Option<Self> {
        response.extensions().get().copied()
    }
}

impl Fault {
    /// The refusal, when nothing is to be done.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Throttle { retry_after } => {
                let mut refusal =
                    Refusal::new(400, "Throttling.User", "Request was denied due to user flow control.");
                refusal.retry_after = *retry_after;
                Some(refusal)
            }
            Self::InternalError => {
                Some(Refusal::new(500, "InternalError", "The request failed on our side."))
            }
            Self::Unavailable => {
                Some(Refusal::new(503, "ServiceUnavailable", "The service is not available for now."))
            }
            Self::Reset => Some(Refusal::new(599, "Reset", "The connection is broken.")),
            Self::Refuse { status, code, message } => Some(Refusal::new(*status, code, message)),
            _ => None,
        }
    }
}

/// Takes away every field that is no identity, as deep as the answer goes.
pub(crate) fn without_details(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let identity = |name: &str| name.ends_with("Id") || name.ends_with("_id") || name == "id";
            fields.retain(|name, value| value.is_object() || value.is_array() || identity(name));
            fields.values_mut().for_each(without_details);
        }
        Value::Array(entries) => entries.iter_mut().for_each(without_details),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_comes_as_often_as_asked() {
        let mut faults = Faults::default();
        faults.next("RunInstances", 2, Fault::InternalError);
        assert_eq!(faults.take("DescribeInstances", |_| 0), None);
        assert_eq!(faults.take("RunInstances", |_| 0), Some(Fault::InternalError));
        assert_eq!(faults.take("RunInstances", |_| 0), Some(Fault::InternalError));
        assert_eq!(faults.take("RunInstances", |_| 0), None);
    }

    #[test]
    fn faults_are_read_as_people_write_them() {
        let rule: FaultRule =
            serde_json::from_str(r#"{"action": "*", "kind": "throttle", "retry_after": 2, "times": 3}"#)
                .unwrap();
        assert_eq!(rule.fault, Fault::Throttle { retry_after: Some(2) });
    }

    #[test]
    fn only_identities_are_left() {
        let mut value = serde_json::json!({"A": {"B": [{"InstanceId": "i", "Cpu": 2, "Tags": {"Tag": []}}]}});
        without_details(&mut value);
        assert_eq!(value, serde_json::json!({"A": {"B": [{"InstanceId": "i", "Tags": {"Tag": []}}]}}));
    }
}
