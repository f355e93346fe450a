//! What AWS says when it does not do what was asked, in each service's dialect.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::json;

use super::xml::Xml;
use crate::route::Api;

/// A call that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Refusal {
    /// The caller's fault.
    pub(crate) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status: 400, code: code.into(), message: message.into() }
    }

    /// With another status.
    pub(crate) fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// A parameter that must be there.
    pub(crate) fn missing(name: &str) -> Self {
        Self::new("MissingParameter", format!("The request must contain the parameter {name}"))
    }

    /// The success of a dry run.
    pub(crate) fn dry_run() -> Self {
        Self::new("DryRunOperation", "Request would have succeeded, but DryRun flag is set.").status(412)
    }

    /// The answer in the dialect of `api`.
    pub(crate) fn answer(&self, api: Api, request_id: &str) -> Response<Bytes> {
        let (content_type, body) = match api {
            Api::Ec2 => ("text/xml;charset=UTF-8", self.ec2(request_id)),
            Api::Iam | Api::Sts => ("text/xml", self.query(api, request_id)),
            Api::S3 => ("application/xml", self.storage(request_id)),
            _ => (
                "application/x-amz-json-1.1",
                json!({"__type": self.code, "message": self.message}).to_string(),
            ),
        };
        let mut answer = Response::builder()
            .status(StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST))
            .header(header::CONTENT_TYPE, content_type)
            .header("x-amzn-requestid", request_id);
        if matches!(api, Api::Eks | Api::ArcZonalShift | Api::Ssm | Api::Pricing | Api::Sqs) {
            answer = answer.header("x-amzn-errortype", &self.code);
        }
        if api == Api::Sqs && self.code == "QueueDoesNotExist" {
            answer = answer.header("x-amzn-query-error", "AWS.SimpleQueueService.NonExistentQueue;Sender");
        }
        answer.body(Bytes::from(body)).expect("codes and ids are plain text")
    }

    fn ec2(&self, request_id: &str) -> String {
        let mut xml = Xml::new();
        xml.node("Errors", |xml| {
            xml.node("Error", |xml| {
                xml.leaf("Code", &self.code).leaf("Message", &self.message);
            });
        });
        xml.leaf("RequestID", request_id);
        // EC2's errors have no name space.
        xml.document("Response", "").replace(" xmlns=\"\"", "")
    }

    fn query(&self, api: Api, request_id: &str) -> String {
        let mut xml = Xml::new();
        xml.node("Error", |xml| {
            let side = if self.status >= 500 { "Receiver" } else { "Sender" };
            xml.leaf("Type", side).leaf("Code", &self.code).leaf("Message", &self.message);
        });
        xml.leaf("RequestId", request_id);
        xml.document("ErrorResponse", api.name_space())
    }

    fn storage(&self, request_id: &str) -> String {
        let mut xml = Xml::new();
        xml.leaf("Code", &self.code).leaf("Message", &self.message).leaf("RequestId", request_id);
        xml.document("Error", "").replace(" xmlns=\"\"", "")
    }
}
