//! What is kept per class of pods, and how it comes and goes.

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use karpenter_quantity::{CPU, MEMORY};

use super::super::class::{ClassSpec, NUMBERING_LABELS, SpreadRule};
use super::super::nodes::ZONE;
use super::super::pod_terms::{Matcher, PodSet, Scope};
use super::Cluster;
use super::counters::{CounterKind, EligibilitySpec};
use crate::selector::Selector;

/// What pods that ask for no cpu (in thousandths) count as when nodes are compared.
const CPU_DEFAULT: i64 = 100;
/// What pods that ask for no memory (in bytes) count as when nodes are compared.
const MEMORY_DEFAULT: i64 = 200 * 1024 * 1024;

/// A hard spread constraint.
#[derive(Clone, Debug)]
pub(crate) struct SpreadLimit {
    pub(crate) counter: u32,
    pub(crate) key: usize,
    pub(crate) max_skew: i64,
    pub(crate) domains_min: usize,
    /// Whether pods of the class count themselves.
    pub(crate) counts_itself: bool,
}

/// A soft spread constraint.
#[derive(Clone, Debug)]
pub(crate) struct SoftSpread {
    pub(crate) counter: u32,
    pub(crate) key: usize,
}

/// Required affinity to pods.
#[derive(Clone, Debug)]
pub(crate) struct Near {
    /// One counter per term, over the pods that match all terms, with its topology key.
    pub(crate) counters: Vec<(usize, u32)>,
    /// Whether pods of the class match their own terms.
    pub(crate) matches_itself: bool,
}

/// What is kept for all pods of a class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassState {
    /// Resources by number, as far as they are asked for.
    pub(crate) requests: Vec<(usize, i64)>,
    /// Cpu and memory for comparing nodes.
    pub(crate) weighed: [i64; 2],
    pub(crate) rules: u32,
    pub(crate) spread: Vec<SpreadLimit>,
    pub(crate) soft_spread: Vec<SoftSpread>,
    pub(crate) near: Option<Near>,
    /// Counters of pods to be apart from, with their topology keys.
    pub(crate) apart: Vec<(usize, u32)>,
    /// Counters of pods to be near, with weights.
    pub(crate) drawn_to: Vec<(i64, usize, u32)>,
    /// Sets of pods the class belongs to.
    pub(crate) matched: Vec<u32>,
    /// Counters of the terms that pods of the class carry with them.
    pub(crate) carried: Vec<u32>,
    /// Counters to give back with the class.
    counters: Vec<u32>,
    /// Nodes known to refuse the class by themselves until they improve.
    pub(crate) refused_by: FixedBitSet,
}

impl Cluster {
    /// Returns the class made from `spec`, with one more user.
    pub(crate) fn enter_class(&mut self, spec: Arc<ClassSpec>) -> u32 {
        if let Some(id) = self.classes.join(&spec) {
            return id;
        }
        self.keep_numbers_if_selected(&spec);
        let mut class = ClassState { rules: self.enter_rules(&spec), ..ClassState::default() };
        let amount = |name: &str| {
            spec.requests
                .iter()
                .find(|(held, _)| held == name)
                .map(|(_, amount)| *amount)
                .filter(|amount| *amount > 0)
        };
        class.weighed = [amount(CPU).unwrap_or(CPU_DEFAULT), amount(MEMORY).unwrap_or(MEMORY_DEFAULT)];
        for (name, amount) in &spec.requests {
            if *amount > 0 {
                class.requests.push((self.resources.id(name), *amount));
            }
        }
        self.add_spread(&spec, &mut class);
        self.add_terms(&spec, &mut class);
        class.matched = self
            .matchers
            .iter()
            .filter(|(_, matcher, _)| matcher.matches(&spec.namespace, &spec.labels, &self.namespaces))
            .map(|(id, ..)| id)
            .collect();
        self.classes.insert(spec, class)
    }

    /// Counts one user of a class less.
    pub(crate) fn leave_class(&mut self, id: u32) {
        if let Some((_, class)) = self.classes.leave(id) {
            for counter in class.counters {
                self.leave_counter(counter);
            }
            self.rules.leave(class.rules);
        }
    }

    fn enter_rules(&mut self, spec: &ClassSpec) -> u32 {
        if let Some(id) = self.rules.join(&spec.rules) {
            return id;
        }
        let mut verdicts = vec![None; self.nodes.len()];
        for (id, node) in self.nodes.iter() {
            let facts = &node.facts;
            verdicts[id as usize] =
                spec.rules.judge(&node.name, &facts.labels, &facts.taints, facts.unschedulable);
        }
        self.rules.insert(spec.rules.clone(), verdicts)
    }

    fn add_spread(&mut self, spec: &ClassSpec, class: &mut ClassState) {
        let hard: Vec<&SpreadRule> = spec.spread.iter().filter(|rule| rule.is_hard).collect();
        let hard_keys: Vec<usize> = hard.iter().map(|rule| self.enter_key(&rule.topology_key)).collect();
        for (rule, key) in hard.iter().zip(&hard_keys) {
            let counter = self.enter_spread_counter(spec, rule, *key, hard_keys.clone(), class);
            class.spread.push(SpreadLimit {
                counter,
                key: *key,
                max_skew: i64::from(rule.max_skew),
                domains_min: usize::try_from(rule.min_domains).unwrap_or(1),
                counts_itself: rule.selector.matches(&spec.labels),
            });
        }
        for rule in spec.spread.iter().filter(|rule| !rule.is_hard) {
            let key = self.enter_key(&rule.topology_key);
            let counter = self.enter_spread_counter(spec, rule, key, vec![key], class);
            class.soft_spread.push(SoftSpread { counter, key });
        }
        if spec.spreads_by_default {
            let key = self.enter_key(ZONE);
            let eligibility = self.enter_eligibility(EligibilitySpec { rules: None, keys: vec![key] });
            let alike =
                PodSet { scope: Scope::one(&spec.namespace), selector: Selector::from_labels(&spec.labels) };
            let counter = self.enter_counter(CounterKind::Spread { eligibility }, &Matcher(vec![alike]), key);
            class.counters.push(counter);
            class.soft_spread.push(SoftSpread { counter, key });
        }
    }

    fn enter_spread_counter(
        &mut self,
        spec: &ClassSpec,
        rule: &SpreadRule,
        key: usize,
        mut keys: Vec<usize>,
        class: &mut ClassState,
    ) -> u32 {
        keys.sort_unstable();
        keys.dedup();
        let rules = spec.rules.honouring(rule.honours_affinity, rule.honours_taints);
        let eligibility = self.enter_eligibility(EligibilitySpec { rules, keys });
        let pods = PodSet { scope: Scope::one(&spec.namespace), selector: rule.selector.clone() };
        let counter = self.enter_counter(CounterKind::Spread { eligibility }, &Matcher(vec![pods]), key);
        class.counters.push(counter);
        counter
    }

    fn add_terms(&mut self, spec: &ClassSpec, class: &mut ClassState) {
        let itself = |matcher: &Matcher, cluster: &Self| {
            matcher.matches(&spec.namespace, &spec.labels, &cluster.namespaces)
        };
        let terms = &spec.terms;
        if !terms.near.is_empty() {
            let all = Matcher(terms.near.iter().map(|term| term.pods.clone()).collect());
            let mut counters = Vec::new();
            for term in &terms.near {
                let key = self.enter_key(&term.topology_key);
                counters.push((key, self.enter_counter(CounterKind::Matched, &all, key)));
                let alone = Matcher(vec![term.pods.clone()]);
                class.carried.push(self.enter_counter(CounterKind::Drawn { weight: 1 }, &alone, key));
            }
            class.counters.extend(counters.iter().map(|(_, counter)| *counter));
            class.near = Some(Near { counters, matches_itself: itself(&all, self) });
        }
        for term in &terms.apart {
            let key = self.enter_key(&term.topology_key);
            let pods = Matcher(vec![term.pods.clone()]);
            class.apart.push((key, self.enter_counter(CounterKind::Matched, &pods, key)));
            class.carried.push(self.enter_counter(CounterKind::Avoiding, &pods, key));
        }
        class.counters.extend(class.apart.iter().map(|(_, counter)| *counter));
        for (weight, term) in &terms.preferred {
            let key = self.enter_key(&term.topology_key);
            let pods = Matcher(vec![term.pods.clone()]);
            class.drawn_to.push((*weight, key, self.enter_counter(CounterKind::Matched, &pods, key)));
            class.carried.push(self.enter_counter(CounterKind::Drawn { weight: *weight }, &pods, key));
        }
        class.counters.extend(class.drawn_to.iter().map(|(_, _, counter)| *counter));
        class.counters.extend(&class.carried);
    }

    /// From the first selector that looks at numbering labels on, classes keep them.
    fn keep_numbers_if_selected(&mut self, spec: &ClassSpec) {
        let selectors = spec.spread.iter().map(|rule| &rule.selector);
        let preferred = spec.terms.preferred.iter().map(|(_, term)| term);
        let terms = spec.terms.near.iter().chain(&spec.terms.apart).chain(preferred);
        let mut keys = selectors.chain(terms.map(|term| &term.pods.selector)).flat_map(Selector::keys);
        if !self.keeps_numbers && keys.any(|key| NUMBERING_LABELS.contains(&key)) {
            self.keeps_numbers = true;
            self.reclassify_all();
        }
    }
}
