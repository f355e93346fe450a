//! Simple Message Queue: messages in and out, in XML.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request};
use jiff::Timestamp;
use ring::digest;
use serde_json::{Value, json};

use crate::call::Call;
use crate::service::unknown_action;
use crate::signature::hex;
use crate::wire::{Body, Params, Refusal, Reply, decode_query};
use crate::world::{Queue, QueuedMessage, SystemEvent, World};

const NAMESPACE: &str = r#"xmlns="http://mns.aliyuncs.com/doc/v1/""#;
const DECLARATION: &str = r#"<?xml version="1.0" encoding="UTF-8"?>"#;
/// The most messages at a time, and the longest wait for them in seconds.
const MOST: usize = 16;
const LONGEST_WAIT: u64 = 30;
/// How often a request that waits looks again.
pub(crate) const GLANCE: Duration = Duration::from_millis(250);

/// What a request to `/queues/NAME/messages` asks for.
pub(crate) fn action(method: &Method, params: &Params) -> &'static str {
    match *method {
        Method::GET if params.get("numOfMessages").is_some() => "BatchReceiveMessage",
        Method::GET => "ReceiveMessage",
        Method::POST => "SendMessage",
        Method::DELETE => "DeleteMessage",
        _ => "",
    }
}

pub(crate) fn dispatch(action: &str, world: &mut World, call: &Call<'_>) -> Reply {
    let [_, name, _] = call.path.as_slice() else { return unknown_action(action) };
    let missing = || Refusal::new(404, "QueueNotExist", "The queue name you provided is not exist.");
    let queue = world.queues.get_mut(name).ok_or_else(missing)?;
    match action {
        "SendMessage" => send(queue, call),
        "ReceiveMessage" => Ok(Body::Xml(200, written(&receive(queue, call, 1)?[0], NAMESPACE))),
        "BatchReceiveMessage" => {
            let most = call.params.number("numOfMessages")?.unwrap_or(0);
            if !(1..=MOST).contains(&most) {
                return Err(Refusal::new(400, "InvalidArgument", "numOfMessages must be from 1 to 16."));
            }
            let messages: Vec<String> =
                receive(queue, call, most)?.iter().map(|message| written(message, "")).collect();
            Ok(Body::Xml(200, format!("{DECLARATION}<Messages {NAMESPACE}>{}</Messages>", messages.concat())))
        }
        "DeleteMessage" => delete(queue, call),
        _ => unknown_action(action),
    }
}

/// The queue whose messages a request asks for, and how long it waits for the first.
pub(crate) fn patience(request: &Request<Bytes>) -> Option<(String, Duration)> {
    let name = request.uri().path().strip_prefix("/queues/")?.strip_suffix("/messages")?;
    let query = decode_query(request.uri().query().unwrap_or_default());
    let seconds: u64 = query.iter().find(|(name, _)| name == "waitseconds")?.1.parse().ok()?;
    let asks = request.method() == Method::GET;
    asks.then(|| (name.to_owned(), Duration::from_secs(seconds.min(LONGEST_WAIT))))
}

/// Puts an event of a machine into the queues that hear of them, as Cloud Monitor writes it: JSON in base64.
pub(crate) fn deliver(world: &mut World, event: &SystemEvent) {
    let resource = format!("acs:ecs:{}:{}:instance/{}", world.region, world.account, event.instance);
    let body = json!({
        "ver": "1.0",
        "id": event.id,
        "product": "ECS",
        "resourceId": resource,
        "level": event.level,
        "name": event.name,
        "userId": world.account,
        "eventTime": event.time.strftime("%Y%m%dT%H%M%S%.3f+0000").to_string(),
        "regionId": world.region,
        "content": serde_json::from_str(&event.content).unwrap_or(Value::Null),
    });
    let body = STANDARD.encode(body.to_string());
    for queue in world.queues.values_mut().filter(|queue| queue.hears_events) {
        queue.put(event.id.clone(), body.clone(), event.time, event.visible);
    }
}

fn send(queue: &mut Queue, call: &Call<'_>) -> Reply {
    let malformed = || Refusal::new(400, "MalformedXML", "The XML you provided was not well-formed.");
    let text = call.body.as_str().unwrap_or_default();
    let (_, body) = text.split_once("<MessageBody>").ok_or_else(malformed)?;
    let (body, _) = body.split_once("</MessageBody>").ok_or_else(malformed)?;
    let id = call.id("m-").to_uppercase();
    let body = unescaped(body);
    let said = format!("<MessageId>{id}</MessageId><MessageBodyMD5>{}</MessageBodyMD5>", mark(&body));
    queue.put(id, body, call.now, call.now);
    Ok(Body::Xml(201, format!("{DECLARATION}<Message {NAMESPACE}>{said}</Message>")))
}

fn receive(queue: &mut Queue, call: &Call<'_>, most: usize) -> Result<Vec<QueuedMessage>, Refusal> {
    let mut number = 0;
    let found = queue.receive(most, call.now, || {
        number += 1;
        format!("{number}-{}", STANDARD.encode(call.id("r-")))
    });
    if found.is_empty() {
        return Err(Refusal::new(404, "MessageNotExist", "Message not exist."));
    }
    Ok(found)
}

fn delete(queue: &mut Queue, call: &Call<'_>) -> Reply {
    // A plus is part of a handle and stands for no space.
    let handle = call.params.get("ReceiptHandle").map(|handle| handle.replace(' ', "+"));
    let missing = || Refusal::new(400, "MissingReceiptHandle", "ReceiptHandle is required.");
    if queue.delete(&handle.ok_or_else(missing)?, call.now) {
        return Ok(Body::Xml(204, String::new()));
    }
    Err(Refusal::new(404, "MessageNotExist", "Message not exist."))
}

fn written(message: &QueuedMessage, namespace: &str) -> String {
    let fields = [
        ("MessageId", message.id.clone()),
        ("ReceiptHandle", message.receipt.clone().unwrap_or_default()),
        ("MessageBodyMD5", mark(&message.body)),
        ("MessageBody", message.body.clone()),
        ("EnqueueTime", milliseconds(message.enqueued)),
        ("NextVisibleTime", milliseconds(message.visible)),
        ("FirstDequeueTime", milliseconds(message.first_received.unwrap_or(message.enqueued))),
        ("DequeueCount", message.received.to_string()),
        ("Priority", "8".to_owned()),
    ];
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("<{name}>{}</{name}>", escaped(value))).collect();
    let start = if namespace.is_empty() { "<Message>".to_owned() } else { format!("<Message {namespace}>") };
    format!("{start}{}</Message>", fields.concat())
}

/// A refusal as queues write it: the status and the XML.
pub(crate) fn refused(refusal: &Refusal, request_id: &str) -> (u16, String) {
    let (status, code) = match refusal.code.as_str() {
        _ if refusal.denied.is_some() => (403, "AccessDenied"),
        "InvalidAccessKeyId.NotFound" => (403, "InvalidAccessKeyId"),
        "SignatureDoesNotMatch" => (403, "SignatureDoesNotMatch"),
        "InvalidTimeStamp.Expired" => (408, "TimeExpired"),
        code => (refusal.status, code),
    };
    let message = escaped(&refusal.message);
    let fields =
        format!("<Code>{code}</Code><Message>{message}</Message><RequestId>{request_id}</RequestId>");
    (status, format!("{DECLARATION}<Error {NAMESPACE}>{fields}<HostId>mns.simulated</HostId></Error>"))
}

/// Sixteen bytes by which a body is recognised. Clients do not check that it is MD5.
fn mark(body: &str) -> String {
    hex(&digest::digest(&digest::SHA256, body.as_bytes()).as_ref()[..16]).to_uppercase()
}

fn milliseconds(time: Timestamp) -> String {
    time.as_millisecond().to_string()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}
