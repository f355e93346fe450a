//! The list of models to run.

use karpenter_runtime::Runtime;

use crate::config::{EventDetail, KubeletConfig, SchedulerConfig};
use crate::kubelet::{NodeKubelet, PodKubelet};
use crate::nodes::{NodeLifecycle, PodGarbage, TaintEviction};
use crate::scheduler::SchedulerModel;
use crate::service_account::ServiceAccounts;
use crate::storage::{EphemeralClaims, StorageConfig, VolumeAttacher, VolumeBinder};
use crate::workloads::{
    CronJobs, DaemonSets, Deployments, DisruptionBudgets, Jobs, ReplicaSets, StatefulSets,
};

/// Which models run, and how. Each can be left out: beside a real control plane none run, or only kubelets.
#[derive(Clone, Debug)]
pub struct ModelsConfig {
    /// Places pods.
    pub scheduler: Option<SchedulerConfig>,
    /// Runs nodes and pods.
    pub kubelets: Option<KubeletConfig>,
    /// Does the controller manager's part about nodes: silence, taints, eviction, orphaned pods.
    pub nodes: bool,
    /// Runs deployments, sets of pods, jobs, and the status of disruption budgets.
    pub workloads: bool,
    /// Binds, makes and attaches volumes.
    pub storage: Option<StorageConfig>,
    /// Makes the default service account of every namespace.
    pub service_accounts: bool,
    /// Which events are written.
    pub events: EventDetail,
}

impl Default for ModelsConfig {
    fn default() -> Self {
        Self {
            scheduler: Some(SchedulerConfig::default()),
            kubelets: Some(KubeletConfig::default()),
            nodes: true,
            workloads: true,
            storage: Some(StorageConfig::default()),
            service_accounts: true,
            events: EventDetail::default(),
        }
    }
}

/// A cluster's own machinery.
pub struct Models {
    config: ModelsConfig,
}

impl Models {
    /// Returns the models a configuration asks for.
    pub fn new(config: ModelsConfig) -> Self {
        Self { config }
    }

    /// Adds the models to a runtime.
    pub fn add_to(self, runtime: &mut Runtime) {
        let ModelsConfig { scheduler, kubelets, nodes, workloads, storage, service_accounts, events } =
            self.config;
        if service_accounts {
            runtime.add(ServiceAccounts::new());
        }
        if nodes {
            runtime.add(NodeLifecycle::new());
            runtime.add(TaintEviction::new(events));
            runtime.add(PodGarbage::new());
        }
        if workloads {
            runtime.add(Deployments::new(events));
            runtime.add(ReplicaSets::new(events));
            runtime.add(StatefulSets::new(events));
            runtime.add(DaemonSets::new(events));
            runtime.add(CronJobs::new(events));
            runtime.add(Jobs::new(events));
            runtime.add(DisruptionBudgets::new());
        }
        if let Some(config) = storage {
            runtime.add(EphemeralClaims::new());
            runtime.add(VolumeBinder::new(config.clone()));
            runtime.add(VolumeAttacher::new(config));
        }
        if let Some(config) = scheduler {
            runtime.add(SchedulerModel::new(config, events));
        }
        if let Some(config) = kubelets {
            runtime.add(NodeKubelet::new(config.clone()));
            runtime.add(PodKubelet::new(config, events));
        }
    }
}
