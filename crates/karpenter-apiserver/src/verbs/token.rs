//! The token subresource of service accounts.

use serde_json::{Value, json};

use super::author::Author;
use super::decode::body_as;
use super::options::WriteOptions;
use super::rendering::rendered_once;
use crate::admission::Write;
use crate::apply::Managers;
use crate::authentication::{AUDIENCE, TokenRequest};
use crate::error::{ApiError, FieldError};
use crate::schema::{Node, zero};
use crate::server::Core;
use crate::store::Key;
use crate::wire::{Answer, Call};
use karpenter_environment::format_time;

const API_VERSION: &str = "authentication.k8s.io/v1";
const LIFETIME_SECONDS: i64 = 3600;
const LIFETIME_SECONDS_MIN: i64 = 600;

impl Core {
    pub(super) fn issue_token(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let mut request = body_as(call, API_VERSION, "TokenRequest")?;
        check_identity(call, &request)?;
        let account = self.current(call)?;
        let meant = request["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty());
        if let Some(meant) = meant.filter(|meant| **meant != *account.uid) {
            let actual = &account.uid;
            let why = format!(
                "the UID in the token request ({meant}) does not match the UID of the service account ({actual})"
            );
            return Err(ApiError::conflict("TokenRequest.authentication.k8s.io", call.name(), why));
        }
        let spec = &mut request["spec"];
        if spec["expirationSeconds"].is_null() {
            spec["expirationSeconds"] = LIFETIME_SECONDS.into();
        }
        let managers = self.token_managers(call, &request)?;
        let spec = &mut request["spec"];
        if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
            spec["audiences"] = json!([AUDIENCE]);
        }
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or(LIFETIME_SECONDS);
        if seconds < LIFETIME_SECONDS_MIN {
            let rule = "may not specify a duration less than 10 minutes";
            let error = FieldError::invalid("spec.expirationSeconds", &json!(seconds), rule);
            return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[error]));
        }
        let audiences = spec["audiences"].clone();
        let kind = Some(("authentication.k8s.io", "v1", "TokenRequest"));
        self.admit(call, &Write { kind, ..Write::of(call, "CREATE", Some(&request), None)? })?;
        let bound = self.bound_object(call, &request["spec"]["boundObjectRef"])?;
        let now = self.environment.now();
        let expires = now
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .map_err(|error| ApiError::bad_request(format!("spec.expirationSeconds: {error}")))?;
        let token = self.authentication.sign(&TokenRequest {
            namespace: call.namespace(),
            name: call.name(),
            uid: &account.uid,
            audiences: &audiences,
            bound,
            issued: now.as_second(),
            expires: expires.as_second(),
            id: self.environment.uid(),
        });
        request["kind"] = "TokenRequest".into();
        request["apiVersion"] = API_VERSION.into();
        let metadata = &mut request["metadata"];
        metadata["name"] = call.name().into();
        metadata["namespace"] = call.namespace().into();
        metadata["uid"] = (&*account.uid).into();
        metadata["creationTimestamp"] = self.now().into();
        managers.put(&mut request);
        request["status"] = json!({"token": token, "expirationTimestamp": format_time(expires)});
        Ok(Answer::ok(rendered_once(call.rendering, request, "authentication.TokenRequest")?).created())
    }

    /// Finds the object whose end is to be the token's end, as a claim of the token.
    ///
    /// # Errors
    /// 404 when it is not there, 409 when it is another than the one meant, 400 when tokens are not bound to such.
    fn bound_object(&self, call: &Call<'_>, reference: &Value) -> Result<Option<(String, Value)>, ApiError> {
        if !reference.is_object() {
            return Ok(None);
        }
        let text = |name: &str| reference[name].as_str().unwrap_or_default();
        let (version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
        let (plural, namespace) = match (version.contains('/'), kind) {
            (false, "Pod") => ("pods", call.namespace()),
            (false, "Secret") => ("secrets", call.namespace()),
            (false, "Node") => ("nodes", ""),
            _ => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(ApiError::bad_request(message));
            }
        };
        let object = self.store.get_visible(plural, &Key::new(namespace, name));
        let object = object.ok_or_else(|| ApiError::not_found(plural, name))?.value();
        if kind == "Pod" && object["spec"]["serviceAccountName"].as_str().unwrap_or_default() != call.name() {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                call.name()
            )));
        }
        let uid = &object["metadata"]["uid"];
        if !text("uid").is_empty() && uid != text("uid") {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have \
                 been deleted and then recreated",
                text("uid")
            );
            return Err(ApiError::conflict(kind, name, why));
        }
        Ok(Some((kind.to_lowercase(), json!({"name": name, "uid": uid}))))
    }

    /// Credits whoever asks for a token with what it says about it.
    fn token_managers(&self, call: &Call<'_>, request: &Value) -> Result<Managers, ApiError> {
        let options = WriteOptions::read(call, "CreateOptions")?;
        let node = Node::built_in(API_VERSION, "TokenRequest");
        let author = Author::of_request(self, &options.manager, API_VERSION, "token");
        let mut managers = Managers::default();
        managers.update(&zero(&node), request, &node, author.manager());
        Ok(managers)
    }
}

/// A request that names an account must name the one of its path.
fn check_identity(call: &Call<'_>, request: &Value) -> Result<(), ApiError> {
    for (name, what, expected) in
        [("name", "name", call.name()), ("namespace", "namespace", call.namespace())]
    {
        let given = &request["metadata"][name];
        if given.as_str().is_some_and(|given| !given.is_empty() && given != expected) {
            let rule = format!("must match the service account {what} if specified");
            let error = FieldError::invalid(format!("metadata.{name}"), given, rule);
            return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", call.name(), &[error]));
        }
    }
    Ok(())
}
