//! Answers in YAML, for people who ask with curl.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::ResponseBody;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Whether a client would rather read YAML than JSON.
pub(crate) fn prefers_yaml(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let mut media = accept.split(',').map(|choice| choice.split(';').next().unwrap_or_default().trim());
    media.find(|media| matches!(*media, YAML | JSON | "*/*" | "application/*")) == Some(YAML)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_format_a_client_names_is_the_one_it_prefers() {
        let prefers = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            prefers_yaml(&headers)
        };
        assert!(prefers("application/yaml"));
        assert!(prefers("text/html, application/yaml;q=0.9, application/json"));
        assert!(!prefers("application/json, application/yaml"));
        assert!(!prefers("*/*"));
    }
}
