//! Reviews: questions in the form of objects that are answered and never stored.

use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::author::Author;
use super::options::agent;
use super::rendering::rendered_once;
use crate::apply::Managers;
use crate::authentication::{AUDIENCE, User};
use crate::authorization::{Action, Attributes, Rule};
use crate::error::{ApiError, FieldError};
use crate::schema::{Node, canonical, zero};
use crate::server::Core;
use crate::wire::{Answer, Offer, Query, Target, check_accepted, decode_body, rendering};

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
        query: &Query,
        headers: &HeaderMap,
        body: &[u8],
        user: &User,
    ) -> Option<Result<Answer, ApiError>> {
        let (_, _, kind, namespaced) = REVIEWS.iter().find(|(group, plural, ..)| {
            *group == target.group && *plural == target.plural && target.version == "v1"
        })?;
        if *namespaced != target.namespace.is_some() {
            return Some(Err(ApiError::unknown_resource()));
        }
        if method != Method::POST || target.name.is_some() {
            return Some(Err(ApiError::method_not_allowed()));
        }
        let form = check_accepted(headers, Offer::Object).and_then(|()| rendering(headers, false));
        Some(form.and_then(|form| {
            let review = decode_body(body)?;
            check_metadata(kind, &review["metadata"], target)?;
            let status = self.verdict(kind, &review["spec"], target, user)?;
            let mut answer = json!({
                "kind": kind, "apiVersion": format!("{}/{}", target.group, target.version),
                "metadata": {},
            });
            if *kind == "SelfSubjectReview" {
                answer["metadata"]["creationTimestamp"] = self.now().into();
            } else {
                answer["spec"] = review["spec"].clone();
                answer["spec"].get_mut("resourceAttributes").map(without_empty_texts);
            }
            if *kind == "SelfSubjectRulesReview" {
                answer["spec"] = json!({});
            }
            if let Some(metadata) = review["metadata"].as_object() {
                for (name, value) in metadata.iter().filter(|(_, value)| !value.is_null()) {
                    answer["metadata"][name] = value.clone();
                }
            }
            answer["status"] = status;
            if !matches!(*kind, "SelfSubjectReview" | "SelfSubjectRulesReview") {
                let manager = query.get("fieldManager").map_or_else(|| agent(headers), str::to_owned);
                self.review_managers(&review, kind, &target.group, &manager).put(&mut answer);
            }
            let package = target.group.split('.').next().unwrap_or_default();
            Ok(Answer::ok(rendered_once(form, answer, &format!("{package}.{kind}"))?).created())
        }))
    }

    /// Credits whoever asks with the question.
    fn review_managers(&self, review: &Value, kind: &str, group: &str, manager: &str) -> Managers {
        let api_version = format!("{group}/v1");
        let node = Node::built_in(&api_version, kind);
        let mut review = review.clone();
        canonical(&mut review, &node);
        let mut managers = Managers::default();
        let author = Author::of_request(self, manager, &api_version, "");
        managers.update(&zero(&node), &review, &node, author.manager());
        managers
    }

    fn verdict(&self, kind: &str, spec: &Value, target: &Target, user: &User) -> Result<Value, ApiError> {
        match kind {
            "SelfSubjectReview" => Ok(json!({"userInfo": user.to_value()})),
            "SelfSubjectRulesReview" => self.rules(spec, user),
            "TokenReview" => self.token_review(spec),
            "SelfSubjectAccessReview" => {
                check_access(kind, spec, target)?;
                Ok(self.access(spec, user))
            }
            _ => {
                check_access(kind, spec, target)?;
                Ok(self.access(spec, &subject(spec)))
            }
        }
    }

    fn access(&self, spec: &Value, user: &User) -> Value {
        let (attributes, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let text = |name: &str| attributes[name].as_str().unwrap_or_default();
        let (verb, action) = if attributes.is_object() {
            let [group, resource, subresource] = ["group", "resource", "subresource"].map(text);
            let [namespace, name] = ["namespace", "name"].map(text);
            (text("verb"), Action::Resource { group, resource, subresource, namespace, name })
        } else {
            let text = |name: &str| path[name].as_str().unwrap_or_default();
            (text("verb"), Action::Path(text("path")))
        };
        let decision = self.authorizer.decide(&self.store, user, &Attributes { verb, action });
        let mut status = json!({"allowed": decision.allowed});
        if !decision.reason.is_empty() {
            status["reason"] = decision.reason.into();
        }
        status
    }

    fn rules(&self, spec: &Value, user: &User) -> Result<Value, ApiError> {
        let namespace = spec["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let abilities = self.authorizer.abilities(&self.store, user, namespace);
        let entry = |rule: &Rule, parts: &[(&str, &Vec<String>)]| {
            let mut entry = json!({"verbs": rule.verbs});
            for (name, texts) in parts.iter().filter(|(_, texts)| !texts.is_empty()) {
                entry[name] = json!(texts);
            }
            entry
        };
        let resources = abilities.rules.iter().filter(|rule| !rule.resources.is_empty()).map(|rule| {
            let parts =
                [("apiGroups", &rule.groups), ("resources", &rule.resources), ("resourceNames", &rule.names)];
            entry(rule, &parts)
        });
        let paths = abilities.rules.iter().filter(|rule| !rule.paths.is_empty());
        let paths = paths.map(|rule| entry(rule, &[("nonResourceURLs", &rule.paths)]));
        let mut status = json!({
            "resourceRules": resources.collect::<Vec<_>>(), "nonResourceRules": paths.collect::<Vec<_>>(),
            "incomplete": false,
        });
        match abilities.errors.as_slice() {
            [] => {}
            [one] => status["evaluationError"] = one.as_str().into(),
            many => status["evaluationError"] = format!("[{}]", many.join(", ")).into(),
        }
        Ok(status)
    }

    fn token_review(&self, spec: &Value) -> Result<Value, ApiError> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        }
        let wanted: Vec<&str> = match spec["audiences"].as_array() {
            Some(audiences) if !audiences.is_empty() => audiences.iter().filter_map(Value::as_str).collect(),
            _ => vec![AUDIENCE],
        };
        let unknown = json!({"user": {}, "error": "invalid bearer token"});
        let Some((user, audiences)) = self.token_user(token) else { return Ok(unknown) };
        let audiences: Vec<&str> = if audiences.is_empty() {
            vec![AUDIENCE]
        } else {
            audiences.iter().map(String::as_str).collect()
        };
        let shared: Vec<&str> = wanted.into_iter().filter(|audience| audiences.contains(audience)).collect();
        if shared.is_empty() {
            let error =
                format!("[invalid bearer token, token audiences {audiences:?} is invalid for the target]");
            return Ok(json!({"user": {}, "error": error}));
        }
        Ok(json!({"authenticated": true, "user": user.to_value(), "audiences": shared}))
    }
}

/// The user a review asks about.
fn subject(spec: &Value) -> User {
    let texts = |value: &Value| {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let text = |name: &str| spec[name].as_str().unwrap_or_default().to_owned();
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text("user"),
        uid: text("uid"),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

/// A question about access is about nobody in particular.
fn check_metadata(kind: &str, metadata: &Value, target: &Target) -> Result<(), ApiError> {
    let asks = matches!(kind, "SelfSubjectAccessReview" | "SubjectAccessReview");
    let named = metadata.as_object().is_some_and(|fields| fields.values().any(|value| !value.is_null()));
    if !asks || !named {
        return Ok(());
    }
    let error = FieldError::invalid("metadata", metadata, "must be empty");
    Err(ApiError::invalid(&target.group, "", "", &[error]))
}

fn without_empty_texts(attributes: &mut Value) {
    if let Some(fields) = attributes.as_object_mut() {
        fields.retain(|_, value| *value != "");
    }
}

/// Checks that a review asks about one thing and, where it must, about somebody.
fn check_access(kind: &str, spec: &Value, target: &Target) -> Result<(), ApiError> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    if resource.is_object() && path.is_object() {
        let rule = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", path, rule));
    }
    if !resource.is_object() && !path.is_object() {
        let rule = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, rule));
    }
    let nobody = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if kind != "SelfSubjectAccessReview" && nobody(&spec["user"]) && nobody(&spec["groups"]) {
        let rule = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &json!(""), rule));
    }
    if kind == "LocalSubjectAccessReview" {
        let namespace = resource["namespace"].as_str().unwrap_or_default();
        if resource.is_object() && Some(namespace) != target.namespace.as_deref() {
            let rule = "must match metadata.namespace";
            errors.push(FieldError::invalid("spec.resourceAttributes.namespace", &json!(namespace), rule));
        }
        if path.is_object() {
            let rule = "disallowed on this kind of request";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", path, rule));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("authorization.k8s.io", "", "", &errors)) }
}
