//! What happens to simulated machines, for whoever plays their nodes.
//!
//! A front knows a machine's boot script and what hardware it has; what the node looks like that joins the cluster follows from these
//! two alone, so a wrong boot script shows as a wrong node.

use std::collections::BTreeMap;

/// A machine has booted far enough for its kubelet to join the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// The machine's identity, as on `Node.spec.providerID`.
    pub provider_id: String,
    /// The name its kubelet registers under.
    pub node_name: String,
    /// Labels its kubelet registers with, and those the cloud's controller adds.
    pub labels: BTreeMap<String, String>,
    /// Taints its kubelet registers with.
    pub taints: Vec<Taint>,
    /// What it has, as quantities.
    pub capacity: BTreeMap<String, String>,
    /// What of it pods may use.
    pub allocatable: BTreeMap<String, String>,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; empty for none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// What happened to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineEvent {
    /// It has booted.
    Booted(Boot),
    /// It was launched and never joins: its boot script cannot be used. Says why.
    Lost {
        /// The machine's identity.
        provider_id: String,
        /// What is wrong with its boot script.
        why: String,
    },
    /// It is gone: stopped by whoever launched it, or taken back.
    Gone {
        /// The machine's identity.
        provider_id: String,
        /// The name its kubelet was registered under.
        node_name: String,
    },
}

/// Is told what happens to machines.
pub trait Watcher: Send + Sync + 'static {
    /// Something happened. Must not block.
    fn happened(&self, event: MachineEvent);
}

/// Does not care.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Watcher for Nobody {
    fn happened(&self, _: MachineEvent) {}
}
