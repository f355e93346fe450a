//! The scenarios, in the order in which they run.

mod disruption;
mod faults;
mod life;
mod limits;
mod rights;
mod secrets;

use futures::future::BoxFuture;

use crate::cluster::Cluster;

/// One scenario.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Cluster) -> BoxFuture<'static, anyhow::Result<()>>,
}

macro_rules! scenarios {
    ($($module:ident::$name:ident),+ $(,)?) => {
        &[$(Scenario { name: stringify!($name), run: |cluster| Box::pin($module::$name(cluster)) }),+]
    };
}

/// The first one installs the definitions that the others need, the last one removes them.
pub(crate) const ALL: &[Scenario] = scenarios![
    faults::a_missing_definition_is_waited_for,
    life::pods_become_nodes_and_nodes_go_with_them,
    life::a_deleted_claim_waits_for_the_budget_of_its_pods,
    life::pods_are_spread_over_zones,
    life::claims_are_listed_as_upstream_lists_them,
    disruption::consolidation_keeps_every_promise,
    limits::a_pool_stays_within_its_limits,
    limits::an_invalid_requirement_is_refused,
    limits::an_unknown_node_class_is_named,
    faults::a_killed_controller_launches_nothing_twice,
    faults::a_closed_road_loses_nothing,
    faults::renewed_credentials_are_taken_up,
    faults::of_two_replicas_one_acts,
    faults::a_killed_leader_is_followed_and_nothing_is_doubled,
    faults::a_leader_that_was_stopped_ends_when_another_one_leads,
    rights::a_whole_life_under_leadership,
    secrets::no_secret_is_told,
    life::an_uninstalled_karpenter_leaves_nothing_behind,
];
