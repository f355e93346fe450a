//! Who may do what: role-based access control over the stored roles and bindings.
//!
//! Off unless asked for ([`Authorization::Rbac`]); then every request is judged before anything else is looked at,
//! and members of `system:masters` may do everything. Refusals are worded as Kubernetes words them.

mod aggregation;
mod bootstrap;
mod escalation;
mod policy;
mod rule;

use std::sync::Arc;

use http::Method;

use crate::authentication::User;
use crate::derived::Derived;
use crate::error::ApiError;
use crate::server::Core;
use crate::store::Store;
use crate::wire::{Query, Target};

pub(crate) use policy::CLUSTER_ROLES;
use policy::{Policy, TABLES};
pub(crate) use rule::Rule;

/// The group whose members no rule restricts.
const MASTERS: &str = "system:masters";

/// How requests are authorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authorization {
    /// Whoever is authenticated may do everything.
    #[default]
    AlwaysAllow,
    /// Roles and bindings decide. Callers without credentials are `system:anonymous`.
    Rbac,
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// A path that is no resource.
    Path(&'a str),
    /// A resource; parts that are not given are empty.
    Resource { group: &'a str, resource: &'a str, subresource: &'a str, namespace: &'a str, name: &'a str },
}

/// A verb on something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) action: Action<'a>,
}

impl<'a> Attributes<'a> {
    /// Describes a request for a resource.
    pub(crate) fn of_request(method: &Method, target: &'a Target, query: &'a Query) -> Self {
        // A collection asked for by one name is that one object.
        let selected = || {
            let selector = query.get("fieldSelector")?;
            let name = selector.split(',').find_map(|term| term.strip_prefix("metadata.name="))?;
            Some(name.trim_start_matches('='))
        };
        let named = target.name.is_some();
        let verb = match method.as_str() {
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if named => "delete",
            "DELETE" => "deletecollection",
            _ if target.watches(query) => "watch",
            _ if named => "get",
            _ => "list",
        };
        let name =
            target.name.as_deref().or_else(|| matches!(verb, "list" | "watch").then(selected).flatten());
        let mut namespace = target.namespace.as_deref().unwrap_or_default();
        if target.plural == "namespaces" && target.group.is_empty() {
            namespace = target.name.as_deref().unwrap_or_default();
        }
        let action = Action::Resource {
            group: &target.group,
            resource: &target.plural,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            namespace,
            name: name.unwrap_or_default(),
        };
        Self { verb, action }
    }

    fn namespace(&self) -> &'a str {
        match self.action {
            Action::Path(_) => "",
            Action::Resource { namespace, .. } => namespace,
        }
    }

    /// The refusal of this.
    fn forbidden(&self, user: &User, reason: &str) -> ApiError {
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let (verb, user) = (self.verb, &user.name);
        match self.action {
            Action::Path(path) => {
                ApiError::refused(format!("forbidden: User {user:?} cannot {verb} path {path:?}{reason}"))
            }
            Action::Resource { group, resource, subresource, namespace, name } => {
                let part = if subresource.is_empty() {
                    resource.to_owned()
                } else {
                    format!("{resource}/{subresource}")
                };
                let place = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {namespace:?}")
                };
                let qualified =
                    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
                let why = format!(
                    "User {user:?} cannot {verb} resource {part:?} in API group {group:?} {place}{reason}"
                );
                ApiError::forbidden(&qualified, name, why)
            }
        }
    }
}

/// What was decided and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

/// What a user may do, for `SelfSubjectRulesReview`.
#[derive(Debug, Default)]
pub(crate) struct Abilities {
    pub(crate) rules: Vec<Rule>,
    pub(crate) errors: Vec<String>,
}

/// Decides about requests.
#[derive(Debug)]
pub(crate) struct Authorizer {
    mode: Authorization,
    policy: Derived<Policy, 4>,
}

impl Authorizer {
    pub(crate) fn new(mode: Authorization) -> Self {
        Self { mode, policy: Derived::from(TABLES) }
    }

    fn policy(&self, store: &Store) -> Arc<Policy> {
        self.policy.current(store, Policy::build)
    }

    pub(crate) fn mode(&self) -> Authorization {
        self.mode
    }

    /// Decides about a request.
    pub(crate) fn decide(&self, store: &Store, user: &User, asked: &Attributes<'_>) -> Decision {
        match self.mode {
            Authorization::AlwaysAllow => Decision { allowed: true, reason: String::new() },
            Authorization::Rbac if is_master(user) => Decision { allowed: true, reason: String::new() },
            Authorization::Rbac => self.policy(store).decide(user, asked),
        }
    }

    /// Returns all rules that apply to a user in a namespace.
    pub(crate) fn abilities(&self, store: &Store, user: &User, namespace: &str) -> Abilities {
        let mut abilities = Abilities::default();
        if self.mode == Authorization::AlwaysAllow {
            let all = || vec!["*".to_owned()];
            let rule = Rule { verbs: all(), ..Rule::default() };
            abilities.rules.push(Rule { groups: all(), resources: all(), ..rule.clone() });
            abilities.rules.push(Rule { paths: all(), ..rule });
        }
        if self.mode == Authorization::Rbac {
            let policy = self.policy(store);
            let (grants, errors) = policy.grants(user, namespace);
            abilities.rules.extend(grants.iter().flat_map(|grant| grant.rules.iter().cloned()));
            abilities.errors = errors;
        }
        abilities
    }
}

fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

impl Core {
    /// Refuses what the caller may not do.
    ///
    /// # Errors
    /// 403 with the sentence Kubernetes answers.
    pub(crate) fn authorize(&self, user: &User, asked: &Attributes<'_>) -> Result<(), ApiError> {
        let decision = self.authorizer.decide(&self.store, user, asked);
        if decision.allowed { Ok(()) } else { Err(asked.forbidden(user, &decision.reason)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Route;

    fn described(method: &Method, path: &str, query: &str) -> (String, String, String) {
        let Route::Resource(target) = Route::parse(path) else { panic!("{path} is no resource") };
        let query = Query::parse(Some(query));
        let attributes = Attributes::of_request(method, &target, &query);
        let Action::Resource { namespace, name, .. } = attributes.action else { unreachable!() };
        (attributes.verb.to_owned(), namespace.to_owned(), name.to_owned())
    }

    #[test]
    fn requests_have_verbs_namespaces_and_names() {
        let triple = |verb: &str, namespace: &str, name: &str| {
            (verb.to_owned(), namespace.to_owned(), name.to_owned())
        };
        let pods = "/api/v1/namespaces/a/pods";
        assert_eq!(described(&Method::GET, pods, ""), triple("list", "a", ""));
        assert_eq!(described(&Method::GET, pods, "watch=true"), triple("watch", "a", ""));
        let selected = described(&Method::GET, pods, "fieldSelector=metadata.name%3Dx");
        assert_eq!(selected, triple("list", "a", "x"));
        assert_eq!(described(&Method::DELETE, pods, ""), triple("deletecollection", "a", ""));
        let namespace = described(&Method::GET, "/api/v1/namespaces/a", "");
        assert_eq!(namespace, triple("get", "a", "a"));
    }

    #[test]
    fn refusals_name_the_verb_the_resource_and_the_place() {
        let user = User::new("jane", ["system:authenticated"]);
        let action = Action::Resource {
            group: "apps",
            resource: "deployments",
            subresource: "scale",
            namespace: "ns",
            name: "web",
        };
        let error = Attributes { verb: "patch", action }.forbidden(&user, "");
        assert_eq!(
            error.message,
            "deployments.apps \"web\" is forbidden: User \"jane\" cannot patch resource \"deployments/scale\" in API \
             group \"apps\" in the namespace \"ns\""
        );
        let error = Attributes { verb: "get", action: Action::Path("/metrics") }.forbidden(&user, "");
        assert_eq!(error.message, "forbidden: User \"jane\" cannot get path \"/metrics\"");
    }
}
