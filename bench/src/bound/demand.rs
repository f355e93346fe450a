//! The pods to place, as classes: pods that ask for the same and may run in the same places.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_quantity::ResourceList;

use super::labels::{Expression, Labels};
use super::scenario::{Pod, PodAffinityTerm, Scenario, Taint, Toleration, tolerated};

/// Requirement sets that are told apart, by demand; pods with rarer ones count as if they could run anywhere, which
/// can only lower the bound.
const PLACES_MAX: usize = 32;

/// Expressions that fewer than one pod in so many has are left out, which can only lower the bound.
const RARE: f64 = 100.0;

/// Families of pods that refuse each other per node that are told apart, by size.
const FAMILIES_MAX: usize = 4;

/// Where a pod may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    selector: Vec<Expression>,
    /// Alternatives; none means there is no such rule.
    terms: Vec<Vec<Expression>>,
    tolerations: Vec<Toleration>,
}

impl Place {
    fn of(pod: &Pod, scenario: &Scenario) -> Self {
        let terms = &pod.spec.affinity.node_affinity.required.node_selector_terms;
        // A toleration that no pool's taint asks for makes no difference to where the pod may run.
        let taints = || {
            let of_pools = scenario.node_pools.iter().flat_map(|pool| &pool.spec.template.spec.taints);
            of_pools.chain(scenario.nodes.iter().flat_map(|node| &node.taints))
        };
        let useful = |toleration: &&Toleration| {
            taints().any(|taint| tolerated(std::slice::from_ref(taint), std::slice::from_ref(*toleration)))
        };
        Self {
            selector: pod.spec.node_selector.iter().map(|(key, value)| Expression::is(key, value)).collect(),
            terms: terms.iter().map(|term| term.match_expressions.clone()).collect(),
            tolerations: pod.spec.tolerations.iter().filter(useful).cloned().collect(),
        }
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.selector.iter().chain(self.terms.iter().flatten())
    }

    /// The place without the expressions that are not in the set.
    fn only(mut self, kept: &BTreeSet<Expression>) -> Self {
        self.selector.retain(|expression| kept.contains(expression));
        for term in &mut self.terms {
            term.retain(|expression| kept.contains(expression));
        }
        self
    }

    /// Whether a pod may run on some node of this kind.
    pub(super) fn possible(&self, labels: &Labels, taints: &[Taint]) -> bool {
        self.judged(taints, |expression| labels.possible(expression))
    }

    /// Whether a daemon runs on every node of this kind.
    pub(super) fn certain(&self, labels: &Labels, taints: &[Taint]) -> bool {
        self.judged(taints, |expression| labels.certain(expression))
    }

    fn judged(&self, taints: &[Taint], holds: impl Fn(&Expression) -> bool) -> bool {
        let term = |term: &Vec<Expression>| term.iter().all(&holds);
        tolerated(taints, &self.tolerations)
            && self.selector.iter().all(&holds)
            && (self.terms.is_empty() || self.terms.iter().any(term))
    }
}

/// Equal pods.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) count: f64,
    pub(super) requests: ResourceList,
    /// Index into [`Demand::places`]; `None` when it is not told apart.
    pub(super) place: Option<usize>,
    /// Index of the family of which a node holds at most one pod.
    pub(super) family: Option<usize>,
}

/// All pods to place.
pub(super) struct Demand {
    pub(super) places: Vec<Place>,
    pub(super) families: usize,
    pub(super) classes: Vec<Class>,
}

impl Demand {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let displaced = scenario.nodes.iter().filter(|node| node.deleting).flat_map(|node| &node.pod_groups);
        let groups = || scenario.pod_groups.iter().chain(displaced.clone());
        let common = frequent(groups().map(|group| (Place::of(&group.pod, scenario), group.count() as f64)));
        let pods: Vec<(f64, ResourceList, Place, Option<String>)> = groups()
            .map(|group| {
                let place = Place::of(&group.pod, scenario).only(&common);
                (group.count() as f64, group.pod.requests(), place, family(&group.pod))
            })
            .collect();
        let places = most_demanded(pods.iter().map(|(count, _, place, _)| (place, *count)), PLACES_MAX);
        let lone = pods.iter().filter_map(|(count, _, _, family)| Some((family.as_ref()?, *count)));
        let families = most_demanded(lone, FAMILIES_MAX);
        let mut classes: BTreeMap<(ResourceList, Option<usize>, Option<usize>), f64> = BTreeMap::new();
        for (count, requests, place, family) in pods {
            let place = places.iter().position(|known| *known == place);
            let family = family.and_then(|family| families.iter().position(|known| *known == family));
            *classes.entry((requests, place, family)).or_default() += count;
        }
        let class = |((requests, place, family), count)| Class { count, requests, place, family };
        Self { places, families: families.len(), classes: classes.into_iter().map(class).collect() }
    }
}

/// The expressions that enough pods have.
fn frequent(places: impl Iterator<Item = (Place, f64)>) -> BTreeSet<Expression> {
    let mut pods = 0.0;
    let mut having: BTreeMap<Expression, f64> = BTreeMap::new();
    for (place, count) in places {
        pods += count;
        for expression in place.expressions() {
            *having.entry(expression.clone()).or_default() += count;
        }
    }
    having.into_iter().filter(|(_, count)| count * RARE >= pods).map(|(expression, _)| expression).collect()
}

/// The place of a daemon.
pub(super) fn daemon_place(template: &Pod, scenario: &Scenario) -> Place {
    Place::of(template, scenario)
}

/// The values with the greatest sums, greatest first.
fn most_demanded<'a, T: Ord + Clone + 'a>(
    values: impl Iterator<Item = (&'a T, f64)>,
    at_most: usize,
) -> Vec<T> {
    let mut sums: BTreeMap<&T, f64> = BTreeMap::new();
    for (value, count) in values {
        *sums.entry(value).or_default() += count;
    }
    let mut sums: Vec<(&T, f64)> = sums.into_iter().collect();
    sums.sort_by(|left, right| right.1.total_cmp(&left.1));
    sums.into_iter().take(at_most).map(|(value, _)| value.clone()).collect()
}

/// The family of a pod that refuses its equals on the same node: all carry the term and are matched by it.
fn family(pod: &Pod) -> Option<String> {
    let refuses_equals = |term: &&PodAffinityTerm| {
        let selector = &term.label_selector;
        term.topology_key == "kubernetes.io/hostname"
            && selector.match_expressions.is_empty()
            && !selector.match_labels.is_empty()
            && selector.match_labels.iter().all(|(key, value)| pod.metadata.labels.get(key) == Some(value))
    };
    let term = pod.spec.affinity.pod_anti_affinity.required.iter().find(refuses_equals)?;
    Some(format!("{}/{:?}", pod.metadata.namespace, term.label_selector.match_labels))
}
