//! Topology spread constraints with `DoNotSchedule`.
//!
//! A scheduler looks at the skew when a pod arrives, not at the end: pods that match a selector without carrying
//! the constraint may legitimately push the final counts beyond `maxSkew`. So a plan is refused only if no order
//! of arrival could have been accepted. Counts only grow, hence for the pod that arrives last in a domain, among
//! any set of pods of that domain,
//!
//! ```text
//! bound matching pods + matching pods of the set - smallest final count <= maxSkew
//! ```
//!
//! must hold. Starting from all pods of a domain that carry a constraint, [`is_reachable`] takes away kinds of
//! pods that may have come last until nothing is left, or until nobody can have been last: then the plan is
//! wrong. For pods that all carry the same self-selecting constraint this is exactly "final skew <= maxSkew".
//! Different constraints are looked at one by one, and a pod without the constraint is free to come at any time,
//! so a plan may be accepted that only fails by an interplay of several constraints.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::domains::{Universe, permitted_domains};
use super::{Certainty, Examination, Place};
use crate::claim::DomainSet;
use crate::labels::{HOSTNAME, NodeConditions, current_key};
use crate::pod::{LabelSelector, LabelSelectorRequirement, TopologySpreadConstraint};
use crate::selector::{selects, untolerated};
use crate::violation::{Violation, ViolationKind};
use crate::world::{PodClass, World};

pub(super) fn violations(examination: &Examination<'_>) -> Vec<Violation> {
    let mut by_key: BTreeMap<&str, Vec<Carrier<'_>>> = BTreeMap::new();
    let placed: BTreeSet<usize> = examination.sites.iter().flat_map(|s| s.placed.keys().copied()).collect();
    for class in placed {
        for constraint in &examination.world.classes[class].pod.spec.topology_spread_constraints {
            if constraint.when_unsatisfiable == "DoNotSchedule" {
                let key = current_key(&constraint.topology_key);
                by_key.entry(key).or_default().push(Carrier::new(class, constraint, examination.world));
            }
        }
    }
    by_key
        .into_iter()
        .flat_map(|(key, carriers)| KeyCheck::new(examination, key, carriers).violations())
        .collect()
}

/// A class of pods with one constraint it carries.
struct Carrier<'w> {
    class: usize,
    constraint: &'w TopologySpreadConstraint,
    /// By class: whether the constraint's selector picks it.
    matches: Vec<bool>,
    honors_affinity: bool,
    honors_taints: bool,
}

impl<'w> Carrier<'w> {
    fn new(class: usize, constraint: &'w TopologySpreadConstraint, world: &World<'_>) -> Self {
        let carrier = &world.classes[class];
        let selector = effective_selector(constraint, carrier);
        let matches = world.classes.iter().map(|other| {
            other.namespace == carrier.namespace && selects(selector.as_ref(), &other.pod.metadata.labels)
        });
        Carrier {
            class,
            constraint,
            matches: matches.collect(),
            honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}

/// `matchLabelKeys` narrows the selector to pods with the carrier's own values.
fn effective_selector(
    constraint: &TopologySpreadConstraint,
    carrier: &PodClass<'_>,
) -> Option<LabelSelector> {
    let mut selector = constraint.label_selector.clone()?;
    let labels = &carrier.pod.metadata.labels;
    let own = constraint.match_label_keys.iter().filter_map(|key| labels.get_key_value(key));
    selector.match_expressions.extend(own.map(|(key, value)| LabelSelectorRequirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: vec![value.clone()],
    }));
    Some(selector)
}

/// All constraints on one topology key.
struct KeyCheck<'e> {
    examination: &'e Examination<'e>,
    key: &'e str,
    carriers: Vec<Carrier<'e>>,
    carriers_of_class: HashMap<usize, Vec<usize>>,
    /// Where each site may be.
    domains: Vec<DomainSet>,
    universe: Universe<'e>,
    /// By carrier and site: whether the node counts for the carrier.
    counted: Vec<Vec<Certainty>>,
}

impl<'e> KeyCheck<'e> {
    fn new(examination: &'e Examination<'e>, key: &'e str, carriers: Vec<Carrier<'e>>) -> Self {
        let mut carriers_of_class: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, carrier) in carriers.iter().enumerate() {
            carriers_of_class.entry(carrier.class).or_default().push(index);
        }
        let counted = carriers.iter().map(|c| counted_sites(c, examination)).collect();
        KeyCheck {
            domains: examination.sites.iter().map(|site| site.place.domains(key)).collect(),
            universe: Universe::new(examination.world, key),
            examination,
            key,
            carriers,
            carriers_of_class,
            counted,
        }
    }

    fn violations(&self) -> Vec<Violation> {
        let mut violations = self.unsettled();
        let mut by_domain: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (site, domains) in self.domains.iter().enumerate() {
            if let Some(domain) = domains.single() {
                by_domain.entry(domain).or_default().push(site);
            }
        }
        for (domain, sites) in by_domain {
            let demands = self.demands(&sites);
            if let Some(stuck) = is_reachable(demands) {
                violations.push(self.skewed(domain, &stuck));
            }
        }
        violations
    }

    fn skewed(&self, domain: &str, demand: &Demand) -> Violation {
        let carrier = &self.carriers[demand.carrier];
        let group = &self.examination.world.classes[carrier.class].group;
        let (key, skew) = (self.key, carrier.constraint.max_skew);
        let message = format!(
            "{group} spreads over `{key}` with maxSkew {skew}, but `{domain}` holds {} matching pods and at most {} fit",
            demand.bound + demand.matching.values().sum::<i64>(),
            demand.limit
        );
        Violation::new(ViolationKind::Spread, group, message)
    }

    /// Returns what each carrier with pods on these sites, which share a domain, asks for.
    fn demands(&self, sites: &[usize]) -> Vec<Demand> {
        let mut present: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for site in sites {
            for class in self.examination.sites[*site].placed.keys() {
                for carrier in self.carriers_of_class.get(class).into_iter().flatten() {
                    present.entry(*carrier).or_default().push(*site);
                }
            }
        }
        let demand = |(carrier, homes): (usize, Vec<usize>)| {
            let limit = self.smallest_count(carrier, &homes) + self.carriers[carrier].constraint.max_skew;
            let (bound, matching) = self.surely_counted(carrier, sites);
            Demand { carrier, class: self.carriers[carrier].class, limit, bound, matching }
        };
        present.into_iter().map(demand).collect()
    }

    /// Counts the pods on these sites that count for the carrier beyond doubt.
    fn surely_counted(&self, carrier: usize, sites: &[usize]) -> (i64, BTreeMap<usize, i64>) {
        let matches = &self.carriers[carrier].matches;
        let (mut bound, mut matching) = (0, BTreeMap::new());
        for index in sites.iter().filter(|s| self.counted[carrier][**s] == Certainty::Always) {
            let site = &self.examination.sites[*index];
            bound += site.bound.iter().filter(|(c, _)| matches[*c]).map(|(_, n)| *n as i64).sum::<i64>();
            for (class, count) in site.placed.iter().filter(|(c, _)| matches[**c]) {
                *matching.entry(*class).or_insert(0) += *count as i64;
            }
        }
        (bound, matching)
    }

    /// Returns the smallest final count over the domains the carrier could have used.
    ///
    /// Of several node affinity terms the one that asks least counts, as long as it fits a place the pods got.
    fn smallest_count(&self, carrier: usize, homes: &[usize]) -> i64 {
        if self.key == HOSTNAME {
            // A new host, empty, can always be added.
            return 0;
        }
        let class = &self.examination.world.classes[self.carriers[carrier].class];
        let known = self.domains_of(carrier);
        let permitted = permitted_domains(&class.conditions, self.key, |term| {
            let conditions = NodeConditions { all: term.to_vec(), any_term: Vec::new() };
            homes.iter().any(|s| self.examination.sites[*s].place.meets(&conditions) != Certainty::Never)
        });
        let smallest = permitted.iter().filter_map(|permitted| {
            let usable: Vec<i64> =
                known.iter().filter(|(domain, _)| permitted.has_value(domain)).map(|(_, n)| *n).collect();
            let too_few = self.carriers[carrier].constraint.min_domains.is_some_and(|min| usable.len() < min);
            if too_few { Some(0) } else { usable.into_iter().min() }
        });
        smallest.max().unwrap_or(0)
    }

    /// Returns every domain the carrier knows, with the matching pods that are there in the end.
    fn domains_of(&self, carrier: usize) -> BTreeMap<&str, i64> {
        let Carrier { class, matches, honors_taints, .. } = &self.carriers[carrier];
        let tolerations = &self.examination.world.classes[*class].pod.spec.tolerations;
        let mut known: BTreeMap<&str, i64> = BTreeMap::new();
        known.extend(self.universe.domains(honors_taints.then_some(tolerations)).map(|d| (d, 0)));
        for (index, site) in self.examination.sites.iter().enumerate() {
            let Some(domain) = self.domains[index].single() else { continue };
            let certainty = self.counted[carrier][index];
            if certainty == Certainty::Never {
                continue;
            }
            if matches!(site.place, Place::Node(node) if node.has_object && !node.node.deleting) {
                known.entry(domain).or_insert(0);
            }
            let pods = site.bound.iter().copied().chain(site.placed.iter().map(|(c, n)| (*c, *n)));
            let count: i64 = pods.filter(|(c, _)| matches[*c]).map(|(_, n)| n as i64).sum();
            if let Some(total) = known.get_mut(domain) {
                *total += count;
            }
        }
        known
    }

    /// Reports carriers on nodes that may land in several domains, unless each of them would do.
    fn unsettled(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (index, site) in self.examination.sites.iter().enumerate() {
            let domains = &self.domains[index];
            if domains.single().is_some() {
                continue;
            }
            let carriers = site.placed.keys().filter_map(|c| self.carriers_of_class.get(c)).flatten();
            for carrier in carriers {
                if domains.may_lack || domains.open || !self.any_domain_would_do(*carrier, index) {
                    let group = &self.examination.world.classes[self.carriers[*carrier].class].group;
                    let message = if domains.may_lack {
                        format!("{group} spreads over `{}`, which the node may lack", self.key)
                    } else {
                        format!(
                            "{group} spreads over `{}`, but the node may land in {:?}",
                            self.key, domains.values
                        )
                    };
                    violations.push(Violation::new(ViolationKind::SpreadDomain, site.name, message));
                }
            }
        }
        violations
    }

    /// Harmless only if every domain would do even with all pods there that could be there.
    fn any_domain_would_do(&self, carrier: usize, home: usize) -> bool {
        let matches = &self.carriers[carrier].matches;
        let limit = self.smallest_count(carrier, &[home]) + self.carriers[carrier].constraint.max_skew;
        self.domains[home].values.iter().all(|domain| {
            let there =
                self.examination.sites.iter().zip(&self.domains).filter(|(_, d)| d.values.contains(domain));
            let pods = there.flat_map(|(site, _)| {
                site.bound.iter().copied().chain(site.placed.iter().map(|(c, n)| (*c, *n)))
            });
            pods.filter(|(c, _)| matches[*c]).map(|(_, n)| n as i64).sum::<i64>() <= limit
        })
    }
}

fn counted_sites(carrier: &Carrier<'_>, examination: &Examination<'_>) -> Vec<Certainty> {
    let class = &examination.world.classes[carrier.class];
    let mut by_shape: HashMap<usize, Certainty> = HashMap::new();
    let mut by_affinity = |place: &Place<'_>| match place {
        _ if !carrier.honors_affinity => Certainty::Always,
        Place::Node(_) => place.meets(&class.conditions),
        Place::Claim(_, position) => {
            *by_shape.entry(examination.shapes[*position]).or_insert_with(|| place.meets(&class.conditions))
        }
    };
    let tolerated = |place: &Place<'_>| {
        !carrier.honors_taints || untolerated(place.taints(), &class.pod.spec.tolerations).is_none()
    };
    let counted = |place: &Place<'_>| if tolerated(place) { by_affinity(place) } else { Certainty::Never };
    examination.sites.iter().map(|site| &site.place).map(counted).collect()
}

/// What one carrier asks of one domain.
struct Demand {
    carrier: usize,
    class: usize,
    /// The most matching pods the domain may hold when a pod of the carrier arrives, itself included.
    limit: i64,
    bound: i64,
    /// Matching pods of the plan in the domain, by class.
    matching: BTreeMap<usize, i64>,
}

/// Returns a demand that no order of arrival can meet, if there is one.
fn is_reachable(mut demands: Vec<Demand>) -> Option<Demand> {
    loop {
        let classes: BTreeSet<usize> = demands.iter().map(|d| d.class).collect();
        let can_be_last = |demand: &Demand| {
            let there = demand.matching.iter().filter(|(class, _)| classes.contains(class));
            demand.bound + there.map(|(_, n)| n).sum::<i64>() <= demand.limit
        };
        let last =
            classes.iter().find(|class| demands.iter().filter(|d| d.class == **class).all(can_be_last));
        match last {
            Some(class) => demands.retain(|d| d.class != *class),
            None => return demands.into_iter().find(|d| !can_be_last(d)),
        }
    }
}
