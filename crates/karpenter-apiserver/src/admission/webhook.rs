//! Webhooks as their configurations describe them, and which of them a write must pass.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Write;
use super::expression::Scope;
use super::rules::{Selectors, WriteRule};
use crate::derived::Objects;
use crate::error::ApiError;
use crate::registry::{Registry, Resource};
use crate::wire::Call;

/// Where a webhook listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Url(String),
    Service { namespace: String, name: String, path: String, port: u64 },
}

/// Which spellings of a resource a rule means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchPolicy {
    Exact,
    /// All versions and groups under which the same objects are served.
    Equivalent,
}

/// One webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: String,
    /// Tells apart webhooks with the same name: the uid and revision of its configuration.
    pub(super) identity: String,
    pub(super) address: Address,
    pub(super) authority_pem: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) ignores_failures: bool,
    pub(super) has_side_effects: bool,
    pub(super) review_versions: Vec<String>,
    pub(super) reinvoked: bool,
    rules: Vec<WriteRule>,
    selectors: Selectors,
    match_policy: MatchPolicy,
    conditions: Vec<(String, String)>,
}

impl Webhook {
    /// Reads all webhooks of all configurations, in the order they are asked.
    pub(super) fn read_all(configurations: &Objects) -> Vec<Arc<Self>> {
        let mut webhooks = Vec::new();
        for (_, stored) in configurations {
            let configuration = stored.value();
            let identity = format!("{}/{}", stored.uid, stored.revision);
            let entries = configuration["webhooks"].as_array().into_iter().flatten();
            webhooks.extend(entries.map(|webhook| Arc::new(Self::read(webhook, &identity))));
        }
        webhooks
    }

    fn read(webhook: &Value, identity: &str) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let client = &webhook["clientConfig"];
        let service = &client["service"];
        let address = match client["url"].as_str() {
            Some(url) => Address::Url(url.to_owned()),
            None => Address::Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                path: text(&service["path"]),
                port: service["port"].as_u64().unwrap_or(443),
            },
        };
        let conditions = webhook["matchConditions"].as_array().into_iter().flatten();
        let versions = webhook["admissionReviewVersions"].as_array().into_iter().flatten();
        Self {
            name: text(&webhook["name"]),
            identity: identity.to_owned(),
            address,
            authority_pem: STANDARD.decode(text(&client["caBundle"])).unwrap_or_default(),
            timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10)),
            ignores_failures: webhook["failurePolicy"] == "Ignore",
            has_side_effects: !matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            review_versions: versions.filter_map(Value::as_str).map(str::to_owned).collect(),
            reinvoked: webhook["reinvocationPolicy"] == "IfNeeded",
            rules: webhook["rules"].as_array().into_iter().flatten().map(WriteRule::read).collect(),
            selectors: Selectors::read(webhook),
            match_policy: if webhook["matchPolicy"] == "Exact" {
                MatchPolicy::Exact
            } else {
                MatchPolicy::Equivalent
            },
            conditions: conditions
                .map(|condition| (text(&condition["name"]), text(&condition["expression"])))
                .collect(),
        }
    }

    /// Returns the resource as which a write must be shown to the webhook; `None` when it need not be.
    ///
    /// # Errors
    /// 403 when a match condition fails and failures are not ignored.
    pub(super) fn concerns(
        &self,
        call: &Call<'_>,
        write: &Write<'_>,
        namespace: Option<&Value>,
        registry: &Registry,
    ) -> Result<Option<Arc<Resource>>, ApiError> {
        if !self.selectors.choose(write, namespace) {
            return Ok(None);
        }
        let about = |resource: &Resource| self.rules.iter().any(|rule| rule.is_about(write, resource));
        let resource = if about(&call.resource) {
            Arc::clone(&call.resource)
        } else {
            let same = |other: &&Arc<Resource>| other.name == call.resource.name && about(other);
            match registry
                .iter()
                .find(same)
                .filter(|_| self.match_policy == MatchPolicy::Equivalent && write.subresource.is_empty())
            {
                Some(other) => Arc::clone(other),
                None => return Ok(None),
            }
        };
        if self.conditions.is_empty() {
            return Ok(Some(resource));
        }
        let scope = Scope::new(write, &resource, call.user);
        let mut errors = Vec::new();
        for (_, expression) in &self.conditions {
            match scope.is_true(expression) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => Ok(Some(resource)),
            _ if self.ignores_failures => Ok(None),
            [one] => Err(ApiError::forbidden(&call.resource.name, write.name, one)),
            many => {
                let why = format!("[{}]", many.join(", "));
                Err(ApiError::forbidden(&call.resource.name, write.name, why))
            }
        }
    }
}
