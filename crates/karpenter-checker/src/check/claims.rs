//! A claim as printed: its type list, the order of it, its cheapest offering and its requests.

use std::collections::{BTreeSet, HashMap};

use super::daemons::template_overheads;
use super::{Examination, Place};
use crate::claim::ClaimView;
use crate::labels::INSTANCE_TYPE;
use crate::plan::CheapestOffering;
use crate::resources::{add, add_times, amount};
use crate::scenario::ResourceList;
use crate::violation::{Violation, ViolationKind};
use crate::world::World;

/// The most types a claim may list.
const TYPES_MAX: usize = 600;

/// Prices are decimal texts in the files; anything closer than this is the same price.
const PRICE_TOLERANCE: f64 = 1e-9;

pub(super) fn violations(examination: &Examination<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut overheads = HashMap::new();
    for site in &examination.sites {
        let Place::Claim(view, position) = site.place else { continue };
        violations.extend(type_list(view, examination.world));
        violations.extend(unusable_types(view));
        violations.extend(type_order(view));
        violations.extend(cheapest(view));
        let extremes = overheads
            .entry(examination.shapes[position])
            .or_insert_with(|| template_overheads(view, examination.world));
        violations.extend(requests(view, &site.placed, examination.world, extremes));
    }
    violations
}

fn type_list(view: &ClaimView<'_>, world: &World<'_>) -> Vec<Violation> {
    let listed = &view.claim.instance_types;
    let report = |message: String| Violation::new(ViolationKind::TypeList, &view.name, message);
    let mut violations = Vec::new();
    if listed.is_empty() {
        violations.push(report("the claim lists no instance types".to_owned()));
    }
    if listed.len() > TYPES_MAX {
        violations
            .push(report(format!("the claim lists {} types, at most {TYPES_MAX} are allowed", listed.len())));
    }
    if view.claim.pods.is_empty() {
        violations.push(report("the claim carries no pods".to_owned()));
    }
    let mut seen = BTreeSet::new();
    for name in listed {
        if !world.types.contains_key(name.as_str()) {
            violations.push(report(format!("there is no instance type `{name}`")));
        } else if !seen.insert(name) {
            violations.push(report(format!("instance type `{name}` is listed twice")));
        }
    }
    violations
}

/// Every listed type must agree with the claim's requirements and be buyable under them.
fn unusable_types(view: &ClaimView<'_>) -> Vec<Violation> {
    let report = |message: String| Violation::new(ViolationKind::TypeRequirement, &view.name, message);
    let mut violations = Vec::new();
    for listed in &view.types {
        let name = listed.facts.name;
        let clash = view.permitted.iter().find(|(key, permitted)| {
            listed.facts.labels.get(key.as_str()).is_some_and(|states| !states.intersects(permitted))
        });
        if let Some((key, _)) = clash {
            let rule = if key == INSTANCE_TYPE { "names other types" } else { "excludes it" };
            violations
                .push(report(format!("`{name}` is listed although the claim's `{key}` requirement {rule}")));
        } else if listed.offerings.is_empty() {
            violations.push(report(format!("`{name}` has no offering in stock that the claim allows")));
        }
    }
    violations
}

fn type_order(view: &ClaimView<'_>) -> Option<Violation> {
    let rank = |i: usize| (view.types[i].price(), view.types[i].facts.name);
    let position = (1..view.types.len()).find(|&i| rank(i - 1) > rank(i))?;
    let (earlier, later) = (view.types[position - 1].facts.name, view.types[position].facts.name);
    let message = format!("`{earlier}` is listed before `{later}`, which is cheaper or comes first by name");
    Some(Violation::new(ViolationKind::TypeOrder, &view.name, message))
}

fn cheapest(view: &ClaimView<'_>) -> Option<Violation> {
    let report = |message: String| Some(Violation::new(ViolationKind::Cheapest, &view.name, message));
    let lowest = view.types.iter().map(crate::claim::ListedType::price).fold(f64::INFINITY, f64::min);
    let Some(printed) = &view.claim.cheapest else {
        return if lowest.is_finite() { report("the cheapest offering is missing".to_owned()) } else { None };
    };
    if (printed.price - lowest).abs() > PRICE_TOLERANCE {
        return report(format!("the cheapest offering costs {lowest}, not {}", printed.price));
    }
    let named = view.outcomes().any(|o| {
        o.listed.facts.name == printed.instance_type
            && o.offering.zone == printed.zone
            && o.offering.capacity_type == printed.capacity_type
            && (o.offering.price - lowest).abs() <= PRICE_TOLERANCE
    });
    if named {
        None
    } else {
        report(format!("{} is not an offering of the claim at that price", describe(printed)))
    }
}

fn describe(offering: &CheapestOffering) -> String {
    format!("{} in {} as {}", offering.instance_type, offering.zone, offering.capacity_type)
}

/// Requests are those of the pods plus the daemons' on the listed types that carry the fewest of them.
///
/// Upstream skips a group of types without daemons or not depending on map order, so anything between the
/// smallest and the largest overhead of the listed types is accepted.
fn requests(
    view: &ClaimView<'_>,
    placed: &std::collections::BTreeMap<usize, usize>,
    world: &World<'_>,
    (least, most): &(ResourceList, ResourceList),
) -> Option<Violation> {
    let mut pods = ResourceList::new();
    for (class, count) in placed {
        add_times(&mut pods, &world.classes[*class].requests, *count);
    }
    let (mut low, mut high) = (pods.clone(), pods);
    add(&mut low, least);
    add(&mut high, most);
    let printed = &view.claim.requests;
    let names: BTreeSet<&String> = high.keys().chain(printed.keys()).collect();
    let wrong = names.into_iter().find(|name| {
        let printed = amount(printed, name);
        printed < amount(&low, name) || printed > amount(&high, name)
    })?;
    let message =
        format!("`{wrong}` requests should be {} but are {}", amount(&low, wrong), amount(printed, wrong));
    Some(Violation::new(ViolationKind::Requests, &view.name, message))
}
