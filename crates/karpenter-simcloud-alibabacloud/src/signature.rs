//! Whether a request is signed by whom it says: ACS3-HMAC-SHA256, the older ROA signature that some clients still use, and that of
//! message queues.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request};
use ring::{digest, hmac};

use crate::wire::{Refusal, decode_query, percent_decode, percent_encode};

/// What a request says about its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) access_key: String,
    pub(crate) security_token: Option<String>,
    /// When it was signed, as text.
    pub(crate) date: Option<String>,
    pub(crate) nonce: Option<String>,
    scheme: Scheme,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Scheme {
    V3 { signed: Vec<String>, signature: String },
    V2 { signature: String },
    Mns { signature: String },
}

/// Reads who sent a request; `None` when it is not signed at all.
pub(crate) fn claim(request: &Request<Bytes>) -> Result<Option<Claim>, Refusal> {
    let headers = request.headers();
    let Some(authorization) = header(headers, "authorization") else { return Ok(None) };
    let (access_key, scheme) = if let Some(fields) = authorization.strip_prefix("ACS3-HMAC-SHA256 ") {
        v3_fields(fields).ok_or_else(incomplete)?
    } else if let Some(fields) = authorization.strip_prefix("acs ") {
        let (key, signature) = fields.split_once(':').ok_or_else(incomplete)?;
        (key.to_owned(), Scheme::V2 { signature: signature.to_owned() })
    } else if let Some(fields) = authorization.strip_prefix("MNS ") {
        let (key, signature) = fields.split_once(':').ok_or_else(incomplete)?;
        (key.to_owned(), Scheme::Mns { signature: signature.to_owned() })
    } else {
        return Err(Refusal::new(400, "InvalidAuthorization", "The signature algorithm is not supported."));
    };
    let date = header(headers, "x-acs-date").or_else(|| header(headers, "date"));
    Ok(Some(Claim {
        access_key,
        security_token: header(headers, "x-acs-security-token").or_else(|| header(headers, "security-token")),
        date,
        nonce: header(headers, "x-acs-signature-nonce"),
        scheme,
    }))
}

fn v3_fields(fields: &str) -> Option<(String, Scheme)> {
    let field = |name: &str| {
        fields
            .split(',')
            .find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    let signed = field("SignedHeaders")?.split(';').map(str::to_owned).collect();
    Some((field("Credential")?, Scheme::V3 { signed, signature: field("Signature")? }))
}

fn incomplete() -> Refusal {
    Refusal::new(400, "IncompleteSignature", "The Authorization header lacks a field.")
}

fn mismatch(canonical: &str) -> Refusal {
    let message = format!(
        "Specified signature is not matched with our calculation. server string to sign is:{}",
        canonical.replace('\n', "|")
    );
    Refusal::new(400, "SignatureDoesNotMatch", message)
}

impl Claim {
    /// Whether the signature was made with `secret` over this very request.
    pub(crate) fn verify(&self, request: &Request<Bytes>, secret: &str) -> Result<(), Refusal> {
        match &self.scheme {
            Scheme::V3 { signed, signature } => verify_v3(request, signed, signature, secret),
            Scheme::V2 { signature } => verify_v2(request, signature, secret),
            Scheme::Mns { signature } => verify_mns(request, signature, secret),
        }
    }

    /// Whether it is good for one request only; queues take it as long as its date is fresh.
    pub(crate) fn is_for_once(&self) -> bool {
        !matches!(self.scheme, Scheme::Mns { .. })
    }
}

fn verify_v3(
    request: &Request<Bytes>,
    signed: &[String],
    signature: &str,
    secret: &str,
) -> Result<(), Refusal> {
    let headers = request.headers();
    let must = |name: &str| name == "content-type" || (name.starts_with("x-acs-"));
    let unsigned = headers.keys().map(http::HeaderName::as_str).filter(|name| must(name));
    if let Some(name) = unsigned.chain(["host"]).find(|name| !signed.iter().any(|entry| entry == name)) {
        return Err(Refusal::new(400, "IncompleteSignature", format!("The header {name} must be signed.")));
    }
    let hash = hex(digest::digest(&digest::SHA256, request.body()).as_ref());
    if header(headers, "x-acs-content-sha256").is_some_and(|said| said != hash) {
        return Err(mismatch("the body is not the one x-acs-content-sha256 was made of"));
    }
    let canonical = canonical_v3(request, signed, &hash);
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let expected = hex(hmac::sign(&key, format!("ACS3-HMAC-SHA256\n{hashed}").as_bytes()).as_ref());
    if expected == signature { Ok(()) } else { Err(mismatch(&canonical)) }
}

fn canonical_v3(request: &Request<Bytes>, signed: &[String], body_hash: &str) -> String {
    let mut pairs: Vec<(String, String)> = decode_query(request.uri().query().unwrap_or_default())
        .iter()
        .map(|(key, value)| (percent_encode(key), percent_encode(value)))
        .collect();
    pairs.sort();
    let query: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut names = signed.to_vec();
    names.sort();
    let line = |name: &String| format!("{name}:{}\n", signed_value(request, name).trim());
    let headers = names.iter().map(line).collect::<Vec<_>>().concat();
    let path = match request.uri().path() {
        "" => "/",
        path => path,
    };
    format!("{}\n{path}\n{}\n{headers}\n{}\n{body_hash}", request.method(), query.join("&"), names.join(";"))
}

/// The value of a signed header; in process, the host is where the request was going to.
fn signed_value(request: &Request<Bytes>, name: &str) -> String {
    let found = header(request.headers(), name);
    let authority = || request.uri().authority().map(ToString::to_string);
    found.or_else(|| if name == "host" { authority() } else { None }).unwrap_or_default()
}

fn verify_v2(request: &Request<Bytes>, signature: &str, secret: &str) -> Result<(), Refusal> {
    let headers = request.headers();
    let value = |name| header(headers, name).unwrap_or_default();
    let lines = lines_of(headers, "x-acs-");
    let mut pairs = decode_query(request.uri().query().unwrap_or_default());
    pairs.sort();
    let said = |(key, value): &(String, String)| {
        if value.is_empty() { key.clone() } else { format!("{key}={value}") }
    };
    let query = pairs.iter().map(said).collect::<Vec<_>>().join("&");
    let path = percent_decode(request.uri().path(), false);
    let resource = if query.is_empty() { path } else { format!("{path}?{query}") };
    let text = format!(
        "{}\n{}\n{}\n{}\n{}\n{lines}{resource}",
        request.method(),
        value("accept"),
        value("content-md5"),
        value("content-type"),
        value("date")
    );
    verify_sha1(&text, signature, secret)
}

/// Path and query count as they are written.
fn verify_mns(request: &Request<Bytes>, signature: &str, secret: &str) -> Result<(), Refusal> {
    let headers = request.headers();
    let value = |name| header(headers, name).unwrap_or_default();
    let text = format!(
        "{}\n{}\n{}\n{}\n{}{}",
        request.method(),
        value("content-md5"),
        value("content-type"),
        value("date"),
        lines_of(headers, "x-mns-"),
        request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str)
    );
    verify_sha1(&text, signature, secret)
}

fn verify_sha1(text: &str, signature: &str, secret: &str) -> Result<(), Refusal> {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
    let expected = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
    if expected == signature { Ok(()) } else { Err(mismatch(text)) }
}

/// The headers that begin so, one a line, sorted.
fn lines_of(headers: &HeaderMap, prefix: &str) -> String {
    let ours = headers.keys().map(http::HeaderName::as_str).filter(|name| name.starts_with(prefix));
    let line = |name: &str| format!("{name}:{}\n", header(headers, name).unwrap_or_default().trim());
    let mut lines: Vec<String> = ours.map(line).collect();
    lines.sort();
    lines.concat()
}

/// A header's value as text.
pub(crate) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const SIGNED: &str =
        "host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;x-acs-version";

    fn published(signature: &str) -> Request<Bytes> {
        let authorization = format!(
            "ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders={SIGNED},Signature={signature}"
        );
        Request::post("/?ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd&RegionId=cn-shanghai")
            .header("host", "ecs.cn-shanghai.aliyuncs.com")
            .header("x-acs-action", "RunInstances")
            .header("x-acs-content-sha256", EMPTY)
            .header("x-acs-date", "2023-10-26T10:22:32Z")
            .header("x-acs-signature-nonce", "3156853299f313e23d1673dc12e1703d")
            .header("x-acs-version", "2014-05-26")
            .header("authorization", authorization)
            .body(Bytes::new())
            .unwrap()
    }

    const PUBLISHED: &str = "06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0";

    #[test]
    fn the_published_example_is_accepted() {
        let request = published(PUBLISHED);
        let claim = claim(&request).unwrap().unwrap();
        assert_eq!(claim.access_key, "YourAccessKeyId");
        assert_eq!(claim.verify(&request, "YourAccessKeySecret"), Ok(()));
    }

    #[test]
    fn another_secret_and_another_signature_are_refused() {
        let request = published(PUBLISHED);
        let read = claim(&request).unwrap().unwrap();
        assert_eq!(read.verify(&request, "another").unwrap_err().code, "SignatureDoesNotMatch");
        let request = published(&PUBLISHED.replace('0', "1"));
        let read = claim(&request).unwrap().unwrap();
        assert_eq!(read.verify(&request, "YourAccessKeySecret").unwrap_err().code, "SignatureDoesNotMatch");
    }

    #[test]
    fn what_the_official_client_signs_for_a_queue_is_accepted() {
        let request = |handle: &str| {
            Request::delete(format!("/queues/warnings/messages?ReceiptHandle={handle}"))
                .header("x-mns-version", "2015-06-06")
                .header("date", "Tue, 17 Nov 2026 06:00:00 GMT")
                .header("authorization", "MNS AK:Qtz+bS8xkU8gMmYPqFtuYYo2Xdk=")
                .body(Bytes::new())
                .unwrap()
        };
        let good = request("1-ODU4OTkz-NA==");
        let read = claim(&good).unwrap().unwrap();
        assert_eq!((read.access_key.as_str(), read.is_for_once()), ("AK", false));
        assert_eq!(read.verify(&good, "secret"), Ok(()));
        let changed = request("1-ODU4OTkz-NB==");
        assert_eq!(read.verify(&changed, "secret").unwrap_err().code, "SignatureDoesNotMatch");
    }

    #[test]
    fn every_header_of_the_protocol_must_be_signed() {
        let mut request = published(PUBLISHED);
        request.headers_mut().insert("x-acs-security-token", "t".parse().unwrap());
        let read = claim(&request).unwrap().unwrap();
        assert_eq!(read.verify(&request, "YourAccessKeySecret").unwrap_err().code, "IncompleteSignature");
    }
}
