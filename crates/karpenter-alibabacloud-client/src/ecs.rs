//! ECS: the operations the provider calls, with the fields it uses.
//!
//! A request is a struct named after its operation; [`crate::Client::call`] sends it, [`crate::Client::list`] gathers all its pages.
//! Fields have the cloud's names and meaning. Whatever an answer may leave out is optional or has a default.

mod discovery;
mod events;
mod instance_types;
mod instances;
mod launch;
mod prices;

use serde::{Deserialize, Serialize};

pub use discovery::*;
pub use events::*;
pub use instance_types::*;
pub use instances::*;
pub use launch::*;
pub use prices::*;

/// A tag in a request. As a filter, no value means any.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Tag {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Option<String>,
}

impl Tag {
    /// A tag with its value.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: Some(value.into()) }
    }

    /// A filter for any value.
    pub fn key(key: impl Into<String>) -> Self {
        Self { key: key.into(), value: None }
    }
}

/// A tag in an answer; VPC writes `Key` where ECS writes `TagKey`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct TagDescription {
    /// Its key.
    #[serde(rename = "TagKey", alias = "Key")]
    pub key: String,
    /// Its value.
    #[serde(rename = "TagValue", alias = "Value")]
    pub value: String,
}

/// An answer that says no more than that it worked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Done {
    /// What the cloud's support asks for.
    pub request_id: String,
}
