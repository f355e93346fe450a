//! How long things take in the simulated cloud, and how it behaves where the real service leaves room.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// From the launch until a machine starts.
    pub pending: SignedDuration,
    /// From then until it runs.
    pub starting: SignedDuration,
    /// From then until its kubelet joins the cluster.
    pub booting: SignedDuration,
    /// From its deletion until it is gone.
    pub stopping: SignedDuration,
    /// From the warning until a spot machine is taken back.
    pub notice: SignedDuration,
    /// From an event until Cloud Monitor shows it.
    pub event_delay: SignedDuration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            pending: SignedDuration::from_secs(2),
            starting: SignedDuration::from_secs(8),
            booting: SignedDuration::from_secs(20),
            stopping: SignedDuration::from_secs(8),
            notice: SignedDuration::from_mins(5),
            event_delay: SignedDuration::from_secs(10),
        }
    }
}

impl Times {
    /// Everything happens at the next tick.
    pub fn at_once() -> Self {
        let none = SignedDuration::ZERO;
        Self {
            pending: none,
            starting: none,
            booting: none,
            stopping: none,
            event_delay: none,
            ..Self::default()
        }
    }
}

/// Where the real service leaves room, or changed its mind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Switches {
    /// How many instance types a page has at most: 100, or 1600 as the documentation says.
    pub instance_types_page: usize,
    /// How many machines a filter by tags finds at most.
    pub tag_filter_cap: Option<usize>,
    /// Whether provisioning groups list what failed before what was launched.
    pub failures_first: bool,
    /// How many configurations a provisioning group takes.
    pub group_configs: usize,
    /// How long after its launch a machine is not yet listed, in seconds.
    pub stale_reads_seconds: i64,
    /// Of how many launches of a thousand fail without stock.
    pub no_stock_per_mille: u64,
    /// Machines the account may have.
    pub instance_quota: Option<usize>,
    /// Seconds that credentials from STS live, whatever was asked for.
    pub session_seconds: Option<u32>,
    /// Whether the metadata service wants a token.
    pub metadata_token_required: bool,
    /// Calls per minute by action; beyond, the action is refused until the next minute.
    pub per_minute: BTreeMap<String, u32>,
    /// Instances and vSwitches that disappear once a first page has been read.
    pub vanish_between_pages: Vec<String>,
    /// Whether unsigned requests are refused.
    pub verify_signatures: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            instance_types_page: 100,
            tag_filter_cap: Some(1000),
            failures_first: true,
            group_configs: 20,
            stale_reads_seconds: 0,
            no_stock_per_mille: 0,
            instance_quota: None,
            session_seconds: None,
            metadata_token_required: false,
            per_minute: BTreeMap::new(),
            vanish_between_pages: Vec::new(),
            verify_signatures: true,
        }
    }
}
