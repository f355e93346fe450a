//! Required pod affinity and anti-affinity.
//!
//! Anti-affinity holds between every two pods whatever the order: an existing pod's term keeps newcomers away
//! just as a newcomer's own term does. Two nodes whose domains are not settled count as sharing one if they
//! might.
//!
//! Affinity depends on order: a pod needs a match in its domain when it arrives, unless it matches its own term
//! and no pod it could have joined is there yet. [`Joining`] looks for an order that satisfies everybody. A
//! match on the same node always helps; one elsewhere only if its domain is settled.

use std::collections::{BTreeMap, BTreeSet};

use super::Examination;
use super::domains::permitted_domains;
use crate::claim::DomainSet;
use crate::labels::{HOSTNAME, States, current_key};
use crate::pod::PodAffinityTerm;
use crate::selector::{namespaces_of_term, selects};
use crate::violation::{Violation, ViolationKind};

/// Orders tried per group of pods that depend on each other; beyond that the plan gets the benefit of doubt.
const ORDERS_MAX: usize = 5_000;

pub(super) fn violations(examination: &Examination<'_>) -> Vec<Violation> {
    let mut topology = Topology { examination, domains: BTreeMap::new() };
    let mut violations = anti_affinity(&mut topology);
    violations.extend(affinity(&mut topology));
    violations
}

/// Where every site may be, by topology key.
struct Topology<'e> {
    examination: &'e Examination<'e>,
    domains: BTreeMap<String, Vec<DomainSet>>,
}

impl Topology<'_> {
    fn learn(&mut self, key: &str) {
        let sites = &self.examination.sites;
        self.domains
            .entry(key.to_owned())
            .or_insert_with(|| sites.iter().map(|site| site.place.domains(key)).collect());
    }

    fn of(&self, key: &str) -> &[DomainSet] {
        self.domains
            .get(key)
            .map(Vec::as_slice)
            .expect("every key of a term was learned when it was compiled")
    }
}

/// A required term of a class of pods.
struct Term {
    key: String,
    /// By class: whether the term picks it.
    matches: Vec<bool>,
}

fn compile(terms: &[PodAffinityTerm], class: usize, topology: &mut Topology<'_>) -> Vec<Term> {
    let world = topology.examination.world;
    let own = &world.classes[class].namespace;
    let compiled = |term: &PodAffinityTerm| {
        let namespaces = namespaces_of_term(term, own, &world.namespaces);
        let picks = |c: &crate::world::PodClass<'_>| {
            namespaces.contains(&c.namespace) && selects(term.label_selector.as_ref(), &c.pod.metadata.labels)
        };
        let key = current_key(&term.topology_key).to_owned();
        topology.learn(&key);
        Term { key, matches: world.classes.iter().map(picks).collect() }
    };
    terms.iter().map(compiled).collect()
}

/// Pods of one class on one site.
#[derive(Clone, Copy)]
struct Unit {
    site: usize,
    class: usize,
    placed: usize,
    bound: usize,
}

fn units(examination: &Examination<'_>) -> Vec<Unit> {
    let mut units = Vec::new();
    for (site, facts) in examination.sites.iter().enumerate() {
        units.extend(facts.placed.iter().map(|(class, n)| Unit {
            site,
            class: *class,
            placed: *n,
            bound: 0,
        }));
        units.extend(facts.bound.iter().map(|(class, n)| Unit { site, class: *class, placed: 0, bound: *n }));
    }
    units
}

fn anti_affinity(topology: &mut Topology<'_>) -> Vec<Violation> {
    let world = topology.examination.world;
    let units = units(topology.examination);
    let mut violations = Vec::new();
    for class in 0..world.classes.len() {
        let terms = &world.classes[class].pod.spec.affinity.pod_anti_affinity.required;
        for term in compile(terms, class, topology) {
            let carriers: Vec<&Unit> = units.iter().filter(|u| u.class == class).collect();
            let matching: Vec<&Unit> = units.iter().filter(|u| term.matches[u.class]).collect();
            let domains = topology.of(&term.key);
            if let Some((carrier, other)) = first_clash(&term, &carriers, &matching, domains) {
                let site = topology.examination.sites[carrier.site].name;
                let message = format!(
                    "{} keeps apart from {} over `{}`, but they share a domain or may come to ({site} and {})",
                    world.classes[class].group,
                    world.classes[other.class].group,
                    term.key,
                    topology.examination.sites[other.site].name
                );
                violations.push(Violation::new(
                    ViolationKind::AntiAffinity,
                    &world.classes[class].group,
                    message,
                ));
            }
        }
    }
    violations
}

fn first_clash<'u>(
    term: &Term,
    carriers: &[&'u Unit],
    matching: &[&'u Unit],
    domains: &[DomainSet],
) -> Option<(&'u Unit, &'u Unit)> {
    let mut by_site: BTreeMap<usize, Vec<&Unit>> = BTreeMap::new();
    let mut by_domain: BTreeMap<&str, Vec<&Unit>> = BTreeMap::new();
    for unit in matching {
        by_site.entry(unit.site).or_default().push(unit);
        if term.key != HOSTNAME {
            for domain in &domains[unit.site].values {
                by_domain.entry(domain).or_default().push(unit);
            }
        }
    }
    carriers.iter().find_map(|carrier| {
        let here = &domains[carrier.site];
        let labelled = !here.values.is_empty() || here.open;
        let beside = by_site
            .get(&carrier.site)
            .into_iter()
            .flatten()
            .find(|other| labelled && (is_new_pair(carrier, other)) && !is_one_pod(carrier, other));
        let elsewhere = || {
            let sharing = here.values.iter().filter_map(|d| by_domain.get(d.as_str())).flatten();
            sharing.copied().find(|other| other.site != carrier.site && is_new_pair(carrier, other))
        };
        beside.copied().or_else(elsewhere).map(|other| (*carrier, other))
    })
}

/// Pods that were together before are not the plan's doing.
fn is_new_pair(a: &Unit, b: &Unit) -> bool {
    a.placed + b.placed > 0
}

fn is_one_pod(a: &Unit, b: &Unit) -> bool {
    a.class == b.class && a.placed == b.placed && a.placed + a.bound == 1
}

fn affinity(topology: &mut Topology<'_>) -> Vec<Violation> {
    let world = topology.examination.world;
    let units = units(topology.examination);
    let mut terms: BTreeMap<usize, Vec<Term>> = BTreeMap::new();
    for unit in units.iter().filter(|u| u.placed > 0) {
        let required = &world.classes[unit.class].pod.spec.affinity.pod_affinity.required;
        if !required.is_empty() && !terms.contains_key(&unit.class) {
            terms.insert(unit.class, compile(required, unit.class, topology));
        }
    }
    let joining = Joining { topology, units: &units, terms: &terms };
    let groups = dependent_groups(&terms);
    let stuck = groups.iter().flat_map(|classes| joining.stuck(classes));
    let report = |unit: usize| {
        let Unit { site, class, .. } = units[unit];
        let message = format!("{} requires pods that are not in its domain", world.classes[class].group);
        Violation::new(ViolationKind::Affinity, topology.examination.sites[site].name, message)
    };
    stuck.map(report).collect()
}

/// Splits the classes with affinity terms into groups whose order of arrival matters to each other.
fn dependent_groups(terms: &BTreeMap<usize, Vec<Term>>) -> Vec<BTreeSet<usize>> {
    let mut groups: Vec<BTreeSet<usize>> = Vec::new();
    for (class, own) in terms {
        let depends = |other: &usize| {
            own.iter().any(|t| t.matches[*other]) || terms[other].iter().any(|t| t.matches[*class])
        };
        let (mut joined, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(|g| g.iter().any(depends));
        groups = apart;
        let mut merged: BTreeSet<usize> = joined.drain(..).flatten().collect();
        merged.insert(*class);
        groups.push(merged);
    }
    groups
}

/// The search for an order of arrival.
struct Joining<'t> {
    topology: &'t Topology<'t>,
    units: &'t [Unit],
    terms: &'t BTreeMap<usize, Vec<Term>>,
}

/// A moment of the search: who has arrived, and who is still to come.
#[derive(Clone)]
struct Moment {
    arrived: Vec<bool>,
    waiting: Vec<usize>,
    /// Pods that depend on nobody in the group and may come whenever it suits.
    free: Vec<usize>,
}

impl Joining<'_> {
    /// Returns the units of these classes that cannot have arrived, in the best order found.
    fn stuck(&self, classes: &BTreeSet<usize>) -> Vec<usize> {
        let placed: Vec<usize> = (0..self.units.len()).filter(|u| self.units[*u].placed > 0).collect();
        let (waiting, free) = placed.into_iter().partition(|u| classes.contains(&self.units[*u].class));
        let arrived = self.units.iter().map(|u| u.placed == 0).collect();
        let mut budget = ORDERS_MAX;
        self.search(&Moment { arrived, waiting, free }, &mut budget).err().unwrap_or_default()
    }

    /// Pods that start a domain come as early as possible, since everybody who is there may forbid it; then all
    /// who can join do.
    fn search(&self, moment: &Moment, budget: &mut usize) -> Result<(), Vec<usize>> {
        if *budget == 0 || moment.waiting.is_empty() {
            return Ok(());
        }
        *budget -= 1;
        let mut best = moment.waiting.clone();
        let mut keep_shorter = |stuck: Vec<usize>| {
            if stuck.len() < best.len() {
                best = stuck;
            }
        };
        for unit in self.starters(moment) {
            let mut next = moment.clone();
            next.arrived[unit] = true;
            next.waiting.retain(|other| *other != unit);
            match self.search(&next, budget) {
                Ok(()) => return Ok(()),
                Err(stuck) => keep_shorter(stuck),
            }
        }
        let Some(next) = self.join_all(moment) else { return Err(best) };
        match self.search(&next, budget) {
            Ok(()) => return Ok(()),
            Err(stuck) => keep_shorter(stuck),
        }
        Err(best)
    }

    /// Returns the units that could come first in their domain now, one of each kind.
    fn starters(&self, moment: &Moment) -> Vec<usize> {
        let mut kinds: Vec<(usize, Vec<&DomainSet>)> = Vec::new();
        let mut starters = Vec::new();
        for unit in &moment.waiting {
            let Unit { site, class, .. } = self.units[*unit];
            let where_to: Vec<&DomainSet> =
                self.terms_of(*unit).iter().map(|t| &self.topology.of(&t.key)[site]).collect();
            let kind = (class, where_to);
            if !kinds.contains(&kind) && self.must_start(*unit, &moment.arrived) {
                kinds.push(kind);
                starters.push(*unit);
            }
        }
        starters
    }

    fn must_start(&self, unit: usize, arrived: &[bool]) -> bool {
        !self.terms_of(unit).iter().all(|term| self.joins(term, unit, arrived))
            && self.may_start(unit, arrived)
    }

    /// Lets in everybody who depends on nobody or finds a match; returns nothing if that changes nothing.
    fn join_all(&self, moment: &Moment) -> Option<Moment> {
        let mut next = moment.clone();
        for unit in next.free.drain(..) {
            next.arrived[unit] = true;
        }
        loop {
            let (ready, still): (Vec<usize>, Vec<usize>) = next.waiting.iter().partition(|unit| {
                self.terms_of(**unit).iter().all(|term| self.joins(term, **unit, &next.arrived))
            });
            if ready.is_empty() {
                break;
            }
            for unit in ready {
                next.arrived[unit] = true;
            }
            next.waiting = still;
        }
        let changed = next.waiting.len() < moment.waiting.len() || !moment.free.is_empty();
        changed.then_some(next)
    }

    fn terms_of(&self, unit: usize) -> &[Term] {
        &self.terms[&self.units[unit].class]
    }

    /// Tells whether a match is surely in the unit's domain.
    fn joins(&self, term: &Term, unit: usize, arrived: &[bool]) -> bool {
        let domains = self.topology.of(&term.key);
        let home = self.units[unit].site;
        let here = &domains[home];
        if here.may_lack || here.values.is_empty() && !here.open {
            return false;
        }
        let matching = || self.matching(term, arrived);
        matching().any(|other| other.site == home)
            || !here.open
                && here.values.iter().all(|d| matching().any(|other| domains[other.site].single() == Some(d)))
    }

    fn matching<'s>(&'s self, term: &'s Term, arrived: &'s [bool]) -> impl Iterator<Item = &'s Unit> {
        let there = self.units.iter().zip(arrived).filter(|(_, arrived)| **arrived).map(|(unit, _)| unit);
        there.filter(|unit| term.matches[unit.class])
    }

    /// The first pod of a kind may start a domain of its own, if it cannot join anybody.
    ///
    /// Pods in domains its own node requirements exclude do not count: that is upstream's reading, which is kept
    /// although kube-scheduler would wait for such a pod.
    fn may_start(&self, unit: usize, arrived: &[bool]) -> bool {
        let Unit { site, class, .. } = self.units[unit];
        self.terms_of(unit).iter().all(|term| {
            let domains = self.topology.of(&term.key);
            let alone = || {
                let conditions = &self.topology.examination.world.classes[class].conditions;
                let permitted = permitted_domains(conditions, &term.key, |_| true);
                let open_to = |d: &String| permitted.iter().any(|p: &States| p.has_value(d));
                !self.matching(term, arrived).any(|other| domains[other.site].values.iter().any(open_to))
            };
            self.joins(term, unit, arrived) || term.matches[class] && !domains[site].may_lack && alone()
        })
    }
}
