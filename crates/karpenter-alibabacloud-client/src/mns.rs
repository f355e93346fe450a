//! MNS, Simple Message Queue: a queue to which Cloud Monitor delivers events.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use http::Method;
use karpenter_transport::Element;
use serde::{Deserialize, Serialize};

use crate::endpoint::Service;
use crate::error::Error;
use crate::operation::{Operation, Route};

/// The most messages one call brings.
pub const MOST_MESSAGES: u32 = 16;

/// Waits for messages and takes them out of others' sight. Where there are none, the answer is a refusal: see [`is_empty`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchReceiveMessage {
    #[serde(skip)]
    pub account: String,
    #[serde(skip)]
    pub queue: String,
    #[serde(rename = "numOfMessages")]
    pub most: u32,
    #[serde(rename = "waitseconds")]
    pub wait_seconds: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Message {
    pub id: String,
    /// Names this sight of it; needed to delete it.
    pub receipt_handle: String,
    pub body: String,
    /// How often it was received, this time included.
    pub dequeue_count: u32,
}

/// Whether a refusal to hand out messages only says that there are none.
pub fn is_empty(error: &Error) -> bool {
    error.code == "MessageNotExist"
}

/// Deletes a message that was dealt with, while nobody else can see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeleteMessage {
    #[serde(skip)]
    pub account: String,
    #[serde(skip)]
    pub queue: String,
    #[serde(skip)]
    pub receipt_handle: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Deleted {}

impl Operation for BatchReceiveMessage {
    const NAME: &'static str = "BatchReceiveMessage";
    const SERVICE: Service = Service::Mns;
    const RAM_ACTION: &'static str = "mns:ReceiveMessage";
    type Answer = Vec<Message>;

    fn route(&self) -> Route {
        Route::Roa { method: Method::GET, path: path(&self.queue) }
    }

    fn account(&self) -> Option<&str> {
        Some(&self.account)
    }

    fn read(body: &[u8]) -> Result<Vec<Message>, String> {
        let document = Element::parse(&String::from_utf8_lossy(body)).map_err(|error| error.to_string())?;
        document.children_named("Message").map(message).collect()
    }
}

impl Operation for DeleteMessage {
    const NAME: &'static str = "DeleteMessage";
    const SERVICE: Service = Service::Mns;
    const RAM_ACTION: &'static str = "mns:DeleteMessage";
    type Answer = Deleted;

    /// Handles are written as they were received: queues sign what they read, and the alphabet of handles needs no encoding.
    fn route(&self) -> Route {
        let path = format!("{}?ReceiptHandle={}", path(&self.queue), self.receipt_handle);
        Route::Roa { method: Method::DELETE, path }
    }

    fn account(&self) -> Option<&str> {
        Some(&self.account)
    }
}

fn path(queue: &str) -> String {
    format!("/queues/{queue}/messages")
}

fn message(element: &Element) -> Result<Message, String> {
    let text = |name: &str| {
        element.child_text(name).map(str::to_owned).ok_or_else(|| format!("a message has no {name}"))
    };
    Ok(Message {
        id: text("MessageId")?,
        receipt_handle: text("ReceiptHandle")?,
        body: text("MessageBody")?,
        dequeue_count: element.child_text("DequeueCount").and_then(|count| count.parse().ok()).unwrap_or(1),
    })
}
