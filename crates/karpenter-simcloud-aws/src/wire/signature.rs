//! Signature Version 4, seen from the other side: who says they sent a request, and whether it is true.
//!
//! Written from AWS's documents and not from our client, which it judges.

use bytes::Bytes;
use http::Request;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use ring::{digest, hmac};

use super::refusal::Refusal;
use super::uri;
use crate::route::Api;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// How far the clocks of callers may be off.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
/// S3 is more patient.
const STORAGE_TOLERANCE: SignedDuration = SignedDuration::from_mins(15);
/// The hash of nothing, which a body that is not signed has instead of one.
const UNSIGNED: [&str; 2] = ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"];

/// What an `Authorization` header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) access_key_id: String,
    pub(crate) day: String,
    pub(crate) region: String,
    pub(crate) service: String,
    signed_headers: Vec<String>,
    signature: String,
}

/// Keys the account knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) secret: String,
    /// Temporary keys come with a token and an end.
    pub(crate) session: Option<Session>,
    /// Who they belong to.
    pub(crate) arn: String,
}

/// What makes keys temporary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) token: String,
    pub(crate) expiration: Timestamp,
}

impl Claim {
    /// Reads the header; `None` if there is none or it is not one of this kind.
    pub(crate) fn read(request: &Request<Bytes>) -> Option<Self> {
        let header = request.headers().get(http::header::AUTHORIZATION)?.to_str().ok()?;
        let rest = header.strip_prefix(ALGORITHM)?.trim_start();
        let part = |name: &str| {
            rest.split(',')
                .find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
                .map(str::to_owned)
        };
        let credential = part("Credential")?;
        let mut scope = credential.rsplitn(5, '/');
        let (end, service, region, day) = (scope.next()?, scope.next()?, scope.next()?, scope.next()?);
        if end != "aws4_request" {
            return None;
        }
        Some(Self {
            day: day.to_owned(),
            region: region.to_owned(),
            service: service.to_owned(),
            access_key_id: scope.next()?.to_owned(),
            signed_headers: part("SignedHeaders")?.split(';').map(str::to_owned).collect(),
            signature: part("Signature")?,
        })
    }

    /// Says what is wrong with a request that was signed like this, with the keys the account has under this name.
    pub(crate) fn check(
        &self,
        request: &Request<Bytes>,
        api: Api,
        keys: Option<&Keys>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let keys = keys.ok_or_else(|| unknown_keys(api))?;
        let token = header(request, "x-amz-security-token");
        match &keys.session {
            Some(session) if token.as_deref() != Some(&*session.token) => return Err(unknown_keys(api)),
            Some(session) if session.expiration <= now => return Err(expired_keys(api)),
            _ => {}
        }
        let date = header(request, "x-amz-date").or_else(|| header(request, "date")).unwrap_or_default();
        self.check_time(&date, api, now)?;
        self.check_headers(request, api)?;
        let hash = payload_hash(request, api)?;
        let canonical = self.canonical_request(request, api, &hash);
        let scope = format!("{}/{}/{}/aws4_request", self.day, self.region, self.service);
        let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{}", sha256(canonical.as_bytes()));
        if self.expected(&keys.secret, &to_sign) == self.signature {
            return Ok(());
        }
        Err(mismatch(
            api,
            &format!(
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
                 Access Key and signing method.\n\nThe Canonical String for this request should have been\n\
                 '{canonical}'\n\nThe String-to-Sign should have been\n'{to_sign}'\n"
            ),
        ))
    }

    fn check_time(&self, date: &str, api: Api, now: Timestamp) -> Result<(), Refusal> {
        let signed = DateTime::strptime("%Y%m%dT%H%M%SZ", date)
            .and_then(|time| time.to_zoned(TimeZone::UTC))
            .map_err(|_| mismatch(api, "Date must be in ISO-8601 'basic format'"))?
            .timestamp();
        if !date.starts_with(&self.day) {
            let message = format!(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: \
                 '{}' != '{}'",
                self.day,
                date.get(..8).unwrap_or(date)
            );
            return Err(mismatch(api, &message));
        }
        let tolerance = if api == Api::S3 { STORAGE_TOLERANCE } else { TOLERANCE };
        if now.duration_since(signed).abs() <= tolerance {
            return Ok(());
        }
        let late = now > signed;
        let ours = now.strftime("%Y%m%dT%H%M%SZ");
        let message = if late {
            format!(
                "Signature expired: {date} is now earlier than {ours} (less {} min.)",
                tolerance.as_mins()
            )
        } else {
            format!(
                "Signature not yet current: {date} is still later than {ours} (plus {} min.)",
                tolerance.as_mins()
            )
        };
        Err(match api {
            Api::Ec2 if late => Refusal::new("RequestExpired", "Request has expired."),
            Api::S3 => Refusal::new(
                "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large.",
            )
            .status(403),
            _ => mismatch(api, &message),
        })
    }

    /// The host, and everything AWS's own, must be signed.
    fn check_headers(&self, request: &Request<Bytes>, api: Api) -> Result<(), Refusal> {
        let own =
            request.headers().keys().map(http::HeaderName::as_str).filter(|name| name.starts_with("x-amz-"));
        let must = std::iter::once("host").chain(own);
        let unsigned = must.into_iter().find(|name| !self.signed_headers.iter().any(|signed| signed == name));
        match unsigned {
            Some(name) => {
                Err(mismatch(api, &format!("'{name}' must be a 'SignedHeader' in the AWS Authorization.")))
            }
            None => Ok(()),
        }
    }

    fn canonical_request(&self, request: &Request<Bytes>, api: Api, hash: &str) -> String {
        let path = request.uri().path();
        let path = if api == Api::S3 { path.to_owned() } else { uri::encode(path, b"/") };
        let mut query: Vec<(String, String)> = uri::pairs(request.uri().query().unwrap_or(""), false)
            .into_iter()
            .map(|(key, value)| (uri::encode(&key, b""), uri::encode(&value, b"")))
            .collect();
        query.sort();
        let query: Vec<String> = query.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut lines = vec![request.method().to_string(), path, query.join("&")];
        for name in &self.signed_headers {
            lines.push(format!("{name}:{}", header(request, name).unwrap_or_default()));
        }
        lines.extend([String::new(), self.signed_headers.join(";"), hash.to_owned()]);
        lines.join("\n")
    }

    fn expected(&self, secret: &str, to_sign: &str) -> String {
        let key = [&*self.day, &*self.region, &*self.service, "aws4_request"]
            .iter()
            .fold(format!("AWS4{secret}").into_bytes(), |key, part| keyed(&key, part));
        hex(&keyed(&key, to_sign))
    }
}

/// The values of a header, trimmed, with runs of spaces as one.
fn header(request: &Request<Bytes>, name: &str) -> Option<String> {
    let values: Vec<String> = request
        .headers()
        .get_all(name)
        .iter()
        .map(|value| {
            String::from_utf8_lossy(value.as_bytes()).split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect();
    (!values.is_empty()).then(|| values.join(","))
}

fn payload_hash(request: &Request<Bytes>, api: Api) -> Result<String, Refusal> {
    let hash = sha256(request.body());
    match header(request, "x-amz-content-sha256") {
        Some(said) if UNSIGNED.contains(&&*said) => Ok(said),
        Some(said) if said != hash => {
            let code = if api == Api::S3 { "XAmzContentSHA256Mismatch" } else { "SignatureDoesNotMatch" };
            Err(Refusal::new(
                code,
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            ))
        }
        _ => Ok(hash),
    }
}

/// A request that nobody signed.
pub(crate) fn unsigned(api: Api) -> Refusal {
    match api {
        Api::Ec2 => {
            Refusal::new("AuthFailure", "AWS was not able to validate the provided access credentials")
                .status(401)
        }
        Api::S3 => Refusal::new("AccessDenied", "Access Denied").status(403),
        Api::Iam | Api::Sts => {
            Refusal::new("MissingAuthenticationToken", "Request is missing Authentication Token").status(403)
        }
        _ => Refusal::new("MissingAuthenticationTokenException", "Missing Authentication Token").status(403),
    }
}

fn unknown_keys(api: Api) -> Refusal {
    let invalid = "The security token included in the request is invalid.";
    match api {
        Api::Ec2 => unsigned(api),
        Api::S3 => Refusal::new(
            "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.",
        )
        .status(403),
        Api::Iam | Api::Sts => Refusal::new("InvalidClientTokenId", invalid).status(403),
        _ => Refusal::new("UnrecognizedClientException", invalid).status(403),
    }
}

/// Temporary keys that have ended.
pub(crate) fn expired_keys(api: Api) -> Refusal {
    let expired = "The security token included in the request is expired";
    match api {
        Api::Ec2 => Refusal::new("RequestExpired", "Request has expired."),
        Api::S3 => Refusal::new("ExpiredToken", "The provided token has expired."),
        Api::Iam | Api::Sts => Refusal::new("ExpiredToken", expired).status(403),
        _ => Refusal::new("ExpiredTokenException", expired),
    }
}

fn mismatch(api: Api, message: &str) -> Refusal {
    match api {
        Api::Ec2 | Api::S3 | Api::Iam | Api::Sts => {
            Refusal::new("SignatureDoesNotMatch", message).status(403)
        }
        _ => Refusal::new("InvalidSignatureException", message).status(403),
    }
}

/// The hash of some bytes, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
