//! Metrics with upstream's names and labels.
//!
//! What happened is counted where it is decided or seen ([`Metrics`], [`Observer`]); what *is* (nodes, pods, pools, conditions) is
//! not kept twice: a scrape reads it from the state ([`cluster`], [`conditions`], [`pools`]), so no stale series can be left behind.

mod cluster;
mod conditions;
mod counted;
#[cfg(test)]
mod dashboards;
#[cfg(test)]
mod exposition;
mod exposure;
mod observer;
mod pods;
mod pools;
mod series;
mod solves;
mod work;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use karpenter_api::labels::{CAPACITY_TYPE, NODEPOOL};
use karpenter_api::{GoDuration, NodeClaim};
use karpenter_core::disruption::{DisruptionReason, RepairNeed};
use karpenter_environment::Environment;
use karpenter_provider::{CatalogError, LaunchError, Provider, ProviderError, WarningKind};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

pub(crate) use conditions::{ObjectLabels, Transitions};
pub use counted::Metrics;
pub use exposure::Exposure;
pub(crate) use observer::Observer;
use series::Exposition;
pub(crate) use series::Labels;

use crate::state::{Shared, node_of};

/// Why a claim was taken down, in the words of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disruption {
    Drifted,
    Empty,
    Expired,
    /// The cloud said something about the machine.
    Warned(WarningKind),
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
            Self::Warned(kind) => kind.metric(),
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

impl Metrics {
    /// Takes note of a call to the cloud.
    pub(crate) fn called(&self, call: &Call, took: Duration, failure: Option<&'static str>) {
        let Call { controller, method, provider, node_pool } = call;
        let labels = [("controller", *controller), ("method", *method), ("provider", *provider)];
        let labels = labels.map(|(name, value)| (name, value.to_owned()));
        self.cloud_duration.of(&labels).observe(took.as_secs_f64());
        if let Some(error) = failure {
            let [controller, method, provider] = labels;
            let rest = [("error", error.to_owned()), ("nodepool", node_pool.clone())];
            let [error, node_pool] = rest;
            self.cloud_errors.of(&[controller, method, provider, error, node_pool]).inc();
        }
    }

    /// Takes note of a move that is begun, and of the claims made for it. `labels` are decision, reason and type.
    pub(crate) fn command_started<'a>(
        &self,
        labels: &Labels<3>,
        pools: impl Iterator<Item = &'a str>,
        replacements: impl Iterator<Item = (&'a str, bool)>,
    ) {
        self.decisions.of(labels).inc();
        for pool in pools {
            let [decision, reason, type_] = labels.clone();
            self.decisions_by_nodepool.of(&[("nodepool", pool.to_owned()), decision, reason, type_]).inc();
        }
        for (node_pool, relaxed) in replacements {
            let created = [
                ("reason", labels[1].1.clone()),
                ("nodepool", node_pool.to_owned()),
                ("min_values_relaxed", relaxed.to_string()),
            ];
            self.nodeclaims_created.of(&created).inc();
        }
    }

    /// Takes note of how Balanced pools weighed a move: `approved` or `rejected`.
    pub(crate) fn weighed<'a>(&self, decision: &str, scores: impl Iterator<Item = (&'a str, f64)>) {
        for (pool, score) in scores {
            let labels = [
                ("decision", decision.to_owned()),
                ("nodepool", pool.to_owned()),
                ("policy", "Balanced".to_owned()),
            ];
            self.consolidation_moves.of(&labels).inc();
            self.consolidation_score.of(&labels).observe(score);
        }
    }

    /// Takes note of a move that came to nothing.
    pub(crate) fn command_failed(&self, labels: &Labels<3>) {
        self.queue_failures.of(labels).inc();
    }

    /// Takes note of a move that was no longer good at the second look.
    pub(crate) fn validation_failed(&self, consolidation_type: &'static str) {
        let labels = [("consolidation_type", consolidation_type.to_owned())];
        self.failed_validations.of(&labels).inc();
    }

    /// Takes note that a claim's deletion is started.
    pub(crate) fn disrupted(&self, why: Disruption, claim: &NodeClaim, state: &Shared) {
        let state = state.lock();
        let node_pool = label(claim, NODEPOOL);
        let policy = state.pool(&node_pool).and_then(|pool| pool.spec.disruption.clone());
        let policy = policy.and_then(|disruption| disruption.consolidation_policy);
        let grace = claim.spec.termination_grace_period.as_ref().map(GoDuration::value);
        let labels = [
            ("reason", why.metric().to_owned()),
            ("nodepool", node_pool),
            ("capacity_type", label(claim, CAPACITY_TYPE)),
            ("consolidation_policy", policy.map(|policy| policy.to_string()).unwrap_or_default()),
            ("termination_mode", mode(grace).to_owned()),
        ];
        self.nodeclaims_disrupted.of(&labels).inc();
        let moving = node_of(claim).map_or(0, |node| state.reschedulable_on(node));
        self.pods_disrupted.of(&labels).inc_by(moving);
    }

    /// Takes note that the repair of a claim's node is started.
    pub(crate) fn repaired(&self, need: &RepairNeed, claim: &NodeClaim) {
        let condition = need.cause.split('/').next().unwrap_or_default();
        let image = claim.status.as_ref().and_then(|status| status.image_id.clone());
        let labels = [
            ("condition", condition.to_owned()),
            ("nodepool", label(claim, NODEPOOL)),
            ("capacity_type", label(claim, CAPACITY_TYPE)),
            ("image_id", image.unwrap_or_default()),
            ("termination_mode", mode(need.bound).to_owned()),
        ];
        self.unhealthy_disrupted.of(&labels).inc();
    }

    /// Takes note of an answer to an eviction; 200 means that the pod leaves.
    pub(crate) fn eviction_answered(&self, code: u16) {
        self.evictions.of(&[("code", code.to_string())]).inc();
    }

    /// Takes note of a pod that was made to leave its node. `reason` is that of the claim's disruption.
    pub(crate) fn pod_drained(&self, reason: Option<&str>) {
        self.pods_drained.of(&[("reason", reason.unwrap_or("Forceful Termination").to_owned())]).inc();
    }
}

/// How strictly a drain within this time goes.
fn mode(grace: Option<SignedDuration>) -> &'static str {
    match grace {
        None => "graceful",
        Some(grace) if grace.is_positive() => "eventual",
        Some(_) => "forceful",
    }
}

fn label(claim: &NodeClaim, key: &str) -> String {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
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

/// The value of the label `error` for a catalog that could not be had.
pub(crate) fn catalog_failure<T>(result: &Result<T, CatalogError>) -> Option<&'static str> {
    result.as_ref().err().map(|error| match error {
        CatalogError::NodeClassNotReady(_) => "NodeClassNotReadyError",
        CatalogError::Unevaluated(_) | CatalogError::Failed(_) => "unknown",
    })
}

/// The value of the label `error` for any other failed call.
pub(crate) fn failure<T>(result: &Result<T, ProviderError>) -> Option<&'static str> {
    result.as_ref().err().map(|_| "unknown")
}

/// Who answers scrapes.
pub struct Exporter {
    exposition: Exposition,
    most_series: Option<usize>,
}

impl Exporter {
    /// Answers with what `metrics` counted and with what `state` is. `build` is shown as version and commit.
    pub fn new(
        metrics: &Metrics,
        state: &Shared,
        provider: &dyn Provider,
        environment: &Arc<dyn Environment>,
        build: (&str, &str),
        exposure: Exposure,
    ) -> Self {
        let mut exposition = Exposition::default();
        metrics.register(&mut exposition);
        let (version, commit) = build;
        let labels: Labels<4> = [
            ("version", version.to_owned()),
            ("goversion", String::new()),
            ("goarch", std::env::consts::ARCH.to_owned()),
            ("commit", commit.to_owned()),
        ];
        let build: Family<Labels<4>, Gauge> = Family::default();
        build.get_or_create(&labels).set(1);
        exposition.registry.register("karpenter_build_info", "Which build this is", build);
        let rules = provider.label_rules();
        let registry = &mut exposition.registry;
        provider.register_metrics(registry);
        registry.register_collector(Box::new(cluster::Synchronization::new(Arc::clone(state))));
        if exposure.cluster_state {
            let (state, time) = (|| Arc::clone(state), || Arc::clone(environment));
            registry.register_collector(Box::new(cluster::ClusterState::new(state(), &rules, time())));
            if exposure.pods {
                registry.register_collector(Box::new(pods::Pods::new(state(), time())));
            }
            registry.register_collector(Box::new(pools::Pools::new(state(), rules, time())));
            let classes = provider.node_classes();
            registry.register_collector(Box::new(conditions::Conditions::new(state(), classes, time())));
            metrics.transitions.register(classes, &mut exposition);
        }
        Self { exposition, most_series: exposure.most_series }
    }

    /// The answer to a scrape, in the text format of `OpenMetrics`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.exposition.summaries.iter().for_each(|write| write(&mut text));
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.exposition.registry);
        match self.most_series {
            Some(most) => exposure::bounded(&text, most),
            None => text,
        }
    }
}
