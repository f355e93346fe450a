//! Pods that are equal for scheduling are one class: same demands, same namespace, counted by the same counters, same volumes.
//!
//! Labels nobody selects do not matter, so ten thousand pods with unique labels can still be a handful of classes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bits::Bits;
use super::label_sets::{KeyId, LabelSet, LabelSets, LabelTable};
use super::relaxation::{self, Demands};
use super::resources::{Amounts, Resources};
use super::states::{ConditionsId, States};
use super::topology::{Counted, Counter, CounterId, Counters, Rule, RuleKind, Topology};
use super::volumes::{self, Attachment};
use crate::catalog::HOSTNAME;
use crate::cluster::{
    ClusterSnapshot, Labels, NodeStage, Pod, PodAffinityTerm, PodSpec, Selector, SelectorExpression,
    SelectorOperator, SpreadConstraint, Taint, TaintEffect, Toleration, Unsatisfiable, VolumeRef, tolerates,
};
use crate::plan::{PodIndex, PreferencePolicy};

pub(crate) type ClassId = u32;

/// Pods that are equal for scheduling.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) spec: Arc<PodSpec>,
    pub(crate) amounts: Amounts,
    /// Steps of relaxation, strictest first.
    pub(crate) levels: Vec<Level>,
    /// Counters that count these pods.
    pub(crate) counted_by: Vec<CounterId>,
    /// Counters of pods refusing others, to which these pods belong.
    pub(crate) refuses: Vec<CounterId>,
    /// Counters of pods that refuse these pods.
    pub(crate) refused_by: Vec<CounterId>,
    /// Where the volumes can be attached: one must hold; empty when anywhere.
    pub(crate) volume_alternatives: Vec<ConditionsId>,
    pub(crate) attachments: BTreeSet<Attachment>,
    /// Members in queue order.
    pub(crate) pods: Vec<PodIndex>,
}

/// The demands of a class at one step of relaxation.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Conditions on the node; `None` when they contradict each other.
    pub(crate) conditions: Option<ConditionsId>,
    /// The key on which they do.
    pub(crate) contradiction: Option<Arc<str>>,
    /// Templates whose taints are tolerated.
    pub(crate) templates: Bits,
    /// Whether `PreferNoSchedule` taints of existing nodes are accepted.
    pub(crate) tolerates_preferences: bool,
    pub(crate) rules: Vec<Rule>,
}

/// Which nodes a spread constraint looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeFilter {
    /// One must hold; empty when the pod selects nodes in no way or selection is ignored.
    pub(crate) alternatives: Vec<Alternative>,
    /// Taints must be tolerated by these, when they are honoured.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

/// One way to pass a node filter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Alternative {
    pub(crate) conditions: ConditionsId,
    /// What fails it, key by key: a node that can be none of these passes for sure.
    pub(crate) failing: Vec<ConditionsId>,
}

/// The known domains of a topology key, and which templates can make nodes there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domains {
    pub(crate) by_template: Vec<Bits>,
}

/// What the compiler of classes reads.
pub(crate) struct ClassParts<'a> {
    pub(crate) snapshot: &'a ClusterSnapshot,
    pub(crate) labels: &'a LabelTable,
    pub(crate) resources: &'a Resources,
    pub(crate) template_taints: &'a [Vec<Taint>],
    pub(crate) domains: &'a FxHashMap<u16, Domains>,
    pub(crate) preferences: PreferencePolicy,
    pub(crate) soft_taints: bool,
    pub(crate) ignore_dynamic_resources: bool,
    pub(crate) places: &'a [super::nodes::Place],
}

/// Everything about pods, compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiled {
    pub(crate) classes: Vec<Class>,
    pub(crate) counters: Counters,
    pub(crate) filters: Vec<NodeFilter>,
}

/// Demands of pods that share a spec, a namespace and the labels their own constraints refer to.
#[derive(Clone, PartialEq, Eq, Hash)]
struct VariantKey {
    spec: u32,
    namespace: Arc<str>,
    own_labels: Vec<Option<Arc<str>>>,
}

/// What makes pods one class: their variant, the counters that match them, and their volumes.
type ClassKey = (usize, Arc<Vec<CounterId>>, Vec<VolumeRef>);

struct Variant {
    levels: Vec<Level>,
    refuses: Vec<CounterId>,
}

struct Compiler<'a> {
    parts: &'a ClassParts<'a>,
    states: &'a mut States,
    specs: FxHashMap<Arc<PodSpec>, u32>,
    spec_by_pointer: FxHashMap<*const PodSpec, u32>,
    variants: Vec<Variant>,
    variant_ids: FxHashMap<VariantKey, usize>,
    filter_ids: FxHashMap<NodeFilter, u32>,
    /// Domains of existing nodes per key and filter.
    node_domains: FxHashMap<(u16, Option<u32>), Bits>,
    out: Compiled,
}

/// Groups the wanted pods (already in queue order) into classes.
pub(crate) fn compile(
    parts: &ClassParts<'_>,
    pods: &[Arc<Pod>],
    wanted: &[PodIndex],
    states: &mut States,
) -> Compiled {
    let mut compiler = Compiler {
        parts,
        states,
        specs: FxHashMap::default(),
        spec_by_pointer: FxHashMap::default(),
        variants: Vec::new(),
        variant_ids: FxHashMap::default(),
        filter_ids: FxHashMap::default(),
        node_domains: FxHashMap::default(),
        out: Compiled::default(),
    };
    let variants: Vec<usize> = wanted.iter().map(|index| compiler.variant(&pods[*index as usize])).collect();
    compiler.refusals_of_bound_pods();
    compiler.group(pods, wanted, &variants);
    compiler.out
}

impl Compiler<'_> {
    fn spec_id(&mut self, spec: &Arc<PodSpec>) -> u32 {
        if let Some(id) = self.spec_by_pointer.get(&Arc::as_ptr(spec)) {
            return *id;
        }
        let next = self.specs.len() as u32;
        let id = *self.specs.entry(spec.clone()).or_insert(next);
        self.spec_by_pointer.insert(Arc::as_ptr(spec), id);
        id
    }

    fn variant(&mut self, pod: &Pod) -> usize {
        let own_labels = own_label_keys(&pod.spec).map(|key| pod.labels.get(key).cloned()).collect();
        let key =
            VariantKey { spec: self.spec_id(&pod.spec), namespace: pod.id.namespace.clone(), own_labels };
        if let Some(id) = self.variant_ids.get(&key) {
            return *id;
        }
        let steps = relaxation::steps(&pod.spec, self.parts.preferences, self.parts.soft_taints);
        let unsupported = pod.spec.uses_dynamic_resources && self.parts.ignore_dynamic_resources;
        let levels = if unsupported {
            Vec::new()
        } else {
            steps.iter().map(|demands| self.level(demands, pod)).collect()
        };
        let refuses = self.refusals(pod);
        let id = self.variants.len();
        self.variants.push(Variant { levels, refuses });
        self.variant_ids.insert(key, id);
        id
    }

    fn level(&mut self, demands: &Demands<'_>, pod: &Pod) -> Level {
        let contradiction = demands.requirements.contradiction().cloned();
        let sets = self.parts.labels.compile_all(&demands.requirements);
        let conditions = contradiction.is_none().then(|| self.states.intern_conditions(sets));
        let mut templates = Bits::none(self.parts.template_taints.len());
        for (index, taints) in self.parts.template_taints.iter().enumerate() {
            if accepts_taints(&pod.spec.tolerations, taints, demands.tolerates_preferences) {
                templates.insert(index);
            }
        }
        let strict = self.parts.labels.compile_all(&demands.strict);
        let mut rules = Vec::new();
        for constraint in &demands.spread {
            rules.push(self.spread_rule(constraint, pod, &strict));
        }
        for (number, term) in demands.affinity.iter().enumerate() {
            rules.push(self.affinity_rule(term, pod, &strict, number < pod.spec.affinity.len()));
        }
        for (number, term) in demands.anti_affinity.iter().enumerate() {
            let counter = self.matching_counter(term, pod);
            let topology = self.out.counters.get(counter).topology;
            let kind = RuleKind::AntiAffinity { required: number < pod.spec.anti_affinity.len() };
            rules.push(Rule { kind, topology, counter, selects_itself: false });
        }
        Level {
            conditions,
            contradiction,
            templates,
            tolerates_preferences: demands.tolerates_preferences,
            rules,
        }
    }

    fn refusals(&mut self, pod: &Pod) -> Vec<CounterId> {
        let counters = refusals(pod, &self.parts.snapshot.namespaces, self.parts.labels);
        counters.into_iter().map(|counter| self.out.counters.intern(counter)).collect()
    }

    fn spread_rule(&mut self, constraint: &SpreadConstraint, pod: &Pod, strict: &LabelSets) -> Rule {
        let topology = topology(&constraint.topology_key, self.parts.labels);
        let selector =
            with_own_labels(constraint.selector.as_ref(), &constraint.match_label_keys, &[], &pod.labels);
        let filter = match topology {
            Topology::Host => None,
            Topology::Label(_) => self.filter(constraint, &pod.spec),
        };
        let counter = self.out.counters.intern(Counter {
            topology,
            counted: Counted::Matching,
            namespaces: [pod.id.namespace.clone()].into(),
            selector,
            filter,
        });
        let tolerations = constraint.honor_node_taints.then_some(pod.spec.tolerations.as_slice());
        let domains = self.known_domains(topology, strict, tolerations, filter);
        let kind = RuleKind::Spread {
            max_skew: constraint.max_skew,
            min_domains: constraint.min_domains.unwrap_or(1),
            soft: constraint.when_unsatisfiable == Unsatisfiable::ScheduleAnyway,
            domains,
        };
        Rule { kind, topology, counter, selects_itself: false }
    }

    fn affinity_rule(
        &mut self,
        term: &PodAffinityTerm,
        pod: &Pod,
        strict: &LabelSets,
        required: bool,
    ) -> Rule {
        let counter = self.matching_counter(term, pod);
        let topology = self.out.counters.get(counter).topology;
        let domains = self.known_domains(topology, strict, None, None);
        Rule { kind: RuleKind::Affinity { required, domains }, topology, counter, selects_itself: false }
    }

    fn matching_counter(&mut self, term: &PodAffinityTerm, pod: &Pod) -> CounterId {
        let counter =
            term_counter(Counted::Matching, term, pod, &self.parts.snapshot.namespaces, self.parts.labels);
        self.out.counters.intern(counter)
    }

    fn filter(&mut self, constraint: &SpreadConstraint, spec: &PodSpec) -> Option<u32> {
        let selects = !spec.node_selector.is_empty() || !spec.required_terms.is_empty();
        let alternatives = if constraint.honor_node_affinity && selects {
            let possible = relaxation::alternatives(spec);
            let sets = possible.iter().filter(|set| set.contradiction().is_none());
            sets.map(|set| self.alternative(&self.parts.labels.compile_all(set))).collect()
        } else {
            Vec::new()
        };
        let tolerations = constraint.honor_node_taints.then(|| spec.tolerations.clone());
        if alternatives.is_empty() && tolerations.is_none() {
            return None;
        }
        let filter = NodeFilter { alternatives, tolerations };
        if let Some(id) = self.filter_ids.get(&filter) {
            return Some(*id);
        }
        let id = self.out.filters.len() as u32;
        self.out.filters.push(filter.clone());
        self.filter_ids.insert(filter, id);
        Some(id)
    }

    fn alternative(&mut self, sets: &LabelSets) -> Alternative {
        let outside = |(key, set): &(KeyId, LabelSet)| {
            let outside = self.parts.labels.outside(*key, set);
            self.states.intern_conditions(LabelSets::from_iter([(*key, outside)]))
        };
        let failing = sets.iter().map(outside).collect();
        Alternative { conditions: self.states.intern_conditions(sets.clone()), failing }
    }

    /// Domains that count for a pod: those its pools can make and those of nodes it could use.
    fn known_domains(
        &mut self,
        topology: Topology,
        strict: &LabelSets,
        tolerations: Option<&[Toleration]>,
        filter: Option<u32>,
    ) -> Bits {
        let Topology::Label(key) = topology else { return Bits::default() };
        let mut domains = Bits::none(self.parts.labels.value_count(key));
        if let Some(known) = self.parts.domains.get(&key) {
            for (template, values) in known.by_template.iter().enumerate() {
                let taints = &self.parts.template_taints[template];
                // `PreferNoSchedule` keeps nobody out, so it does not make a domain unreachable either.
                if tolerations.is_none_or(|tolerations| accepts_taints(tolerations, taints, true)) {
                    domains.or_with(values);
                }
            }
        }
        domains.or_with(self.domains_of_nodes(key, filter));
        match strict.iter().find(|(own, _)| *own == key) {
            Some((_, set)) => domains.and(&set.bits),
            None => domains,
        }
    }

    fn domains_of_nodes(&mut self, key: u16, filter: Option<u32>) -> &Bits {
        self.node_domains.entry((key, filter)).or_insert_with(|| {
            let mut domains = Bits::none(self.parts.labels.value_count(key));
            let filter = filter.map(|id| &self.out.filters[id as usize]);
            // A launched NodeClaim is not yet a node the scheduler would count.
            for place in self.parts.places.iter().filter(|place| place.node.stage != NodeStage::Launched) {
                if let Some(value) = place.labels[key as usize]
                    && filter.is_none_or(|filter| filter.admits_place(place, self.states))
                {
                    domains.insert(value as usize);
                }
            }
            domains
        })
    }

    /// Pods already bound may refuse pods of the batch: their required anti-affinity needs counters too.
    fn refusals_of_bound_pods(&mut self) {
        let snapshot = self.parts.snapshot;
        for pod in snapshot.nodes.iter().flat_map(|node| &node.pods) {
            if !pod.spec.anti_affinity.is_empty() && pod.is_active() {
                self.refusals(pod);
            }
        }
    }

    fn group(&mut self, pods: &[Arc<Pod>], wanted: &[PodIndex], variants: &[usize]) {
        let mut matched: FxHashMap<(*const Labels, *const str), Arc<Vec<CounterId>>> = FxHashMap::default();
        let mut classes: FxHashMap<ClassKey, ClassId> = FxHashMap::default();
        let mut counter_sets: FxHashMap<Vec<CounterId>, Arc<Vec<CounterId>>> = FxHashMap::default();
        for (index, variant) in wanted.iter().zip(variants) {
            let pod = &pods[*index as usize];
            let key = (Arc::as_ptr(&pod.labels), Arc::as_ptr(&pod.id.namespace));
            let counters = matched.entry(key).or_insert_with(|| {
                let found = self.out.counters.matching(&pod.id.namespace, &pod.labels);
                counter_sets.entry(found).or_insert_with_key(|found| Arc::new(found.clone())).clone()
            });
            let class_key = (*variant, counters.clone(), pod.volumes.clone());
            let next = self.out.classes.len() as ClassId;
            let class = *classes.entry(class_key).or_insert(next);
            if class == next {
                let made = self.class(pod, *variant, counters);
                self.out.classes.push(made);
            }
            self.out.classes[class as usize].pods.push(*index);
        }
    }

    fn class(&mut self, pod: &Pod, variant: usize, counters: &[CounterId]) -> Class {
        let (refused_by, counted_by): (Vec<_>, Vec<_>) =
            counters.iter().partition(|id| self.out.counters.get(**id).counted == Counted::Refusing);
        let mut levels = self.variants[variant].levels.clone();
        for rule in levels.iter_mut().flat_map(|level| &mut level.rules) {
            rule.selects_itself = counted_by.binary_search(&rule.counter).is_ok();
        }
        let volume_alternatives = volumes::alternatives(pod, self.parts.snapshot)
            .iter()
            .map(|set| self.states.intern_conditions(self.parts.labels.compile_all(set)))
            .collect();
        Class {
            spec: pod.spec.clone(),
            amounts: self.parts.resources.demand(&pod.spec.requests),
            levels,
            counted_by,
            refuses: self.variants[variant].refuses.clone(),
            refused_by,
            volume_alternatives,
            attachments: volumes::attachments(pod, self.parts.snapshot),
            pods: Vec::new(),
        }
    }
}

/// The counters of pods that, like this one, refuse others by required anti-affinity.
pub(crate) fn refusals(
    pod: &Pod,
    namespaces: &BTreeMap<Arc<str>, Arc<Labels>>,
    labels: &LabelTable,
) -> Vec<Counter> {
    pod.spec
        .anti_affinity
        .iter()
        .map(|term| term_counter(Counted::Refusing, term, pod, namespaces, labels))
        .collect()
}

fn term_counter(
    counted: Counted,
    term: &PodAffinityTerm,
    pod: &Pod,
    namespaces: &BTreeMap<Arc<str>, Arc<Labels>>,
    labels: &LabelTable,
) -> Counter {
    let selector = with_own_labels(
        term.selector.as_ref(),
        &term.match_label_keys,
        &term.mismatch_label_keys,
        &pod.labels,
    );
    let mut meant: BTreeSet<Arc<str>> = term.namespaces.iter().cloned().collect();
    match &term.namespace_selector {
        Some(selector) => {
            let selected = namespaces.iter().filter(|(_, labels)| selector.matches(labels));
            meant.extend(selected.map(|(name, _)| name.clone()));
        }
        None if meant.is_empty() => {
            meant.insert(pod.id.namespace.clone());
        }
        None => {}
    }
    Counter {
        topology: topology(&term.topology_key, labels),
        counted,
        namespaces: meant,
        selector,
        filter: None,
    }
}

fn topology(key: &str, labels: &LabelTable) -> Topology {
    if key == HOSTNAME {
        return Topology::Host;
    }
    Topology::Label(labels.key(key).expect("every topology key is in the label table"))
}

impl NodeFilter {
    /// Whether pods on this node count.
    pub(crate) fn admits_place(&self, place: &super::nodes::Place, states: &States) -> bool {
        let selected = self.alternatives.is_empty()
            || self.alternatives.iter().any(|any| place.satisfies(states.conditions(any.conditions)));
        let tolerated = |tolerations: &Vec<Toleration>| accepts_taints(tolerations, &place.node.taints, true);
        selected && self.tolerations.as_ref().is_none_or(tolerated)
    }
}

/// Whether a pod with these tolerations accepts the taints; `PreferNoSchedule` only when `soft` says so.
pub(crate) fn accepts_taints(tolerations: &[Toleration], taints: &[Taint], soft: bool) -> bool {
    taints.iter().all(|taint| {
        (soft && taint.effect == TaintEffect::PreferNoSchedule)
            || tolerates(tolerations, std::slice::from_ref(taint)).is_ok()
    })
}

/// Label keys whose values on the pod itself shape its constraints.
fn own_label_keys(spec: &PodSpec) -> impl Iterator<Item = &Arc<str>> {
    let spread = spec.spread.iter().flat_map(|constraint| &constraint.match_label_keys);
    let weighted =
        spec.preferred_affinity.iter().chain(&spec.preferred_anti_affinity).map(|weighted| &weighted.term);
    let terms = spec.affinity.iter().chain(&spec.anti_affinity).chain(weighted);
    spread.chain(terms.flat_map(|term| term.match_label_keys.iter().chain(&term.mismatch_label_keys)))
}

/// The selector narrowed by the pod's own label values. A missing selector stays missing: it selects nothing.
fn with_own_labels(
    selector: Option<&Selector>,
    same: &[Arc<str>],
    different: &[Arc<str>],
    labels: &Labels,
) -> Option<Selector> {
    let mut selector = selector?.clone();
    for key in same {
        if let Some(value) = labels.get(key) {
            selector.require(key.clone(), value.clone());
        }
    }
    for key in different {
        if let Some(value) = labels.get(key) {
            let values = [value.clone()].into();
            selector.expressions.insert(SelectorExpression {
                key: key.clone(),
                operator: SelectorOperator::NotIn,
                values,
            });
        }
    }
    Some(selector)
}
