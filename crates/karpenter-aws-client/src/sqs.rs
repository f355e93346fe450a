//! SQS: the queue in which `EventBridge` leaves what happens to instances.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::endpoint::Service;
use crate::error::Error;
use crate::json::{JsonCall, Protocol};

const SQS: Protocol =
    Protocol { service: Service::Sqs, prefix: "AmazonSQS", content_type: "application/x-amz-json-1.0" };

/// SQS.
pub struct Sqs<'a> {
    client: &'a Client,
}

/// How messages are fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ReceiveMessage {
    /// The queue.
    pub queue_url: String,
    /// At most so many; ten is the most there is.
    pub max_number_of_messages: u32,
    /// For how many seconds nobody else sees them.
    pub visibility_timeout: u32,
    /// How many seconds to wait for the first one.
    pub wait_time_seconds: u32,
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Message {
    /// Names the message.
    pub message_id: String,
    /// Names this sight of it; needed to delete it.
    pub receipt_handle: String,
    /// What it says.
    pub body: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct QueueName<'a> {
    queue_name: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueUrl {
    queue_url: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Messages {
    messages: Vec<Message>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Receipt<'a> {
    queue_url: &'a str,
    receipt_handle: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Outgoing<'a> {
    queue_url: &'a str,
    message_body: &'a str,
}

#[derive(Deserialize)]
struct Nothing {}

impl Client {
    /// SQS.
    pub fn sqs(&self) -> Sqs<'_> {
        Sqs { client: self }
    }
}

impl Sqs<'_> {
    /// The address of the queue called `name`.
    ///
    /// # Errors
    /// Of kind [`crate::ErrorKind::NotFound`] when there is none.
    pub async fn queue_url(&self, name: &str) -> Result<String, Error> {
        let answer: QueueUrl = self.call("GetQueueUrl", &QueueName { queue_name: name }, 0).await?;
        Ok(answer.queue_url)
    }

    /// Waits for messages and takes them out of others' sight.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn receive(&self, request: &ReceiveMessage) -> Result<Vec<Message>, Error> {
        let answer: Messages = self.call("ReceiveMessage", request, request.wait_time_seconds).await?;
        Ok(answer.messages)
    }

    /// Deletes a message that was dealt with.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn delete(&self, queue_url: &str, receipt_handle: &str) -> Result<(), Error> {
        let Nothing {} = self.call("DeleteMessage", &Receipt { queue_url, receipt_handle }, 0).await?;
        Ok(())
    }

    /// Leaves a message: what `EventBridge` does, for tests and the simulated cloud.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn send(&self, queue_url: &str, body: &str) -> Result<(), Error> {
        let Nothing {} = self.call("SendMessage", &Outgoing { queue_url, message_body: body }, 0).await?;
        Ok(())
    }

    async fn call<R: Serialize, A: serde::de::DeserializeOwned>(
        &self,
        operation: &'static str,
        request: &R,
        wait_seconds: u32,
    ) -> Result<A, Error> {
        let patience = Duration::from_secs(wait_seconds.into());
        self.client.json(&SQS, &JsonCall { operation, region: self.client.region(), request, patience }).await
    }
}
