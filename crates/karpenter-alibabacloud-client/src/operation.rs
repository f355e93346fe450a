//! What an operation is: its name, its service, the right it needs, its answer, and how its pages are asked for.

use http::Method;
use karpenter_transport::Urgency;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::endpoint::Service;

/// A request with its operation and the type of its answer.
pub trait Operation: Serialize + Send + Sync {
    /// The operation's name.
    const NAME: &'static str;
    /// Who answers it.
    const SERVICE: Service;
    /// The action a RAM policy must allow.
    const RAM_ACTION: &'static str;
    /// Who goes first where calls have to wait.
    const URGENCY: Urgency = Urgency::Describe;
    /// What comes back.
    type Answer: DeserializeOwned + Send;

    /// How it travels.
    fn route(&self) -> Route {
        Route::Rpc
    }

    /// Whose host is asked, for services that have one for every account.
    fn account(&self) -> Option<&str> {
        None
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// Says what cannot be understood.
    fn read(body: &[u8]) -> Result<Self::Answer, String> {
        read_json(body)
    }
}

/// How a request travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST /`, parameters in the query.
    Rpc,
    /// A path of its own; `GET` and `DELETE` carry parameters in the query, `POST` as JSON in the body.
    Roa {
        /// The method.
        method: Method,
        /// The path, encoded.
        path: String,
    },
}

/// How further pages are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// By what the page before said; the parameter's name.
    Token(&'static str),
    /// By number, with this many items each.
    Numbers(u32),
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What it holds.
    pub items: Vec<T>,
    /// What to ask for the next one with; `None` at the end.
    pub next: Option<String>,
    /// How many items there are on all pages, if the answer says so.
    pub total: Option<u64>,
}

/// A request whose answer comes in pages.
pub trait PagedOperation: Operation {
    /// What a page holds.
    type Item: Send;
    /// How the next one is asked for.
    const PAGES: Pages;
    /// The page in an answer.
    fn page(answer: Self::Answer) -> Page<Self::Item>;
}

/// Reads JSON; what is null counts as missing, so that no answer is refused for a field it leaves open.
pub(crate) fn read_json<A: DeserializeOwned>(body: &[u8]) -> Result<A, String> {
    let body = if body.iter().all(u8::is_ascii_whitespace) { b"{}" } else { body };
    let mut value: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    strip_nulls(&mut value);
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(strip_nulls);
        }
        Value::Array(elements) => {
            elements.retain(|element| !element.is_null());
            elements.iter_mut().for_each(strip_nulls);
        }
        _ => {}
    }
}

/// Declares that a request is an operation of `$service`, and what right it needs.
macro_rules! operation {
    ($request:ident -> $answer:ty, $service:ident, $action:literal $(, $urgency:ident)?) => {
        impl crate::operation::Operation for $request {
            const NAME: &'static str = stringify!($request);
            const SERVICE: crate::endpoint::Service = crate::endpoint::Service::$service;
            const RAM_ACTION: &'static str = $action;
            $(const URGENCY: karpenter_transport::Urgency = karpenter_transport::Urgency::$urgency;)?
            type Answer = $answer;
        }
    };
}

/// Declares how the pages of an operation are asked for and where they have their items.
macro_rules! pages {
    ($request:ident of $item:ident in $field:ident, by token) => {
        impl crate::operation::PagedOperation for $request {
            type Item = $item;
            const PAGES: crate::operation::Pages = crate::operation::Pages::Token("NextToken");
            fn page(answer: Self::Answer) -> crate::operation::Page<$item> {
                crate::operation::Page { items: answer.$field, next: answer.next_token, total: None }
            }
        }
    };
    ($request:ident of $item:ident in $field:ident, by number of $size:literal) => {
        impl crate::operation::PagedOperation for $request {
            type Item = $item;
            const PAGES: crate::operation::Pages = crate::operation::Pages::Numbers($size);
            fn page(answer: Self::Answer) -> crate::operation::Page<$item> {
                crate::operation::Page { items: answer.$field, next: None, total: answer.total_count }
            }
        }
    };
}

pub(crate) use {operation, pages};
