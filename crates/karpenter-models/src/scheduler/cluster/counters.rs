//! Counters of pods per domain: who is counted, where, and how they are kept right.

use super::super::counts::DomainCounts;
use super::super::pod_terms::{Matcher, Namespaces};
use super::super::rules::PlacementRules;
use super::super::shared::Shared;
use super::Cluster;

/// Which pods a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CounterKind {
    /// Pods of the set, on every node.
    Matched,
    /// Pods of the set that stay, on eligible nodes: for spreading.
    Spread {
        /// Which nodes are eligible.
        eligibility: u32,
    },
    /// Pods that must be apart from the set.
    Avoiding,
    /// Pods that would rather be near the set, or away from it, with this weight.
    Drawn {
        /// Negative when they would rather be away.
        weight: i64,
    },
}

/// What makes a counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CounterSpec {
    pub(crate) kind: CounterKind,
    pub(crate) matcher: u32,
    pub(crate) key: usize,
}

/// Pods per domain of one topology key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    pub(crate) counts: DomainCounts,
    /// The cluster's revision when it last changed.
    pub(crate) changed: u64,
}

/// Which nodes count for a spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EligibilitySpec {
    /// What of the pod's own rules is honoured.
    pub(crate) rules: Option<PlacementRules>,
    /// Labels a node must have.
    pub(crate) keys: Vec<usize>,
}

impl Cluster {
    /// Returns the counter of a kind over a set of pods, made if nobody has one, with one more user.
    pub(super) fn enter_counter(&mut self, kind: CounterKind, matcher: &Matcher, key: usize) -> u32 {
        let matcher = self.enter_matcher(matcher);
        let spec = CounterSpec { kind, matcher, key };
        if let Some(id) = self.counters.join(&spec) {
            self.leave_matcher(matcher);
            if let CounterKind::Spread { eligibility } = kind {
                self.eligibilities.leave(eligibility);
            }
            return id;
        }
        let counter = Counter { counts: self.count(&spec), changed: self.revision };
        let id = self.counters.insert(spec, counter);
        self.matchers.get_mut(matcher).push(id);
        id
    }

    pub(super) fn leave_counter(&mut self, id: u32) {
        let Some((spec, _)) = self.counters.leave(id) else { return };
        self.matchers.get_mut(spec.matcher).retain(|held| *held != id);
        self.leave_matcher(spec.matcher);
        if let CounterKind::Spread { eligibility } = spec.kind {
            self.eligibilities.leave(eligibility);
        }
    }

    /// Returns the nodes that count under a rule, with one more user.
    pub(super) fn enter_eligibility(&mut self, spec: EligibilitySpec) -> u32 {
        if let Some(id) = self.eligibilities.join(&spec) {
            return id;
        }
        let mut eligible = fixedbitset::FixedBitSet::with_capacity(self.nodes.len());
        for (id, node) in self.nodes.iter() {
            eligible.set(id as usize, is_eligible(&spec, node));
        }
        self.eligibilities.insert(spec, eligible)
    }

    fn enter_matcher(&mut self, matcher: &Matcher) -> u32 {
        if let Some(id) = self.matchers.join(matcher) {
            return id;
        }
        let id = self.matchers.insert(matcher.clone(), Vec::new());
        for (_, spec, class) in self.classes.iter_mut() {
            if matcher.matches(&spec.namespace, &spec.labels, &self.namespaces) {
                class.matched.push(id);
            }
        }
        id
    }

    fn leave_matcher(&mut self, id: u32) {
        if self.matchers.leave(id).is_some() {
            for (_, _, class) in self.classes.iter_mut() {
                class.matched.retain(|held| *held != id);
            }
        }
    }

    /// Counts from nothing.
    fn count(&self, spec: &CounterSpec) -> DomainCounts {
        let mut counts = DomainCounts::default();
        let (kind, key) = (spec.kind, spec.key);
        let is_matched = |class: u32| self.classes.get(class).matched.contains(&spec.matcher);
        for (id, node) in self.nodes.iter() {
            let Some(domain) = node.domain(key) else { continue };
            if let CounterKind::Spread { eligibility } = kind {
                if !self.eligibilities.get(eligibility).contains(id as usize) {
                    continue;
                }
                counts.node_joins(domain);
            }
            // Whoever carries a new term is not placed yet, so only counters of the set itself start above zero.
            if matches!(kind, CounterKind::Matched | CounterKind::Spread { .. }) {
                for tally in node.tallies.iter().filter(|tally| is_matched(tally.class)) {
                    let gone = if kind == CounterKind::Matched { 0 } else { tally.terminating };
                    counts.change(domain, i64::from(tally.pods - gone));
                }
            }
        }
        counts
    }

    /// Counts pods of a class on a node in or out.
    pub(super) fn count_pods(&mut self, node: u32, class: u32, pods: i64, terminating: i64) {
        let state = self.nodes.get(node);
        if !state.is_there {
            return;
        }
        self.revision += 1;
        let class = self.classes.get(class);
        for matcher in &class.matched {
            for id in self.matchers.get(*matcher) {
                let spec = self.counters.key(*id);
                let change = match spec.kind {
                    CounterKind::Matched => pods,
                    CounterKind::Spread { eligibility } => {
                        if !self.eligibilities.get(eligibility).contains(node as usize) {
                            continue;
                        }
                        pods - terminating
                    }
                    CounterKind::Avoiding | CounterKind::Drawn { .. } => continue,
                };
                let key = spec.key;
                change_counter(&mut self.counters, *id, state.domain(key), change, self.revision);
            }
        }
        for id in &class.carried {
            let key = self.counters.key(*id).key;
            change_counter(&mut self.counters, *id, state.domain(key), pods, self.revision);
        }
    }

    /// Counts a node, without its pods, into or out of the domains of spread counters.
    pub(super) fn count_node(&mut self, node: u32, joins: bool) {
        let state = self.nodes.get(node);
        for (_, spec, counter) in self.counters.iter_mut() {
            let CounterKind::Spread { eligibility } = spec.kind else { continue };
            let Some(domain) = state.domain(spec.key) else { continue };
            if !self.eligibilities.get(eligibility).contains(node as usize) {
                continue;
            }
            counter.changed = self.revision;
            if joins {
                counter.counts.node_joins(domain);
            } else {
                counter.counts.node_leaves(domain);
            }
        }
    }

    /// Works out anew for which rules a node counts.
    pub(super) fn judge_node(&mut self, id: u32) {
        let node = self.nodes.get(id);
        let place = id as usize;
        for (_, spec, eligible) in self.eligibilities.iter_mut() {
            eligible.grow(place + 1);
            eligible.set(place, node.is_there && is_eligible(spec, node));
        }
        for (_, rules, verdicts) in self.rules.iter_mut() {
            if verdicts.len() <= place {
                verdicts.resize(place + 1, None);
            }
            let facts = &node.facts;
            verdicts[place] = rules.judge(&node.name, &facts.labels, &facts.taints, facts.unschedulable);
        }
    }

    /// Works out anew which classes belong to sets that look at the labels of namespaces.
    pub(super) fn rematch_namespaces(&mut self) {
        self.revision += 1;
        let stale: Vec<u32> = self
            .matchers
            .iter()
            .filter(|(_, matcher, _)| matcher.reads_namespace_labels())
            .map(|(id, ..)| id)
            .collect();
        for id in stale {
            let matcher = std::sync::Arc::clone(self.matchers.key(id));
            rematch(&mut self.classes, id, &matcher, &self.namespaces);
            for counter in self.matchers.get(id).clone() {
                let spec = std::sync::Arc::clone(self.counters.key(counter));
                if matches!(spec.kind, CounterKind::Matched | CounterKind::Spread { .. }) {
                    let counts = self.count(&spec);
                    *self.counters.get_mut(counter) = Counter { counts, changed: self.revision };
                }
            }
        }
        for node in self.nodes.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.improve(node);
        }
    }
}

fn rematch(
    classes: &mut Shared<super::ClassSpec, super::ClassState>,
    id: u32,
    matcher: &Matcher,
    namespaces: &Namespaces,
) {
    for (_, spec, class) in classes.iter_mut() {
        class.matched.retain(|held| *held != id);
        if matcher.matches(&spec.namespace, &spec.labels, namespaces) {
            class.matched.push(id);
        }
    }
}

fn change_counter(
    counters: &mut Shared<CounterSpec, Counter>,
    id: u32,
    domain: Option<u32>,
    pods: i64,
    revision: u64,
) {
    if let Some(domain) = domain {
        let counter = counters.get_mut(id);
        counter.counts.change(domain, pods);
        counter.changed = revision;
    }
}

fn is_eligible(spec: &EligibilitySpec, node: &super::super::nodes::NodeState) -> bool {
    let facts = &node.facts;
    spec.keys.iter().all(|key| node.domain(*key).is_some())
        && spec
            .rules
            .as_ref()
            .is_none_or(|rules| rules.selects(&node.name, &facts.labels) && rules.tolerates(&facts.taints))
}
