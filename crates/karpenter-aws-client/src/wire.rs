//! One exchange with the other end, and how errors are written in the three dialects: EC2's XML, everybody else's XML, JSON.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use karpenter_transport::{Element, Transport, TransportError};
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

/// Turns an answer that is not a success into an error.
pub(crate) fn succeed(operation: &'static str, response: Response<Bytes>) -> Result<Response<Bytes>, Error> {
    if response.status().is_success() { Ok(response) } else { Err(error_of(operation, &response)) }
}

/// Reads the error an answer describes.
pub(crate) fn error_of(operation: &'static str, response: &Response<Bytes>) -> Error {
    let text = String::from_utf8_lossy(response.body());
    let (code, message) =
        if text.trim_start().starts_with('<') { xml_error(&text) } else { json_error(&text) };
    let code = error_header(response.headers()).or(code).unwrap_or_default();
    let status = response.status();
    let message = message.filter(|message| !message.is_empty()).unwrap_or_else(|| {
        format!("the answer was {} {}", status.as_u16(), status.canonical_reason().unwrap_or(""))
    });
    Error {
        operation,
        kind: classify(&code, Some(status.as_u16())),
        code,
        message,
        status: Some(status.as_u16()),
        request_id: request_id(response.headers(), &text),
    }
}

fn xml_error(text: &str) -> (Option<String>, Option<String>) {
    let Ok(root) = Element::parse(text) else { return (None, None) };
    let Some(error) = root.find("Error") else { return (None, None) };
    let text = |name| error.child_text(name).map(str::to_owned);
    (text("Code"), text("Message"))
}

fn json_error(text: &str) -> (Option<String>, Option<String>) {
    let Ok(body) = serde_json::from_str::<Value>(text) else { return (None, None) };
    let field = |names: [&str; 2]| names.iter().find_map(|name| body[*name].as_str()).map(str::to_owned);
    (field(["__type", "code"]).map(|code| bare(&code)), field(["message", "Message"]))
}

/// The code without the name space before it and the address behind it.
fn bare(code: &str) -> String {
    let code = code.rsplit('#').next().unwrap_or(code);
    code.split(':').next().unwrap_or(code).to_owned()
}

fn error_header(headers: &HeaderMap) -> Option<String> {
    Some(bare(headers.get("x-amzn-errortype")?.to_str().ok()?))
}

fn request_id(headers: &HeaderMap, text: &str) -> Option<String> {
    let header = ["x-amzn-requestid", "x-amz-request-id"].iter().find_map(|name| headers.get(*name));
    if let Some(id) = header.and_then(|id| id.to_str().ok()) {
        return Some(id.to_owned());
    }
    let root = Element::parse(text).ok()?;
    let element = root.find("RequestId").or_else(|| root.find("RequestID"))?;
    Some(element.text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &'static str) -> Error {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        error_of("Call", &response.body(Bytes::from_static(body.as_bytes())).unwrap())
    }

    #[test]
    fn errors_are_read_in_every_dialect() {
        let ec2 = answer(
            400,
            &[],
            "<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>none</Message></Error></Errors><RequestID>r1</RequestID></Response>",
        );
        assert_eq!((ec2.code.as_str(), ec2.kind), ("InvalidInstanceID.NotFound", ErrorKind::NotFound));
        assert_eq!((ec2.message.as_str(), ec2.request_id.as_deref()), ("none", Some("r1")));

        let iam = answer(
            409,
            &[],
            "<ErrorResponse xmlns=\"x\"><Error><Type>Sender</Type><Code>EntityAlreadyExists</Code><Message>there</Message></Error><RequestId>r2</RequestId></ErrorResponse>",
        );
        assert_eq!((iam.kind, iam.request_id.as_deref()), (ErrorKind::AlreadyExists, Some("r2")));

        let json = answer(
            400,
            &[("x-amzn-requestid", "r3")],
            r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"gone"}"#,
        );
        assert_eq!((json.code.as_str(), json.kind), ("QueueDoesNotExist", ErrorKind::NotFound));

        let rest = answer(
            404,
            &[("x-amzn-errortype", "ResourceNotFoundException:http://x/")],
            r#"{"message":"No cluster"}"#,
        );
        assert_eq!((rest.code.as_str(), rest.message.as_str()), ("ResourceNotFoundException", "No cluster"));
    }

    #[test]
    fn an_answer_that_nobody_understands_still_says_its_status() {
        let error = answer(503, &[], "oops");
        assert_eq!(error.kind, ErrorKind::Transient);
        assert_eq!(error.to_string(), "Call: the answer was 503 Service Unavailable");
    }
}
