//! What runs and how fast.

use std::time::Duration;

/// Which events the models write. Events are half of all writes of a busy cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventDetail {
    /// All that the real ones would write, as far as the models know them.
    #[default]
    All,
    /// Warnings only.
    Warnings,
    /// None at all.
    Silent,
}

impl EventDetail {
    pub(crate) fn tells(self, is_warning: bool) -> bool {
        match self {
            Self::All => true,
            Self::Warnings => is_warning,
            Self::Silent => false,
        }
    }
}

/// How the scheduler runs.
#[derive(Clone, Debug)]
pub struct SchedulerConfig {
    /// The name pods ask for by `schedulerName`.
    pub name: String,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self { name: "default-scheduler".to_owned() }
    }
}

/// How kubelets behave.
#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// Which nodes the model runs.
    pub nodes: RunNodes,
    /// How long after its creation a node is ready.
    pub node_ready_after: Duration,
    /// How long a pod takes to start.
    pub pod_start_after: Duration,
    /// How long a pod takes to stop, within its grace period.
    pub pod_stop_after: Duration,
    /// How often a node says that it is alive. Leases last twice as long, so this may be as rare as one likes, even a year: a
    /// node that is made unreachable cuts its lease short and is found silent as soon as a real one.
    pub heartbeat: Duration,
    /// Storage drivers on every node.
    pub csi_drivers: Vec<CsiDriver>,
    /// The version nodes report.
    pub version: String,
}

impl Default for KubeletConfig {
    fn default() -> Self {
        Self {
            nodes: RunNodes::All,
            node_ready_after: Duration::ZERO,
            pod_start_after: Duration::ZERO,
            pod_stop_after: Duration::ZERO,
            heartbeat: Duration::from_mins(5),
            csi_drivers: Vec::new(),
            version: "v1.36.3".to_owned(),
        }
    }
}

/// A storage driver that runs on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriver {
    /// The driver's name, which storage classes call their provisioner.
    pub name: String,
    /// How many volumes a node can attach; no limit if nothing is said.
    pub volumes_max: Option<i32>,
    /// Node labels that tell where volumes can be reached from; the zone if there are none.
    pub topology_keys: Vec<String>,
}

/// Which nodes the kubelet model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunNodes {
    /// Every node: nobody else runs any.
    All,
    /// Those annotated with `cluster.model/kubelet` or `kwok.x-k8s.io/node: fake`.
    Annotated,
}
