//! One request on its way through an action.

use jiff::{SignedDuration, Timestamp};
use karpenter_environment::Environment;
use karpenter_simcloud::Market;
use serde_json::Value;

use crate::wire::Params;
use crate::world::AccessKey;

/// What an action knows besides the world.
pub(crate) struct Call<'a> {
    pub(crate) now: Timestamp,
    pub(crate) params: Params,
    /// The segments of the path, for ROA services.
    pub(crate) path: Vec<String>,
    /// The body: JSON for ROA services, else its text.
    pub(crate) body: Value,
    /// Who asks; nobody for anonymous actions.
    pub(crate) caller: Option<AccessKey>,
    pub(crate) environment: &'a dyn Environment,
    pub(crate) market: &'a dyn Market,
}

impl Call<'_> {
    /// A new id such as `i-sim0123456789abcdef`.
    pub(crate) fn id(&self, prefix: &str) -> String {
        let number = u128::from_be_bytes(self.environment.entropy());
        format!("{prefix}sim{:016x}", number >> 64)
    }
}

/// A time after another.
pub(crate) fn after(time: Timestamp, passed: SignedDuration) -> Timestamp {
    time.checked_add(passed).unwrap_or(Timestamp::MAX)
}

/// As the APIs write times.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// As ECS writes the times of machines: without seconds.
pub(crate) fn minutes(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%MZ").to_string()
}
