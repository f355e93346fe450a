//! Requirements against each other and against what can be bought.
//!
//! A machine is left if, for every label that both it and the pool speak of, some value suits both, and if it is sold in some place for which the same holds:
//! the rule that planning follows. Where nothing is left, lines are taken away one by one until only those remain that exclude each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::LabelRules;
use karpenter_core::catalog::InstanceType;
use karpenter_core::cluster::NodePool;
use karpenter_core::requirements::{Operator, Requirement, RequirementSet, ValueSet};

use crate::finding::{Code, Finding, Object};
use crate::spelling::nearest;

/// How many values a sentence names.
const NAMED: usize = 8;

/// A requirement, or a label of the template, and where it stands.
pub(crate) struct Line {
    field: String,
    requirement: Requirement,
}

impl Line {
    /// Every line of a pool that narrows its machines.
    pub(crate) fn all(written: &karpenter_api::NodePool, read: &NodePool, rules: &LabelRules) -> Vec<Self> {
        let metadata = written.spec.template.metadata.as_ref();
        let labels = metadata.iter().flat_map(|metadata| metadata.labels.iter().flatten());
        let of_labels = labels.map(|(key, value)| Self {
            field: format!("spec.template.metadata.labels[{key}]"),
            requirement: Requirement::new(rules.normalize(key), Operator::In, [value.as_str()]),
        });
        let requirements = read.requirements.iter().enumerate();
        let of_requirements = requirements.map(|(index, requirement)| Self {
            field: format!("spec.template.spec.requirements[{index}]"),
            requirement: requirement.clone(),
        });
        of_labels.chain(of_requirements).collect()
    }

    fn key(&self) -> &Arc<str> {
        &self.requirement.key
    }
}

/// Labels whose lines exclude each other.
pub(crate) fn contradictions(lines: &[Line], object: &Object) -> Vec<Finding> {
    let mut by_key: BTreeMap<&Arc<str>, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        by_key.entry(line.key()).or_default().push(line);
    }
    let contradicts = |lines: &[&Line]| combined(lines.iter().copied()).contradiction().is_some();
    let clashing = by_key.into_values().filter(|lines| contradicts(lines));
    clashing
        .map(|lines| {
            let guilty = smallest(lines, contradicts);
            let cause = match &guilty[..] {
                [line] => format!("no value can satisfy {}", line.requirement),
                several => format!("no value satisfies {} at once", sentence(several)),
            };
            let remedy = "remove or change one of these lines; lines of one label all have to hold";
            let field = guilty.last().map(|line| line.field.clone()).unwrap_or_default();
            Finding::new(Code::RequirementsContradict, object, field, cause, remedy)
        })
        .collect()
}

/// The machines a pool may use, or why there are none.
pub(crate) fn left<'t>(
    lines: &[Line],
    types: &'t [Arc<InstanceType>],
    object: &Object,
) -> Result<Vec<&'t Arc<InstanceType>>, Vec<Finding>> {
    let all: Vec<&Line> = lines.iter().collect();
    let wanted = combined(all.iter().copied());
    let left: Vec<&Arc<InstanceType>> = types.iter().filter(|machine| is_sold(machine, &wanted)).collect();
    if !left.is_empty() {
        return Ok(left);
    }
    let excludes = |lines: &[&Line]| {
        let wanted = combined(lines.iter().copied());
        !types.iter().any(|machine| is_sold(machine, &wanted))
    };
    let alone: Vec<&Line> = all.iter().copied().filter(|line| excludes(&[*line])).collect();
    if !alone.is_empty() {
        return Err(alone.into_iter().map(|line| unsatisfiable(line, types, object)).collect());
    }
    let guilty = smallest(all, excludes);
    let wanted = combined(guilty.iter().copied());
    let exists = types.iter().any(|machine| suits(&machine.requirements, &wanted));
    let (code, what) = if exists {
        (Code::NoOffering, "no machine is sold that satisfies")
    } else {
        (Code::RequirementsUnsatisfiable, "no machine satisfies")
    };
    let cause = format!("{what} {} together, though each can be satisfied alone", sentence(&guilty));
    let field = guilty.last().map(|line| line.field.clone()).unwrap_or_default();
    Err(vec![Finding::new(code, object, field, cause, way_out(&guilty, types))])
}

/// What would have to change: for each guilty line, the values that the others leave.
fn way_out(guilty: &[&Line], types: &[Arc<InstanceType>]) -> String {
    let ways = guilty.iter().filter_map(|line| {
        let others = combined(guilty.iter().copied().filter(|other| other.field != line.field));
        let possible = types.iter().filter(|machine| is_sold(machine, &others));
        let values: BTreeSet<Arc<str>> =
            possible.flat_map(|machine| values_of(machine, line.key())).collect();
        (!values.is_empty()).then(|| format!("{} to {}", line.key(), named(values.iter())))
    });
    let ways: Vec<String> = ways.collect();
    if ways.is_empty() {
        "remove one of these lines".to_owned()
    } else {
        format!("remove one of these lines, or change {}", ways.join(", or "))
    }
}

fn unsatisfiable(line: &Line, types: &[Arc<InstanceType>], object: &Object) -> Finding {
    let known: BTreeSet<Arc<str>> = types.iter().flat_map(|machine| values_of(machine, line.key())).collect();
    let written = line.requirement.values.first().map(|value| &**value).unwrap_or_default();
    let remedy = match nearest(written, known.iter().map(|value| &**value)) {
        Some(meant) => format!("did you mean {meant}? There are {}", named(known.iter())),
        None => format!("use what exists: {}", named(known.iter())),
    };
    let cause = format!("no machine satisfies {}", line.requirement);
    Finding::new(Code::RequirementUnsatisfiable, object, &line.field, cause, remedy)
}

/// Values and labels that nobody has, beside some that exist.
pub(crate) fn spelling(
    lines: &[Line],
    types: &[Arc<InstanceType>],
    rules: &LabelRules,
    object: &Object,
) -> Vec<Finding> {
    let keys: BTreeSet<Arc<str>> = types.iter().flat_map(|machine| keys_of(machine)).collect();
    lines.iter().filter_map(|line| misspelt(line, types, &keys, rules, object)).collect()
}

fn misspelt(
    line: &Line,
    types: &[Arc<InstanceType>],
    keys: &BTreeSet<Arc<str>>,
    rules: &LabelRules,
    object: &Object,
) -> Option<Finding> {
    if !keys.contains(line.key()) {
        let known = keys.iter().map(|key| &**key).chain(rules.well_known());
        let meant = nearest(line.key(), known).filter(|_| !rules.is_well_known(line.key()))?;
        let cause = format!("no machine has a label {}", line.key());
        let remedy = format!("did you mean {meant}? A label of your own should differ more from it");
        return Some(Finding::new(Code::LabelMisspelt, object, &line.field, cause, remedy));
    }
    if line.requirement.operator != Operator::In {
        return None;
    }
    let known: BTreeSet<Arc<str>> = types.iter().flat_map(|machine| values_of(machine, line.key())).collect();
    let unknown: Vec<&Arc<str>> =
        line.requirement.values.iter().filter(|value| !known.contains(*value)).collect();
    if known.is_empty() || unknown.is_empty() || unknown.len() == line.requirement.values.len() {
        return None;
    }
    let meant = unknown.iter().find_map(|value| nearest(value, known.iter().map(|value| &**value)));
    let remedy = match meant {
        Some(meant) => format!("did you mean {meant}? Otherwise remove it"),
        None => format!("remove it; there are {}", named(known.iter())),
    };
    let cause = format!("no machine has {} {}", line.key(), named(unknown.into_iter()));
    Some(Finding::new(Code::ValueUnknown, object, &line.field, cause, remedy))
}

/// Lines whose `minValues` the machines that are left cannot meet.
pub(crate) fn min_values(lines: &[Line], left: &[&Arc<InstanceType>], object: &Object) -> Vec<Finding> {
    let wanted = combined(lines);
    let mut findings = Vec::new();
    for line in lines {
        let Some(least) = line.requirement.min_values else { continue };
        let allowed = |value: &Arc<str>| wanted.get(line.key()).is_none_or(|set| set.contains(value));
        let values: BTreeSet<Arc<str>> =
            left.iter().flat_map(|machine| values_of(machine, line.key())).filter(allowed).collect();
        if values.len() < least as usize {
            findings.push(Finding::new(
                Code::MinValuesUnreachable,
                object,
                format!("{}.minValues", line.field),
                format!(
                    "{least} values of {} are wanted and the pool's machines have {}",
                    line.key(),
                    values.len()
                ),
                format!("lower minValues to {} at most, or widen the requirements", values.len()),
            ));
        }
    }
    findings
}

fn combined<'l>(lines: impl IntoIterator<Item = &'l Line>) -> RequirementSet {
    lines.into_iter().map(|line| &line.requirement).collect()
}

/// Takes away every line without which `fails` still holds.
fn smallest(mut lines: Vec<&Line>, fails: impl Fn(&[&Line]) -> bool) -> Vec<&Line> {
    let mut index = 0;
    while index < lines.len() {
        let line = lines.remove(index);
        if !fails(&lines) {
            lines.insert(index, line);
            index += 1;
        }
    }
    lines
}

/// Whether for every label both speak of some value suits both.
fn suits(offered: &RequirementSet, wanted: &RequirementSet) -> bool {
    offered.iter().all(|(key, set)| wanted.get(key).is_none_or(|wanted| wanted.meets(set)))
}

fn is_sold(machine: &InstanceType, wanted: &RequirementSet) -> bool {
    suits(&machine.requirements, wanted)
        && machine.offerings.iter().any(|offering| suits(&offering.requirements, wanted))
}

fn keys_of(machine: &InstanceType) -> impl Iterator<Item = Arc<str>> {
    let offered = machine.offerings.iter().flat_map(|offering| offering.requirements.iter());
    machine.requirements.iter().chain(offered).map(|(key, _)| Arc::clone(key))
}

fn values_of(machine: &InstanceType, key: &str) -> Vec<Arc<str>> {
    let listed = |set: &ValueSet| set.values().map(|values| values.cloned().collect::<Vec<_>>());
    let of_machine = machine.requirements.get(key).and_then(listed).unwrap_or_default();
    let offered = machine.offerings.iter().filter_map(|offering| offering.requirements.get(key));
    of_machine.into_iter().chain(offered.filter_map(listed).flatten()).collect()
}

fn sentence(lines: &[&Line]) -> String {
    lines.iter().map(|line| line.requirement.to_string()).collect::<Vec<_>>().join(" and ")
}

fn named<'v>(values: impl ExactSizeIterator<Item = &'v Arc<str>>) -> String {
    let count = values.len();
    let shown: Vec<&str> = values.take(NAMED).map(|value| &**value).collect();
    let more = if count > NAMED { format!(" and {} others", count - NAMED) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
