//! One exchange with the other end, and how errors are written there.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use karpenter_transport::{Element, Transport, TransportError, encoding};
use serde_json::Value;

use crate::error::{Error, ErrorKind, classify};

/// Sends `request` and waits for its answer, whatever its status.
pub(crate) async fn exchange(
    transport: &dyn Transport,
    operation: &'static str,
    request: Request<Bytes>,
    timeout: Duration,
) -> Result<Response<Bytes>, Error> {
    let failed = |error: TransportError| Error::local(operation, ErrorKind::Transient, error.to_string());
    karpenter_transport::exchange(transport, request, timeout).await.map_err(failed)
}

/// Writes a query in the order signatures want: sorted by name.
pub(crate) fn query(mut pairs: Vec<(String, String)>) -> String {
    pairs.sort_unstable();
    encoding::encode_pairs(pairs)
}

/// Turns an answer that is not a success into an error; `ram_action` is the right the call needs.
pub(crate) fn succeed(
    operation: &'static str,
    ram_action: Option<&str>,
    response: Response<Bytes>,
) -> Result<Response<Bytes>, Error> {
    if response.status().is_success() {
        Ok(response)
    } else {
        Err(error_of(operation, ram_action, &response))
    }
}

fn error_of(operation: &'static str, ram_action: Option<&str>, response: &Response<Bytes>) -> Error {
    let body = body_of(response.body());
    // RPC writes names in one case, ROA in the other.
    let field = |names: &[&str]| names.iter().find_map(|name| body[*name].as_str()).map(str::to_owned);
    let code = field(&["Code", "code"]).unwrap_or_default();
    let status = response.status();
    let message = field(&["Message", "message"]).filter(|message| !message.is_empty()).unwrap_or_else(|| {
        format!("the answer was {} {}", status.as_u16(), status.canonical_reason().unwrap_or(""))
    });
    let kind = classify(&code, Some(status.as_u16()));
    let denied = || {
        let named = body.pointer("/AccessDeniedDetail/AuthAction").and_then(Value::as_str);
        named.or(ram_action).map(Box::from)
    };
    Error {
        operation,
        kind,
        code,
        message,
        status: Some(status.as_u16()),
        request_id: field(&["RequestId", "requestId", "request_id"]).map(Into::into),
        missing_action: if kind == ErrorKind::Denied { denied() } else { None },
        retry_after: retry_after(response),
    }
}

/// The fields of an error: JSON, or XML where a message queue answers.
fn body_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        let document = Element::parse(&String::from_utf8_lossy(body)).unwrap_or_default();
        document.children.into_iter().map(|field| (field.name, Value::String(field.text))).collect()
    })
}

fn retry_after(response: &Response<Bytes>) -> Option<Duration> {
    let seconds = response.headers().get("x-acs-retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_sorted() {
        let pairs =
            [("b", "1"), ("a", "x y"), ("Z", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(query(pairs.to_vec()), "Z=&a=x%20y&b=1");
    }
}
