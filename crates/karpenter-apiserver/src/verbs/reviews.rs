//! Reviews: questions in the form of objects that are answered and never stored.
//!
//! There is no authorization in this server: whoever is authenticated may do everything, and access reviews say so.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::authentication::User;
use crate::error::ApiError;
use crate::server::Core;
use crate::wire::{Answer, Target, decode_body};

/// Group, plural name, kind and scope of the reviews that are answered.
pub(crate) const REVIEWS: &[(&str, &str, &str, bool)] = &[
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", false),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false),
];

impl Core {
    /// Answers a review; `None` when the target is none.
    pub(crate) fn review(
        &self,
        method: &Method,
        target: &Target,
        body: &[u8],
        user: &User,
    ) -> Option<Result<Answer, ApiError>> {
        let (_, _, kind, _) = REVIEWS.iter().find(|(group, plural, ..)| {
            *group == target.group && *plural == target.plural && target.version == "v1"
        })?;
        if method != Method::POST || target.name.is_some() {
            return Some(Err(ApiError::method_not_allowed()));
        }
        Some(decode_body(body).map(|mut review| {
            review["kind"] = (*kind).into();
            review["apiVersion"] = format!("{}/{}", target.group, target.version).into();
            if !review["metadata"].is_object() {
                review["metadata"] = json!({});
            }
            review["status"] = self.verdict(kind, &review["spec"], user);
            Answer::value(StatusCode::CREATED, &review)
        }))
    }

    fn verdict(&self, kind: &str, spec: &Value, user: &User) -> Value {
        match kind {
            "SelfSubjectReview" => json!({"userInfo": {"username": user.name, "groups": user.groups}}),
            "SelfSubjectRulesReview" => json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            }),
            "TokenReview" => {
                let token = spec["token"].as_str().unwrap_or_default();
                match self.authentication.token_user(token, self.environment.now()) {
                    Some(user) => json!({
                        "authenticated": true, "user": {"username": user.name, "groups": user.groups},
                    }),
                    None => json!({"authenticated": false, "error": "invalid bearer token"}),
                }
            }
            _ => json!({"allowed": true, "reason": "this server does not restrict authenticated callers"}),
        }
    }
}
