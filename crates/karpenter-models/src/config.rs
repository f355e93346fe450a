//! What runs and how fast.

use std::time::Duration;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;

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

/// The profile of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// How the scheduler runs.
#[derive(Clone, Debug)]
pub struct SchedulerConfig {
    /// What it offers; pods that ask for anything else are not its business.
    pub profiles: Vec<SchedulerProfile>,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        let scheduler_name = DEFAULT_SCHEDULER.to_owned();
        Self { profiles: vec![SchedulerProfile { scheduler_name, default_constraints: None }] }
    }
}

impl SchedulerConfig {
    /// Returns the profile that pods with this `schedulerName` ask for.
    pub fn profile(&self, scheduler_name: &str) -> Option<&SchedulerProfile> {
        self.profiles.iter().find(|profile| profile.scheduler_name == scheduler_name)
    }
}

/// One way to place pods.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerProfile {
    /// The name pods ask for by `schedulerName`.
    pub scheduler_name: String,
    /// Spread constraints of pods that have none; without a list, pods of a set are spread a little.
    pub default_constraints: Option<Vec<TopologySpreadConstraint>>,
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
