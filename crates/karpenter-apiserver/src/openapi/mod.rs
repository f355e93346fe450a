//! OpenAPI: version 3 with one document per group and version, and version 2 in one.
//!
//! kubectl reads schemas for `explain`, learns from patch operations whether the server validates fields itself, and
//! computes strategic merge patches from what schemas say about lists. Documents are made when they are asked for and
//! kept until what they describe changes; clients may keep them under the hash of their text.

mod entry;
mod paths;
mod schemas;
mod version2;
mod version2_protobuf;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use ring::digest;
use serde_json::{Map, Value, json};

use crate::discovery::VERSION;
use crate::error::ApiError;
use crate::registry::Registry;
use crate::wire::{Query, ResponseBody, bytes_response, json_response, page_not_found, text_response};
use entry::{Entry, Source, place, places};

const JSON: &str = "application/json";
/// What client-go asks for, and the spelling that is a valid media type.
const PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// A document and the hash of its text.
#[derive(Debug, Clone)]
struct Document {
    text: Bytes,
    hash: String,
    /// What the document was made from.
    fingerprint: String,
}

/// The documents made so far, by name.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    made: Mutex<BTreeMap<String, Document>>,
}

impl Documents {
    /// Returns a document, made anew when what it describes has changed.
    fn get(&self, name: &str, fingerprint: String, make: impl FnOnce() -> Vec<u8>) -> Document {
        let known = self.lock().get(name).filter(|document| document.fingerprint == fingerprint).cloned();
        known.unwrap_or_else(|| {
            // Made without the lock: two clients may make the same document, none waits for another's.
            let text = Bytes::from(make());
            let document = Document { hash: digest_text(&text), text, fingerprint };
            self.lock().insert(name.to_owned(), document.clone());
            document
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Document>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_version(&self, entries: &[Entry<'_>], group: &str, version: &str) -> Document {
        let make = || document(entries).to_string().into_bytes();
        self.get(&place(group, version), fingerprint(entries), make)
    }

    /// Answers a request below `/openapi/v3`.
    pub(crate) fn version3(
        &self,
        registry: &Registry,
        path: &str,
        query: &Query,
        headers: &HeaderMap,
    ) -> Response<ResponseBody> {
        if path.is_empty() {
            return json_response(StatusCode::OK, &self.index(registry));
        }
        let parts: Vec<&str> = path.split('/').collect();
        let (group, version) = match parts.as_slice() {
            ["api", version] => ("", *version),
            ["apis", group, version] => (*group, *version),
            _ => return page_not_found(),
        };
        let entries = Entry::of_version(registry, group, version);
        if entries.is_empty() {
            return page_not_found();
        }
        if !accepts(headers, JSON) {
            return ApiError::not_acceptable().into_response();
        }
        let document = self.of_version(&entries, group, version);
        match query.get("hash") {
            Some(asked) if asked != document.hash => {
                let mut response = text_response(StatusCode::MOVED_PERMANENTLY, "");
                let location = format!("/openapi/v3/{path}?hash={}", document.hash);
                if let Ok(location) = HeaderValue::from_str(&location) {
                    response.headers_mut().insert(header::LOCATION, location);
                }
                response
            }
            asked => cacheable(&document, asked.is_some(), headers, JSON),
        }
    }

    fn index(&self, registry: &Registry) -> Value {
        let mut paths = Map::new();
        for (group, version) in places(registry) {
            let path = place(&group, &version);
            let hash = self.of_version(&Entry::of_version(registry, &group, &version), &group, &version).hash;
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
        json!({ "paths": paths })
    }

    /// Answers `/openapi/v2`.
    pub(crate) fn version2(&self, registry: &Registry, headers: &HeaderMap) -> Response<ResponseBody> {
        let all = places(registry);
        let entries = || all.iter().map(|(group, version)| Entry::of_version(registry, group, version));
        let fingerprint: String = entries().map(|entries| fingerprint(&entries)).collect();
        let make = || version2::convert(entries().map(|entries| document(&entries)));
        if accepts(headers, JSON) {
            let document = self.get("v2", fingerprint, || make().to_string().into_bytes());
            return cacheable(&document, false, headers, JSON);
        }
        if PROTOBUF.iter().any(|name| accepts(headers, name)) {
            let document = self.get("v2 protobuf", fingerprint, || version2_protobuf::encode(&make()));
            return cacheable(&document, false, headers, PROTOBUF[1]);
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
    document: &Document,
    immutable: bool,
    headers: &HeaderMap,
    content_type: &'static str,
) -> Response<ResponseBody> {
    let tag = format!("\"{}\"", document.hash);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known.is_some_and(|known| known.contains(&tag)) {
        bytes_response(StatusCode::NOT_MODIFIED, Bytes::new(), content_type)
    } else {
        bytes_response(StatusCode::OK, document.text.clone(), content_type)
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

/// Names what a document is made from: within one program, built-in kinds do not change.
fn fingerprint(entries: &[Entry<'_>]) -> String {
    let mut text = String::new();
    for entry in entries {
        let _ = write!(text, "{} {} {} {} ", entry.group, entry.version, entry.plural, entry.kind);
        if let Source::Custom(document) = entry.source {
            let _ = write!(text, "{} ", digest_text(document.to_string().as_bytes()));
        }
    }
    text
}

fn digest_text(text: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, text);
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
