//! Reading requests: the place a path names and the body's format.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use serde_json::Value;

use super::Query;
use super::accept::Rendering;
use super::protobuf;
use super::query::unescape;
use crate::admission::Session;
use crate::authentication::User;
use crate::error::ApiError;
use crate::health::Health;
use crate::registry::Resource;

/// The object or collection a path names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Whether the path itself asks to watch, as paths did before the query could.
    pub(crate) watch: bool,
}

impl Target {
    /// Whether a request follows changes: the query asks for it on a collection, or the path does.
    pub(crate) fn watches(&self, query: &Query) -> bool {
        self.watch || (self.name.is_none() && query.flag("watch"))
    }
}

/// What a path stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// Resources.
    Resource(Target),
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/v1` or `/apis/<group>/<version>`.
    GroupVersion(String, String),
    /// `/openapi/v3` and the group version below it.
    OpenApi(String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz` and the checks below them.
    Health(Health),
    /// A path that begins like that of a watch and names nothing to watch.
    Unclear,
    /// Anything else.
    Unknown,
}

impl Route {
    pub(crate) fn parse(path: &str) -> Self {
        // An escaped slash separates as any other; nothing between two of them is a name that nothing has, and those at the end
        // are not looked at.
        let decoded = unescape(path);
        let inner = decoded.strip_prefix('/').unwrap_or(&decoded);
        let parts: Vec<&str> = inner.trim_end_matches('/').split('/').collect();
        match parts.as_slice() {
            ["api"] => Self::CoreVersions,
            ["api", version] => Self::GroupVersion(String::new(), (*version).to_owned()),
            ["api", version, rest @ ..] => target("", version, rest),
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version] => Self::GroupVersion((*group).to_owned(), (*version).to_owned()),
            ["apis", group, version, rest @ ..] => target(group, version, rest),
            ["openapi", "v3", rest @ ..] => Self::OpenApi(rest.join("/")),
            ["openapi", "v2"] => Self::OpenApiV2,
            ["version"] => Self::Version,
            _ => Health::parse(path).map_or(Self::Unknown, Self::Health),
        }
    }
}

fn target(group: &str, version: &str, rest: &[&str]) -> Route {
    let mut target = Target { group: group.to_owned(), version: version.to_owned(), ..Target::default() };
    let rest = match rest {
        ["watch"] => return Route::Unclear,
        ["watch", rest @ ..] => {
            target.watch = true;
            rest
        }
        rest => rest,
    };
    // `/namespaces/<name>/<word>` is a subresource of the namespace itself when the word is one.
    let rest = match rest {
        ["namespaces", namespace, plural, rest @ ..] if !matches!(*plural, "status" | "finalize") => {
            // No namespace is all of them.
            target.namespace = Some((*namespace).to_owned()).filter(|namespace| !namespace.is_empty());
            (*plural).clone_into(&mut target.plural);
            rest
        }
        [plural, rest @ ..] => {
            (*plural).clone_into(&mut target.plural);
            rest
        }
        [] => return Route::Unknown,
    };
    match rest {
        [] => {}
        [name] => target.name = Some((*name).to_owned()),
        [name, subresource] => {
            target.name = Some((*name).to_owned());
            target.subresource = Some((*subresource).to_owned());
        }
        // Nothing is served that deep, but whoever asks is told so as about any subresource.
        [name, subresource @ ..] => {
            target.name = Some((*name).to_owned());
            target.subresource = Some(subresource.join("/"));
        }
    }
    Route::Resource(target)
}

/// A request for a resource, ready for a verb.
#[derive(Debug)]
pub(crate) struct Call<'r> {
    pub(crate) method: &'r Method,
    pub(crate) resource: Arc<Resource>,
    pub(crate) target: &'r Target,
    pub(crate) query: &'r Query,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) body: &'r Bytes,
    pub(crate) rendering: Rendering,
    pub(crate) user: &'r User,
    pub(crate) session: &'r Session,
}

impl Call<'_> {
    /// Returns the namespace, empty for cluster-scoped resources.
    pub(crate) fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the name in the path.
    pub(crate) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    /// Whether nothing may be stored.
    ///
    /// # Errors
    /// 400 when `dryRun` has a value other than `All`.
    pub(crate) fn dry_run(&self) -> Result<bool, ApiError> {
        match self.query.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(ApiError::bad_request(format!(
                "Invalid value: {other:?}: dryRun: Unsupported value: {other:?}: supported values: \"All\""
            ))),
        }
    }

    /// Returns the media type of the body.
    pub(crate) fn content_type(&self) -> &str {
        let content_type = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        content_type.unwrap_or("application/json").split(';').next().unwrap_or_default().trim()
    }

    /// Decodes the body as JSON, YAML or, for the kinds clients send so, protobuf.
    ///
    /// # Errors
    /// 415 for other formats, 400 when it is malformed.
    pub(crate) fn decode(&self) -> Result<Value, ApiError> {
        match self.content_type() {
            "application/json" | "" | protobuf::PROTOBUF => decode_body(self.body),
            "application/yaml" => decode_yaml(self.body),
            _ => Err(unsupported()),
        }
    }
}

fn unsupported() -> ApiError {
    ApiError::unsupported_body()
}

/// Decodes a JSON body, or one that begins as protobuf bodies do.
///
/// # Errors
/// 400 when it is malformed, 415 when it is protobuf of a kind that is not known in that form.
pub(crate) fn decode_body(body: &[u8]) -> Result<Value, ApiError> {
    if body.starts_with(protobuf::MAGIC) {
        return protobuf::decode(body).ok_or_else(unsupported);
    }
    serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
    })
}

/// Decodes a YAML body.
///
/// # Errors
/// 400 when it is malformed.
pub(crate) fn decode_yaml(body: &[u8]) -> Result<Value, ApiError> {
    if body.starts_with(protobuf::MAGIC) {
        return decode_body(body);
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
    // JSON is YAML, and the common case by far.
    serde_json::from_str(text).or_else(|_| {
        // `y` and `on` are texts, as in the YAML reader of Kubernetes.
        let options = || serde_saphyr::options! { strict_booleans: true };
        let whole = serde_saphyr::from_str_with_options(text, options());
        // What follows the first document is nobody's business.
        let first = |_: &serde_saphyr::Error| {
            serde_saphyr::read_with_options::<_, Value>(&mut text.as_bytes(), options()).next()?.ok()
        };
        whole
            .or_else(|error| first(&error).ok_or(error))
            .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> Target {
        match Route::parse(path) {
            Route::Resource(target) => target,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn only_the_first_document_of_a_body_is_read() {
        for body in ["{a: 1} {}", "a: 1\n---\nb: 2", "a: 1\n---\n: ["] {
            assert_eq!(decode_yaml(body.as_bytes()).unwrap()["a"], 1, "{body}");
        }
        assert!(decode_yaml(b"a: [").is_err());
    }

    #[test]
    fn paths_name_objects_collections_and_subresources() {
        let pod = parsed("/api/v1/namespaces/default/pods/web/eviction");
        assert_eq!((pod.plural.as_str(), pod.name.as_deref()), ("pods", Some("web")));
        assert_eq!(pod.subresource.as_deref(), Some("eviction"));
        let all = parsed("/apis/apps/v1/deployments");
        assert_eq!((all.group.as_str(), all.namespace, all.name), ("apps", None, None));
        let namespace = parsed("/api/v1/namespaces/default");
        assert_eq!((namespace.plural.as_str(), namespace.name.as_deref()), ("namespaces", Some("default")));
        let watched = parsed("/api/v1/watch/namespaces/default/pods/web");
        assert_eq!((watched.plural.as_str(), watched.name.as_deref()), ("pods", Some("web")));
        assert!(watched.watch && !pod.watch);
        assert_eq!(Route::parse("/api/v1/watch"), Route::Unclear);
        let all = parsed("/api/v1/namespaces//pods/");
        assert_eq!((all.plural.as_str(), all.namespace, all.name), ("pods", None, None));
        assert_eq!(parsed("/api/v1/namespaces/default/pods/a+b").name.as_deref(), Some("a+b"));
        assert_eq!(parsed("/api/v1/nodes/a%2Fb").subresource.as_deref(), Some("b"));
        let finalize = parsed("/api/v1/namespaces/default/finalize");
        assert_eq!((finalize.namespace, finalize.subresource.as_deref()), (None, Some("finalize")));
    }

    #[test]
    fn paths_with_nothing_between_two_slashes_name_nothing_that_is_there() {
        assert_eq!(Route::parse("//api/v1/pods"), Route::Unknown);
        assert_eq!(Route::parse("//version"), Route::Unknown);
        assert_eq!(parsed("/api/v1//pods").plural, "");
        assert_eq!(parsed("/apis/apps//v1").version, "");
        assert_eq!(parsed("/api/v1/pods//"), parsed("/api/v1/pods"));
    }
}
