//! Signature Version 4: which bytes of a request are signed, and with what.
//!
//! Pure: the time is an argument, the result is headers. Checked against AWS's published examples and against botocore's answers.

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, header};
use jiff::Timestamp;
use karpenter_transport::encoding::{self, hex};
use ring::{digest, hmac};

use crate::credentials::Credentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const PAYLOAD: HeaderName = HeaderName::from_static("x-amz-content-sha256");

/// What a signature is good for.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The region of the endpoint.
    pub region: &'a str,
    /// The service's signing name.
    pub service: &'a str,
    /// When the request is made.
    pub time: Timestamp,
}

impl Scope<'_> {
    /// S3 signs the path as it is sent and wants the body's hash as a header; everybody else encodes the path once more.
    fn is_storage(&self) -> bool {
        self.service == "s3"
    }

    fn day(&self) -> String {
        self.time.strftime("%Y%m%d").to_string()
    }

    fn text(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.day(), self.region, self.service)
    }
}

/// A header cannot carry what the credentials hold.
#[derive(Debug, thiserror::Error)]
#[error("the {0} contains characters that no header can carry: check it for line breaks")]
pub struct UnusableCredentials(&'static str);

/// Adds the date, the session token and the signature to `request`, replacing what an earlier attempt left there.
///
/// # Errors
/// When the credentials hold characters that headers cannot carry.
pub fn sign(
    request: &mut Request<Bytes>,
    credentials: &Credentials,
    scope: &Scope<'_>,
) -> Result<(), UnusableCredentials> {
    let date = scope.time.strftime("%Y%m%dT%H%M%SZ").to_string();
    let hash = hex(digest::digest(&digest::SHA256, request.body()).as_ref());
    let host = request.uri().authority().map_or("", Authority::as_str).to_owned();

    let headers = request.headers_mut();
    headers.remove(header::AUTHORIZATION);
    headers.insert(header::HOST, value(&host, "endpoint")?);
    headers.insert(DATE, value(&date, "date")?);
    if let Some(token) = &credentials.session_token {
        headers.insert(TOKEN, value(token, "session token")?);
    }
    if scope.is_storage() {
        headers.insert(PAYLOAD, value(&hash, "hash")?);
    }

    let (signed, canonical) = canonical_request(request, scope, &hash);
    let scope_text = scope.text();
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("{ALGORITHM}\n{date}\n{scope_text}\n{hashed}");
    let signature = signature(&credentials.secret_access_key, scope, &to_sign);
    let authorization = format!(
        "{ALGORITHM} Credential={}/{scope_text}, SignedHeaders={signed}, Signature={signature}",
        credentials.access_key_id
    );
    request.headers_mut().insert(header::AUTHORIZATION, value(&authorization, "access key id")?);
    Ok(())
}

fn value(text: &str, what: &'static str) -> Result<HeaderValue, UnusableCredentials> {
    HeaderValue::from_str(text).map_err(|_| UnusableCredentials(what))
}

/// The names of the signed headers, and the request in its canonical form.
fn canonical_request(request: &Request<Bytes>, scope: &Scope<'_>, hash: &str) -> (String, String) {
    let names = signed_names(request.headers());
    let signed = names.join(";");
    let path = match request.uri().path() {
        "" => "/".to_owned(),
        path if scope.is_storage() => path.to_owned(),
        path => encoding::encode_path(path),
    };
    let mut canonical = format!("{}\n{path}\n{}\n", request.method(), canonical_query(request.uri()));
    for name in &names {
        canonical.push_str(name);
        canonical.push(':');
        canonical.push_str(&canonical_value(request.headers(), name));
        canonical.push('\n');
    }
    canonical.push('\n');
    canonical.push_str(&signed);
    canonical.push('\n');
    canonical.push_str(hash);
    (signed, canonical)
}

/// Everything we set is signed, except the name of the program: proxies rewrite it.
fn signed_names(headers: &HeaderMap) -> Vec<String> {
    let mut names: Vec<String> = headers
        .keys()
        .filter(|name| **name != header::USER_AGENT)
        .map(|name| name.as_str().to_owned())
        .collect();
    names.sort_unstable();
    names
}

/// The values of a header, trimmed, with runs of spaces as one, joined by commas.
fn canonical_value(headers: &HeaderMap, name: &str) -> String {
    let values: Vec<String> = headers
        .get_all(name)
        .iter()
        .map(|value| {
            let text = String::from_utf8_lossy(value.as_bytes());
            text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
        })
        .collect();
    values.join(",")
}

/// The query's pairs, which are encoded already, in the order of their bytes.
fn canonical_query(uri: &Uri) -> String {
    let mut pairs: Vec<(&str, &str)> = uri
        .query()
        .unwrap_or("")
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    pairs.sort_unstable();
    let written: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    written.join("&")
}

fn signature(secret: &str, scope: &Scope<'_>, to_sign: &str) -> String {
    let day = keyed(format!("AWS4{secret}").as_bytes(), &scope.day());
    let region = keyed(day.as_ref(), scope.region);
    let service = keyed(region.as_ref(), scope.service);
    let key = keyed(service.as_ref(), "aws4_request");
    hex(keyed(key.as_ref(), to_sign).as_ref())
}

fn keyed(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}
