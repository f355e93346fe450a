//! Signs requests: ACS3-HMAC-SHA256, and in [`mns`] what message queues want instead.

mod mns;

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use jiff::Timestamp;
use karpenter_transport::encoding::hex;
use ring::{digest, hmac};

use crate::credentials::Credentials;

pub use mns::sign as sign_mns;

const ALGORITHM: &str = "ACS3-HMAC-SHA256";
const ACTION: HeaderName = HeaderName::from_static("x-acs-action");
const VERSION: HeaderName = HeaderName::from_static("x-acs-version");
const DATE: HeaderName = HeaderName::from_static("x-acs-date");
const NONCE: HeaderName = HeaderName::from_static("x-acs-signature-nonce");
const CONTENT: HeaderName = HeaderName::from_static("x-acs-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-acs-security-token");
const KEY: HeaderName = HeaderName::from_static("x-acs-accesskey-id");

/// What is signed besides the request itself.
#[derive(Clone, Copy, Debug)]
pub struct Seal<'a> {
    /// The operation.
    pub action: &'a str,
    /// The version of the service's API.
    pub version: &'a str,
    /// The time of the request.
    pub time: Timestamp,
    /// Never used before.
    pub nonce: &'a str,
}

/// Credentials that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("the {0} holds characters that no HTTP header may hold: set it anew, without line breaks")]
pub struct UnusableCredentials(&'static str);

/// Adds the headers every request has and, with credentials, the signature. The query must be sorted and encoded.
///
/// # Errors
/// When the credentials hold characters that no header may hold.
pub fn sign(
    request: &mut Request<Bytes>,
    credentials: Option<&Credentials>,
    seal: &Seal<'_>,
) -> Result<(), UnusableCredentials> {
    let date = seal.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let hash = hex(digest::digest(&digest::SHA256, request.body()).as_ref());
    let host = request.uri().authority().map_or("", Authority::as_str).to_owned();
    let headers = request.headers_mut();
    headers.remove(header::AUTHORIZATION);
    headers.insert(header::HOST, value(&host, "endpoint")?);
    headers.insert(ACTION, value(seal.action, "action")?);
    headers.insert(VERSION, value(seal.version, "version")?);
    headers.insert(DATE, value(&date, "date")?);
    headers.insert(NONCE, value(seal.nonce, "nonce")?);
    headers.insert(CONTENT, value(&hash, "hash")?);
    let Some(credentials) = credentials else { return Ok(()) };
    if let Some(token) = &credentials.security_token {
        headers.insert(TOKEN, value(token, "security token")?);
        headers.insert(KEY, value(&credentials.access_key_id, "access key id")?);
    }
    let (signed, canonical) = canonical_request(request, &hash);
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let key = hmac::Key::new(hmac::HMAC_SHA256, credentials.access_key_secret.as_bytes());
    let signature = hex(hmac::sign(&key, format!("{ALGORITHM}\n{hashed}").as_bytes()).as_ref());
    let authorization = format!(
        "{ALGORITHM} Credential={},SignedHeaders={signed},Signature={signature}",
        credentials.access_key_id
    );
    request.headers_mut().insert(header::AUTHORIZATION, value(&authorization, "access key id")?);
    Ok(())
}

fn value(text: &str, what: &'static str) -> Result<HeaderValue, UnusableCredentials> {
    HeaderValue::from_str(text).map_err(|_| UnusableCredentials(what))
}

/// The names of the signed headers, and the request in its canonical form.
fn canonical_request(request: &Request<Bytes>, hash: &str) -> (String, String) {
    let names = signed_names(request.headers());
    let signed = names.join(";");
    let path = match request.uri().path() {
        "" => "/",
        path => path,
    };
    let mut canonical = format!("{}\n{path}\n{}\n", request.method(), request.uri().query().unwrap_or(""));
    for name in &names {
        let text =
            request.headers().get(*name).map_or("".into(), |value| String::from_utf8_lossy(value.as_bytes()));
        canonical.push_str(name);
        canonical.push(':');
        canonical.push_str(text.trim());
        canonical.push('\n');
    }
    canonical.push('\n');
    canonical.push_str(&signed);
    canonical.push('\n');
    canonical.push_str(hash);
    (signed, canonical)
}

/// The host, the kind of the body and everything the cloud itself defines; proxies may rewrite the rest.
fn signed_names(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<&str> = headers
        .keys()
        .map(HeaderName::as_str)
        .filter(|name| matches!(*name, "host" | "content-type") || name.starts_with("x-acs-"))
        .collect();
    names.sort_unstable();
    names
}
