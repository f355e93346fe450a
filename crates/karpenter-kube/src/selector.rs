//! Label selectors over pods and namespaces, and node selector terms over nodes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::NodeSelectorTerm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use karpenter_api::LabelRules;
use karpenter_core::cluster::{Selector, SelectorExpression, SelectorOperator};
use karpenter_core::requirements::{Operator, Requirement};

use crate::invalid::{At, Invalid, each};

/// A label selector: an empty one selects everything.
pub fn selector(selector: &LabelSelector) -> Result<Selector, Invalid> {
    let mut result = Selector::default();
    for (key, value) in selector.match_labels.iter().flatten() {
        result.require(key.as_str().into(), value.as_str().into());
    }
    let expressions = selector.match_expressions.iter().flatten();
    result.expressions.extend(each(expressions, expression).at("matchExpressions")?);
    Ok(result)
}

fn expression(line: &LabelSelectorRequirement) -> Result<SelectorExpression, Invalid> {
    let operator = match line.operator.as_str() {
        "In" => SelectorOperator::In,
        "NotIn" => SelectorOperator::NotIn,
        "Exists" => SelectorOperator::Exists,
        "DoesNotExist" => SelectorOperator::DoesNotExist,
        other => {
            let message = format!("{other:?} is not one of In, NotIn, Exists, DoesNotExist");
            return Err(Invalid::new(message)).at("operator");
        }
    };
    Ok(SelectorExpression {
        key: line.key.as_str().into(),
        operator,
        values: line.values.iter().flatten().map(|value| Arc::from(value.as_str())).collect(),
    })
}

/// The label conditions of one node selector term; `matchFields` are the caller's business.
pub fn node_selector_term(term: &NodeSelectorTerm, rules: &LabelRules) -> Result<Vec<Requirement>, Invalid> {
    let lines = term.match_expressions.iter().flatten();
    each(lines, |line| requirement(&line.key, &line.operator, line.values.as_deref(), rules))
        .at("matchExpressions")
}

/// One requirement of a NodePool, NodeClaim or NodeOverlay.
pub fn api_requirement(
    line: &karpenter_api::Requirement,
    rules: &LabelRules,
) -> Result<Requirement, Invalid> {
    let plain = requirement(&line.key, line.operator.as_str(), line.values.as_deref(), rules)?;
    let min_values = line.min_values.map(u32::try_from).transpose();
    let min_values =
        min_values.map_err(|_| Invalid::new("must be a small positive number")).at("minValues")?;
    Ok(Requirement { min_values, ..plain })
}

/// One requirement on a node label, under the key's current name.
pub fn requirement(
    key: &str,
    operator: &str,
    values: Option<&[String]>,
    rules: &LabelRules,
) -> Result<Requirement, Invalid> {
    let operator: Operator =
        operator.parse().map_err(|error| Invalid::new(format!("{error}"))).at("operator")?;
    // Values beside an operator that takes none have no meaning.
    let takes_values = !matches!(operator, Operator::Exists | Operator::DoesNotExist);
    let values = values.filter(|_| takes_values).unwrap_or_default().iter().map(String::as_str);
    Ok(Requirement::new(rules.normalize(key), operator, values))
}
