//! Karpenter's controllers: they look at the cluster, have the core decide, and say what to write.
//!
//! Every controller is a [`karpenter_runtime::Controller`]: synchronous, without I/O, returning effects. What it knows lies in the runtime's
//! caches and in the shared [`state`]; what it asks of the cloud goes through [`cloud`]. Start at [`Karpenter::install`].

mod assortment;
mod buffers;
mod cloud;
mod comparison;
mod conditions;
mod deletion_cost;
mod disruption;
mod events;
mod fence;
mod interruption;
mod launches;
mod lint;
mod metrics;
mod node;
mod node_class;
mod nodeclaim;
mod nodepool;
mod observed;
mod overlays;
mod patches;
mod places;
mod provisioning;
mod registrations;
mod spread_defaults;
mod state;
mod static_capacity;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use karpenter_api::LabelRules;
use karpenter_api::options::{FeatureGate, FeatureGates};
use karpenter_core::SolverOptions;
use karpenter_provider::{NodeClassObject, Provider, RepairAction, RepairPolicies};
use karpenter_runtime::{Controller, Kind, Runtime};

use assortment::Assortment;
pub use comparison::{Comparison, Comparisons};
pub use disruption::DisruptionSettings;
pub use metrics::{Exporter, Exposure, Metrics};
pub use node_class::{KeepNodeClass, NodeClasses, Readiness, keep, keep_if_served};
pub use nodeclaim::FINALIZER;
pub use observed::ObservedPod;
pub use provisioning::{BatchSettings, Computing};
pub use state::{Shared, SharedState};

/// How Karpenter is set up.
#[derive(Clone)]
pub struct Karpenter {
    /// Where machines come from.
    pub provider: Arc<dyn Provider>,
    /// Settings of the solver.
    pub solver: SolverOptions,
    /// How long pods are collected before planning.
    pub batching: BatchSettings,
    /// Where plans are computed.
    pub computing: Computing,
    /// How nodes are disrupted voluntarily.
    pub disruption: DisruptionSettings,
    /// Spread constraints that kube-scheduler gives pods which have none.
    pub spread_defaults: Vec<TopologySpreadConstraint>,
    /// Which optional features are on.
    pub gates: FeatureGates,
    /// Where it is counted what happens.
    pub metrics: Metrics,
}

impl Karpenter {
    /// Karpenter with everything at its default.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider,
            solver: SolverOptions::default(),
            batching: BatchSettings {
                idle: Duration::from_secs(1),
                idle_in_a_crowd: Duration::from_secs(1),
                longest: Duration::from_secs(10),
            },
            computing: Computing::Aside,
            disruption: DisruptionSettings::default(),
            spread_defaults: Vec::new(),
            gates: FeatureGates::default(),
            metrics: Metrics::default(),
        }
    }

    /// The provider's repair policies, if repair is on.
    ///
    /// # Errors
    ///
    /// What is wrong with them: then Karpenter should not be started.
    pub fn repair_policies(&self) -> Result<Option<RepairPolicies>, String> {
        if !self.gates.is_on(FeatureGate::NodeRepair) {
            return Ok(None);
        }
        let policies = RepairPolicies::new(self.provider.repair_policies());
        let provider = self.provider.name();
        policies.map(Some).map_err(|mistakes| {
            format!("NodeRepair cannot be used with provider {provider}: {}", mistakes.join("; "))
        })
    }

    /// The policies of the old way to repair, where that is wanted: only those that replace a node.
    fn legacy_policies(&self) -> Option<RepairPolicies> {
        if !self.disruption.legacy_repair || !self.gates.is_on(FeatureGate::NodeRepair) {
            return None;
        }
        let policies = self.provider.repair_policies().into_iter();
        RepairPolicies::new(policies.filter(|policy| policy.action == RepairAction::ReplaceNode).collect())
            .ok()
    }

    /// Adds all controllers to `runtime`, for a provider whose only NodeClass is `C`.
    pub fn install<C: Kind + NodeClassObject>(&self, runtime: &mut Runtime) -> Shared {
        self.install_for(runtime, &[keep::<C>])
    }

    /// Adds all controllers to `runtime`, with one of `keepers` for each of the provider's NodeClasses: `&[keep::<A>, keep::<B>]`. Without
    /// sound repair policies nothing is repaired, see [`Self::repair_policies`]. Controllers of the provider's own are added by the provider.
    pub fn install_for(&self, runtime: &mut Runtime, keepers: &[KeepNodeClass]) -> Shared {
        let rules = self.provider.label_rules();
        let classes = self.provider.node_classes();
        let state = SharedState::new(&rules);
        runtime.measure_with(Arc::new(self.metrics.clone()));
        let node_classes = NodeClasses::new(self.metrics.transitions.clone());
        state.lock().set_node_classes(node_classes.clone());
        let manages_costs = self.gates.is_on(FeatureGate::PodDeletionCostManagement);
        let keeper = state::StateKeeper::new(state.clone(), &rules, manages_costs)
            .with_spread(&self.spread_defaults)
            .with_workloads(self.gates.is_on(FeatureGate::CapacityBuffer));
        runtime.add(keeper);
        if manages_costs {
            runtime.add(deletion_cost::DeletionCosts::new(state.clone(), self.metrics.clone()));
        }
        keepers.iter().for_each(|keep| keep(&node_classes, runtime));
        runtime.add(nodepool::NodePools::new(state.clone(), rules.clone(), classes, node_classes.clone()));
        let lint = lint::Lint::new(rules.clone(), classes, node_classes.clone());
        let assortment = self.assortment(&state);
        runtime.add_with(lint, lint::handler(assortment.clone()));
        let drift = nodeclaim::DriftDetection::new(state.clone(), rules.clone(), node_classes.clone());
        runtime.add_with(
            drift,
            nodeclaim::drift_handler((self.provider.clone(), assortment.clone()), self.metrics.clone()),
        );
        let planner = provisioning::Planner::new(assortment.clone(), self.computing, self.metrics.clone());
        let movers = disruption::MovePlanner::new(assortment, self.computing, self.metrics.clone());
        let policies = self.repair_policies().unwrap_or_default().filter(|_| !self.disruption.legacy_repair);
        let disruption = disruption::Disruption::new(
            state.clone(),
            rules.clone(),
            self.solver.clone(),
            self.disruption.clone(),
            (self.gates, policies),
            self.metrics.clone(),
        );
        self.add_optional(runtime, &state, (&rules, node_classes));
        let handle = runtime.handle();
        let provisioner = provisioning::Provisioner::new(
            state.clone(),
            rules,
            self.solver.clone(),
            self.batching,
            self.metrics.clone(),
            handle.clone(),
        );
        runtime.add_with(provisioner, move |request| planner.plan(request));
        let lifecycle =
            nodeclaim::Lifecycle::new(state.clone(), self.provider.clone(), self.metrics.clone(), handle);
        self.add_asking(lifecycle, runtime);
        self.add_asking(nodeclaim::GarbageCollection::new(state.clone(), self.metrics.clone()), runtime);
        self.add_asking(node::Termination::new(state.clone(), classes, self.metrics.clone()), runtime);
        if self.provider.warns() {
            self.add_asking(interruption::Interruption::new(state.clone(), self.metrics.clone()), runtime);
        }
        self.add_asking(nodeclaim::Reboots::new(state.clone(), self.metrics.clone()), runtime);
        runtime.add_with(disruption, move |request| movers.plan(request));
        let labels = metrics::ObjectLabels::new(classes);
        let observed = (self.metrics.clone(), state.clone());
        runtime.add(metrics::Observer::new(observed.0, observed.1, labels, runtime.environment()));
        state
    }

    /// Adds the controllers of features that are switched on.
    fn add_optional(
        &self,
        runtime: &mut Runtime,
        state: &Shared,
        (rules, node_classes): (&LabelRules, NodeClasses),
    ) {
        if let Some(policies) = self.legacy_policies() {
            runtime.add(node::LegacyRepair::new(state.clone(), policies, self.metrics.clone()));
        }
        if self.gates.is_on(FeatureGate::StaticCapacity) {
            runtime.add(static_capacity::StaticCapacity::new(
                state.clone(),
                rules.clone(),
                self.provider.node_classes(),
                self.metrics.clone(),
            ));
        }
        if self.gates.is_on(FeatureGate::NodeOverlay) {
            let provider = self.provider.clone();
            let overlays =
                overlays::NodeOverlays::new(state.clone(), rules.clone(), provider.clone(), node_classes);
            runtime.add_with(overlays, overlays::handler(provider, self.computing));
        }
        if self.gates.is_on(FeatureGate::CapacityBuffer) {
            let handle = runtime.handle();
            runtime.add(buffers::Buffers::new(state.clone(), rules.clone(), handle));
        }
    }

    /// Adds a controller that compares what nodes cost with what ours would, and returns where its answers are found.
    pub fn compare(&self, runtime: &mut Runtime, state: &Shared) -> Comparisons {
        let comparisons = Comparisons::default();
        let rules = self.provider.label_rules();
        let comparing =
            comparison::Comparing::new(state.clone(), rules, self.solver.clone(), comparisons.clone());
        runtime.add_with(comparing, comparison::handler(self, state));
        comparisons
    }

    /// What can be bought.
    fn assortment(&self, state: &Shared) -> Assortment {
        let overlays = self.gates.is_on(FeatureGate::NodeOverlay).then(|| state.clone());
        Assortment::new(self.provider.clone(), overlays)
    }

    /// Adds a controller that asks the provider.
    fn add_asking<K>(&self, controller: K, runtime: &mut Runtime)
    where
        K: Controller<Request = cloud::CloudRequest, Reply = cloud::CloudReply>,
    {
        let handler = cloud::handler(controller.name(), self.provider.clone(), self.metrics.clone());
        runtime.add_with(controller, handler);
    }
}
