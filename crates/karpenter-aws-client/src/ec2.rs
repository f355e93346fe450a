//! EC2: the operations the provider calls, with the fields it uses.
//!
//! A request is a struct named after its operation; [`Ec2::call`] sends it, [`Ec2::list`] gathers all its pages. Fields have AWS's
//! names and meaning.

mod discovery;
mod fleet;
mod instance_types;
mod instances;
mod launch_templates;

use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::query::{self, PagedOperation, QueryOperation};

pub use discovery::*;
pub use fleet::*;
pub use instance_types::*;
pub use instances::*;
pub use launch_templates::*;

/// EC2.
pub struct Ec2<'a> {
    client: &'a Client,
}

impl Client {
    /// EC2.
    pub fn ec2(&self) -> Ec2<'_> {
        Ec2 { client: self }
    }
}

impl Ec2<'_> {
    /// Sends a request.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn call<O: QueryOperation>(&self, request: &O) -> Result<O::Answer, Error> {
        self.client.query(query::EC2, request, None, None).await
    }

    /// Sends a request once: for dry runs, whose errors are the answer.
    ///
    /// # Errors
    /// What AWS says; [`crate::ErrorKind::DryRun`] is the success of a dry run.
    pub async fn call_once<O: QueryOperation>(&self, request: &O) -> Result<O::Answer, Error> {
        self.client.query(query::EC2, request, None, Some(RetryPolicy::once())).await
    }

    /// Sends a request for one page, once: `token` is what the page before it said.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn page_once<O: PagedOperation>(
        &self,
        request: &O,
        token: Option<&str>,
    ) -> Result<O::Answer, Error> {
        let more = token.map(|token| (O::NEXT, token));
        self.client.query(query::EC2, request, more, Some(RetryPolicy::once())).await
    }

    /// Sends a request for each page and gathers what they hold.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn list<O: PagedOperation>(&self, request: &O) -> Result<Vec<O::Item>, Error> {
        self.client.query_pages(query::EC2, request).await
    }
}

/// Narrows what is described: any of the values, with `*` and `?` as wildcards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Filter {
    /// What is looked at, say `tag:Name`.
    pub name: String,
    /// What it may be.
    #[serde(rename = "Value")]
    pub values: Vec<String>,
}

impl Filter {
    /// A filter with its values.
    pub fn new<V: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self { name: name.into(), values: values.into_iter().map(Into::into).collect() }
    }
}

/// A tag in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Tag {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// A tag in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct TagDescription {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Tags for what a request creates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TagSpecification {
    /// What is tagged, say `instance`.
    pub resource_type: String,
    /// With what.
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

/// An answer that says no more than that it worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Done {}

/// Declares that a request is an operation, and where its pages have their items.
macro_rules! operation {
    ($request:ident -> $answer:ident) => {
        impl crate::query::QueryOperation for $request {
            const NAME: &'static str = stringify!($request);
            type Answer = $answer;
        }
    };
    ($request:ident -> $answer:ident, pages of $item:ident in $field:ident) => {
        operation!($request -> $answer);
        impl crate::query::PagedOperation for $request {
            type Item = $item;
            fn page(answer: $answer) -> (Vec<$item>, Option<String>) {
                (answer.$field, answer.next_token)
            }
        }
    };
}
use karpenter_transport::RetryPolicy;
use operation;
