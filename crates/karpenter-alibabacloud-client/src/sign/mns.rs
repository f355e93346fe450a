//! Signs requests to message queues: HMAC-SHA1 over the request line and some headers, the one way they know.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, header};
use jiff::Timestamp;
use ring::hmac;

use super::{UnusableCredentials, value};
use crate::credentials::Credentials;

const VERSION: HeaderName = HeaderName::from_static("x-mns-version");
const TOKEN: HeaderName = HeaderName::from_static("security-token");

/// Adds the headers every request to a queue has, and the signature. Path and query are signed as they are written.
///
/// # Errors
/// When the credentials hold characters that no header may hold.
pub fn sign(
    request: &mut Request<Bytes>,
    credentials: &Credentials,
    version: &str,
    time: Timestamp,
) -> Result<(), UnusableCredentials> {
    let date = time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let headers = request.headers_mut();
    headers.remove(header::AUTHORIZATION);
    headers.insert(VERSION, value(version, "version")?);
    headers.insert(header::DATE, value(&date, "date")?);
    if let Some(token) = &credentials.security_token {
        headers.insert(TOKEN, value(token, "security token")?);
    }
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, credentials.access_key_secret.as_bytes());
    let signature = STANDARD.encode(hmac::sign(&key, canonical(request).as_bytes()));
    let authorization = format!("MNS {}:{signature}", credentials.access_key_id);
    request.headers_mut().insert(header::AUTHORIZATION, value(&authorization, "access key id")?);
    Ok(())
}

fn canonical(request: &Request<Bytes>) -> String {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let said = |name: &str| request.headers().get(name).map(text).unwrap_or_default();
    let mut own: Vec<String> = request
        .headers()
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("x-mns-"))
        .map(|(name, value)| format!("{name}:{}\n", text(value)))
        .collect();
    own.sort_unstable();
    format!(
        "{}\n{}\n{}\n{}\n{}{}",
        request.method(),
        said("content-md5"),
        said("content-type"),
        said("date"),
        own.concat(),
        request.uri().path_and_query().map_or("/", PathAndQuery::as_str)
    )
}
