//! Empty lists and maps that are not written but still count as a change.
//!
//! The real server compares a list that is owned as a whole by the memory behind it. There an empty list is another
//! than none, although both are written alike, so whoever sends one inside of such a list takes the list over.

use serde_json::Value;

use super::FieldSet;
use super::elements::{Form, field_element, form, is_atomic, item_element};
use crate::schema::{Node, Omission};

/// Returns the values owned as a whole in which a body of a built-in kind has something empty inside of a list.
pub(crate) fn hollow(body: &Value, node: &Node) -> FieldSet {
    let form = form(body, node);
    let mut set = FieldSet::default();
    if is_atomic(node, form) {
        set.member = holds_empty(body, node, false);
        return set;
    }
    let mut hang = |element: String, below: FieldSet| {
        if !below.is_empty() {
            set.children.insert(element, below);
        }
    };
    if form == Form::Map {
        for (name, field) in body.as_object().into_iter().flatten() {
            hang(field_element(name), hollow(field, &node.field_or_any(name)));
        }
    } else {
        for item in body.as_array().into_iter().flatten() {
            if let Ok(element) = item_element(item, node) {
                hang(element, hollow(item, &node.items()));
            }
        }
    }
    set
}

fn holds_empty(value: &Value, node: &Node, in_list: bool) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| holds_empty(item, &node.items(), true)),
        Value::Object(fields) => fields.iter().any(|(name, field)| {
            let child = node.field_or_any(name);
            (in_list && is_left_out(field, &child)) || holds_empty(field, &child, in_list)
        }),
        _ => false,
    }
}

/// Whether an empty list or map is left out when it is written.
fn is_left_out(value: &Value, node: &Node) -> bool {
    let is_map = node.fields().is_some_and(|fields| fields.additional.is_some());
    let empty = match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => is_map && fields.is_empty(),
        _ => false,
    };
    empty && node.omission == Omission::Empty && !node.pointer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_empty_inside_of_a_whole_list_counts() {
        let node = Node::built_in("rbac.authorization.k8s.io/v1", "ClusterRole");
        let paths = |body: Value| hollow(&body, &node).paths();
        let role = |rules: Value| json!({"metadata": {"labels": {}}, "rules": rules});
        assert_eq!(paths(role(json!([{"verbs": ["get"], "resourceNames": []}]))), [".rules"]);
        assert!(paths(role(json!([{"verbs": ["get"]}]))).is_empty());
        assert!(paths(role(json!([]))).is_empty());
        let selector = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {}}]}});
        assert_eq!(paths(selector), [".aggregationRule.clusterRoleSelectors"]);
    }
}
