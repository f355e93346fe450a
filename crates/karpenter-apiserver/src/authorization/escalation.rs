//! Nobody grants what they do not hold: the check on writes of roles and bindings.
//!
//! A caller may write a role when their own rules cover it, or when they hold the verb `escalate` on it; a binding
//! when their rules cover the role it names, or when they hold `bind` on that role.

use serde_json::Value;

use super::policy::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, RoleReference, rules};
use super::rule::{Rule, missing, quoted};
use super::{Action, Attributes, Authorization, is_master};
use crate::error::ApiError;
use crate::server::Core;
use crate::wire::Call;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Core {
    /// Refuses a write of a role or binding that would give more than the caller has; `old` is given on updates.
    ///
    /// # Errors
    /// 403 with the rules that are missing, 404 when a binding names a role that is not there.
    pub(crate) fn check_escalation(
        &self,
        call: &Call<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        if self.authorizer.mode() != Authorization::Rbac || is_master(call.user) {
            return Ok(());
        }
        if old.is_some_and(|old| same_grant(old, object)) {
            return Ok(());
        }
        match &*call.resource.name {
            ROLES | CLUSTER_ROLES => self.check_role(call, object, old),
            ROLE_BINDINGS | CLUSTER_ROLE_BINDINGS => self.check_binding(call, object),
            _ => Ok(()),
        }
    }

    fn check_role(&self, call: &Call<'_>, role: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        if self.may(call, "escalate", &call.target.plural, name) {
            return Ok(());
        }
        self.check_covered(call, name, &rules(role))?;
        let aggregates = |role: &Value| {
            role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|list| !list.is_empty())
        };
        if aggregates(role) || old.is_some_and(aggregates) {
            let held = self.authorizer.abilities(&self.store, call.user, call.namespace()).rules;
            let all = || vec!["*".to_owned()];
            let everything = [
                Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
                Rule { verbs: all(), paths: all(), ..Rule::default() },
            ];
            if !missing(&held, &everything).is_empty() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(ApiError::forbidden(&call.resource.name, name, why));
            }
        }
        Ok(())
    }

    fn check_binding(&self, call: &Call<'_>, binding: &Value) -> Result<(), ApiError> {
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        let role = RoleReference::read(binding);
        let plural = if role.kind == "Role" { "roles" } else { "clusterroles" };
        if self.may(call, "bind", plural, &role.name) {
            return Ok(());
        }
        let policy = self.authorizer.policy(&self.store);
        let granted = policy
            .role(&role, call.namespace())
            .map_err(|_| ApiError::not_found(&format!("{plural}.{GROUP}"), &role.name))?;
        self.check_covered(call, name, granted)
    }

    fn check_covered(&self, call: &Call<'_>, name: &str, granted: &[Rule]) -> Result<(), ApiError> {
        let held = self.authorizer.abilities(&self.store, call.user, call.namespace());
        let lacking = missing(&held.rules, granted);
        if lacking.is_empty() {
            return Ok(());
        }
        let mut why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            call.user.name,
            quoted(&call.user.groups),
            lacking.join("\n")
        );
        if !held.errors.is_empty() {
            why = format!("{why}; resolution errors: [{}]", held.errors.join(", "));
        }
        Err(ApiError::forbidden(&call.resource.name, name, why))
    }

    fn may(&self, call: &Call<'_>, verb: &str, resource: &str, name: &str) -> bool {
        let namespace = call.namespace();
        let action = Action::Resource { group: GROUP, resource, subresource: "", namespace, name };
        self.authorizer.decide(&self.store, call.user, &Attributes { verb, action }).allowed
    }
}

/// Whether two states of a role or binding grant the same.
fn same_grant(old: &Value, new: &Value) -> bool {
    ["rules", "aggregationRule", "roleRef", "subjects"].iter().all(|name| old[name] == new[name])
}
