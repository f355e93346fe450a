//! What a node carries: resources of its pods and daemons, and the host ports they occupy.

use std::collections::{BTreeSet, HashMap};

use super::daemons::{daemons_of_outcome, load_of, remaining_on_node};
use super::{Examination, Place, Site};
use crate::claim::{ClaimView, Outcome};
use crate::resources::{HostPort, add, add_times, exceeded};
use crate::scenario::ResourceList;
use crate::violation::{Violation, ViolationKind};
use crate::world::{NodeFacts, World};

/// For each listed type of a claim, the sets of daemons its nodes may run.
type DaemonSets = Vec<BTreeSet<BTreeSet<usize>>>;

pub(super) fn violations(examination: &Examination<'_>) -> Vec<Violation> {
    let world = examination.world;
    let mut violations = Vec::new();
    let mut known: HashMap<usize, DaemonSets> = HashMap::new();
    for site in examination.sites.iter().filter(|s| !s.placed.is_empty()) {
        match site.place {
            Place::Node(node) => violations.extend(node_load(site, node, world)),
            Place::Claim(view, position) => {
                let daemons =
                    known.entry(examination.shapes[position]).or_insert_with(|| daemon_sets(view, world));
                violations.extend(claim_load(site, view, daemons, world));
                violations.extend(daemon_port_clash(site, view, daemons, world));
            }
        }
        violations.extend(pod_port_clash(site, world));
    }
    violations
}

fn daemon_sets(view: &ClaimView<'_>, world: &World<'_>) -> DaemonSets {
    view.types
        .iter()
        .map(|listed| {
            let outcomes = listed.offerings.iter().map(|offering| Outcome { view, listed, offering });
            outcomes.map(|o| daemons_of_outcome(&o, world)).collect()
        })
        .collect()
}

/// Sums the requests of pods, given as class and count.
fn load(pods: impl Iterator<Item = (usize, usize)>, world: &World<'_>) -> ResourceList {
    let mut total = ResourceList::new();
    for (class, count) in pods {
        add_times(&mut total, &world.classes[class].requests, count);
    }
    total
}

fn placed(site: &Site<'_>) -> impl Iterator<Item = (usize, usize)> {
    site.placed.iter().map(|(class, count)| (*class, *count))
}

/// Every listed type must carry the pods and whatever daemons come with it.
fn claim_load(
    site: &Site<'_>,
    view: &ClaimView<'_>,
    daemons: &DaemonSets,
    world: &World<'_>,
) -> Option<Violation> {
    let pods = load(placed(site), world);
    for (listed, sets) in view.types.iter().zip(daemons) {
        for set in sets {
            let mut total = load_of(set, world);
            add(&mut total, &pods);
            if let Some(resource) = exceeded(&total, &listed.facts.allocatable) {
                let message =
                    format!("pods and daemons do not fit `{}`: too little {resource}", listed.facts.name);
                return Some(Violation::new(ViolationKind::Resources, site.name, message));
            }
        }
    }
    None
}

/// Only what the new pods ask for can be refused to them.
fn node_load(site: &Site<'_>, node: &NodeFacts<'_>, world: &World<'_>) -> Option<Violation> {
    let wanted = load(placed(site), world);
    let mut total = load(placed(site).chain(site.bound.iter().copied()), world);
    add(&mut total, &remaining_on_node(node, world));
    total.retain(|name, _| wanted.get(name).is_some_and(|amount| amount.is_positive()));
    let resource = exceeded(&total, &node.allocatable)?;
    let message = format!("pods and daemons do not fit the node: too little {resource}");
    Some(Violation::new(ViolationKind::Resources, site.name, message))
}

fn pod_port_clash(site: &Site<'_>, world: &World<'_>) -> Option<Violation> {
    let mut taken: Vec<&HostPort> =
        site.bound.iter().flat_map(|(class, _)| &world.classes[*class].ports).collect();
    for (class, count) in placed(site) {
        let ports = &world.classes[class].ports;
        let other = ports.iter().find_map(|port| taken.iter().find(|t| t.clashes_with(port)));
        let twice = (count > 1 && !ports.is_empty()).then(|| &ports[0]);
        if let Some(port) = other.copied().or(twice) {
            let message =
                format!("{} wants host port {}, which is taken", world.classes[class].group, port.describe());
            return Some(Violation::new(ViolationKind::HostPort, site.name, message));
        }
        taken.extend(ports);
    }
    None
}

fn daemon_port_clash(
    site: &Site<'_>,
    view: &ClaimView<'_>,
    daemons: &DaemonSets,
    world: &World<'_>,
) -> Option<Violation> {
    for (listed, sets) in view.types.iter().zip(daemons) {
        for daemon in sets.iter().flatten() {
            let daemon = &world.daemons[*daemon];
            let clash = placed(site).find(|(class, _)| {
                let ports = &world.classes[*class].ports;
                ports.iter().any(|port| daemon.ports.iter().any(|d| d.clashes_with(port)))
            });
            if let Some((class, _)) = clash {
                let group = &world.classes[class].group;
                let message =
                    format!("{group} wants a host port of daemon {} on `{}`", daemon.name, listed.facts.name);
                return Some(Violation::new(ViolationKind::HostPort, site.name, message));
            }
        }
    }
    None
}
