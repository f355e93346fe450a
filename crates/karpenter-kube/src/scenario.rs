//! Scenario files: a whole cluster in one JSON document, for `karpenter solve`, tests and benchmarks.
//!
//! [`load`] reads a scenario (or a case file that holds one) into a [`Problem`], everything a plan depends on; [`outcome`]
//! turns the plan back into the result format. `docs/scenario.md` describes both.

mod buffers;
mod catalog;
mod disruption;
mod format;
mod nodes;
mod outcome;
mod place;
mod pods;

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{LabelRules, NodePool};
use karpenter_core::SolverOptions;
use karpenter_core::catalog::{Catalog, apply_overlays};
use karpenter_core::cluster::{self, ClusterSnapshot};
use karpenter_core::plan::{MinValuesPolicy, PackingPolicy, PreferencePolicy};
use rustc_hash::FxHashSet;
use serde_json::Value;

use crate::daemon_set::daemon_set;
use crate::disruption_budget::disruption_budget;
use crate::interner::Interner;
use crate::invalid::{At, Invalid, each};
use crate::labels::label_rules;
use crate::namespace::named;
use crate::node_pool::{is_dynamic, node_pool};
use crate::overlay::node_overlay;
use crate::volume::{persistent_volume, storage_class, volume_claim};

pub use disruption::{Command, DisruptionFigures, DisruptionOutcome, NodeExplanation, disruption_outcome};
use format::Scenario;
pub use outcome::{Cheapest, Claim, ExistingNode, Explanation, Outcome, PlanFigures, figures, outcome};
use pods::{Groups, PodSource};

/// What a scenario asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Places for the pending pods.
    Schedule,
    /// Nodes that can be removed or replaced.
    Disrupt,
}

/// Everything the plan for a scenario depends on.
#[derive(Debug)]
pub struct Problem {
    /// The scenario's name; empty when it has none.
    pub name: String,
    /// What is asked.
    pub mode: Mode,
    /// The cluster.
    pub snapshot: ClusterSnapshot,
    /// What can be bought.
    pub catalog: Catalog,
    /// Settings of the solver.
    pub options: SolverOptions,
    /// Whether spot nodes may be replaced by cheaper spot nodes.
    pub spot_to_spot: bool,
    /// The instant the scenario is set in.
    pub now: Timestamp,
    /// NodeOverlays left out because they contradict others.
    conflicting_node_overlays: Vec<String>,
    /// Pods that no node is planned for, by `namespace/name`, and why.
    refused: Vec<(String, String)>,
    /// Which pod belongs to which group of the file.
    groups: Groups,
}

/// Reads a scenario or case file.
pub fn load(text: &[u8]) -> Result<Problem, Invalid> {
    let (scenario, holder) = format::parse(text)?;
    let problem = problem(&scenario);
    problem.map_err(|invalid| if holder.is_empty() { invalid } else { invalid.within(holder) })
}

fn problem(scenario: &Scenario<'_>) -> Result<Problem, Invalid> {
    let now = now(scenario.now.as_deref()).at("now")?;
    let rules = LabelRules::for_providers(&[]).with_well_known(scenario.well_known_labels.iter().cloned());
    let mut interner = Interner::default();
    let types = catalog::instance_types(&scenario.instance_types, &rules).at("instanceTypes")?;
    let pools = each(&scenario.node_pools, pool_object).at("nodePools")?;
    unique(pools.iter().map(pool_name)).at("nodePools")?;
    let mut source = PodSource::new(now, &rules, &mut interner);
    let nodes = nodes::nodes(scenario, &types, &pools, &mut source)?;
    let mut pending = source.pending(&scenario.pod_groups).at("podGroups")?;
    buffers::add_virtual_pods(scenario, &mut pending, &mut source).at("capacityBuffers")?;
    let (groups, refused) = source.finish();
    let mut snapshot = ClusterSnapshot {
        node_pools: node_pools(&pools, &rules).at("nodePools")?,
        nodes,
        pending,
        label_rules: Arc::new(label_rules(&rules)),
        ..ClusterSnapshot::default()
    };
    add_objects(&mut snapshot, scenario, (&rules, &mut interner))?;
    let overlays =
        each(&scenario.node_overlays, |written| node_overlay(&format::api_object(written)?, &rules));
    let names = snapshot.node_pools.iter().map(|pool| pool.name.clone());
    let listed = Catalog::shared(names, types.into());
    let (catalog, conflicts) = apply_overlays(&listed, &snapshot.node_pools, &overlays.at("nodeOverlays")?);
    Ok(Problem {
        name: scenario.name.clone(),
        mode: mode(&scenario.mode).at("mode")?,
        catalog,
        snapshot,
        options: options(scenario).at("options")?,
        spot_to_spot: scenario.options.spot_to_spot_consolidation,
        now,
        conflicting_node_overlays: conflicts.iter().map(|conflict| conflict.overlay.to_string()).collect(),
        refused,
        groups,
    })
}

/// The NodeClass that every pool of a scenario refers to.
fn node_class() -> NodeClassReference {
    NodeClassReference {
        group: "karpenter.test.sh".to_owned(),
        kind: "TestNodeClass".to_owned(),
        name: "default".to_owned(),
    }
}

fn pool_object(written: &Value) -> Result<NodePool, Invalid> {
    let mut pool = format::node_pool(written)?;
    pool.spec.template.spec.node_class_ref = node_class();
    Ok(pool)
}

fn pool_name(pool: &NodePool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

fn now(text: Option<&str>) -> Result<Timestamp, Invalid> {
    const DEFAULT: &str = "2026-01-01T12:00:00Z";
    let text = text.filter(|text| !text.is_empty()).unwrap_or(DEFAULT);
    text.parse().map_err(|_| Invalid::new(format!("{text:?} is not an instant; write it like {DEFAULT:?}")))
}

fn mode(word: &str) -> Result<Mode, Invalid> {
    match word {
        "" | "schedule" => Ok(Mode::Schedule),
        "disrupt" => Ok(Mode::Disrupt),
        other => Err(Invalid::new(format!("{other:?} is not one of schedule, disrupt"))),
    }
}

fn options(scenario: &Scenario<'_>) -> Result<SolverOptions, Invalid> {
    let given = &scenario.options;
    let preferences = match given.preference_policy.as_str() {
        "" | "Respect" => PreferencePolicy::Respect,
        "Ignore" => PreferencePolicy::Ignore,
        other => {
            return Err(Invalid::new(format!("{other:?} is not one of Respect, Ignore")))
                .at("preferencePolicy");
        }
    };
    let min_values = match given.min_values_policy.as_str() {
        "" | "Strict" => MinValuesPolicy::Strict,
        "BestEffort" => MinValuesPolicy::BestEffort,
        other => {
            return Err(Invalid::new(format!("{other:?} is not one of Strict, BestEffort")))
                .at("minValuesPolicy");
        }
    };
    let packing = match given.packing_policy.as_str() {
        "" | "Cheapest" => PackingPolicy::Cheapest,
        "FewestNodes" => PackingPolicy::FewestNodes,
        other => {
            return Err(Invalid::new(format!("{other:?} is not one of Cheapest, FewestNodes")))
                .at("packingPolicy");
        }
    };
    Ok(SolverOptions { preferences, min_values, packing, ..SolverOptions::default() })
}

fn node_pools(pools: &[NodePool], rules: &LabelRules) -> Result<Vec<Arc<cluster::NodePool>>, Invalid> {
    let converted = each(pools, |pool| Ok(Arc::new(node_pool(pool, rules)?)))?;
    let dynamic = pools.iter().zip(converted).filter(|(pool, _)| is_dynamic(pool));
    Ok(dynamic.map(|(_, converted)| converted).collect())
}

/// Refuses names that appear twice: a plan could not say which one it means.
fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Invalid> {
    let mut seen = FxHashSet::default();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            return Err(Invalid::new(format!("the name {name:?} is already taken; names must differ")))
                .at_index(index);
        }
    }
    Ok(())
}

fn add_objects(
    snapshot: &mut ClusterSnapshot,
    scenario: &Scenario<'_>,
    (rules, interner): (&LabelRules, &mut Interner),
) -> Result<(), Invalid> {
    for (index, object) in scenario.daemon_sets.iter().enumerate() {
        let converted =
            daemon_set(&object.object(), None, rules, interner).at_index(index).at("daemonSets")?;
        snapshot.daemon_sets.push(converted);
    }
    add_namespaces(snapshot, scenario, interner);
    for object in &scenario.storage_classes {
        let class = storage_class(object, rules);
        snapshot.storage_classes.insert(class.name.clone(), class);
    }
    for volume in each(&scenario.persistent_volumes, |object| persistent_volume(object, rules))
        .at("persistentVolumes")?
    {
        snapshot.volumes.insert(volume.name.clone(), volume);
    }
    for object in &scenario.persistent_volume_claims {
        let claim = volume_claim(object);
        snapshot.volume_claims.insert((claim.namespace.clone(), claim.name.clone()), claim);
    }
    let budgets = each(&scenario.pod_disruption_budgets, disruption_budget).at("podDisruptionBudgets")?;
    snapshot.disruption_budgets = budgets;
    Ok(())
}

/// The namespaces listed, `default`, and every namespace that something lives in.
fn add_namespaces(snapshot: &mut ClusterSnapshot, scenario: &Scenario<'_>, interner: &mut Interner) {
    for namespace in scenario.namespaces.iter().rev() {
        let (name, labels) = named(&namespace.name, Some(&namespace.labels), interner);
        snapshot.namespaces.insert(name, labels);
    }
    let mut lived_in: FxHashSet<Arc<str>> = FxHashSet::default();
    lived_in.insert("default".into());
    lived_in.extend(snapshot.daemon_sets.iter().map(|daemon_set| daemon_set.namespace.clone()));
    let bound = snapshot.nodes.iter().flat_map(|node| &node.pods);
    lived_in.extend(snapshot.pending.iter().chain(bound).map(|pod| pod.id.namespace.clone()));
    for name in lived_in {
        if !snapshot.namespaces.contains_key(&name) {
            let (name, labels) = named(&name, None, interner);
            snapshot.namespaces.insert(name, labels);
        }
    }
}
