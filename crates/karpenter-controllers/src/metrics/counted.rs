//! The table of everything that is counted: name, kind, labels and meaning of each metric, as upstream has them.

use super::conditions::Transitions;
use super::series::{Counters, Declared, Exposition, Gauges, Histograms, Summaries};
use super::solves::Solves;

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
/// Buckets of the time a restart takes.
const RESTARTS: &[f64] = &[10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0];
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
/// Buckets of the time a look at a key takes: those of most durations, up to a minute.
const LOOKS: &[f64] = DURATIONS.split_at(40).0;
/// Buckets of the time an item of a work queue takes.
const ITEMS: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0];
/// Buckets of the time the API server takes to answer: each half as long again as the one before.
const REQUESTS: &[f64] = &[
    0.001, 0.0015, 0.00225, 0.003_375, 0.005_063, 0.007_594, 0.011_391, 0.017_086, 0.025_629, 0.038_443,
    0.057_665, 0.086_498, 0.129_746, 0.194_62, 0.291_929, 0.437_894, 0.656_841, 0.985_261, 1.477_892,
    2.216_838,
];
/// Buckets of the share saved over the share disturbed.
const SCORES: &[f64] = &[0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];
/// Buckets where none are needed.
const NONE: &[f64] = &[];

const fn count(labels: &[&str]) -> usize {
    labels.len()
}

/// Declares the struct of metrics and how it is registered; each field's doc comment is the metric's help.
macro_rules! metrics_table {
    ($($(#[doc = $help:literal])+ $field:ident: $kind:ident = $name:literal, [$($label:literal),*] $(, $buckets:ident)?;)+) => {
        /// Everything that is counted. Clones share their counts.
        #[derive(Clone)]
        pub struct Metrics {
            $($(#[doc = $help])+ pub(crate) $field: $kind<{ count(&[$($label),*]) }>,)+
            /// Plans under way.
            pub(crate) solves: Solves,
            /// How conditions of objects change.
            pub(crate) transitions: Transitions,
        }

        impl Default for Metrics {
            fn default() -> Self {
                let metrics = Self {
                    $($field: Declared::declare([$($label),*], [$($buckets,)? NONE][0]),)+
                    solves: Solves::default(),
                    transitions: Transitions::default(),
                };
                // Whoever watches for time-outs should find that there are none.
                for method in ["multi", "single"] {
                    metrics.consolidation_timeouts.of(&[("consolidation_type", method.to_owned())]);
                }
                metrics
            }
        }

        impl Metrics {
            pub(super) fn register(&self, exposition: &mut Exposition) {
                $(self.$field.register($name, concat!($($help),+).trim_ascii(), exposition);)+
                exposition.registry.register_collector(Box::new(self.solves.clone()));
            }

            #[cfg(test)]
            pub(super) fn touch(&self) {
                $(self.$field.touch();)+
            }
        }
    };
}

metrics_table! {
    /// How long plans take
    scheduling_duration: Histograms = "karpenter_scheduler_scheduling_duration_seconds", ["controller"], DURATIONS;
    /// Waiting pods that Karpenter cannot plan for
    ignored_pods: Gauges = "karpenter_scheduler_ignored_pods_count", [];
    /// Waiting pods without a place in the last plan
    unschedulable_pods: Gauges = "karpenter_scheduler_unschedulable_pods_count", ["controller"];
    /// Waiting pods by the zone they can be in: its name, flexible for several, none for none
    pending_by_zone: Gauges = "karpenter_scheduler_pending_pods_by_effective_zone_count", ["controller", "zone"];

    /// NodeClaims created
    nodeclaims_created: Counters = "karpenter_nodeclaims_created_total", ["reason", "nodepool", "min_values_relaxed"];
    /// NodeClaims whose deletion was started, by cause
    nodeclaims_disrupted: Counters = "karpenter_nodeclaims_disrupted_total",
        ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"];
    /// Broken nodes whose repair was started
    unhealthy_disrupted: Counters = "karpenter_nodeclaims_unhealthy_disrupted_total",
        ["condition", "nodepool", "capacity_type", "image_id", "termination_mode"];
    /// NodeClaims gone
    nodeclaims_terminated: Counters = "karpenter_nodeclaims_terminated_total", ["nodepool", "capacity_type", "zone"];
    /// From the deletion of a NodeClaim until it is gone
    nodeclaims_termination: Histograms = "karpenter_nodeclaims_termination_duration_seconds", ["nodepool"], ENDS;
    /// From the order to stop a machine until it is gone
    instance_termination: Histograms = "karpenter_nodeclaims_instance_termination_duration_seconds", ["nodepool"], STOPS;

    /// Nodes that joined
    nodes_created: Counters = "karpenter_nodes_created_total", ["nodepool", "zone"];
    /// Nodes gone
    nodes_terminated: Counters = "karpenter_nodes_terminated_total", ["nodepool", "zone"];
    /// Nodes drained
    nodes_drained: Counters = "karpenter_nodes_drained_total", ["nodepool"];
    /// From the deletion of a node until it is gone
    nodes_termination: Summaries = "karpenter_nodes_termination_duration_seconds", ["nodepool"];
    /// The age of nodes when they go
    nodes_lifetime: Histograms = "karpenter_nodes_lifetime_duration_seconds", ["nodepool"], LIFETIMES;
    /// Restarts of machines that are over, by how they ended
    reboots: Counters = "karpenter_nodes_reboots_total", ["result"];
    /// From the decision to restart a machine until that is over
    reboot_duration: Histograms = "karpenter_nodes_reboot_duration_seconds", ["result"], RESTARTS;
    /// From the order to restart a machine until its node is back
    reboot_recovery: Histograms = "karpenter_nodes_reboot_recovery_duration_seconds", [], RESTARTS;

    /// From a pod's creation until it is ready
    pods_startup: Summaries = "karpenter_pods_startup_duration_seconds", [];
    /// From a pod's creation until it is bound
    pods_bound: Histograms = "karpenter_pods_bound_duration_seconds", ["dynamic_resources"], DURATIONS;
    /// From the moment a place was planned for a pod until it is bound
    pods_provisioning_bound: Histograms = "karpenter_pods_provisioning_bound_duration_seconds", ["dynamic_resources"], DURATIONS;
    /// From the moment a place was planned for a pod until it is ready
    pods_provisioning_startup: Histograms = "karpenter_pods_provisioning_startup_duration_seconds", [], DURATIONS;
    /// From the moment a pod was taken note of until a plan said something about it
    pods_decision: Histograms = "karpenter_pods_scheduling_decision_duration_seconds", [], DURATIONS;
    /// Answers to evictions
    evictions: Counters = "karpenter_pods_eviction_requests_total", ["code"];
    /// Pods that were evicted, or deleted because their node has no more time
    pods_drained: Counters = "karpenter_pods_drained_total", ["reason"];
    /// Pods that have to move because the deletion of their NodeClaim was started
    pods_disrupted: Counters = "karpenter_pods_disruption_initiated_total",
        ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"];

    /// Moves begun
    decisions: Counters = "karpenter_voluntary_disruption_decisions_total", ["decision", "reason", "consolidation_type"];
    /// Moves begun, once for each NodePool they take nodes from
    decisions_by_nodepool: Counters = "karpenter_voluntary_disruption_decisions_by_nodepool_total",
        ["nodepool", "decision", "reason", "consolidation_type"];
    /// Nodes that went before their replacement, because both could not exist at once
    terminate_first: Counters = "karpenter_voluntary_disruption_terminate_first_decisions_total",
        ["nodepool", "reason", "terminate_first_reason"];
    /// Moves that came to nothing
    queue_failures: Counters = "karpenter_voluntary_disruption_queue_failures_total",
        ["decision", "reason", "consolidation_type"];
    /// Moves that were no longer good at the second look
    failed_validations: Counters = "karpenter_voluntary_disruption_failed_validations_total", ["consolidation_type"];
    /// Looks for moves that were broken off; every candidate is looked at, so there are none
    consolidation_timeouts: Counters = "karpenter_voluntary_disruption_consolidation_timeouts_total", ["consolidation_type"];
    /// How long it takes to find moves
    evaluation: Histograms = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
        ["reason", "consolidation_type"], DURATIONS;
    /// Nodes that could be disrupted at the last look
    eligible_nodes: Gauges = "karpenter_voluntary_disruption_eligible_nodes", ["reason"];
    /// Scores of moves in NodePools that weigh savings against disturbance
    consolidation_score: Histograms = "karpenter_consolidation_score", ["decision", "nodepool", "policy"], SCORES;
    /// Moves that were weighed, approved or rejected
    consolidation_moves: Counters = "karpenter_consolidation_moves_total", ["decision", "nodepool", "policy"];

    /// What the nodes of a NodePool cost per hour
    nodepool_cost: Gauges = "karpenter_nodepools_cost_total", ["nodepool"];
    /// Nodes whose price is not known
    cost_errors: Counters = "karpenter_nodepools_cost_tracker_errors_total", ["nodepool"];

    /// Nodes whose pods still need another pod-deletion-cost
    deletion_cost_pending: Gauges = "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes", ["nodepool"];
    /// Writes of pod-deletion-cost
    deletion_cost_writes: Counters = "karpenter_pod_deletion_cost_pod_annotation_writes_total", ["result"];

    /// Calls to the cloud
    cloud_duration: Histograms = "karpenter_cloudprovider_duration_seconds", ["controller", "method", "provider"], ANSWERS;
    /// Calls to the cloud that failed
    cloud_errors: Counters = "karpenter_cloudprovider_errors_total", ["controller", "method", "provider", "error", "nodepool"];

    /// Looks at keys, by how they ended
    reconciles: Counters = "controller_runtime_reconcile_total", ["controller", "result"];
    /// Looks at keys that failed and will be taken again
    reconcile_errors: Counters = "controller_runtime_reconcile_errors_total", ["controller"];
    /// How long looks at keys take, with everything that is done about them
    reconcile_time: Histograms = "controller_runtime_reconcile_time_seconds", ["controller"], LOOKS;
    /// How often a look at a key was asked for
    queue_adds: Counters = "workqueue_adds_total", ["controller", "name"];
    /// How often a key is looked at again because something failed
    queue_retries: Counters = "workqueue_retries_total", ["controller", "name"];
    /// How long keys are being worked on
    queue_work: Histograms = "workqueue_work_duration_seconds", ["controller", "name"], ITEMS;
    /// Requests to the API server
    requests: Counters = "client_go_request_total", ["code", "method"];
    /// How long the API server takes to answer
    request_duration: Histograms = "client_go_request_duration_seconds",
        ["verb", "group", "version", "kind", "subresource"], REQUESTS;
}
