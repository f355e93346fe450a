//! Why pods got no place: for every NodePool, the first thing that stands in the way, found on the world as the plan left it.

use std::sync::Arc;

use super::bin::{self, Bin};
use super::bits::Bits;
use super::classes::{Class, Level, accepts_taints};
use super::domains::{self, Probe};
use super::label_sets::{KeyId, LabelSet};
use super::resources::within;
use super::states::{ConditionsId, StateId, TemplateId, matching, meet};
use super::templates::Template;
use super::topology::{Rule, Topology};
use super::world::World;
use crate::cluster::Taint;
use crate::plan::{Obstacle, PoolObstacle, Scarcity, Unschedulable};
use crate::requirements::RequirementSet;

/// Domains listed in an explanation at most.
const DOMAINS_MAX: usize = 25;

/// Why pods of a class have no place.
pub(crate) fn unschedulable(world: &mut World<'_>, class: &Class) -> Unschedulable {
    let problem = world.problem;
    let cause = common_cause(world, class);
    if cause.is_some() {
        return Unschedulable { cause, node_pools: Vec::new() };
    }
    let node_pools = (0..problem.templates.len() as TemplateId)
        .map(|template| PoolObstacle {
            node_pool: problem.templates[template as usize].pool.name.clone(),
            obstacle: obstacle(world, class, template),
        })
        .collect();
    Unschedulable { cause: None, node_pools }
}

/// What stands in the way whatever the pool.
fn common_cause(world: &World<'_>, class: &Class) -> Option<Obstacle> {
    if world.problem.templates.is_empty() {
        return Some(Obstacle::NoNodePools);
    }
    if class.levels.is_empty() {
        return Some(Obstacle::DynamicResources);
    }
    let all_contradict = class.levels.iter().all(|level| level.conditions.is_none());
    all_contradict.then(|| {
        let key = class.levels.last().and_then(|level| level.contradiction.clone());
        Obstacle::Contradiction { key: key.expect("a level without conditions names the contradiction") }
    })
}

/// What stands in the way in one pool, at the most relaxed level that is not contradictory.
fn obstacle(world: &mut World<'_>, class: &Class, template: TemplateId) -> Obstacle {
    let level = class
        .levels
        .iter()
        .rev()
        .find(|level| level.conditions.is_some())
        .expect("not all levels contradict themselves");
    let conditions = level.conditions.expect("the level was chosen for its conditions");
    let of = &world.problem.templates[template as usize];
    if let Some(taint) = untolerated(class, level, of) {
        return Obstacle::Taint { taint };
    }
    if let Some(obstacle) = refused_requirement(world, conditions, template) {
        return obstacle;
    }
    let Some(state) = world.states.narrow(of.base, conditions, &world.problem.columns) else {
        return instance_types(world, class, conditions, template);
    };
    let state = match attachable(world, class, state) {
        Ok(state) => state,
        Err(key) => return Obstacle::Volume { key },
    };
    if bin::carrying(world.problem, world.states.get(state), None, &class.amounts).next().is_none() {
        return instance_types(world, class, conditions, template);
    }
    if let Some(obstacle) = limit(world, class, template, state) {
        return obstacle;
    }
    restricted(world, class, level, template, state)
}

fn untolerated(class: &Class, level: &Level, template: &Template) -> Option<String> {
    let refuses = |taint: &&Taint| {
        !accepts_taints(&class.spec.tolerations, std::slice::from_ref(*taint), level.tolerates_preferences)
    };
    template.pool.taints.iter().find(refuses).map(|taint| {
        let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
        format!("{}{value}:{:?}", taint.key, taint.effect)
    })
}

/// A condition of the pod that the pool's own labels and requirements rule out.
fn refused_requirement(
    world: &World<'_>,
    conditions: ConditionsId,
    template: TemplateId,
) -> Option<Obstacle> {
    let labels = &world.problem.labels;
    let base = world.states.get(world.problem.templates[template as usize].base);
    world.states.conditions(conditions).iter().find_map(|(key, set)| {
        let undefined = !set.absent && !world.states.definable(template, *key);
        let offered = base.set(*key);
        let contradicts = offered.is_some_and(|offered| !offered.meets(set));
        (undefined || contradicts).then(|| Obstacle::Requirement {
            key: labels.name(*key).clone(),
            wanted: describe(world, *key, set),
            offered: offered.filter(|_| !undefined).map(|offered| describe(world, *key, offered)),
            hint: if undefined { hint(world, labels.name(*key)) } else { None },
        })
    })
}

fn describe(world: &World<'_>, key: KeyId, set: &LabelSet) -> String {
    let labels = &world.problem.labels;
    let mut one = RequirementSet::default();
    one.add(labels.name(key).clone(), &labels.to_value_set(key, set));
    let lines: Vec<String> = one.to_requirements().iter().map(ToString::to_string).collect();
    if lines.is_empty() { format!("any {}", labels.name(key)) } else { lines.join(" and ") }
}

/// A well-known label the user may have meant.
fn hint(world: &World<'_>, key: &str) -> Option<Arc<str>> {
    let tail = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let well_known = &world.problem.snapshot.label_rules.well_known;
    well_known.iter().find(|name| tail(name) == tail(key) || name.contains(key)).cloned()
}

/// The state in which the pod's volumes can be attached, or the label that rules it out.
fn attachable(world: &mut World<'_>, class: &Class, state: StateId) -> Result<StateId, Arc<str>> {
    let Some(first) = class.volume_alternatives.first() else { return Ok(state) };
    let columns = &world.problem.columns;
    let found = class
        .volume_alternatives
        .iter()
        .find_map(|alternative| world.states.narrow(state, *alternative, columns));
    found.ok_or_else(|| {
        let key = world.states.conditions(*first).first().map(|(key, _)| *key);
        key.map_or_else(|| Arc::from(crate::catalog::ZONE), |key| world.problem.labels.name(key).clone())
    })
}

/// How many types each test removes, one after the other.
fn instance_types(
    world: &World<'_>,
    class: &Class,
    conditions: ConditionsId,
    template: TemplateId,
) -> Obstacle {
    let problem = world.problem;
    let of = &problem.templates[template as usize];
    let base = world.states.get(of.base);
    let sets = meet(&base.sets, world.states.conditions(conditions)).unwrap_or_else(|| base.sets.clone());
    let labelled = matching(&sets, &of.types, &problem.columns);
    let stocked = labelled.and(&problem.columns.in_stock(&problem.columns.offerings_for(&sets)));
    let mut large = stocked.clone();
    stocked
        .iter()
        .filter(|column| !within(&class.amounts, &of.room[*column]))
        .for_each(|column| large.remove(column));
    Obstacle::InstanceTypes {
        total: of.types.count(),
        removed_by_requirements: of.types.count() - labelled.count(),
        removed_by_offerings: labelled.count() - stocked.count(),
        removed_by_resources: stocked.count() - large.count(),
        scarcest: scarcest(world, class, of, &stocked),
    }
}

/// The resource that is too small on most of the columns.
fn scarcest(world: &World<'_>, class: &Class, template: &Template, columns: &Bits) -> Option<Scarcity> {
    let resources = &world.problem.resources;
    let too_small = |resource: usize| {
        columns.iter().filter(|column| class.amounts[resource] > template.room[*column][resource]).count()
    };
    let (count, resource) = (0..resources.len())
        .map(|resource| (too_small(resource), resource))
        .max_by_key(|(count, resource)| (*count, usize::MAX - resource))?;
    let largest = columns.iter().max_by_key(|column| template.room[*column][resource])?;
    let daemons = world.problem.columns.allocatable[largest][resource] - template.room[largest][resource];
    let beyond_all = class.amounts[resource] > template.room[largest][resource];
    (count > 0 && beyond_all).then(|| Scarcity {
        resource: resources.name(resource).to_owned(),
        requested: resources.quantity(resource, class.amounts[resource] + daemons).to_string(),
        largest: resources
            .quantity(resource, world.problem.columns.allocatable[largest][resource])
            .to_string(),
    })
}

/// The limit that keeps every fitting type out.
fn limit(world: &World<'_>, class: &Class, template: TemplateId, state: StateId) -> Option<Obstacle> {
    let of = &world.problem.templates[template as usize];
    let limits = of.pool.limits.as_ref()?;
    let told = |resource: &str, remaining: String| Obstacle::Limit {
        resource: resource.to_owned(),
        limit: limits.get(resource).to_string(),
        remaining,
    };
    if let Some(left) = world.nodes_left(template).filter(|left| *left <= 0) {
        return Some(told(karpenter_quantity::NODES, left.max(0).to_string()));
    }
    let allowed = world.within_limits(template)?;
    let fitting: Vec<u32> = bin::carrying(world.problem, world.states.get(state), None, &class.amounts)
        .map(|(_, column)| column)
        .collect();
    if fitting.iter().any(|column| allowed.contains(*column as usize)) {
        return None;
    }
    let capacity = |column: u32, resource: usize| world.problem.columns.capacity[column as usize][resource];
    let (resource, left) = world
        .limits_left(template)
        .iter()
        .copied()
        .find(|(resource, left)| fitting.iter().all(|column| capacity(*column, *resource) > *left))
        .or_else(|| world.limits_left(template).first().copied())?;
    let limits = &world.problem.limits;
    Some(told(limits.name(resource), limits.quantity(resource, left.max(0)).to_string()))
}

/// Ports, volumes, `minValues`, topology, reservations: whatever stops a node that would otherwise do.
fn restricted(
    world: &mut World<'_>,
    class: &Class,
    level: &Level,
    template: TemplateId,
    state: StateId,
) -> Obstacle {
    let problem = world.problem;
    let mut bin = Bin::new(problem, template);
    bin.allowed = world.within_limits(template);
    bin.state = state;
    let fits = |allowed: Option<&Bits>, world: &World<'_>| {
        bin::carrying(problem, world.states.get(state), allowed, &class.amounts).next().is_some()
    };
    match world.columns_left(class, &bin) {
        Ok(left) if fits(left.as_deref(), world) => {}
        _ if class.spec.host_ports.is_empty() => return Obstacle::VolumeLimit,
        _ => return Obstacle::HostPort,
    }
    if let Some(rule) = failing_rule(world, class, level, &bin) {
        return topology(world, &rule);
    }
    let short = problem.templates[template as usize].min_values.iter().find_map(|(key, wanted)| {
        let columns =
            bin::carrying(problem, world.states.get(state), None, &class.amounts).map(|(_, column)| column);
        let found = bin::distinct_values(problem, &world.states, state, *key, columns);
        (found < *wanted).then(|| Obstacle::MinValues {
            key: problem.labels.name(*key).clone(),
            wanted: *wanted,
            found,
        })
    });
    if let Some(obstacle) = short {
        return obstacle;
    }
    world.waits_for_reserved = false;
    if world.on_new(class, level, template).is_none() && world.waits_for_reserved {
        return Obstacle::Reserved;
    }
    Obstacle::NoRoomBesidePeers
}

/// The first label-level rule that alone leaves no domain.
fn failing_rule(world: &mut World<'_>, class: &Class, level: &Level, bin: &Bin) -> Option<Rule> {
    let labelled: Vec<&Rule> = level.rules.iter().filter(|rule| rule.topology != Topology::Host).collect();
    for count in 1..=labelled.len() {
        let mut partial = level.clone();
        partial.rules = labelled[..count].iter().map(|rule| (*rule).clone()).collect();
        let probe = Probe { class, level: &partial, bin, allowed: bin.allowed.as_deref() };
        if domains::narrow(world, &probe, bin.state).is_none() {
            return Some(labelled[count - 1].clone());
        }
    }
    None
}

fn topology(world: &World<'_>, rule: &Rule) -> Obstacle {
    let Topology::Label(key) = rule.topology else { return Obstacle::NoRoomBesidePeers };
    let labels = &world.problem.labels;
    let known = world.problem.domains.get(&key).cloned().unwrap_or_default();
    let mut domains: Vec<(Arc<str>, u32)> = known
        .iter()
        .map(|value| {
            (labels.value_name(key, value as u32).clone(), world.possible[rule.counter as usize][value])
        })
        .collect();
    domains.sort();
    domains.truncate(DOMAINS_MAX);
    Obstacle::Topology { rule: rule.name(), key: labels.name(key).clone(), domains }
}
