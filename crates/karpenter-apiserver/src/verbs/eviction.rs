//! The eviction subresource: deleting a pod if its disruption budget allows.

use http::StatusCode;
use serde_json::{Value, json};

use super::delete::DeleteOptions;
use crate::admission::Write;
use crate::error::ApiError;
use crate::selector::LabelSelector;
use crate::server::Core;
use crate::store::{Expected, Key, StoredObject};
use crate::wire::{Answer, Call};

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// Beyond this many unobserved evictions the budget's controller is not keeping up.
const DISRUPTED_PODS_MAX: usize = 2000;

impl Core {
    pub(super) fn evict(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let eviction = call.decode()?;
        let mut options = DeleteOptions::from_value(&eviction["deleteOptions"]);
        options.dry_run |= call.dry_run()?;
        let current = self.current(call)?;
        let pod = current.value();
        let kind = Some(("policy", "v1", "Eviction"));
        self.admit(call, &Write { kind, ..Write::of(call, "CREATE", Some(&eviction), None)? })?;
        if !may_ignore_budgets(&pod, &current) {
            while !self.spend_budget(call, &pod, &current, options.dry_run)? {}
        }
        self.delete_object(&call.resource, &Key::new(call.namespace(), call.name()), &options)?;
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(Answer::value(StatusCode::CREATED, &status))
    }

    /// Takes one disruption from the pod's budget; `false` when the budget changed meanwhile.
    fn spend_budget(
        &self,
        call: &Call<'_>,
        pod: &Value,
        stored: &StoredObject,
        dry_run: bool,
    ) -> Result<bool, ApiError> {
        let page = self.store.list(BUDGETS, Some(call.namespace()), None, None);
        let page = page.map_err(ApiError::internal)?;
        let mut matching = page.objects.iter().filter_map(|(key, object)| {
            let budget = object.value();
            let selects = LabelSelector::from_object(&budget["spec"]["selector"]).matches(stored);
            selects.then_some((key, object, budget))
        });
        let Some((key, object, mut budget)) = matching.next() else { return Ok(true) };
        if matching.next().is_some() {
            return Err(ApiError::internal(
                "this pod has more than one PodDisruptionBudget, which the eviction subresource does not support",
            ));
        }
        if unhealthy_may_go(pod, &budget) {
            return Ok(true);
        }
        check(&key.name, &budget)?;
        if dry_run {
            return Ok(true);
        }
        let status = &mut budget["status"];
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        status["disruptionsAllowed"] = (allowed - 1).into();
        status["disruptedPods"][call.name()] = self.now().into();
        let registry = self.registry();
        let Some(resource) = registry.find_stored(BUDGETS) else { return Ok(true) };
        let expected = Expected::Revision(object.revision);
        Ok(self.store.write(&resource.name, key, expected, &mut budget, &resource.selectable_fields).is_ok())
    }
}

/// Pods that run nothing, or are on their way out, disrupt nobody.
fn may_ignore_budgets(pod: &Value, stored: &StoredObject) -> bool {
    stored.deleting || matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
}

fn unhealthy_may_go(pod: &Value, budget: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    if ready {
        return false;
    }
    let number = |name: &str| budget["status"][name].as_i64().unwrap_or(0);
    let healthy = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || healthy
}

fn check(name: &str, budget: &Value) -> Result<(), ApiError> {
    let status = &budget["status"];
    let observed = status["observedGeneration"].as_i64().unwrap_or(0);
    let refuse = |cause: String, retry: u64| {
        let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
        if retry > 0 {
            details["retryAfterSeconds"] = retry.into();
        }
        Err(ApiError::too_many_requests(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details,
        ))
    };
    if observed < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return refuse(format!("The disruption budget {name} is still being processed by the server."), 10);
    }
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
    if allowed < 0 {
        return Err(ApiError::forbidden(BUDGETS, name, "pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_PODS_MAX) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(ApiError::forbidden(BUDGETS, name, why));
    }
    if allowed == 0 {
        let number = |name: &str| status[name].as_i64().unwrap_or(0);
        let (needed, healthy) = (number("desiredHealthy"), number("currentHealthy"));
        return refuse(
            format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"),
            0,
        );
    }
    Ok(())
}
