//! SQS: queues whose messages are seen by one reader at a time.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::answer::Outcome;
use crate::service::unknown;
use crate::wire::refusal::Refusal;
use crate::wire::signature::hex;
use crate::world::{Call, World};

const DEFAULT_VISIBILITY: i64 = 30;
const DEFAULT_RETENTION: i64 = 4 * 24 * 3600;
/// What the cluster's queue keeps: events that are older help nobody.
pub(crate) const EVENT_RETENTION: i64 = 300;
const MOST_AT_ONCE: usize = 10;

/// A message.
#[derive(Clone, Debug)]
struct Message {
    id: String,
    body: String,
    sent: Timestamp,
    /// When it can be seen, again.
    visible: Timestamp,
    /// Names its latest sight.
    receipt: String,
    received: u32,
}

/// A queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// In the order in which they were sent.
    messages: VecDeque<Message>,
    retention: SignedDuration,
    visibility: i64,
}

impl Queue {
    pub(crate) fn new(retention: i64) -> Self {
        let retention = SignedDuration::from_secs(retention);
        Self { messages: VecDeque::new(), retention, visibility: DEFAULT_VISIBILITY }
    }

    /// The bodies of all messages that have not been deleted.
    pub(crate) fn bodies(&self) -> Vec<String> {
        self.messages.iter().map(|message| message.body.clone()).collect()
    }

    fn expire(&mut self, now: Timestamp) {
        let retention = self.retention;
        while self.messages.front().is_some_and(|message| now.duration_since(message.sent) >= retention) {
            self.messages.pop_front();
        }
    }
}

impl World {
    /// Leaves an event in the cluster's queue.
    pub(crate) fn publish(&mut self, event: &Value, now: Timestamp) {
        let name = self.description.cluster_name.clone();
        self.send(&name, event.to_string(), now, SignedDuration::ZERO);
    }

    /// Leaves a message and returns its id; `None` if there is no such queue.
    pub(crate) fn send(
        &mut self,
        queue: &str,
        body: String,
        now: Timestamp,
        delay: SignedDuration,
    ) -> Option<String> {
        let id = self.environment.uid();
        let queue = self.queues.get_mut(queue)?;
        queue.expire(now);
        let visible = now.saturating_add(delay).unwrap_or(now);
        queue.messages.push_back(Message {
            id: id.clone(),
            body,
            sent: now,
            visible,
            receipt: String::new(),
            received: 0,
        });
        self.sent += 1;
        Some(id)
    }

    fn queue_url(&self, host: &str, name: &str) -> String {
        format!("http://{host}/{}/{name}", self.description.account)
    }
}

fn no_queue() -> Refusal {
    Refusal::new("QueueDoesNotExist", "The specified queue does not exist.")
}

/// The name at the end of the address in a request.
fn named<'a>(call: &'a Call<'_>) -> Result<&'a str, Refusal> {
    let url = call.json["QueueUrl"].as_str().ok_or_else(no_queue)?;
    url.rsplit('/').next().ok_or_else(no_queue)
}

fn queue<'a>(world: &'a mut World, call: &Call<'_>) -> Result<&'a mut Queue, Refusal> {
    let name = named(call)?.to_owned();
    let queue = world.queues.get_mut(&name).ok_or_else(no_queue)?;
    queue.expire(call.now);
    Ok(queue)
}

pub(crate) fn answer(world: &mut World, call: &Call<'_>) -> Outcome {
    let host = call
        .request
        .headers()
        .get(http::header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or("localhost");
    match call.operation {
        "CreateQueue" => {
            let name = call.json["QueueName"].as_str().unwrap_or("").to_owned();
            let attribute =
                |name: &str| call.json["Attributes"][name].as_str().and_then(|text| text.parse().ok());
            let mut queue = Queue::new(attribute("MessageRetentionPeriod").unwrap_or(DEFAULT_RETENTION));
            queue.visibility = attribute("VisibilityTimeout").unwrap_or(DEFAULT_VISIBILITY);
            world.queues.entry(name.clone()).or_insert(queue);
            Ok(json!({"QueueUrl": world.queue_url(host, &name)}).into())
        }
        "GetQueueUrl" => {
            let name = call.json["QueueName"].as_str().unwrap_or("");
            if !world.queues.contains_key(name) {
                return Err(no_queue());
            }
            Ok(json!({"QueueUrl": world.queue_url(host, name)}).into())
        }
        "DeleteQueue" => {
            world.queues.remove(named(call)?).ok_or_else(no_queue)?;
            Ok(json!({}).into())
        }
        "PurgeQueue" => {
            queue(world, call)?.messages.clear();
            Ok(json!({}).into())
        }
        "GetQueueAttributes" => attributes(world, call),
        "SendMessage" => send(world, call),
        "ReceiveMessage" => receive(world, call),
        "DeleteMessage" => {
            let receipt = call.json["ReceiptHandle"].as_str().unwrap_or("");
            delete(queue(world, call)?, receipt);
            Ok(json!({}).into())
        }
        "DeleteMessageBatch" => {
            let entries = call.json["Entries"].as_array().cloned().unwrap_or_default();
            let queue = queue(world, call)?;
            let mut done = Vec::new();
            for entry in &entries {
                delete(queue, entry["ReceiptHandle"].as_str().unwrap_or(""));
                done.push(json!({"Id": entry["Id"]}));
            }
            Ok(json!({"Successful": done, "Failed": []}).into())
        }
        "ChangeMessageVisibility" => {
            let receipt = call.json["ReceiptHandle"].as_str().unwrap_or("");
            let seconds = call.json["VisibilityTimeout"].as_i64().unwrap_or(DEFAULT_VISIBILITY);
            let visible = call.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(call.now);
            let messages = queue(world, call)?.messages.iter_mut();
            messages
                .filter(|message| message.receipt == receipt)
                .for_each(|message| message.visible = visible);
            Ok(json!({}).into())
        }
        other => Err(unknown(other)),
    }
}

/// Only the latest sight of a message can delete it; anything else is deleted already.
fn delete(queue: &mut Queue, receipt: &str) {
    queue.messages.retain(|message| receipt.is_empty() || message.receipt != receipt);
}

fn attributes(world: &mut World, call: &Call<'_>) -> Outcome {
    let now = call.now;
    let arn = world.description.arn("sqs", named(call)?);
    let queue = queue(world, call)?;
    let seen = queue.messages.iter().filter(|message| message.visible > now).count();
    Ok(json!({"Attributes": {
        "QueueArn": arn,
        "ApproximateNumberOfMessages": (queue.messages.len() - seen).to_string(),
        "ApproximateNumberOfMessagesNotVisible": seen.to_string(),
        "MessageRetentionPeriod": queue.retention.as_secs().to_string(),
        "VisibilityTimeout": queue.visibility.to_string(),
    }})
    .into())
}

fn send(world: &mut World, call: &Call<'_>) -> Outcome {
    let name = named(call)?.to_owned();
    let body = call.json["MessageBody"].as_str().unwrap_or("").to_owned();
    let delay = SignedDuration::from_secs(call.json["DelaySeconds"].as_i64().unwrap_or(0));
    let digest = md5(body.as_bytes());
    let id = world.send(&name, body, call.now, delay).ok_or_else(no_queue)?;
    Ok(json!({"MessageId": id, "MD5OfMessageBody": digest}).into())
}

fn receive(world: &mut World, call: &Call<'_>) -> Outcome {
    let environment = std::sync::Arc::clone(&world.environment);
    let queue = queue(world, call)?;
    let most = call.json["MaxNumberOfMessages"].as_u64().unwrap_or(1) as usize;
    if !(1..=MOST_AT_ONCE).contains(&most) {
        let message = format!(
            "Value {most} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided."
        );
        return Err(Refusal::new("InvalidParameterValue", message));
    }
    let hidden = call.json["VisibilityTimeout"].as_i64().unwrap_or(queue.visibility);
    let until = call.now.saturating_add(SignedDuration::from_secs(hidden)).unwrap_or(call.now);
    let visible = queue.messages.iter_mut().filter(|message| message.visible <= call.now).take(most);
    let received: Vec<Value> = visible
        .map(|message| {
            message.visible = until;
            message.received += 1;
            message.receipt = hex(&environment.entropy());
            json!({
                "MessageId": message.id,
                "ReceiptHandle": message.receipt,
                "MD5OfBody": md5(message.body.as_bytes()),
                "Body": message.body,
                "Attributes": {
                    "SentTimestamp": message.sent.as_millisecond().to_string(),
                    "ApproximateReceiveCount": message.received.to_string(),
                },
            })
        })
        .collect();
    Ok(if received.is_empty() { json!({}) } else { json!({"Messages": received}) }.into())
}

/// When the next message of a queue can be seen.
pub(crate) fn next_visible(queues: &BTreeMap<String, Queue>, queue: &str) -> Option<Timestamp> {
    queues.get(queue)?.messages.iter().map(|message| message.visible).min()
}

/// SDKs check the digest of what they send and receive.
fn md5(bytes: &[u8]) -> String {
    hex(&crate::wire::md5::digest(bytes))
}
