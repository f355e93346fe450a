//! When a node counts as broken, and what is done about it.

use std::time::Duration;

/// What is done about a broken node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairAction {
    /// Its machine is restarted in place.
    RebootNode,
    /// It gets a replacement and goes.
    ReplaceNode,
}

/// A node condition that is a reason for repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the node's condition.
    pub condition: &'static str,
    /// Its status.
    pub status: &'static str,
    /// Which reasons of the condition it covers, as a regular expression; `None` covers what no other policy does.
    pub reason: Option<&'static str>,
    /// How long the condition may last before anything is done.
    pub toleration: Duration,
    /// How long pods get to leave; `None` leaves it to the claim.
    pub grace_period: Option<Duration>,
    /// What is done.
    pub action: RepairAction,
}
