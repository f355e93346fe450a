//! What a scrape reads about conditions: which object has which, and for how long.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use karpenter_environment::Environment;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::cluster::gauges;
use crate::state::Shared;

/// Reads the conditions of claims and pools at every scrape.
pub(super) struct Conditions {
    state: Shared,
    environment: Arc<dyn Environment>,
}

impl fmt::Debug for Conditions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Conditions").finish_non_exhaustive()
    }
}

impl Conditions {
    pub(super) fn new(state: Shared, environment: Arc<dyn Environment>) -> Self {
        Self { state, environment }
    }

    fn encode_kind<'a>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        kind: &str,
        objects: impl Iterator<Item = (&'a ObjectMeta, &'a [Condition])> + Clone,
    ) -> fmt::Result {
        let now = self.environment.now();
        let pairs = |(meta, condition): (&'a ObjectMeta, &'a Condition)| {
            [
                ("namespace", meta.namespace.clone().unwrap_or_default()),
                ("name", meta.name.clone().unwrap_or_default()),
                ("type", condition.type_.clone()),
                ("status", condition.status.clone()),
                ("reason", condition.reason.clone()),
            ]
            .map(|(name, value)| (Cow::Borrowed(name), value))
            .to_vec()
        };
        let each = objects.flat_map(|(meta, conditions)| conditions.iter().map(move |found| (meta, found)));
        let counts = each.clone().map(|found| (pairs(found), 1.0));
        gauges(
            encoder,
            &format!("operator_{kind}_status_condition_count"),
            "Which object has which condition",
            counts,
        )?;
        let ages = each.map(|found| {
            let age = now.duration_since(found.1.last_transition_time.0).as_secs_f64();
            (pairs(found), age.max(0.0))
        });
        gauges(
            encoder,
            &format!("operator_{kind}_status_condition_current_status_seconds"),
            "How long conditions have had their status",
            ages,
        )
    }
}

impl Collector for Conditions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.state.lock();
        let claims = state.claims().map(|claim| {
            let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_deref());
            (&claim.metadata, conditions.unwrap_or_default())
        });
        self.encode_kind(&mut encoder, "nodeclaim", claims)?;
        let pools = state.pools().map(|pool| {
            let conditions = pool.status.as_ref().and_then(|status| status.conditions.as_deref());
            (&pool.metadata, conditions.unwrap_or_default())
        });
        self.encode_kind(&mut encoder, "nodepool", pools)
    }
}
