//! Which daemons a node will run, and what they take from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::claim::{ClaimView, Outcome};
use crate::labels::{Condition, States};
use crate::quantity::Quantity;
use crate::resources::{add, amount};
use crate::scenario::ResourceList;
use crate::selector::untolerated;
use crate::world::{DaemonFacts, NodeFacts, TypeFacts, World};

/// Returns the daemons that may run on a node the claim may become.
pub(super) fn daemons_of_outcome(outcome: &Outcome<'_>, world: &World<'_>) -> BTreeSet<usize> {
    let runs = |daemon: &DaemonFacts<'_>| {
        untolerated(outcome.view.pool.taints, &daemon.daemon.template.spec.tolerations).is_none()
            && daemon.conditions.may_hold(outcome)
    };
    world.daemons.iter().enumerate().filter(|(_, d)| runs(d)).map(|(i, _)| i).collect()
}

/// Returns what daemons will still take from a node: all that suit it, less those already running.
pub(super) fn remaining_on_node(node: &NodeFacts<'_>, world: &World<'_>) -> ResourceList {
    let mut wanted = ResourceList::new();
    for daemon in &world.daemons {
        let tolerated = untolerated(&node.taints, &daemon.daemon.template.spec.tolerations).is_none();
        if tolerated && daemon.conditions.hold(node) {
            add(&mut wanted, &daemon.requests);
        }
    }
    let mut running = ResourceList::new();
    for (class, count) in &node.bound {
        let class = &world.classes[*class];
        if class.pod.metadata.owner_references.iter().any(|o| o.kind == "DaemonSet") {
            crate::resources::add_times(&mut running, &class.requests, *count);
        }
    }
    wanted
        .into_iter()
        .map(|(name, total)| {
            let left = total - amount(&running, &name);
            (name, left.floored_at_zero())
        })
        .collect()
}

/// Returns the requests of a set of daemons.
pub(super) fn load_of(daemons: &BTreeSet<usize>, world: &World<'_>) -> ResourceList {
    let mut total = ResourceList::new();
    for daemon in daemons {
        add(&mut total, &world.daemons[*daemon].requests);
    }
    total
}

/// Returns, per resource, the least and the most daemons take over the listed types of a claim.
///
/// Here a daemon counts as soon as pool and type could suit it, before the claim's own requirements: that is
/// what a claim's printed requests are defined by.
pub(super) fn template_overheads(view: &ClaimView<'_>, world: &World<'_>) -> (ResourceList, ResourceList) {
    let sets: BTreeSet<BTreeSet<usize>> =
        view.types.iter().map(|listed| daemons_of_template(view, listed.facts, world)).collect();
    let loads: Vec<ResourceList> = sets.iter().map(|set| load_of(set, world)).collect();
    let names: BTreeSet<&String> = loads.iter().flat_map(BTreeMap::keys).collect();
    let over = |pick: fn(Quantity, Quantity) -> Quantity| -> ResourceList {
        let extreme = |name: &String| loads.iter().map(|l| amount(l, name)).reduce(pick).unwrap_or_default();
        names.iter().map(|name| ((*name).clone(), extreme(name))).collect()
    };
    (over(Ord::min), over(Ord::max))
}

fn daemons_of_template(view: &ClaimView<'_>, facts: &TypeFacts<'_>, world: &World<'_>) -> BTreeSet<usize> {
    let suits = |conditions: &[Condition]| {
        conditions.iter().all(|c| {
            let by_pool = view.pool.permitted.get(&c.key).unwrap_or_else(|| world.undefined_label(&c.key));
            let by_type: &States = facts.labels.get(&c.key).unwrap_or(&world.anything);
            by_pool.intersects(&c.permitted) && by_type.intersects(&c.permitted)
        })
    };
    let runs = |daemon: &DaemonFacts<'_>| {
        let terms = &daemon.conditions.any_term;
        untolerated(view.pool.taints, &daemon.daemon.template.spec.tolerations).is_none()
            && suits(&daemon.conditions.all)
            && (terms.is_empty() || terms.iter().any(|term| suits(term)))
    };
    world.daemons.iter().enumerate().filter(|(_, d)| runs(d)).map(|(i, _)| i).collect()
}
