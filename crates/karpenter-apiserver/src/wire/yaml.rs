//! Answers in YAML, for people who ask with curl.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::ResponseBody;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Writes a whole JSON answer as YAML; other answers stay as they are.
pub(crate) async fn into_yaml(response: Response<ResponseBody>) -> Response<ResponseBody> {
    if response.headers().get(header::CONTENT_TYPE) != Some(&HeaderValue::from_static(JSON)) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let text =
        serde_json::from_slice::<Value>(&bytes).ok().and_then(|value| serde_saphyr::to_string(&value).ok());
    let body = match text {
        Some(text) => {
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(YAML));
            Bytes::from(text)
        }
        None => bytes,
    };
    Response::from_parts(parts, Full::new(body).boxed_unsync())
}
