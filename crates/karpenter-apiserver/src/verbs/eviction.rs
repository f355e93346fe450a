//! The eviction subresource: deleting a pod if its disruption budget allows.

use http::StatusCode;
use serde_json::{Value, json};

use super::binding::set_condition;
use super::decode::body_as;
use super::delete::{DeleteOptions, check_preconditions};
use crate::admission::Write;
use crate::error::ApiError;
use crate::selector::LabelSelector;
use crate::server::Core;
use crate::store::{Expected, Key, StoredObject};
use crate::wire::{Answer, Call};

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// Beyond this many unobserved evictions the budget's controller is not keeping up.
const DISRUPTED_PODS_MAX: usize = 2000;

/// What a pod's budget says to its eviction.
#[derive(PartialEq, Eq)]
enum Spending {
    /// There is none, or one disruption has been taken from it.
    Settled,
    /// It does not count the pod, which is unhealthy.
    Unhealthy(String),
    /// It changed meanwhile.
    Raced,
}

impl Core {
    pub(super) fn evict(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let eviction = body_as(call, "policy/v1", "Eviction")?;
        if eviction["metadata"]["name"] != call.name() {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut options = DeleteOptions::from_value(&eviction["deleteOptions"]);
        options.dry_run |= call.dry_run()?;
        let kind = Some(("policy", "v1", "Eviction"));
        self.admit(call, &Write { kind, ..Write::of(call, "CREATE", Some(&eviction), None)? })?;
        let current = self.current(call)?;
        let pod = current.value();
        let mut spent = Spending::Settled;
        if !may_ignore_budgets(&pod, &current) {
            spent = self.spend_budget(call, &pod, &current, options.dry_run)?;
            while spent == Spending::Raced {
                spent = self.spend_budget(call, &pod, &current, options.dry_run)?;
            }
        }
        let key = Key::new(call.namespace(), call.name());
        let pinned = options.resource_version.is_some();
        if matches!(spent, Spending::Unhealthy(_)) {
            // It was unhealthy in this version, whichever the client has seen.
            options.resource_version = Some(current.revision.to_string());
        }
        let mut outcome = Ok(());
        if !options.dry_run {
            outcome = self.mark_disrupted(call, &key, &mut options);
        }
        let outcome = outcome.and_then(|()| self.delete_object(&call.resource, &key, &options));
        outcome.map_err(|error| match spent {
            // Whether an unhealthy pod may go has to be asked again.
            Spending::Unhealthy(budget) if error.reason == "Conflict" && !pinned => still_processed(&budget),
            _ => error,
        })?;
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(Answer::value(StatusCode::CREATED, &status))
    }

    /// Says in the pod's conditions why it goes.
    fn mark_disrupted(
        &self,
        call: &Call<'_>,
        key: &Key,
        options: &mut DeleteOptions,
    ) -> Result<(), ApiError> {
        loop {
            let current = self.current(call)?;
            let mut pod = current.value();
            check_preconditions(&call.resource, key, options, &pod)?;
            let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            set_condition(
                &mut conditions,
                json!({
                    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": self.now(),
                }),
            );
            pod["status"]["conditions"] = Value::Array(conditions);
            if pod == current.value() {
                return Ok(());
            }
            let (expected, fields) = (Expected::Revision(current.revision), &call.resource.selectable_fields);
            if let Ok(written) = self.store.write(&call.resource.name, key, expected, &mut pod, fields) {
                if options.resource_version.is_some() {
                    options.resource_version = Some(written.revision.to_string());
                }
                return Ok(());
            }
        }
    }

    /// Takes one disruption from the pod's budget.
    fn spend_budget(
        &self,
        call: &Call<'_>,
        pod: &Value,
        stored: &StoredObject,
        dry_run: bool,
    ) -> Result<Spending, ApiError> {
        let page = self.store.list(BUDGETS, Some(call.namespace()), None, None);
        let page = page.map_err(ApiError::internal)?;
        let mut matching = page.objects.iter().filter_map(|(key, object)| {
            let budget = object.value();
            let selects = LabelSelector::from_object(&budget["spec"]["selector"]).matches(stored);
            selects.then_some((key, object, budget))
        });
        let Some((key, object, mut budget)) = matching.next() else { return Ok(Spending::Settled) };
        if matching.next().is_some() {
            return Err(ApiError::unknown_failure(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        if unhealthy_may_go(pod, &budget) {
            return Ok(Spending::Unhealthy(key.name.to_string()));
        }
        check(&key.name, &budget)?;
        if dry_run {
            return Ok(Spending::Settled);
        }
        let status = &mut budget["status"];
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        status["disruptionsAllowed"] = (allowed - 1).into();
        status["disruptedPods"][call.name()] = self.now().into();
        if allowed == 1 {
            disallow(&mut budget, &self.now());
        }
        let registry = self.registry();
        let Some(resource) = registry.find_stored(BUDGETS) else { return Ok(Spending::Settled) };
        let written = self.write_own_status(resource, key, object, budget);
        Ok(if written { Spending::Settled } else { Spending::Raced })
    }
}

/// Says in a budget's conditions that no more pods may go.
fn disallow(budget: &mut Value, now: &str) {
    const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
    let status = &mut budget["status"];
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let before = conditions.iter().find(|condition| condition["type"] == DISRUPTION_ALLOWED);
    let since = before
        .filter(|before| before["status"] == "False")
        .map(|before| before["lastTransitionTime"].clone());
    let condition = json!({
        "type": DISRUPTION_ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": status["observedGeneration"], "lastTransitionTime": since.unwrap_or_else(|| now.into()),
    });
    conditions.retain(|condition| condition["type"] != DISRUPTION_ALLOWED);
    conditions.push(condition);
    status["conditions"] = Value::Array(conditions);
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

fn violation(cause: &str, retry_seconds: Option<u64>) -> ApiError {
    let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    if let Some(seconds) = retry_seconds {
        details["retryAfterSeconds"] = seconds.into();
    }
    ApiError::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", details)
}

fn still_processed(budget: &str) -> ApiError {
    violation(&format!("The disruption budget {budget} is still being processed by the server."), Some(10))
}

fn check(name: &str, budget: &Value) -> Result<(), ApiError> {
    let status = &budget["status"];
    let observed = status["observedGeneration"].as_i64().unwrap_or(0);
    if observed < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return Err(still_processed(name));
    }
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
    if allowed < 0 {
        return Err(ApiError::forbidden(
            "poddisruptionbudget.policy",
            name,
            "pdb disruptions allowed is negative",
        ));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_PODS_MAX) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(ApiError::forbidden("poddisruptionbudget.policy", name, why));
    }
    if allowed == 0 {
        let number = |name: &str| status[name].as_i64().unwrap_or(0);
        let (needed, healthy) = (number("desiredHealthy"), number("currentHealthy"));
        let refused = status["conditions"].as_array().into_iter().flatten().find(|condition| {
            condition["type"] == "DisruptionAllowed"
                && condition["status"] == "False"
                && condition["message"] != ""
        });
        let text = |condition: &Value, name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        let cause = match refused {
            Some(condition) if condition["reason"] == "SyncFailed" => format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
                text(condition, "message")
            ),
            _ if healthy <= needed => {
                format!(
                    "The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
                )
            }
            Some(condition) => format!(
                "The disruption budget {name} does not allow evicting pods currently ({}): {}",
                text(condition, "reason"),
                text(condition, "message")
            ),
            None => format!("The disruption budget {name} does not allow evicting pods currently"),
        };
        return Err(violation(&cause, None));
    }
    Ok(())
}
