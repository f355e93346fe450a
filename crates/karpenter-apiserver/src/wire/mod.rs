//! The wire: what a request asks for and how answers are written.

pub(crate) mod protobuf;
mod query;
mod request;
mod response;
mod yaml;

pub(crate) use query::{Query, decode as unescape};
pub(crate) use request::{Call, Rendering, Route, Target, decode_body, decode_yaml, rendering};
pub use response::ResponseBody;
pub(crate) use response::{
    Answer, BoxError, add_warnings, bytes_response, json_response, page_not_found, stream_response,
    text_response,
};
pub(crate) use yaml::{into_yaml, prefers_yaml};
