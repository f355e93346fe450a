//! Aggregated cluster roles: their rules are those of all cluster roles that match their selectors.
//!
//! Kubernetes leaves this to a controller; here it follows every write of a cluster role.

use serde_json::Value;

use super::policy::CLUSTER_ROLES;
use crate::selector::LabelSelector;
use crate::server::Core;
use crate::store::Expected;

impl Core {
    /// Brings the rules of all aggregated cluster roles up to date.
    pub(crate) fn aggregate_cluster_roles(&self) {
        // A role may be aggregated into one that is itself aggregated, so it goes on until nothing changes.
        while self.aggregate_once() {}
    }

    fn aggregate_once(&self) -> bool {
        let registry = self.registry();
        let Some(resource) = registry.find_stored(CLUSTER_ROLES) else { return false };
        let Ok(page) = self.store.list(CLUSTER_ROLES, None, None, None) else { return false };
        let mut changed = false;
        for (key, object) in &page.objects {
            let mut role = object.value();
            let Some(selectors) = role["aggregationRule"]["clusterRoleSelectors"].as_array() else {
                continue;
            };
            let selectors: Vec<LabelSelector> = selectors.iter().map(LabelSelector::from_object).collect();
            let chosen = page.objects.iter().filter(|(other, candidate)| {
                other != key && selectors.iter().any(|selector| selector.matches(candidate))
            });
            let mut rules: Vec<Value> = Vec::new();
            for (_, source) in chosen {
                for rule in source.value()["rules"].as_array().into_iter().flatten() {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
            if role["rules"].as_array().map(Vec::as_slice).unwrap_or_default() == rules {
                continue;
            }
            role["rules"] = Value::Array(rules);
            let expected = Expected::Revision(object.revision);
            let written =
                self.store.write(&resource.name, key, expected, &mut role, &resource.selectable_fields);
            changed |= written.is_ok();
        }
        changed
    }
}
