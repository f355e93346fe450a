//! The roles and bindings of the cluster, compiled for looking up who may do what.
//!
//! A [`Policy`] is built from the stored objects whenever one of them has changed.

use std::collections::HashMap;

use serde_json::Value;

use super::rule::Rule;
use super::{Attributes, Decision};
use crate::authentication::User;
use crate::derived::Objects;
use crate::store::{Key, StoredObject};

pub(super) const ROLES: &str = "roles.rbac.authorization.k8s.io";
pub(super) const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
pub(crate) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
pub(super) const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
pub(super) const TABLES: [&str; 4] = [ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS];

/// Whom a binding is for.
#[derive(Debug, PartialEq, Eq)]
enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

impl Subject {
    fn read(value: &Value, namespace: &str) -> Option<Self> {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Some(match value["kind"].as_str()? {
            "User" => Self::User(text("name")),
            "Group" => Self::Group(text("name")),
            "ServiceAccount" => {
                let own = text("namespace");
                let namespace = if own.is_empty() { namespace.to_owned() } else { own };
                Self::ServiceAccount { namespace, name: text("name") }
            }
            _ => return None,
        })
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Self::User(name) => *name == user.name,
            Self::Group(name) => user.groups.contains(name),
            Self::ServiceAccount { namespace, name } => {
                let own = user.name.strip_prefix("system:serviceaccount:");
                own.and_then(|own| own.split_once(':')) == Some((namespace, name))
            }
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::User(name) => format!("User {name:?}"),
            Self::Group(name) => format!("Group {name:?}"),
            Self::ServiceAccount { namespace, name } => {
                format!("ServiceAccount {:?}", format!("{name}/{namespace}"))
            }
        }
    }
}

/// The role a binding names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RoleReference {
    pub(super) kind: String,
    pub(super) name: String,
}

impl RoleReference {
    pub(super) fn read(binding: &Value) -> Self {
        let text = |name: &str| binding["roleRef"][name].as_str().unwrap_or_default().to_owned();
        Self { kind: text("kind"), name: text("name") }
    }
}

#[derive(Debug)]
struct Binding {
    name: String,
    subjects: Vec<Subject>,
    role: RoleReference,
}

impl Binding {
    fn read(key: &Key, object: &StoredObject) -> Self {
        let value = object.value();
        let subjects = value["subjects"].as_array().into_iter().flatten();
        Self {
            name: key.name.to_string(),
            subjects: subjects.filter_map(|subject| Subject::read(subject, &key.namespace)).collect(),
            role: RoleReference::read(&value),
        }
    }
}

/// Why a rule applies to somebody.
pub(super) struct Grant<'p> {
    pub(super) rules: &'p [Rule],
    binding: &'p Binding,
    subject: &'p Subject,
    namespace: &'p str,
}

impl Grant<'_> {
    fn shown(&self) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.binding.name.clone())
        } else {
            ("RoleBinding", format!("{}/{}", self.binding.name, self.namespace))
        };
        let role = &self.binding.role;
        format!("{kind} {name:?} of {} {:?} to {}", role.kind, role.name, self.subject.shown())
    }
}

/// Everything roles and bindings say.
#[derive(Debug, Default)]
pub(super) struct Policy {
    roles: HashMap<(String, String), Vec<Rule>>,
    cluster_roles: HashMap<String, Vec<Rule>>,
    bindings: HashMap<String, Vec<Binding>>,
    cluster_bindings: Vec<Binding>,
}

impl Policy {
    pub(super) fn build(tables: &[Objects; 4]) -> Self {
        let [roles, bindings, cluster_roles, cluster_bindings] = tables;
        let mut policy = Self::default();
        for (key, object) in roles {
            let name = (key.namespace.to_string(), key.name.to_string());
            policy.roles.insert(name, rules(&object.value()));
        }
        for (key, object) in cluster_roles {
            policy.cluster_roles.insert(key.name.to_string(), rules(&object.value()));
        }
        for (key, object) in bindings {
            let of_namespace = policy.bindings.entry(key.namespace.to_string()).or_default();
            of_namespace.push(Binding::read(key, object));
        }
        policy
            .cluster_bindings
            .extend(cluster_bindings.iter().map(|(key, object)| Binding::read(key, object)));
        policy
    }

    /// Returns the rules of a role as seen from a namespace, or the sentence that it is missing.
    pub(super) fn role(&self, role: &RoleReference, namespace: &str) -> Result<&[Rule], String> {
        let found = match role.kind.as_str() {
            "Role" => self.roles.get(&(namespace.to_owned(), role.name.clone())),
            "ClusterRole" => self.cluster_roles.get(&role.name),
            other => return Err(format!("unsupported role reference kind: {other:?}")),
        };
        let missing =
            || format!("{}.rbac.authorization.k8s.io {:?} not found", role.kind.to_lowercase(), role.name);
        found.map(Vec::as_slice).ok_or_else(missing)
    }

    /// Returns what bindings give a user in a namespace (in the cluster when it is empty), and what is broken.
    pub(super) fn grants<'p>(&'p self, user: &User, namespace: &'p str) -> (Vec<Grant<'p>>, Vec<String>) {
        let (mut grants, mut errors) = (Vec::new(), Vec::new());
        let local = self.bindings.get(namespace).filter(|_| !namespace.is_empty());
        let cluster = self.cluster_bindings.iter().map(|binding| (binding, ""));
        let local = local.into_iter().flatten().map(|binding| (binding, namespace));
        for (binding, namespace) in cluster.chain(local) {
            let Some(subject) = binding.subjects.iter().find(|subject| subject.is(user)) else { continue };
            match self.role(&binding.role, namespace) {
                Ok(rules) => grants.push(Grant { rules, binding, subject, namespace }),
                Err(error) => errors.push(error),
            }
        }
        (grants, errors)
    }

    /// Decides about a request.
    pub(super) fn decide(&self, user: &User, asked: &Attributes<'_>) -> Decision {
        let (grants, errors) = self.grants(user, asked.namespace());
        if let Some(grant) = grants.iter().find(|grant| grant.rules.iter().any(|rule| rule.allows(asked))) {
            return Decision { allowed: true, reason: format!("RBAC: allowed by {}", grant.shown()) };
        }
        let reason = match errors.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        };
        Decision { allowed: false, reason }
    }
}

/// Returns the rules of a role.
pub(super) fn rules(role: &Value) -> Vec<Rule> {
    role["rules"].as_array().into_iter().flatten().map(Rule::read).collect()
}
