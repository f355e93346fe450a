//! The wire: what a request asks for and how answers are written.

mod accept;
mod body;
pub(crate) mod protobuf;
mod query;
mod request;
mod response;
mod yaml;

pub(crate) use accept::{MetaVersion, Offer, Rendering, check_accepted, prefers_yaml, rendering};
pub(crate) use body::{Unread, read as read_body};
pub(crate) use query::{Query, unescape};
pub(crate) use request::{Call, Route, Target, decode_body, decode_yaml};
pub use response::ResponseBody;
pub(crate) use response::{
    Answer, BoxError, add_warnings, bytes_response, json_response, page_not_found, stream_response,
    text_response,
};
pub(crate) use yaml::into_yaml;
