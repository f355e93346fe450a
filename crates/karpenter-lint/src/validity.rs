//! What cannot be read: the checks behind `ValidationSucceeded`, quantities, and annotations of ours.

use karpenter_api::validation::validate_nodepool;
use karpenter_api::{LabelRules, NodePool};
use karpenter_kube::knobs::mistakes;

use crate::finding::{Code, Finding, Object};

pub(crate) fn check(pool: &NodePool, rules: &LabelRules, object: &Object) -> Vec<Finding> {
    let validated = validate_nodepool(pool, rules);
    let of = |code: Code, remedy: &'static str| {
        move |invalid: &karpenter_api::validation::Invalid| {
            Finding::new(code, object, &invalid.path, invalid.problem.to_string(), remedy)
        }
    };
    let correct = "correct it, otherwise the pool is not Ready and gets no nodes";
    let mut findings: Vec<Finding> = validated.errors.iter().map(of(Code::Invalid, correct)).collect();
    let remove = "remove the values that do not exist";
    findings.extend(validated.warnings.iter().map(of(Code::ValueIgnored, remove)));
    if findings.is_empty()
        && let Err(invalid) = karpenter_kube::node_pool::node_pool(pool, rules)
    {
        findings.push(Finding::new(Code::Invalid, object, invalid.path, invalid.message, correct));
    }
    findings.extend(mistakes(pool).into_iter().map(|mistake| {
        let remedy = "write it as said, or remove the annotation";
        Finding::new(Code::AnnotationUnreadable, object, "metadata.annotations", mistake, remedy)
    }));
    findings
}
