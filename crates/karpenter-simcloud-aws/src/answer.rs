//! What an operation answers, before it is put on the wire.

use bytes::Bytes;
use http::{Response, header};
use serde_json::Value;

use crate::route::Route;
use crate::wire::refusal::Refusal;
use crate::wire::xml::Xml;

/// An answer in a service's own dialect.
pub(crate) enum Answer {
    /// The elements of an XML answer.
    Xml(Xml),
    /// A JSON answer.
    Json(Value),
    /// Anything else, complete.
    Raw(Response<Bytes>),
}

/// The outcome of an operation.
pub(crate) type Outcome = Result<Answer, Refusal>;

impl From<Xml> for Answer {
    fn from(xml: Xml) -> Self {
        Self::Xml(xml)
    }
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

impl Answer {
    /// The answer on the wire.
    pub(crate) fn response(self, route: &Route, request_id: &str) -> Response<Bytes> {
        let (content_type, body) = match self {
            Self::Raw(response) => return response,
            Self::Json(value) => ("application/x-amz-json-1.1", value.to_string()),
            Self::Xml(content) => ("text/xml;charset=UTF-8", xml_body(content, route, request_id)),
        };
        Response::builder()
            .header(header::CONTENT_TYPE, content_type)
            .header("x-amzn-requestid", request_id)
            .body(Bytes::from(body))
            .expect("ids are plain text")
    }
}

/// EC2 puts the content right below the root, IAM and STS into a result beside the request's id.
fn xml_body(content: Xml, route: &Route, request_id: &str) -> String {
    use crate::route::Api;
    let name = format!("{}Response", route.operation);
    let mut xml = Xml::new();
    match route.api {
        Api::Ec2 => {
            xml.leaf("requestId", request_id).append(&content);
        }
        Api::S3 => return content.document(&route.operation, route.api.name_space()),
        _ => {
            xml.node(&format!("{}Result", route.operation), |xml| {
                xml.append(&content);
            });
            xml.node("ResponseMetadata", |xml| {
                xml.leaf("RequestId", request_id);
            });
        }
    }
    xml.document(&name, route.api.name_space())
}
