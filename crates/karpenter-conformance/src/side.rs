//! One of the two servers, and the session of one script with it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use karpenter_apiserver::ApiServer;
use kube::client::Body as ClientBody;
use serde_json::{Value, json};

use crate::mutate::Edit;
use crate::script::{Body, Condition, Request, Step};

/// How long one answer may take: the real server tries an eviction again for half a minute.
const ANSWER_WAIT: Duration = Duration::from_mins(2);
/// How long the first event of a watch may take that starts with what is there.
const INITIAL_WAIT: Duration = Duration::from_millis(500);
/// How long a condition may take to become true.
const CONDITION_WAIT: Duration = Duration::from_mins(1);
/// What is said of a server that gives up on a request, as the real one does where its own code panics.
const BROKEN_OFF: &str = "connection closed before message completed";
const POLL: Duration = Duration::from_millis(50);

/// A server under comparison.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) client: kube::Client,
    /// Ours, whose collectors move only when they are asked to.
    pub(crate) embedded: Option<ApiServer>,
}

/// What a server answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: BTreeMap<String, Vec<String>>,
    /// JSON, or a text when the body is none.
    pub(crate) body: Value,
}

type WatchBody = std::pin::Pin<Box<dyn futures::Stream<Item = Result<bytes::Bytes>> + Send>>;

/// A script's conversation with one server.
pub(crate) struct Session {
    side: Side,
    answers: Vec<Answer>,
    watches: BTreeMap<usize, WatchBody>,
}

impl Session {
    pub(crate) fn new(side: &Side) -> Self {
        Self { side: side.clone(), answers: Vec::new(), watches: BTreeMap::new() }
    }

    /// Does one step and returns what the server answered.
    pub(crate) async fn perform(&mut self, step: &Step) -> Result<Answer> {
        let answer = match step {
            Step::Send(request) => self.send(request).await?,
            Step::Watch(request) => self.open(request).await?,
            Step::Drain { watch, until } => self.drain(*watch, until).await?,
            Step::Await(condition) => self.wait(condition).await?,
        };
        self.answers.push(answer.clone());
        Ok(answer)
    }

    async fn response(&self, request: &Request) -> Result<http::Response<ClientBody>> {
        let path = self.filled(&request.path);
        let body = match &request.body {
            Body::Empty => Vec::new(),
            Body::Text(text) => self.filled(text).into_bytes(),
            Body::Json(value) => self.filled_value(value).to_string().into_bytes(),
            Body::Edited { step, edits } => self.edited(*step, edits).to_string().into_bytes(),
        };
        let mut builder = http::Request::builder().method(request.method).uri(path);
        if !request.headers.iter().any(|(name, _)| *name == "user-agent") {
            builder = builder.header("user-agent", "conformance/1");
        }
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        let request = builder.body(ClientBody::from(body)).context("building a request")?;
        let answer = tokio::time::timeout(ANSWER_WAIT, self.side.client.send(request)).await;
        answer.context("no answer in time")?.context("sending a request")
    }

    async fn send(&self, request: &Request) -> Result<Answer> {
        let response = match self.response(request).await {
            Err(error) if format!("{error:#}").contains(BROKEN_OFF) => {
                return Ok(Answer { code: 0, headers: BTreeMap::new(), body: json!(BROKEN_OFF) });
            }
            response => response?,
        };
        let (code, headers) = head(&response);
        let body = tokio::time::timeout(ANSWER_WAIT, response.into_body().collect()).await;
        let bytes = body.context("no whole answer in time")?.context("reading an answer")?.to_bytes();
        let yaml = headers.get("content-type").is_some_and(|types| types[0] == "application/yaml");
        let body = if yaml { from_yaml(&bytes) } else { parsed(&bytes) };
        Ok(Answer { code, headers, body })
    }

    async fn open(&mut self, request: &Request) -> Result<Answer> {
        let response = self.response(request).await?;
        let (code, headers) = head(&response);
        if code != 200 {
            let bytes = response.into_body().collect().await.context("reading an answer")?.to_bytes();
            return Ok(Answer { code, headers, body: parsed(&bytes) });
        }
        let stream = response.into_body().into_data_stream();
        let mut stream = Box::pin(stream.map(|chunk| chunk.map_err(anyhow::Error::from)));
        // What is there already is looked up after the headers are sent; the next request must not come in between.
        let initial = request.path.contains("resourceVersion=0");
        let wait = if initial { INITIAL_WAIT } else { Duration::ZERO };
        let first = tokio::time::timeout(wait, stream.next()).await.ok().flatten();
        self.watches.insert(self.answers.len(), Box::pin(futures::stream::iter(first).chain(stream)));
        Ok(Answer { code, headers, body: Value::Null })
    }

    /// Reads events up to the one about `until`, or to the end of the stream.
    async fn drain(&mut self, watch: usize, until: &str) -> Result<Answer> {
        let mut events = Vec::new();
        if let Some(stream) = self.watches.get_mut(&watch) {
            let mut text = Vec::new();
            'stream: while let Some(chunk) =
                tokio::time::timeout(ANSWER_WAIT, stream.next()).await.unwrap_or_else(|_| {
                    events.push(json!("no event in time"));
                    None
                })
            {
                text.extend_from_slice(&chunk.context("reading a watch")?);
                while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = text.drain(..=end).collect();
                    let event = parsed(&line);
                    let last = event["object"]["metadata"]["name"] == until;
                    // Bookmarks come when a server likes, except the one that ends the initial events.
                    if event["type"] != "BOOKMARK" || event["object"]["metadata"]["annotations"].is_object() {
                        events.push(event);
                    }
                    if last {
                        break 'stream;
                    }
                }
            }
        }
        Ok(Answer { code: 0, headers: BTreeMap::new(), body: Value::Array(events) })
    }

    async fn wait(&self, condition: &Condition) -> Result<Answer> {
        let deadline = tokio::time::Instant::now() + CONDITION_WAIT;
        loop {
            if let Some(server) = &self.side.embedded {
                server.settle();
            }
            let path = match condition {
                Condition::Code(path, _) | Condition::Value(path, ..) => path,
            };
            let answer = self.send(&Request::new("GET", path.clone())).await?;
            let holds = match condition {
                Condition::Code(_, code) => answer.code == *code,
                Condition::Value(_, pointer, value) => answer.body.pointer(pointer) == Some(value),
            };
            if holds {
                return Ok(Answer { code: 0, headers: BTreeMap::new(), body: Value::Null });
            }
            if tokio::time::Instant::now() > deadline {
                bail!("{condition:?} did not become true; the last answer was {}", answer.body);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn edited(&self, step: usize, edits: &[Edit]) -> Value {
        let mut body = self.answers.get(step).map(|answer| answer.body.clone()).unwrap_or_default();
        for (pointer, value) in edits {
            let value = value.as_ref().map(|value| self.filled_value(value));
            edit(&mut body, pointer, value);
        }
        body
    }

    fn filled_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.filled(text)),
            Value::Array(items) => items.iter().map(|item| self.filled_value(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, field)| (name.clone(), self.filled_value(field))).collect()
            }
            other => other.clone(),
        }
    }

    /// Fills in the references of a text; a place that is not there becomes nothing.
    fn filled(&self, text: &str) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("$(") {
            result.push_str(before);
            let Some((reference, tail)) = after.split_once(')') else { break };
            let (step, pointer) = reference.find('/').map_or((reference, ""), |at| reference.split_at(at));
            let answer = step.parse::<usize>().ok().and_then(|step| self.answers.get(step));
            match answer.and_then(|answer| answer.body.pointer(pointer)) {
                Some(Value::String(value)) => result.push_str(value),
                Some(other) => result.push_str(&other.to_string()),
                None => {}
            }
            rest = tail;
        }
        result.push_str(rest);
        result
    }
}

fn head(response: &http::Response<ClientBody>) -> (u16, BTreeMap<String, Vec<String>>) {
    let mut headers = BTreeMap::new();
    for name in ["warning", "retry-after", "content-type", "allow"] {
        let values: Vec<String> = response
            .headers()
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok().map(str::to_owned))
            .collect();
        if !values.is_empty() {
            headers.insert(name.to_owned(), values);
        }
    }
    (response.status().as_u16(), headers)
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

/// YAML has many forms: what it says is compared.
fn from_yaml(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    serde_saphyr::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()))
}

/// Sets or removes the value at a JSON pointer; missing objects on the way are made.
pub(crate) fn edit(body: &mut Value, pointer: &str, value: Option<Value>) {
    let mut parts: Vec<String> =
        pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let Some(last) = parts.pop() else { return };
    let mut place = body;
    for part in parts {
        if place.is_null() {
            *place = json!({});
        }
        place = match place {
            Value::Array(items) => match part.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                Some(item) => item,
                None => return,
            },
            Value::Object(fields) => fields.entry(part).or_insert(Value::Null),
            _ => return,
        };
    }
    if place.is_null() && value.is_some() {
        *place = json!({});
    }
    match (place, value) {
        (Value::Object(fields), Some(value)) => {
            fields.insert(last, value);
        }
        (Value::Object(fields), None) => {
            fields.remove(&last);
        }
        (Value::Array(items), value) => {
            let index = last.parse::<usize>().unwrap_or(items.len());
            match value {
                Some(value) if index < items.len() => items[index] = value,
                Some(value) => items.push(value),
                None if index < items.len() => {
                    items.remove(index);
                }
                None => {}
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_set_make_and_remove_places() {
        let mut body = json!({"a": {"b": 1}, "list": [1, 2]});
        edit(&mut body, "/a/b", None);
        edit(&mut body, "/c/d", Some(json!(2)));
        edit(&mut body, "/list/0", None);
        edit(&mut body, "/list/-", Some(json!(3)));
        assert_eq!(body, json!({"a": {}, "c": {"d": 2}, "list": [2, 3]}));
    }
}
