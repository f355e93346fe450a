//! One rule of a role: what it allows, and whether it covers what another rule grants.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Action, Attributes};

/// A rule of a Role or `ClusterRole`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) paths: Vec<String>,
}

impl Rule {
    /// Reads a rule as roles carry it.
    pub(crate) fn read(value: &Value) -> Self {
        let texts = |name: &str| {
            let items = value[name].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// Writes the rule as roles carry it.
    pub(super) fn to_value(&self) -> Value {
        let mut value = json!({"verbs": self.verbs});
        for (name, texts) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !texts.is_empty() {
                value[name] = json!(texts);
            }
        }
        value
    }

    /// Whether the rule allows what is asked.
    pub(super) fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !holds(&self.verbs, asked.verb) {
            return false;
        }
        match &asked.action {
            Action::Path(path) => self.paths.iter().any(|rule| path_covers(rule, path)),
            Action::Resource { group, resource, subresource, name, .. } => {
                holds(&self.groups, group)
                    && self.has_resource(resource, subresource)
                    && (self.names.is_empty() || self.names.iter().any(|own| own == name))
            }
        }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| match rule.split_once('/') {
            _ if rule == "*" => true,
            None => subresource.is_empty() && rule == resource,
            Some((prefix, suffix)) => {
                !subresource.is_empty() && suffix == subresource && (prefix == "*" || prefix == resource)
            }
        })
    }

    /// Takes the rule apart into rules with one verb, one group, one resource and at most one name each.
    fn atoms(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut atoms = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let atom = Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        atoms.push(atom);
                    } else {
                        atoms.extend(self.names.iter().map(|name| Self { names: one(name), ..atom.clone() }));
                    }
                }
            }
        }
        for path in &self.paths {
            atoms.extend(self.verbs.iter().map(|verb| Self {
                verbs: one(verb),
                paths: one(path),
                ..Self::default()
            }));
        }
        atoms
    }

    /// Whether the rule covers an atom.
    fn covers(&self, atom: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| wanted.iter().all(|wanted| holds(own, wanted));
        let resource = |wanted: &String| {
            holds(&self.resources, wanted)
                || wanted.split_once('/').is_some_and(|(_, sub)| self.resources.contains(&format!("*/{sub}")))
        };
        all(&self.verbs, &atom.verbs)
            && all(&self.groups, &atom.groups)
            && atom.resources.iter().all(resource)
            && atom.paths.iter().all(|wanted| self.paths.iter().any(|own| path_covers(own, wanted)))
            && (self.names.is_empty()
                || (!atom.names.is_empty() && atom.names.iter().all(|name| self.names.contains(name))))
    }

    /// The rule in one line, as refusals of escalations show it.
    fn shown(&self) -> String {
        let mut parts = Vec::new();
        for (label, texts) in [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ] {
            if !texts.is_empty() {
                parts.push(format!("{label}:{}", quoted(texts)));
            }
        }
        format!("{{{}}}", parts.join(", "))
    }
}

/// Returns the lines of what `granted` would give beyond what `held` gives; empty when nothing.
pub(super) fn missing(held: &[Rule], granted: &[Rule]) -> Vec<String> {
    let mut lacking: Vec<Rule> = Vec::new();
    let atoms = granted.iter().flat_map(Rule::atoms);
    for atom in atoms.filter(|atom| !held.iter().any(|rule| rule.covers(atom))) {
        // Atoms that differ only in their verb are shown as one.
        let same = |other: &&mut Rule| {
            atom.paths.is_empty()
                && (&other.groups, &other.resources, &other.names)
                    == (&atom.groups, &atom.resources, &atom.names)
        };
        match lacking.iter_mut().find(same) {
            Some(other) => other.verbs.extend(atom.verbs),
            None => lacking.push(atom),
        }
    }
    let mut lines: Vec<String> = lacking.iter().map(Rule::shown).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// Writes texts as Go prints a list of quoted strings.
pub(super) fn quoted(texts: &[String]) -> String {
    let mut shown = String::from("[");
    for (index, text) in texts.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        write!(shown, "{space}{text:?}").expect("writing to a string never fails");
    }
    shown.push(']');
    shown
}

fn holds(own: &[String], wanted: &str) -> bool {
    own.iter().any(|own| own == "*" || own == wanted)
}

fn path_covers(rule: &str, path: &str) -> bool {
    rule == path || rule.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Rule {
            verbs: texts(verbs),
            groups: texts(groups),
            resources: texts(resources),
            names: texts(names),
            paths: Vec::new(),
        }
    }

    fn asked<'a>(verb: &'a str, resource: &'a str, subresource: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes {
            verb,
            action: Action::Resource { group: "", resource, subresource, namespace: "", name },
        }
    }

    #[test]
    fn a_resource_does_not_include_its_subresources() {
        let pods = rule(&["get"], &[""], &["pods"], &[]);
        assert!(pods.allows(&asked("get", "pods", "", "a")));
        assert!(!pods.allows(&asked("get", "pods", "log", "a")));
        assert!(!pods.allows(&asked("list", "pods", "", "")));
        let all_status = rule(&["*"], &[""], &["*/status"], &[]);
        assert!(all_status.allows(&asked("patch", "nodes", "status", "n")));
        assert!(!all_status.allows(&asked("patch", "nodes", "", "n")));
    }

    #[test]
    fn names_restrict_a_rule_to_them() {
        let one = rule(&["get", "list"], &[""], &["secrets"], &["a"]);
        assert!(one.allows(&asked("get", "secrets", "", "a")));
        assert!(!one.allows(&asked("get", "secrets", "", "b")));
        assert!(!one.allows(&asked("list", "secrets", "", "")));
    }

    #[test]
    fn paths_match_exactly_or_by_prefix() {
        let get = |path: &'static str| Attributes { verb: "get", action: Action::Path(path) };
        let rule = Rule {
            verbs: vec!["get".into()],
            paths: vec!["/version".into(), "/api/*".into()],
            ..Rule::default()
        };
        assert!(rule.allows(&get("/version")));
        assert!(rule.allows(&get("/api/v1")));
        assert!(!rule.allows(&get("/versions")));
        assert!(!rule.allows(&get("/api")));
    }

    #[test]
    fn what_is_missing_is_named_by_resource() {
        let held = [rule(&["get"], &[""], &["pods"], &[])];
        assert!(missing(&held, &[rule(&["get"], &[""], &["pods"], &["one"])]).is_empty());
        let lines = missing(&held, &[rule(&["get", "list", "watch"], &[""], &["pods", "secrets"], &[])]);
        assert_eq!(
            lines,
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
            ]
        );
        let everything = [rule(&["*"], &["*"], &["*"], &[])];
        assert!(missing(&everything, &[rule(&["x"], &["y"], &["z/w"], &["n"])]).is_empty());
    }
}
