//! Which writes a webhook or a policy is about: rules and selectors.

use serde_json::Value;

use super::Write;
use crate::registry::Resource;
use crate::selector::LabelSelector;

/// One rule of a webhook or policy.
#[derive(Debug, Clone, Default)]
pub(super) struct WriteRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    names: Vec<String>,
}

impl WriteRule {
    pub(super) fn read(rule: &Value) -> Self {
        let texts = |name: &str| {
            let items = rule[name].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
            names: texts("resourceNames"),
        }
    }

    /// Whether the rule is about a write, taken as one of `resource`.
    pub(super) fn is_about(&self, write: &Write<'_>, resource: &Resource) -> bool {
        let any = |own: &[String], wanted: &str| own.iter().any(|own| own == "*" || own == wanted);
        let in_scope = match self.scope.as_str() {
            "Namespaced" => resource.namespaced,
            "Cluster" => !resource.namespaced,
            _ => true,
        };
        in_scope
            && any(&self.operations, write.operation)
            && any(&self.groups, &resource.group)
            && any(&self.versions, &resource.version)
            && self.resources.iter().any(|rule| {
                let (plural, subresource) = rule.split_once('/').unwrap_or((rule, ""));
                (plural == "*" || plural == resource.plural)
                    && (subresource == "*" || subresource == write.subresource)
            })
            && (self.names.is_empty() || self.names.iter().any(|name| name == write.name))
    }
}

/// The selectors of a webhook or policy.
#[derive(Debug, Clone, Default)]
pub(super) struct Selectors {
    namespace: LabelSelector,
    object: LabelSelector,
}

impl Selectors {
    pub(super) fn read(holder: &Value) -> Self {
        Self {
            namespace: LabelSelector::from_object(&holder["namespaceSelector"]),
            object: LabelSelector::from_object(&holder["objectSelector"]),
        }
    }

    /// Whether both selectors choose a write; `namespace` is the object of the namespace it happens in, if any.
    pub(super) fn choose(&self, write: &Write<'_>, namespace: Option<&Value>) -> bool {
        let namespace_matches = || namespace.is_none_or(|namespace| self.namespace.matches_value(namespace));
        let object = |object: Option<&Value>| object.is_some_and(|object| self.object.matches_value(object));
        (self.namespace.is_empty() || namespace_matches())
            && (self.object.is_empty() || object(write.object) || object(write.old))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn rules_name_operations_resources_and_subresources() {
        let registry = Registry::built_in();
        let pods = registry.find("", "v1", "pods").unwrap();
        let about = |rule: Value, operation: &'static str, subresource: &'static str| {
            let write = Write { operation, subresource, name: "a", ..Write::default() };
            WriteRule::read(&rule).is_about(&write, pods)
        };
        let rule = |resources: &[&str]| json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources});
        assert!(about(rule(&["pods"]), "CREATE", ""));
        assert!(!about(rule(&["pods"]), "UPDATE", ""));
        assert!(!about(rule(&["pods"]), "CREATE", "eviction"));
        assert!(about(rule(&["pods/*"]), "CREATE", "eviction"));
        assert!(about(rule(&["*/*"]), "CREATE", ""));
        assert!(!about(rule(&["*"]), "CREATE", "eviction"));
        let mut cluster = rule(&["*"]);
        cluster["scope"] = "Cluster".into();
        assert!(!about(cluster, "CREATE", ""));
    }

    #[test]
    fn an_object_is_chosen_by_what_it_was_or_what_it_becomes() {
        let selectors = Selectors::read(&json!({"objectSelector": {"matchLabels": {"a": "1"}}}));
        let labelled = json!({"metadata": {"labels": {"a": "1"}}});
        let plain = json!({"metadata": {}});
        let chosen = |object: &Value, old: Option<&Value>| {
            selectors.choose(&Write { object: Some(object), old, ..Write::default() }, None)
        };
        assert!(chosen(&labelled, None));
        assert!(chosen(&plain, Some(&labelled)));
        assert!(!chosen(&plain, Some(&plain)));
    }
}
