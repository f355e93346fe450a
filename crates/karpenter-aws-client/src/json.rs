//! The JSON protocols: SSM, SQS and Pricing name the operation in a header, EKS and zonal shifts in the path.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{Call, Client, TIMEOUT};
use crate::endpoint::Service;
use crate::error::{Error, ErrorKind};

const TARGET: HeaderName = HeaderName::from_static("x-amz-target");

/// How a service speaks the protocol.
pub(crate) struct Protocol {
    pub(crate) service: Service,
    /// What stands before the operation's name in the header.
    pub(crate) prefix: &'static str,
    pub(crate) content_type: &'static str,
}

/// A request with its operation and the type of its answer.
pub(crate) struct JsonCall<'a, R> {
    pub(crate) operation: &'static str,
    pub(crate) region: &'a str,
    pub(crate) request: &'a R,
    /// How much longer than usual the answer may take.
    pub(crate) patience: Duration,
}

impl Client {
    pub(crate) async fn json<R: Serialize, A: DeserializeOwned>(
        &self,
        protocol: &Protocol,
        call: &JsonCall<'_, R>,
    ) -> Result<A, Error> {
        let invalid = |message: String| Error::local(call.operation, ErrorKind::Invalid, message);
        let endpoint = self.endpoint(protocol.service, call.region);
        let body = serde_json::to_vec(call.request).map_err(|error| invalid(error.to_string()))?;
        let target = format!("{}.{}", protocol.prefix, call.operation);
        let target = HeaderValue::from_str(&target).map_err(|error| invalid(error.to_string()))?;
        let request = Call {
            service: protocol.service,
            operation: call.operation,
            method: Method::POST,
            url: format!("{}/", endpoint.url),
            signing_region: endpoint.signing_region,
            headers: vec![
                (header::CONTENT_TYPE, HeaderValue::from_static(protocol.content_type)),
                (TARGET, target),
            ],
            body: Bytes::from(body),
            timeout: TIMEOUT + call.patience,
            retry: None,
        };
        let response = self.send(&request).await.map_err(|failure| failure.error)?;
        read(call.operation, response.body())
    }

    /// Reads `path`, which is encoded already, from a service that speaks REST.
    pub(crate) async fn json_get<A: DeserializeOwned>(
        &self,
        service: Service,
        operation: &'static str,
        path: &str,
    ) -> Result<A, Error> {
        let endpoint = self.endpoint(service, self.region());
        let request = Call {
            service,
            operation,
            method: Method::GET,
            url: format!("{}{path}", endpoint.url),
            signing_region: endpoint.signing_region,
            headers: Vec::new(),
            body: Bytes::new(),
            timeout: TIMEOUT,
            retry: None,
        };
        let response = self.send(&request).await.map_err(|failure| failure.error)?;
        read(operation, response.body())
    }
}

/// Some operations answer nothing, which is an empty object.
fn read<A: DeserializeOwned>(operation: &'static str, body: &[u8]) -> Result<A, Error> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| {
        Error::local(operation, ErrorKind::Invalid, format!("the answer is not understood: {error}"))
    })
}
