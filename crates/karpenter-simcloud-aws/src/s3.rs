//! S3: objects in buckets, as far as a state store needs them.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use jiff::Timestamp;

use crate::answer::{Answer, Outcome};
use crate::service::unknown;
use crate::wire::page::page;
use crate::wire::refusal::Refusal;
use crate::wire::signature::hex;
use crate::wire::xml::Xml;
use crate::wire::{md5, uri};
use crate::world::{Call, World};

const PAGE: usize = 1000;

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    content: Bytes,
    etag: String,
    modified: Timestamp,
}

/// Objects by key.
pub(crate) type Bucket = BTreeMap<String, Object>;

pub(crate) fn answer(world: &mut World, call: &Call<'_>) -> Outcome {
    let path = uri::decode(call.request.uri().path(), false);
    let (name, key) =
        path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
    if call.operation == "CreateBucket" {
        world.buckets.entry(name.to_owned()).or_default();
        return Ok(empty(StatusCode::OK, &[]));
    }
    let bucket = world
        .buckets
        .get_mut(name)
        .ok_or_else(|| Refusal::new("NoSuchBucket", "The specified bucket does not exist").status(404))?;
    match call.operation {
        "HeadBucket" => Ok(empty(StatusCode::OK, &[])),
        "ListObjectsV2" => list(bucket, name, call),
        "GetObject" | "HeadObject" => get(bucket, key),
        "PutObject" => put(bucket, key, call),
        "DeleteObject" => {
            bucket.remove(key);
            Ok(empty(StatusCode::NO_CONTENT, &[]))
        }
        other => Err(unknown(other)),
    }
}

fn empty(status: StatusCode, headers: &[(header::HeaderName, &str)]) -> Answer {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, *value);
    }
    Answer::Raw(response.body(Bytes::new()).expect("etags are plain text"))
}

fn list(bucket: &Bucket, name: &str, call: &Call<'_>) -> Outcome {
    let query = uri::pairs(call.request.uri().query().unwrap_or(""), true);
    let field = |wanted: &str| query.iter().find(|(key, _)| key == wanted).map(|(_, value)| &**value);
    let prefix = field("prefix").unwrap_or("");
    let found: Vec<_> = bucket.iter().filter(|(key, _)| key.starts_with(prefix)).collect();
    let limit = field("max-keys").and_then(|most| most.parse().ok()).unwrap_or(PAGE);
    let page = page(found, |(key, _)| (*key).clone(), Some(limit), field("continuation-token"))?;
    let encoded = field("encoding-type") == Some("url");
    let mut xml = Xml::new();
    xml.leaf("Name", name)
        .leaf("Prefix", prefix)
        .leaf("MaxKeys", limit)
        .maybe("EncodingType", encoded.then_some("url"))
        .leaf("KeyCount", page.items.len())
        .leaf("IsTruncated", page.next.is_some())
        .maybe("NextContinuationToken", page.next);
    for (key, object) in page.items {
        xml.node("Contents", |xml| {
            let key = if encoded { uri::encode(key, b"/") } else { key.clone() };
            xml.leaf("Key", key)
                .leaf("LastModified", object.modified.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
                .leaf("ETag", &object.etag)
                .leaf("Size", object.content.len())
                .leaf("StorageClass", "STANDARD");
        });
    }
    let body = xml.document("ListBucketResult", crate::route::Api::S3.name_space());
    let response =
        Response::builder().header(header::CONTENT_TYPE, "application/xml").body(Bytes::from(body));
    Ok(Answer::Raw(response.expect("the header is plain text")))
}

fn get(bucket: &Bucket, key: &str) -> Outcome {
    let missing = || Refusal::new("NoSuchKey", "The specified key does not exist.").status(404);
    let object = bucket.get(key).ok_or_else(missing)?;
    let response = Response::builder()
        .header(header::ETAG, &object.etag)
        .header(header::CONTENT_TYPE, "binary/octet-stream")
        .body(object.content.clone());
    Ok(Answer::Raw(response.expect("etags are plain text")))
}

fn put(bucket: &mut Bucket, key: &str, call: &Call<'_>) -> Outcome {
    let headers: &HeaderMap = call.request.headers();
    let condition = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let found = bucket.get(key).map(|object| &*object.etag);
    let same = |wanted: &str| found.is_some_and(|found| found.trim_matches('"') == wanted.trim_matches('"'));
    let refused = condition(header::IF_NONE_MATCH).is_some_and(|_| found.is_some())
        || condition(header::IF_MATCH).is_some_and(|etag| !same(etag));
    if refused {
        let message = "At least one of the pre-conditions you specified did not hold";
        return Err(Refusal::new("PreconditionFailed", message).status(412));
    }
    let content = call.request.body().clone();
    let etag = format!("\"{}\"", hex(&md5::digest(&content)));
    let answer = empty(StatusCode::OK, &[(header::ETAG, &etag)]);
    bucket.insert(key.to_owned(), Object { content, etag, modified: call.now });
    Ok(answer)
}
