//! Metrics with upstream's names and labels.
//!
//! What happened is counted where it is decided or seen ([`Metrics`], [`Observer`]); what *is* (nodes, pods, pools, conditions) is
//! not kept twice: a scrape reads it from the state ([`cluster`], [`conditions`]), so no stale series can be left behind.

mod cluster;
mod conditions;
mod observer;

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::labels::{CAPACITY_TYPE, NODEPOOL};
use karpenter_api::{GoDuration, LabelRules, NodeClaim};
use karpenter_core::disruption::DisruptionReason;
use karpenter_environment::Environment;
use karpenter_provider::{LaunchError, ProviderError};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use observer::Observer;

use crate::state::Shared;

/// Label names and values of one series.
pub(crate) type Labels<const N: usize> = [(&'static str, String); N];

/// Buckets of most durations, in seconds.
const DURATIONS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];
/// Buckets of the time a cloud takes to answer.
const ANSWERS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Buckets of the time a machine takes to stop.
const STOPS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
/// Buckets of the time a claim takes to go.
const ENDS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];
/// Buckets of the age of a node when it goes: a quarter of an hour to thirty days.
const LIFETIMES: &[f64] = &[
    900.0,
    1_800.0,
    3_600.0,
    7_200.0,
    14_400.0,
    28_800.0,
    43_200.0,
    86_400.0,
    172_800.0,
    432_000.0,
    864_000.0,
    1_296_000.0,
    2_592_000.0,
];

/// A histogram with fixed buckets.
#[derive(Clone)]
pub(crate) struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

pub(crate) type Histograms<const N: usize> = Family<Labels<N>, Histogram, Buckets>;
type Counters<const N: usize> = Family<Labels<N>, Counter>;

fn histograms<L>(buckets: &'static [f64]) -> Family<L, Histogram, Buckets>
where
    L: Clone + std::hash::Hash + Eq + EncodeLabelSet,
{
    Family::new_with_constructor(Buckets(buckets))
}

/// Why a claim was taken down, in the words of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disruption {
    Drifted,
    Empty,
    Expired,
    SpotInterrupted,
    Underutilized,
    Unhealthy,
    GarbageCollected,
    InsufficientCapacity,
    NodeClassNotReady,
    LaunchTimeout,
    RegistrationTimeout,
}

impl From<DisruptionReason> for Disruption {
    fn from(reason: DisruptionReason) -> Self {
        match reason {
            DisruptionReason::Empty => Self::Empty,
            DisruptionReason::Underutilized => Self::Underutilized,
            DisruptionReason::Drifted => Self::Drifted,
            DisruptionReason::Unhealthy => Self::Unhealthy,
        }
    }
}

impl Disruption {
    pub(crate) fn metric(self) -> &'static str {
        match self {
            Self::Drifted => "drifted",
            Self::Empty => "empty",
            Self::Expired => "expired",
            Self::SpotInterrupted => "spot_interrupted",
            Self::Underutilized => "underutilized",
            Self::Unhealthy => "unhealthy",
            Self::GarbageCollected => "garbage_collected",
            Self::InsufficientCapacity => "insufficient_capacity",
            Self::NodeClassNotReady => "nodeclass_not_ready",
            Self::LaunchTimeout => "launch_timeout",
            Self::RegistrationTimeout => "registration_timeout",
        }
    }
}

/// Everything that is counted. Clones share their counts.
#[derive(Clone)]
pub struct Metrics {
    pub(crate) scheduling_duration: Histograms<1>,
    pub(crate) ignored_pods: Gauge,
    pub(crate) unschedulable_pods: Family<Labels<1>, Gauge>,
    pub(crate) nodeclaims_created: Counters<3>,
    pub(crate) nodeclaims_disrupted: Counters<5>,
    nodeclaims_terminated: Counters<3>,
    nodeclaims_termination: Histograms<1>,
    instance_termination: Histograms<1>,
    nodes_created: Counters<2>,
    nodes_terminated: Counters<2>,
    nodes_drained: Counters<1>,
    nodes_termination: Histograms<1>,
    nodes_lifetime: Histograms<1>,
    pods_startup: Histogram,
    pods_bound: Histograms<1>,
    decisions: Counters<3>,
    queue_failures: Counters<3>,
    failed_validations: Counters<1>,
    pub(crate) evaluation: Histograms<2>,
    cloud_duration: Histograms<3>,
    cloud_errors: Counters<5>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            scheduling_duration: histograms(DURATIONS),
            ignored_pods: Gauge::default(),
            unschedulable_pods: Family::default(),
            nodeclaims_created: Family::default(),
            nodeclaims_disrupted: Family::default(),
            nodeclaims_terminated: Family::default(),
            nodeclaims_termination: histograms(ENDS),
            instance_termination: histograms(STOPS),
            nodes_created: Family::default(),
            nodes_terminated: Family::default(),
            nodes_drained: Family::default(),
            nodes_termination: histograms(ENDS),
            nodes_lifetime: histograms(LIFETIMES),
            pods_startup: Histogram::new(DURATIONS.iter().copied()),
            pods_bound: histograms(DURATIONS),
            decisions: Family::default(),
            queue_failures: Family::default(),
            failed_validations: Family::default(),
            evaluation: histograms(DURATIONS),
            cloud_duration: histograms(ANSWERS),
            cloud_errors: Family::default(),
        }
    }
}

impl Metrics {
    /// Takes note of a call to the cloud.
    pub(crate) fn called(&self, call: &Call, took: Duration, failure: Option<&'static str>) {
        let Call { controller, method, provider, node_pool } = call;
        let labels = [("controller", *controller), ("method", *method), ("provider", *provider)];
        let labels = labels.map(|(name, value)| (name, value.to_owned()));
        self.cloud_duration.get_or_create(&labels).observe(took.as_secs_f64());
        if let Some(error) = failure {
            let [controller, method, provider] = labels;
            let rest = [("error", error.to_owned()), ("nodepool", node_pool.clone())];
            let [error, node_pool] = rest;
            self.cloud_errors.get_or_create(&[controller, method, provider, error, node_pool]).inc();
        }
    }

    /// Takes note of a move that is begun, and of the claims made for it. `labels` are decision, reason and type.
    pub(crate) fn command_started<'a>(
        &self,
        labels: &Labels<3>,
        replacements: impl Iterator<Item = (&'a str, bool)>,
    ) {
        self.decisions.get_or_create(labels).inc();
        for (node_pool, relaxed) in replacements {
            let created = [
                ("reason", labels[1].1.clone()),
                ("nodepool", node_pool.to_owned()),
                ("min_values_relaxed", relaxed.to_string()),
            ];
            self.nodeclaims_created.get_or_create(&created).inc();
        }
    }

    /// Takes note of a move that came to nothing.
    pub(crate) fn command_failed(&self, labels: &Labels<3>) {
        self.queue_failures.get_or_create(labels).inc();
    }

    /// Takes note of a move that was no longer good at the second look.
    pub(crate) fn validation_failed(&self, consolidation_type: &'static str) {
        let labels = [("consolidation_type", consolidation_type.to_owned())];
        self.failed_validations.get_or_create(&labels).inc();
    }

    /// Takes note that a claim's deletion is started.
    pub(crate) fn disrupted(&self, why: Disruption, claim: &NodeClaim, state: &Shared) {
        let label = |key: &str| {
            claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
        };
        let grace = claim.spec.termination_grace_period.as_ref().map(GoDuration::value);
        let mode = match grace {
            None => "graceful",
            Some(grace) if grace.is_positive() => "eventual",
            Some(_) => "forceful",
        };
        let node_pool = label(NODEPOOL);
        let policy = state.lock().pool(&node_pool).and_then(|pool| pool.spec.disruption.clone());
        let policy = policy.and_then(|disruption| disruption.consolidation_policy);
        self.nodeclaims_disrupted
            .get_or_create(&[
                ("reason", why.metric().to_owned()),
                ("nodepool", node_pool),
                ("capacity_type", label(CAPACITY_TYPE)),
                ("consolidation_policy", policy.map(|policy| policy.to_string()).unwrap_or_default()),
                ("termination_mode", mode.to_owned()),
            ])
            .inc();
    }

    fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("karpenter");
        registry.register(
            "scheduler_scheduling_duration_seconds",
            "How long plans take",
            self.scheduling_duration.clone(),
        );
        registry.register(
            "scheduler_ignored_pods_count",
            "Waiting pods that Karpenter cannot plan for",
            self.ignored_pods.clone(),
        );
        registry.register(
            "scheduler_unschedulable_pods_count",
            "Waiting pods without a place in the last plan",
            self.unschedulable_pods.clone(),
        );
        self.register_nodeclaims(registry);
        self.register_nodes(registry);
        self.register_disruption(registry);
        registry.register(
            "pods_startup_duration_seconds",
            "From a pod's creation until it is ready",
            self.pods_startup.clone(),
        );
        registry.register(
            "pods_bound_duration_seconds",
            "From a pod's creation until it is bound",
            self.pods_bound.clone(),
        );
        registry.register(
            "cloudprovider_duration_seconds",
            "Calls to the cloud",
            self.cloud_duration.clone(),
        );
        registry.register(
            "cloudprovider_errors",
            "Calls to the cloud that failed",
            self.cloud_errors.clone(),
        );
    }

    fn register_nodeclaims(&self, registry: &mut Registry) {
        registry.register("nodeclaims_created", "NodeClaims created", self.nodeclaims_created.clone());
        registry.register(
            "nodeclaims_disrupted",
            "NodeClaims whose deletion was started, by cause",
            self.nodeclaims_disrupted.clone(),
        );
        registry.register("nodeclaims_terminated", "NodeClaims gone", self.nodeclaims_terminated.clone());
        registry.register(
            "nodeclaims_termination_duration_seconds",
            "From the deletion of a NodeClaim until it is gone",
            self.nodeclaims_termination.clone(),
        );
        registry.register(
            "nodeclaims_instance_termination_duration_seconds",
            "From the order to stop a machine until it is gone",
            self.instance_termination.clone(),
        );
    }

    fn register_disruption(&self, registry: &mut Registry) {
        registry.register("voluntary_disruption_decisions", "Moves begun", self.decisions.clone());
        registry.register(
            "voluntary_disruption_queue_failures",
            "Moves that came to nothing",
            self.queue_failures.clone(),
        );
        registry.register(
            "voluntary_disruption_failed_validations",
            "Moves that were no longer good at the second look",
            self.failed_validations.clone(),
        );
        registry.register(
            "voluntary_disruption_decision_evaluation_duration_seconds",
            "How long it takes to find moves",
            self.evaluation.clone(),
        );
    }

    fn register_nodes(&self, registry: &mut Registry) {
        registry.register("nodes_created", "Nodes that joined", self.nodes_created.clone());
        registry.register("nodes_terminated", "Nodes gone", self.nodes_terminated.clone());
        registry.register("nodes_drained", "Nodes drained", self.nodes_drained.clone());
        registry.register(
            "nodes_termination_duration_seconds",
            "From the deletion of a node until it is gone",
            self.nodes_termination.clone(),
        );
        registry.register(
            "nodes_lifetime_duration_seconds",
            "The age of nodes when they go",
            self.nodes_lifetime.clone(),
        );
    }
}

/// Which call to the cloud was made, for whom.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) controller: &'static str,
    pub(crate) method: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) node_pool: String,
}

/// The value of the label `error` for a failed launch.
pub(crate) fn launch_failure<T>(result: &Result<T, LaunchError>) -> Option<&'static str> {
    result.as_ref().err().map(LaunchError::metric)
}

/// The value of the label `error` for any other failed call.
pub(crate) fn failure<T>(result: &Result<T, ProviderError>) -> Option<&'static str> {
    result.as_ref().err().map(|_| "unknown")
}

/// Who answers scrapes.
pub struct Exporter {
    registry: Registry,
}

impl Exporter {
    /// Answers with what `metrics` counted and with what `state` is. `build` is shown as version and commit.
    pub fn new(
        metrics: &Metrics,
        state: &Shared,
        rules: &LabelRules,
        environment: Arc<dyn Environment>,
        build: (&str, &str),
        with_cluster_state: bool,
    ) -> Self {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let (version, commit) = build;
        let labels: Labels<4> = [
            ("version", version.to_owned()),
            ("goversion", String::new()),
            ("goarch", std::env::consts::ARCH.to_owned()),
            ("commit", commit.to_owned()),
        ];
        let build: Family<Labels<4>, Gauge> = Family::default();
        build.get_or_create(&labels).set(1);
        registry.register("karpenter_build_info", "Which build this is", build);
        if with_cluster_state {
            registry.register_collector(Box::new(cluster::ClusterState::new(
                Arc::clone(state),
                rules,
                Arc::clone(&environment),
            )));
            registry
                .register_collector(Box::new(conditions::Conditions::new(Arc::clone(state), environment)));
        }
        Self { registry }
    }

    /// The answer to a scrape, in the text format of `OpenMetrics`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
