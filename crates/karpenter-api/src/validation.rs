//! The checks that CEL in the CRDs does not make, with errors for the author of the object.
//!
//! The controller publishes the result as the condition `ValidationSucceeded`; `karpenter lint` prints it.
//! What is accepted and refused is upstream's; the sentences are ours. Start at [`validate_nodepool`].

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::Taint;

use crate::capacitybuffer::{self, CapacityBuffer, ScalableRef};
use crate::label_rules::{LabelRules, Restriction};
use crate::label_syntax::{SyntaxError, label_value, qualified_name};
use crate::nodepool::NodeClaimTemplate;
use crate::requirement::{Operator, Requirement};
use crate::{NodeOverlay, NodePool, labels, taints};

/// Something wrong with an object, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct Invalid {
    /// Path of the field, as in `spec.template.spec.taints[0].key`.
    pub path: String,
    /// What is wrong there.
    pub problem: Problem,
}

/// What can be wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A key or value is not written as Kubernetes demands.
    #[error("{0}")]
    Syntax(#[from] SyntaxError),
    /// The key lies in a domain that users may not write to.
    #[error(
        "label {key:?} lies in the reserved domain {domain:?}; use a label Karpenter defines there or one of a domain of your own"
    )]
    RestrictedDomain {
        /// The label key.
        key: String,
        /// The reserved domain.
        domain: &'static str,
    },
    /// The key is one that Karpenter sets itself.
    #[error("label {0:?} is set by Karpenter and cannot be chosen; remove it")]
    RestrictedLabel(String),
    /// The operator is unknown.
    #[error("operator {0:?} is not known; use one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte")]
    UnknownOperator(String),
    /// An operator that needs values has none.
    #[error("label {key:?} with operator {operator} needs at least one value")]
    NoValues {
        /// The label key.
        key: String,
        /// The operator.
        operator: Operator,
    },
    /// A numeric operator has no single whole number.
    #[error("label {key:?} with operator {operator} needs exactly one value, a whole number of at least 0")]
    NotOneNumber {
        /// The label key.
        key: String,
        /// The operator.
        operator: Operator,
    },
    /// There are fewer values than `minValues` demands.
    #[error(
        "label {key:?} lists {found} values but minValues asks for {wanted}; add values or lower minValues"
    )]
    TooFewValues {
        /// The label key.
        key: String,
        /// How many values are listed.
        found: usize,
        /// How many are demanded.
        wanted: i64,
    },
    /// None of the values of a label with a fixed vocabulary is known.
    #[error("label {key:?} cannot have the value {}; use one of {}", quoted(values), quoted(known))]
    NoKnownValues {
        /// The label key.
        key: String,
        /// The values listed.
        values: Vec<String>,
        /// The values there are.
        known: &'static [&'static str],
    },
    /// Fewer values than `minValues` demands are known ones.
    #[error(
        "label {key:?} lists {found} possible values but minValues asks for {wanted}; the possible values are {}",
        quoted(known)
    )]
    TooFewKnownValues {
        /// The label key.
        key: String,
        /// How many of the values listed exist.
        found: usize,
        /// How many are demanded.
        wanted: i64,
        /// The values there are.
        known: &'static [&'static str],
    },
    /// Some values do not exist; the rest is used. The only problem that is a warning.
    #[error(
        "label {key:?} cannot have the value {}, which is ignored; use one of {}",
        quoted(values),
        quoted(known)
    )]
    UnknownValuesIgnored {
        /// The label key.
        key: String,
        /// The values that do not exist.
        values: Vec<String>,
        /// The values there are.
        known: &'static [&'static str],
    },
    /// The effect of a taint is unknown.
    #[error("effect {0:?} is not known; use one of NoSchedule, PreferNoSchedule, NoExecute")]
    UnknownEffect(String),
    /// The same taint stands twice.
    #[error(
        "taint {key:?} with effect {effect} is listed more than once among taints and startupTaints; keep one"
    )]
    DuplicateTaint {
        /// The key of the taint.
        key: String,
        /// Its effect.
        effect: String,
    },
    /// An overlay changes a resource that the provider computes.
    #[error("resource {0:?} is computed by the provider and cannot be overlaid; remove it")]
    RestrictedResource(String),
    /// A buffer has no shape.
    #[error("the buffer names neither podTemplateRef nor scalableRef; set one of them")]
    NoBufferShape,
    /// A buffer follows something that is not a workload it understands.
    #[error(
        "a buffer cannot follow a {kind} of group {group:?}; use a Deployment, StatefulSet or ReplicaSet of apps"
    )]
    UnknownScalable {
        /// The group named.
        group: String,
        /// The kind named.
        kind: String,
    },
}

fn quoted<T: fmt::Debug>(words: &[T]) -> String {
    words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
}

/// What validation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Reasons not to use the object.
    pub errors: Vec<Invalid>,
    /// Remarks on an object that is usable.
    pub warnings: Vec<Invalid>,
}

impl Findings {
    /// Says whether the object is usable.
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the errors as one text, for the message of a condition.
    pub fn message(&self) -> String {
        self.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    fn error(&mut self, path: impl Into<String>, problem: impl Into<Problem>) {
        self.errors.push(Invalid { path: path.into(), problem: problem.into() });
    }

    fn check(&mut self, path: impl Into<String>, outcome: Result<(), SyntaxError>) {
        if let Err(error) = outcome {
            self.error(path, error);
        }
    }
}

/// Checks the labels, taints and requirements of a NodePool's template.
pub fn validate_nodepool(pool: &NodePool, rules: &LabelRules) -> Findings {
    let mut findings = Findings::default();
    let template = &pool.spec.template;
    template_labels(&mut findings, template, rules);
    let mut seen = BTreeSet::new();
    let spec = &template.spec;
    for (name, list) in [("taints", &spec.taints), ("startupTaints", &spec.startup_taints)] {
        for (index, taint) in list.iter().flatten().enumerate() {
            let path = format!("spec.template.spec.{name}[{index}]");
            check_taint(&mut findings, &path, taint);
            if !seen.insert((&taint.key, &taint.effect)) {
                let (key, effect) = (taint.key.clone(), taint.effect.clone());
                findings.error(path, Problem::DuplicateTaint { key, effect });
            }
        }
    }
    for (index, requirement) in spec.requirements.iter().enumerate() {
        let path = format!("spec.template.spec.requirements[{index}]");
        check_requirement(&mut findings, &path, requirement, rules);
        if requirement.key == labels::NODEPOOL {
            findings.error(format!("{path}.key"), Problem::RestrictedLabel(requirement.key.clone()));
        }
    }
    findings
}

fn template_labels(findings: &mut Findings, template: &NodeClaimTemplate, rules: &LabelRules) {
    let labels = template.metadata.iter().flat_map(|metadata| metadata.labels.iter().flatten());
    for (key, value) in labels {
        let path = format!("spec.template.metadata.labels[{key}]");
        if key == labels::NODEPOOL {
            findings.error(&path, Problem::RestrictedLabel(key.clone()));
        }
        findings.check(&path, qualified_name(key));
        findings.check(&path, label_value(value));
        check_restriction(findings, &path, key, rules);
    }
}

fn check_restriction(findings: &mut Findings, path: &str, key: &str, rules: &LabelRules) {
    let key_text = key.to_owned();
    match rules.restriction(key) {
        Some(Restriction::Domain(domain)) => {
            findings.error(path, Problem::RestrictedDomain { key: key_text, domain });
        }
        Some(Restriction::Label) => findings.error(path, Problem::RestrictedLabel(key_text)),
        None => {}
    }
}

/// The value of a taint is held to the syntax of keys, as the CRD does.
fn check_taint(findings: &mut Findings, path: &str, taint: &Taint) {
    findings.check(format!("{path}.key"), qualified_name(&taint.key));
    if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty()) {
        findings.check(format!("{path}.value"), qualified_name(value));
    }
    if !taint.effect.is_empty() && !taints::EFFECTS.contains(&taint.effect.as_str()) {
        findings.error(format!("{path}.effect"), Problem::UnknownEffect(taint.effect.clone()));
    }
}

fn check_requirement(findings: &mut Findings, path: &str, requirement: &Requirement, rules: &LabelRules) {
    let key = rules.normalize(&requirement.key);
    let (operator, values) = (&requirement.operator, requirement.values());
    let key_path = format!("{path}.key");
    if let Operator::Unknown(word) = operator {
        findings.error(format!("{path}.operator"), Problem::UnknownOperator(word.clone()));
    }
    check_restriction(findings, &key_path, key, rules);
    check_known_values(findings, path, key, requirement, rules);
    findings.check(&key_path, qualified_name(key));
    for (index, value) in values.iter().enumerate() {
        findings.check(format!("{path}.values[{index}]"), label_value(value));
    }
    let values_path = format!("{path}.values");
    let named = || (key.to_owned(), operator.clone());
    if *operator == Operator::In && values.is_empty() {
        let (key, operator) = named();
        findings.error(&values_path, Problem::NoValues { key, operator });
    }
    if let Some(wanted) = requirement.min_values.filter(|wanted| (values.len() as i64) < *wanted)
        && *operator == Operator::In
    {
        findings
            .error(&values_path, Problem::TooFewValues { key: key.to_owned(), found: values.len(), wanted });
    }
    let is_number = |value: &String| value.parse::<i64>().is_ok_and(|number| number >= 0);
    if operator.is_numeric() && !(values.len() == 1 && values.iter().all(is_number)) {
        let (key, operator) = named();
        findings.error(&values_path, Problem::NotOneNumber { key, operator });
    }
}

fn check_known_values(
    findings: &mut Findings,
    path: &str,
    key: &str,
    requirement: &Requirement,
    rules: &LabelRules,
) {
    let Some(known) = rules.known_values(key).filter(|_| requirement.operator == Operator::In) else {
        return;
    };
    let (possible, unknown): (Vec<&String>, Vec<&String>) =
        requirement.values().iter().partition(|value| known.contains(&value.as_str()));
    let path = format!("{path}.values");
    let key = key.to_owned();
    let found = possible.len();
    if possible.is_empty() {
        findings.error(path, Problem::NoKnownValues { key, values: requirement.values().to_vec(), known });
    } else if let Some(wanted) = requirement.min_values.filter(|wanted| (found as i64) < *wanted) {
        findings.error(path, Problem::TooFewKnownValues { key, found, wanted, known });
    } else if !unknown.is_empty() {
        let values = unknown.into_iter().cloned().collect();
        findings
            .warnings
            .push(Invalid { path, problem: Problem::UnknownValuesIgnored { key, values, known } });
    }
}

/// Checks the requirements and the capacity of a NodeOverlay.
pub fn validate_nodeoverlay(overlay: &NodeOverlay, rules: &LabelRules) -> Findings {
    let mut findings = Findings::default();
    for (index, requirement) in overlay.spec.requirements.iter().enumerate() {
        let path = format!("spec.requirements[{index}]");
        check_requirement(&mut findings, &path, requirement, rules);
        if requirement.operator == Operator::NotIn && requirement.values().is_empty() {
            let (key, operator) = (requirement.key.clone(), requirement.operator.clone());
            findings.error(format!("{path}.values"), Problem::NoValues { key, operator });
        }
    }
    for name in overlay.spec.capacity.iter().flatten().map(|(name, _)| name) {
        if rules.is_well_known_resource(name) {
            findings.error(format!("spec.capacity[{name}]"), Problem::RestrictedResource(name.clone()));
        }
    }
    findings
}

/// Checks what a CapacityBuffer refers to.
pub fn validate_capacitybuffer(buffer: &CapacityBuffer) -> Findings {
    let mut findings = Findings::default();
    if buffer.spec.pod_template_ref.is_none() && buffer.spec.scalable_ref.is_none() {
        findings.error("spec", Problem::NoBufferShape);
    }
    if let Some(ScalableRef { api_group, kind, .. }) = &buffer.spec.scalable_ref {
        let group = api_group.as_deref().unwrap_or_default();
        if !matches!(group, "" | "apps") || !capacitybuffer::SCALABLE_KINDS.contains(&kind.as_str()) {
            let (group, kind) = (group.to_owned(), kind.clone());
            findings.error("spec.scalableRef", Problem::UnknownScalable { group, kind });
        }
    }
    findings
}
