//! The token subresource of service accounts.

use http::StatusCode;
use serde_json::json;

use crate::admission::Write;
use crate::authentication::{AUDIENCE, TokenRequest};
use crate::error::{ApiError, FieldError};
use crate::server::Core;
use crate::wire::{Answer, Call};
use karpenter_environment::format_time;

const LIFETIME_SECONDS: i64 = 3600;
const LIFETIME_SECONDS_MIN: i64 = 600;

impl Core {
    pub(super) fn issue_token(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let mut request = call.decode()?;
        let account = self.current(call)?;
        let spec = &mut request["spec"];
        if !spec.is_object() {
            *spec = json!({});
        }
        if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
            spec["audiences"] = json!([AUDIENCE]);
        }
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or(LIFETIME_SECONDS);
        if seconds < LIFETIME_SECONDS_MIN {
            let rule = "may not specify a duration less than 10 minutes";
            let error = FieldError::invalid("spec.expirationSeconds", &json!(seconds), rule);
            return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[error]));
        }
        spec["expirationSeconds"] = seconds.into();
        let audiences = spec["audiences"].clone();
        let kind = Some(("authentication.k8s.io", "v1", "TokenRequest"));
        self.admit(call, &Write { kind, ..Write::of(call, "CREATE", Some(&request), None)? })?;
        let now = self.environment.now();
        let expires = now
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .map_err(|error| ApiError::bad_request(format!("spec.expirationSeconds: {error}")))?;
        let token = self.authentication.sign(&TokenRequest {
            namespace: call.namespace(),
            name: call.name(),
            uid: &account.uid,
            audiences: &audiences,
            issued: now.as_second(),
            expires: expires.as_second(),
            id: self.environment.uid(),
        });
        request["kind"] = "TokenRequest".into();
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        request["metadata"] = json!({
            "name": call.name(), "namespace": call.namespace(), "creationTimestamp": self.now(),
        });
        request["status"] = json!({"token": token, "expirationTimestamp": format_time(expires)});
        Ok(Answer::value(StatusCode::CREATED, &request))
    }
}
