//! The cluster roles and bindings a cluster with role-based access control starts with.
//!
//! `bootstrap.txt` lists them; its head explains the form. Left out are the roles of single controllers of
//! kube-controller-manager and those for certificate signing, which nothing here uses.

use serde_json::{Value, json};

use super::Rule;
use crate::server::Core;

const POLICY: &str = include_str!("bootstrap.txt");
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

impl Core {
    /// Stores the roles and bindings that are not there yet.
    pub(crate) fn bootstrap_roles(&self) {
        let (roles, bindings) = read(POLICY);
        for role in roles {
            self.plant(API_VERSION, "ClusterRole", role);
        }
        for binding in bindings {
            self.plant(API_VERSION, "ClusterRoleBinding", binding);
        }
        self.aggregate_cluster_roles();
    }
}

/// Reads the table into cluster roles and their bindings.
fn read(table: &str) -> (Vec<Value>, Vec<Value>) {
    let (mut roles, mut bindings): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix("role ") {
            roles.push(role(head));
        } else if let Some(subjects) = line.strip_prefix("bind ") {
            bindings.push(binding(subjects));
        } else {
            let list = roles.last_mut().and_then(|role| role["rules"].as_array_mut());
            list.expect("rules follow a role").push(rule(line).to_value());
        }
    }
    (roles, bindings)
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn role(head: &str) -> Value {
    let label = |name: &str| format!("{GROUP}/aggregate-to-{name}");
    let (own, collects) = head.split_once('<').unwrap_or((head, ""));
    let mut words = own.split_whitespace();
    let mut metadata = metadata(words.next().expect("a role has a name"));
    if let Some(target) = words.next() {
        metadata["labels"][label(target)] = "true".into();
    }
    let mut role = json!({"metadata": metadata, "rules": []});
    if !collects.is_empty() {
        let mut labels = json!({});
        labels[label(collects.trim())] = "true".into();
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
    }
    role
}

fn binding(line: &str) -> Value {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, subjects) = words.split_first().expect("a binding has a name");
    let subject = |pair: &[&str]| {
        let kind = if pair[0] == "group" { "Group" } else { "User" };
        json!({"kind": kind, "apiGroup": GROUP, "name": pair[1]})
    };
    let mut binding = json!({
        "metadata": metadata(name), "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
    });
    if !subjects.is_empty() {
        binding["subjects"] = subjects.chunks_exact(2).map(subject).collect();
    }
    binding
}

fn rule(line: &str) -> Rule {
    let texts = |part: &str| part.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let parts: Vec<&str> = line.split('|').map(str::trim).collect();
    let verbs = match parts[0] {
        "read" => texts("get list watch"),
        "write" => texts("create delete deletecollection patch update"),
        verbs => texts(verbs),
    };
    match parts[1..] {
        [paths] => Rule { verbs, paths: texts(paths), ..Rule::default() },
        [groups, resources, ref names @ ..] => {
            let core = |group: String| if group == "core" { String::new() } else { group };
            Rule {
                verbs,
                groups: texts(groups).into_iter().map(core).collect(),
                resources: texts(resources),
                names: names.first().map(|names| texts(names)).unwrap_or_default(),
                paths: Vec::new(),
            }
        }
        [] => unreachable!("a rule has at least two parts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_role_a_rule_or_a_binding() {
        let (roles, bindings) = read(POLICY);
        for role in &roles {
            let list = role["rules"].as_array().unwrap();
            assert_eq!(list.is_empty(), role["aggregationRule"].is_object(), "{}", role["metadata"]["name"]);
            assert!(list.iter().all(|rule| !rule["verbs"].as_array().unwrap().is_empty()));
        }
        for binding in &bindings {
            let name = &binding["roleRef"]["name"];
            assert!(roles.iter().any(|role| role["metadata"]["name"] == *name), "{name}");
        }
    }
}
