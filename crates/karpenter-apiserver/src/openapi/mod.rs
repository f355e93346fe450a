//! OpenAPI: version 3 with one document per group and version, and version 2 in one.
//!
//! kubectl reads schemas for `explain`, learns from patch operations whether the server validates fields itself, and
//! computes strategic merge patches from what schemas say about lists. Documents are made when they are asked for and
//! kept until the served resources change; their hashes depend only on what is served, so clients may keep them too.

mod entry;
mod paths;
mod schemas;
mod version2;
mod version2_protobuf;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::discovery::VERSION;
use crate::error::ApiError;
use crate::registry::Registry;
use crate::wire::{Query, ResponseBody, bytes_response, json_response, text_response};
use entry::{Entry, Source, place, places};

const JSON: &str = "application/json";
/// What client-go asks for, and the spelling that is a valid media type.
const PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// The documents made so far for one state of the registry.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    latest: Mutex<Option<Made>>,
}

/// Documents by name and the registry they describe.
type Made = (Arc<Registry>, BTreeMap<String, Bytes>);

impl Documents {
    /// Returns a document, made now if it has not been made for this registry.
    fn get(&self, registry: &Arc<Registry>, name: &str, make: impl FnOnce() -> Bytes) -> Bytes {
        {
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            match &*latest {
                Some((known, documents)) if Arc::ptr_eq(known, registry) => {
                    if let Some(document) = documents.get(name) {
                        return document.clone();
                    }
                }
                _ => *latest = Some((Arc::clone(registry), BTreeMap::new())),
            }
        }
        // Made without the lock: two clients may make the same document, none waits for another's.
        let document = make();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, documents)) = &mut *latest
            && Arc::ptr_eq(known, registry)
        {
            documents.insert(name.to_owned(), document.clone());
        }
        document
    }

    /// Answers a request below `/openapi/v3`.
    pub(crate) fn version3(
        &self,
        registry: &Arc<Registry>,
        path: &str,
        query: &Query,
        headers: &HeaderMap,
    ) -> Response<ResponseBody> {
        if path.is_empty() {
            return json_response(StatusCode::OK, &index(registry));
        }
        let parts: Vec<&str> = path.split('/').collect();
        let (group, version) = match parts.as_slice() {
            ["api", version] => ("", *version),
            ["apis", group, version] => (*group, *version),
            _ => return text_response(StatusCode::NOT_FOUND, "404 page not found\n"),
        };
        let entries = Entry::of_version(registry, group, version);
        if entries.is_empty() {
            return text_response(StatusCode::NOT_FOUND, "404 page not found\n");
        }
        let hash = hash(&entries);
        match query.get("hash") {
            Some(asked) if asked != hash => {
                let mut response = text_response(StatusCode::MOVED_PERMANENTLY, "");
                let location = format!("/openapi/v3/{path}?hash={hash}");
                if let Ok(location) = HeaderValue::from_str(&location) {
                    response.headers_mut().insert(header::LOCATION, location);
                }
                return response;
            }
            _ => {}
        }
        if !accepts(headers, JSON) {
            return ApiError::not_acceptable().into_response();
        }
        let make = || Bytes::from(document(&entries).to_string());
        cacheable(&hash, query.get("hash").is_some(), headers, JSON, || self.get(registry, path, make))
    }

    /// Answers `/openapi/v2`.
    pub(crate) fn version2(&self, registry: &Arc<Registry>, headers: &HeaderMap) -> Response<ResponseBody> {
        let hash = places(registry).iter().fold(String::new(), |hashes, (group, version)| {
            hashes + &hash(&Entry::of_version(registry, group, version))
        });
        let hash = digest_text(&hash);
        let make = || {
            let all = places(registry);
            let documents =
                all.iter().map(|(group, version)| document(&Entry::of_version(registry, group, version)));
            version2::convert(documents)
        };
        if accepts(headers, JSON) {
            let make = || Bytes::from(make().to_string());
            return cacheable(&hash, false, headers, JSON, || self.get(registry, "v2", make));
        }
        if PROTOBUF.iter().any(|name| accepts(headers, name)) {
            let make = || Bytes::from(version2_protobuf::encode(&make()));
            return cacheable(&hash, false, headers, PROTOBUF[1], || self.get(registry, "v2pb", make));
        }
        ApiError::not_acceptable().into_response()
    }
}

/// Whether a client takes a media type; one that does not say takes everything.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("*/*");
    accept.split(',').any(|choice| {
        let choice = choice.split(';').next().unwrap_or_default().trim();
        choice == wanted || choice == "*/*" || choice == "application/*"
    })
}

/// Answers with a document, or with 304 when the client has it.
fn cacheable(
    hash: &str,
    immutable: bool,
    headers: &HeaderMap,
    content_type: &'static str,
    document: impl FnOnce() -> Bytes,
) -> Response<ResponseBody> {
    let tag = format!("\"{hash}\"");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known.is_some_and(|known| known.contains(&tag)) {
        bytes_response(StatusCode::NOT_MODIFIED, Bytes::new(), content_type)
    } else {
        bytes_response(StatusCode::OK, document(), content_type)
    };
    let fields = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        fields.insert(header::ETAG, tag);
    }
    fields.insert(header::VARY, HeaderValue::from_static("Accept"));
    if immutable {
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    }
    response
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, version) in places(registry) {
        let path = place(&group, &version);
        let hash = hash(&Entry::of_version(registry, &group, &version));
        paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}));
    }
    json!({ "paths": paths })
}

/// Names the content of a document without making it: built-in kinds change only with the program.
fn hash(entries: &[Entry<'_>]) -> String {
    let mut text = format!("{}{}", VERSION.2, env!("CARGO_PKG_VERSION"));
    for entry in entries {
        let _ = write!(text, " {} {} {} {}", entry.group, entry.version, entry.plural, entry.kind);
        if let Source::Custom(document) = entry.source {
            let _ = write!(text, " {document}");
        }
    }
    digest_text(&text)
}

fn digest_text(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02X}");
        hex
    })
}

fn document(entries: &[Entry<'_>]) -> Value {
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": VERSION.2},
        "paths": paths::paths(entries), "components": {"schemas": schemas::components(entries)},
    })
}
