//! Writing answers.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream::{Stream, StreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;

use crate::error::ApiError;

/// Any error, as `tower` services pass them.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of every answer: whole, or a stream of watch events.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// What a verb answers: an object with a status code.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn ok(body: impl Into<Bytes>) -> Self {
        Self { code: StatusCode::OK, body: body.into() }
    }

    pub(crate) fn value(code: StatusCode, value: &Value) -> Self {
        Self { code, body: value.to_string().into() }
    }

    pub(crate) fn created(mut self) -> Self {
        self.code = StatusCode::CREATED;
        self
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        whole(self.code, self.body, "application/json")
    }
}

/// Adds warnings for people, which clients print.
pub(crate) fn add_warnings(response: &mut Response<ResponseBody>, warnings: Vec<String>) {
    for warning in warnings {
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

impl ApiError {
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = json_response(self.code, &self.status());
        if let Some(seconds) = self.details["retryAfterSeconds"].as_u64() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

pub(crate) fn json_response(code: StatusCode, value: &Value) -> Response<ResponseBody> {
    whole(code, value.to_string().into(), "application/json")
}

pub(crate) fn text_response(code: StatusCode, text: &'static str) -> Response<ResponseBody> {
    whole(code, Bytes::from_static(text.as_bytes()), "text/plain; charset=utf-8")
}

pub(crate) fn stream_response(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<ResponseBody> {
    let frames = chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
    with_type(StatusCode::OK, StreamBody::new(frames).boxed_unsync(), "application/json")
}

/// The answer for paths nobody serves.
pub(crate) fn page_not_found() -> Response<ResponseBody> {
    text_response(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub(crate) fn bytes_response(
    code: StatusCode,
    body: Bytes,
    content_type: &'static str,
) -> Response<ResponseBody> {
    whole(code, body, content_type)
}

fn whole(code: StatusCode, body: Bytes, content_type: &'static str) -> Response<ResponseBody> {
    with_type(code, Full::new(body).boxed_unsync(), content_type)
}

fn with_type(code: StatusCode, body: ResponseBody, content_type: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
