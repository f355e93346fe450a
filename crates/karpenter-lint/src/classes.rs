//! NodeClasses: is there one by that name, and does anybody serve its kind.

use karpenter_api::NodePool;

use crate::Facts;
use crate::finding::{Code, Finding, Object};

const FIELD: &str = "spec.template.spec.nodeClassRef";

pub(crate) fn check(facts: &Facts<'_>, pool: &NodePool, object: &Object) -> Option<Finding> {
    let named = &pool.spec.template.spec.node_class_ref;
    let is_served = |(group, kind): &(&str, &str)| *group == named.group && *kind == named.kind;
    if !facts.served.is_empty() && !facts.served.iter().any(is_served) {
        let served: Vec<String> =
            facts.served.iter().map(|(group, kind)| format!("{kind} of {group}")).collect();
        let cause = format!("the provider does not serve {} of {}", named.kind, named.group);
        let remedy = format!("name a {}, or the pool is ignored", served.join(" or "));
        return Some(Finding::new(Code::NodeClassNotServed, object, FIELD, cause, remedy));
    }
    let classes = facts.node_classes.as_ref()?;
    if classes.contains(named) {
        return None;
    }
    let alike = classes.iter().filter(|class| class.kind == named.kind && class.group == named.group);
    let known: Vec<&str> = alike.map(|class| class.name.as_str()).collect();
    let remedy = match crate::spelling::nearest(&named.name, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant}? Otherwise create it"),
        None if known.is_empty() => format!("create a {} named {}", named.kind, named.name),
        None => format!("create it, or name one that exists: {}", known.join(", ")),
    };
    let cause = format!("there is no {} named {}", named.kind, named.name);
    Some(Finding::new(Code::NodeClassMissing, object, format!("{FIELD}.name"), cause, remedy))
}
