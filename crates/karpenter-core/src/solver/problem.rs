//! One provisioning problem, compiled: everything the strategies read and none of them changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_quantity::{CPU, MEMORY, ResourceList};
use rustc_hash::{FxHashMap, FxHashSet};

use super::bits::Bits;
use super::classes::{self, Class, ClassParts, Domains, NodeFilter};
use super::columns::Columns;
use super::label_sets::LabelTable;
use super::nodes::{self, Place};
use super::relaxation;
use super::reservations::Reservations;
use super::resources::Resources;
use super::states::{Definitions, States, TemplateId};
use super::templates::{LIFECYCLE_LABELS, Template, TemplateParts, pool_requirements, pools_in_order};
use super::topology::{Counter, Counters, RuleKind, Topology};
use super::volumes;
use crate::catalog::{Catalog, HOSTNAME, InstanceType};
use crate::cluster::{ClusterSnapshot, NodePool, Pod, PodSpec, Taint, TaintEffect};
use crate::plan::{PodIndex, SolverOptions};
use crate::requirements::RequirementSet;

/// A compiled problem.
pub(crate) struct Problem<'a> {
    pub(crate) snapshot: &'a ClusterSnapshot,
    pub(crate) options: &'a SolverOptions,
    pub(crate) labels: LabelTable,
    pub(crate) resources: Resources,
    pub(crate) limits: Resources,
    pub(crate) columns: Columns,
    pub(crate) reservations: Reservations,
    pub(crate) templates: Vec<Template>,
    pub(crate) places: Vec<Place>,
    pub(crate) classes: Vec<Class>,
    pub(crate) counters: Counters,
    pub(crate) filters: Vec<NodeFilter>,
    /// Classes in queue order with the number of pods in a row.
    pub(crate) queue: Vec<(u32, u32)>,
    /// Bound pods per domain, per counter; empty for host-level counters.
    pub(crate) counts: Vec<Vec<u32>>,
    /// Bound pods per host-level counter, over all nodes.
    pub(crate) host_totals: Vec<u32>,
    /// Pending pods each counter will count.
    pub(crate) population: Vec<u32>,
    /// Domains known for each topology key, over all pools and nodes.
    pub(crate) domains: FxHashMap<u16, Bits>,
    /// Where pods look for those each counter counts, if they must be near them or else be the first of their kind.
    pub(crate) sought: Vec<Vec<Bits>>,
}

impl<'a> Problem<'a> {
    /// Compiles the problem of placing `wanted`; returns the interned states along with it, since strategies add to them.
    ///
    /// The first `moving` of them wait now; the others may come to wait, and are counted where they are until then.
    pub(crate) fn new(
        snapshot: &'a ClusterSnapshot,
        catalog: &'a Catalog,
        options: &'a SolverOptions,
        pods: &[Arc<Pod>],
        wanted: &[PodIndex],
        moving: usize,
    ) -> (Self, States) {
        let pools: Vec<Arc<NodePool>> = pools_in_order(snapshot)
            .into_iter()
            .filter(|pool| !catalog.types(&pool.name).is_empty())
            .collect();
        let types = distinct_types(catalog, &pools);
        let specs = distinct_specs(pods, wanted);
        let labels = label_table(snapshot, &pools, &types, &specs, pods, wanted);
        let resources = resources(snapshot, &types, &specs);
        let limits = Resources::new(
            pools.iter().filter_map(|pool| pool.limits.as_ref()),
            types.iter().map(|instance_type| &instance_type.capacity),
        );
        let columns = Columns::new(types, &labels, &resources, &limits);
        let mut states = States::new(definitions(snapshot, &pools, &labels));
        let parts = TemplateParts {
            snapshot,
            catalog,
            labels: &labels,
            columns: &columns,
            resources: &resources,
            limits: &limits,
        };
        let templates: Vec<Template> = pools
            .iter()
            .enumerate()
            .map(|(id, pool)| parts.build(id as TemplateId, pool, &mut states))
            .collect();
        let places = nodes::places(snapshot, &labels, &resources);
        let order = queue_order(pods, wanted);
        let domains = topology_domains(&labels, &templates, &columns);
        let template_taints: Vec<Vec<Taint>> =
            templates.iter().map(|template| template.pool.taints.clone()).collect();
        let soft_taints =
            template_taints.iter().flatten().any(|taint| taint.effect == TaintEffect::PreferNoSchedule);
        let parts = ClassParts {
            snapshot,
            labels: &labels,
            resources: &resources,
            template_taints: &template_taints,
            domains: &domains,
            preferences: options.preferences,
            soft_taints,
            ignore_dynamic_resources: options.ignore_dynamic_resources,
            places: &places,
        };
        let compiled = classes::compile(&parts, pods, &order, &mut states);
        let queue = queue(&compiled.classes, pods.len(), &order);
        let mut problem = Self {
            snapshot,
            options,
            labels,
            resources,
            limits,
            reservations: Reservations::new(&columns),
            columns,
            templates,
            places,
            classes: compiled.classes,
            counters: compiled.counters,
            filters: compiled.filters,
            queue,
            counts: Vec::new(),
            host_totals: Vec::new(),
            population: Vec::new(),
            domains: FxHashMap::default(),
            sought: Vec::new(),
        };
        problem.domains = problem.all_domains(&domains);
        problem.prepare_counters(pods, &wanted[..moving], &states);
        (problem, states)
    }

    fn prepare_counters(&mut self, pods: &[Arc<Pod>], wanted: &[PodIndex], states: &States) {
        self.sought = self.sought_domains();
        self.population = self.populations();
        self.count_bound_pods(pods, wanted, states);
    }

    fn all_domains(&self, by_template: &FxHashMap<u16, Domains>) -> FxHashMap<u16, Bits> {
        let all = |key: u16, domains: &Domains| {
            let mut all = Bits::none(self.labels.value_count(key));
            domains.by_template.iter().for_each(|values| all.or_with(values));
            let of_nodes = self.places.iter().filter_map(|place| place.labels[key as usize]);
            of_nodes.for_each(|value| all.insert(value as usize));
            all
        };
        by_template.iter().map(|(key, domains)| (*key, all(*key, domains))).collect()
    }

    fn sought_domains(&self) -> Vec<Vec<Bits>> {
        let mut sought: Vec<Vec<Bits>> = vec![Vec::new(); self.counters.len()];
        for rule in self.classes.iter().flat_map(|class| &class.levels).flat_map(|level| &level.rules) {
            if let RuleKind::Affinity { required: true, domains } = &rule.kind
                && rule.selects_itself
                && !sought[rule.counter as usize].contains(domains)
            {
                sought[rule.counter as usize].push(domains.clone());
            }
        }
        sought
    }

    /// A count of zero for every domain of the counters that look at some nodes only.
    pub(crate) fn nothing_doubtful(&self) -> Vec<Vec<u32>> {
        let zeros = |(counter, counts): (&Counter, &Vec<u32>)| match counter.filter {
            Some(_) => vec![0; counts.len()],
            None => Vec::new(),
        };
        self.counters.all.iter().zip(&self.counts).map(zeros).collect()
    }

    fn populations(&self) -> Vec<u32> {
        let mut population = vec![0; self.counters.len()];
        for class in &self.classes {
            for counter in class.counted_by.iter().chain(&class.refuses) {
                population[*counter as usize] += class.pods.len() as u32;
            }
        }
        population
    }

    /// Counts the pods that are bound and not about to be moved.
    fn count_bound_pods(&mut self, pods: &[Arc<Pod>], wanted: &[PodIndex], states: &States) {
        let domains = |counter: &Counter| match counter.topology {
            Topology::Host => 0,
            Topology::Label(key) => self.labels.value_count(key),
        };
        self.counts = self.counters.all.iter().map(|counter| vec![0; domains(counter)]).collect();
        self.host_totals = vec![0; self.counters.len()];
        if self.counters.len() == 0 {
            return;
        }
        let moved: FxHashSet<*const Pod> =
            wanted.iter().map(|index| Arc::as_ptr(&pods[*index as usize])).collect();
        let mut known: FxHashMap<BoundKey, Arc<Vec<u32>>> = FxHashMap::default();
        for place in 0..self.places.len() {
            let node = self.places[place].node.clone();
            for pod in node.pods.iter().filter(|pod| pod.is_active() && !moved.contains(&Arc::as_ptr(pod))) {
                let key = (Arc::as_ptr(&pod.labels), Arc::as_ptr(&pod.spec), Arc::as_ptr(&pod.id.namespace));
                let counters = known.entry(key).or_insert_with(|| Arc::new(self.counters_of(pod))).clone();
                for id in counters.iter() {
                    self.count(*id, place, states);
                }
            }
        }
    }

    /// The counters a bound pod is counted by: those that match it, and those of its own refusals.
    fn counters_of(&self, pod: &Pod) -> Vec<u32> {
        let is_matching = |id: &u32| self.counters.get(*id).counted == super::topology::Counted::Matching;
        let mut ids: Vec<u32> =
            self.counters.matching(&pod.id.namespace, &pod.labels).into_iter().filter(is_matching).collect();
        ids.extend(self.refusals_of(pod));
        ids
    }

    fn refusals_of(&self, pod: &Pod) -> Vec<u32> {
        if pod.spec.anti_affinity.is_empty() {
            return Vec::new();
        }
        classes::refusals(pod, &self.snapshot.namespaces, &self.labels)
            .into_iter()
            .filter_map(|counter| self.counters.find(&counter))
            .collect()
    }

    fn count(&mut self, id: u32, place: usize, states: &States) {
        let counter = self.counters.get(id);
        if let Some(filter) = counter.filter
            && !self.filters[filter as usize].admits_place(&self.places[place], states)
        {
            return;
        }
        match counter.topology {
            Topology::Host => {
                self.host_totals[id as usize] += 1;
                let counts = &mut self.places[place].counts;
                match counts.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((id, 1)),
                }
            }
            Topology::Label(key) => {
                if let Some(value) = self.places[place].labels[key as usize] {
                    self.counts[id as usize][value as usize] += 1;
                    let counts = &mut self.places[place].domain_counts;
                    match counts.iter_mut().find(|(known, _)| *known == id) {
                        Some((_, count)) => *count += 1,
                        None => counts.push((id, 1)),
                    }
                }
            }
        }
    }
}

type BoundKey = (*const crate::cluster::Labels, *const PodSpec, *const str);

fn distinct_types(catalog: &Catalog, pools: &[Arc<NodePool>]) -> Vec<Arc<InstanceType>> {
    let mut seen = FxHashSet::default();
    let mut lists = FxHashSet::default();
    let mut types = Vec::new();
    for pool in pools {
        let list = catalog.types(&pool.name);
        if lists.insert(list.as_ptr()) {
            types
                .extend(list.iter().filter(|instance_type| seen.insert(Arc::as_ptr(instance_type))).cloned());
        }
    }
    types
}

fn distinct_specs<'p>(pods: &'p [Arc<Pod>], wanted: &[PodIndex]) -> Vec<&'p PodSpec> {
    let mut seen = FxHashSet::default();
    wanted
        .iter()
        .map(|index| &pods[*index as usize].spec)
        .filter(|spec| seen.insert(Arc::as_ptr(spec)))
        .map(|spec| &**spec)
        .collect()
}

/// Every key somebody has a condition on, with every value anybody mentions.
fn label_table(
    snapshot: &ClusterSnapshot,
    pools: &[Arc<NodePool>],
    types: &[Arc<InstanceType>],
    specs: &[&PodSpec],
    pods: &[Arc<Pod>],
    wanted: &[PodIndex],
) -> LabelTable {
    let mut conditions: Vec<RequirementSet> = pools.iter().map(|pool| pool_requirements(pool)).collect();
    let daemon_specs = snapshot.daemon_sets.iter().map(|daemon| &*daemon.spec);
    for spec in specs.iter().copied().chain(daemon_specs) {
        conditions.extend(relaxation::alternatives(spec));
        conditions.extend(spec.preferred_terms.iter().map(|term| term.requirements.iter().collect()));
    }
    let with_volumes =
        wanted.iter().map(|index| &pods[*index as usize]).filter(|pod| !pod.volumes.is_empty());
    conditions.extend(with_volumes.flat_map(|pod| volumes::alternatives(pod, snapshot)));
    let mut labels = LabelTable::default();
    for topology_key in specs.iter().flat_map(|spec| topology_keys(spec)) {
        labels.add_topology_key(topology_key);
    }
    // Pods that are bound may refuse pods of the batch.
    for term in snapshot.nodes.iter().flat_map(|node| &node.pods).flat_map(|pod| &pod.spec.anti_affinity) {
        if &*term.topology_key != HOSTNAME {
            labels.add_topology_key(&term.topology_key);
        }
    }
    conditions.iter().for_each(|set| labels.add_keys(set));
    let offerings = || types.iter().flat_map(|instance_type| &instance_type.offerings);
    // Thousands of offerings have a handful of distinct conditions: those are found first and put in order afterwards.
    let mut places = FxHashSet::default();
    let distinct = offerings().filter(|offering| places.insert(Arc::as_ptr(&offering.requirements)));
    let distinct: FxHashSet<&RequirementSet> = distinct.map(|offering| &*offering.requirements).collect();
    let offered: BTreeSet<&RequirementSet> = distinct.into_iter().collect();
    offered.iter().for_each(|set| labels.add_keys(set));
    conditions.iter().chain(offered.iter().copied()).for_each(|set| labels.add_values(set));
    types.iter().for_each(|instance_type| labels.add_values(&instance_type.requirements));
    LIFECYCLE_LABELS.iter().for_each(|key| labels.add_value(key, &Arc::from("true")));
    for node in &snapshot.nodes {
        for (key, value) in node.labels.iter() {
            labels.add_value(key, value);
        }
        labels.add_value(HOSTNAME, &node.name);
    }
    labels
}

fn topology_keys(spec: &PodSpec) -> impl Iterator<Item = &Arc<str>> {
    let weighted =
        spec.preferred_affinity.iter().chain(&spec.preferred_anti_affinity).map(|weighted| &weighted.term);
    let terms =
        spec.affinity.iter().chain(&spec.anti_affinity).chain(weighted).map(|term| &term.topology_key);
    spec.spread
        .iter()
        .map(|constraint| &constraint.topology_key)
        .chain(terms)
        .filter(|key| &***key != HOSTNAME)
}

fn resources(snapshot: &ClusterSnapshot, types: &[Arc<InstanceType>], specs: &[&PodSpec]) -> Resources {
    let daemons = snapshot.daemon_sets.iter().map(|daemon| &daemon.spec.requests);
    let mut seen = FxHashSet::default();
    let bound: Vec<&ResourceList> = snapshot
        .nodes
        .iter()
        .flat_map(|node| &node.pods)
        .filter(|pod| seen.insert(Arc::as_ptr(&pod.spec)))
        .map(|pod| &pod.spec.requests)
        .collect();
    let overrides = types.iter().flat_map(|instance_type| &instance_type.offerings);
    let overrides =
        overrides.flat_map(|offering| offering.capacity_override.iter().chain(&offering.overhead_override));
    let supplies = types
        .iter()
        .flat_map(|instance_type| [&instance_type.capacity, &instance_type.overhead])
        .chain(overrides)
        .chain(snapshot.nodes.iter().map(|node| &node.allocatable))
        .chain(bound);
    Resources::new(specs.iter().map(|spec| &spec.requests).chain(daemons), supplies)
}

fn definitions(snapshot: &ClusterSnapshot, pools: &[Arc<NodePool>], labels: &LabelTable) -> Definitions {
    let mut well_known = Bits::none(labels.len());
    for key in &snapshot.label_rules.well_known {
        if let Some(id) = labels.key(key) {
            well_known.insert(id as usize);
        }
    }
    let by_template = pools
        .iter()
        .map(|pool| {
            let mut defined = Bits::none(labels.len());
            let requirements = pool_requirements(pool);
            let lifecycle = LIFECYCLE_LABELS.iter().copied();
            for key in
                requirements.iter().map(|(key, _)| &**key).chain(lifecycle).filter_map(|key| labels.key(key))
            {
                defined.insert(key as usize);
            }
            defined
        })
        .collect();
    Definitions { well_known, by_template }
}

/// The domains each template can make nodes in, for every topology key pods use.
fn topology_domains(
    labels: &LabelTable,
    templates: &[Template],
    columns: &Columns,
) -> FxHashMap<u16, Domains> {
    let domains_of = |key: u16, name: &str, template: &Template| {
        let mut values = Bits::none(labels.value_count(key));
        let pool = pool_requirements(&template.pool);
        let own = pool.get(name).map(|set| labels.compile(key, set));
        if let Some(own) = own.as_ref().filter(|own| !own.open) {
            values.or_with(&own.bits);
        }
        for column in template.types.iter() {
            let Some(set) = columns.instance_type(column as u32).requirements.get(name) else { continue };
            let offered = labels.compile(key, set);
            if !offered.open {
                values.or_with(
                    &own.as_ref().map_or_else(|| offered.bits.clone(), |own| own.bits.and(&offered.bits)),
                );
            }
        }
        values
    };
    labels
        .topology_keys()
        .map(|key| {
            let by_template =
                templates.iter().map(|template| domains_of(key, labels.name(key), template)).collect();
            (key, Domains { by_template })
        })
        .collect()
}

/// Pods in the order they are served: priority, then cpu and memory, largest first, then age, then UID.
fn queue_order(pods: &[Arc<Pod>], wanted: &[PodIndex]) -> Vec<PodIndex> {
    let mut sizes: FxHashMap<*const PodSpec, (i128, i128)> = FxHashMap::default();
    let mut keyed: Vec<_> = wanted
        .iter()
        .map(|index| {
            let pod = &pods[*index as usize];
            let requests = &pod.spec.requests;
            let size = sizes
                .entry(Arc::as_ptr(&pod.spec))
                .or_insert_with(|| (requests.get(CPU).as_nano(), requests.get(MEMORY).as_nano()));
            (std::cmp::Reverse((pod.priority, size.0, size.1)), pod.created, *index)
        })
        .collect();
    keyed.sort_unstable_by(|a, b| {
        (&a.0, a.1).cmp(&(&b.0, b.1)).then_with(|| pods[a.2 as usize].id.uid.cmp(&pods[b.2 as usize].id.uid))
    });
    keyed.into_iter().map(|(_, _, index)| index).collect()
}

/// Runs of pods of the same class, in queue order.
fn queue(classes: &[Class], pod_count: usize, order: &[PodIndex]) -> Vec<(u32, u32)> {
    let mut class_of = vec![0u32; pod_count];
    for (id, class) in classes.iter().enumerate() {
        for pod in &class.pods {
            class_of[*pod as usize] = id as u32;
        }
    }
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for pod in order {
        let class = class_of[*pod as usize];
        match runs.last_mut() {
            Some((last, count)) if *last == class => *count += 1,
            _ => runs.push((class, 1)),
        }
    }
    runs
}
