//! Message queues and what lies in them.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A message queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// For how many seconds nobody else sees a message that was received.
    #[serde(default = "half_a_minute")]
    pub visibility_seconds: u32,
    /// Whether Cloud Monitor delivers events of machines here.
    #[serde(default)]
    pub hears_events: bool,
    /// What lies in it, the oldest first.
    #[serde(default)]
    pub messages: Vec<QueuedMessage>,
}

fn half_a_minute() -> u32 {
    30
}

/// A message that nobody has deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedMessage {
    /// Its id.
    pub id: String,
    /// What it says, as it was sent.
    pub body: String,
    /// When it was sent.
    pub enqueued: Timestamp,
    /// From when on it can be received.
    pub visible: Timestamp,
    /// When it was received first.
    #[serde(default)]
    pub first_received: Option<Timestamp>,
    /// How often it was received.
    #[serde(default)]
    pub received: u32,
    /// What names the last sight of it.
    #[serde(default)]
    pub receipt: Option<String>,
}

impl Queue {
    /// An empty queue.
    pub fn new(name: &str, hears_events: bool) -> Self {
        Self {
            name: name.to_owned(),
            visibility_seconds: half_a_minute(),
            hears_events,
            messages: Vec::new(),
        }
    }

    /// Puts a message in, to be received from `visible` on.
    pub fn put(&mut self, id: String, body: String, enqueued: Timestamp, visible: Timestamp) {
        let message =
            QueuedMessage { id, body, enqueued, visible, first_received: None, received: 0, receipt: None };
        self.messages.push(message);
    }

    pub(crate) fn has_visible(&self, now: Timestamp) -> bool {
        self.messages.iter().any(|message| message.visible <= now)
    }

    /// Hands out the oldest `most` messages that can be seen, each under a new receipt.
    pub(crate) fn receive(
        &mut self,
        most: usize,
        now: Timestamp,
        mut receipt: impl FnMut() -> String,
    ) -> Vec<QueuedMessage> {
        let hidden = SignedDuration::from_secs(self.visibility_seconds.into());
        let seen = self.messages.iter_mut().filter(|message| message.visible <= now).take(most);
        seen.map(|message| {
            message.visible = now.saturating_add(hidden).unwrap_or(Timestamp::MAX);
            message.first_received.get_or_insert(now);
            message.received += 1;
            message.receipt = Some(receipt());
            message.clone()
        })
        .collect()
    }

    /// Deletes the message of a receipt that is still good; whether there was one.
    pub(crate) fn delete(&mut self, receipt: &str, now: Timestamp) -> bool {
        let before = self.messages.len();
        self.messages.retain(|message| message.receipt.as_deref() != Some(receipt) || message.visible <= now);
        self.messages.len() < before
    }
}
