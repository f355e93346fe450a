//! Answers without what no two servers share: uids, times, resource versions, generated names, allocated addresses.
//!
//! Each is replaced by what both servers must agree on: uids and generated names by their number in order of first
//! appearance, resource versions by their place in the order of those seen so far, times by `<time>`.

use serde_json::{Map, Value, json};

use crate::script::{Body, Step};
use crate::side::Answer;

/// What one server's answers of a script have shown so far.
#[derive(Debug, Default)]
pub(crate) struct Normalizer {
    uids: Vec<String>,
    generated: Vec<String>,
    /// Resource versions in the order of appearance.
    versions: Vec<u64>,
    /// The day on which the run takes place, as `2026-01-31`, and its neighbours.
    days: Vec<String>,
}

impl Normalizer {
    pub(crate) fn new(days: Vec<String>) -> Self {
        Self { days, ..Self::default() }
    }

    /// Returns what is compared of an answer.
    pub(crate) fn normalize(&mut self, step: &Step, answer: &Answer) -> Value {
        self.learn_generated(step, answer);
        // An answer to HEAD has no body; without a wire in between ours still carries it.
        let head = matches!(step, Step::Send(request) if request.method == "HEAD");
        let mut body = if head { Value::Null } else { self.value("", &answer.body) };
        tidy_status(&mut body);
        let mut headers = json!(answer.headers);
        headers = self.value("", &headers);
        json!({"code": answer.code, "headers": headers, "body": body})
    }

    fn learn_generated(&mut self, step: &Step, answer: &Answer) {
        let Step::Send(request) = step else { return };
        let Body::Json(body) = &request.body else { return };
        let base = body["metadata"]["generateName"].as_str().unwrap_or_default();
        let name = answer.body["metadata"]["name"].as_str().unwrap_or_default();
        let given = body["metadata"]["name"].as_str().unwrap_or_default();
        let refused = answer.body["details"]["name"].as_str().unwrap_or_default();
        let name = if answer.code == 201 { name } else { refused };
        if !base.is_empty() && given.is_empty() && name.len() > base.len() && name.starts_with(base) {
            self.generated.push(name.to_owned());
        }
    }

    fn value(&mut self, name: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(name, text)),
            Value::Array(items) if name == "managedFields" => self.managed_fields(items),
            Value::Array(items) if name == "clusterIPs" => items.iter().map(|_| json!("<ip>")).collect(),
            Value::Array(items) if name == "cells" => items.iter().map(|item| self.cell(item)).collect(),
            Value::Array(items) => items.iter().map(|item| self.value("", item)).collect(),
            Value::Object(fields) => self.object(fields),
            Value::Number(number) if matches!(name, "nodePort" | "healthCheckNodePort") => {
                if number.as_i64() == Some(0) { json!(0) } else { json!("<port>") }
            }
            other => other.clone(),
        }
    }

    /// A cell of a table; how many seconds old an object is depends on when the question comes.
    fn cell(&mut self, cell: &Value) -> Value {
        let seconds = cell.as_str().and_then(|text| text.strip_suffix('s'));
        if seconds.is_some_and(|digits| digits.parse::<u32>().is_ok()) {
            return json!("<age>");
        }
        self.value("", cell)
    }

    fn object(&mut self, fields: &Map<String, Value>) -> Value {
        let list = fields.contains_key("items")
            || fields.contains_key("rows")
            || fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
        let mut result = Map::new();
        for (name, value) in fields {
            let mut value = match name.as_str() {
                "metadata" if list => self.list_metadata(value),
                _ => self.value(name, value),
            };
            if name == "object" && list {
                value["metadata"]["resourceVersion"] = json!("<list version>");
            }
            result.insert(self.replaced(name), value);
        }
        Value::Object(result)
    }

    /// The version of a list moves with every write anywhere, so only its being recent is compared.
    fn list_metadata(&mut self, metadata: &Value) -> Value {
        let mut metadata = metadata.clone();
        if let Some(text) = metadata["resourceVersion"].as_str() {
            let version: u64 = text.parse().unwrap_or_default();
            let recent = self.versions.iter().all(|seen| *seen <= version);
            metadata["resourceVersion"] = json!(if recent { "<list version>" } else { "<old list version>" });
        }
        if metadata["continue"].as_str().is_some_and(|token| !token.is_empty()) {
            metadata["continue"] = json!("<continue>");
        }
        metadata
    }

    /// Entries are ordered by time, which two servers do not share.
    fn managed_fields(&mut self, items: &[Value]) -> Value {
        let mut items: Vec<Value> = items.iter().map(|item| self.value("", item)).collect();
        items.sort_by_key(|item| {
            ["operation", "manager", "subresource", "apiVersion"]
                .map(|name| item[name].as_str().unwrap_or_default().to_owned())
        });
        Value::Array(items)
    }

    fn text(&mut self, name: &str, text: &str) -> String {
        match name {
            "resourceVersion" if text.parse::<u64>().is_ok_and(|version| version > 0) => self.version(text),
            "clusterIP" if text.parse::<std::net::IpAddr>().is_ok() => "<ip>".to_owned(),
            "token" if text.len() > 100 => "<token>".to_owned(),
            _ => self.replaced(text),
        }
    }

    /// Names a version by when it was first seen and where it stood in the order then.
    fn version(&mut self, text: &str) -> String {
        let version: u64 = text.parse().unwrap_or_default();
        let index = self.versions.iter().position(|seen| *seen == version).unwrap_or_else(|| {
            self.versions.push(version);
            self.versions.len() - 1
        });
        let older = self.versions[..index].iter().filter(|seen| **seen < version).count();
        format!("<version {index} after {older}>")
    }

    fn replaced(&mut self, text: &str) -> String {
        let mut result = self.scanned(text);
        for (index, name) in self.generated.iter().enumerate() {
            result = result.replace(name, &format!("<generated {index}>"));
        }
        result = canonical_values(&result);
        for mark in [
            "object meta: ",
            "resource version: ",
            "resourceVersion:",
            "current: ",
            "in precondition: ",
            "in the precondition (",
            "in record (",
        ] {
            result = without_number(&result, mark);
        }
        result
    }

    /// Replaces the uids and times inside a text.
    fn scanned(&mut self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(uid) = rest.get(..36).filter(|part| is_uid(part)) {
                let index = self.uids.iter().position(|seen| seen == uid).unwrap_or_else(|| {
                    self.uids.push(uid.to_owned());
                    self.uids.len() - 1
                });
                result.extend(["<uid ", &index.to_string(), ">"]);
                rest = &rest[36..];
            } else if let Some(length) = self.time_length(rest) {
                result.push_str(if length > 20 { "<microtime>" } else { "<time>" });
                rest = &rest[length..];
            } else {
                result.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        result
    }

    /// The length of a time of these days at the start of a text.
    fn time_length(&self, text: &str) -> Option<usize> {
        let day = text.get(..10)?;
        if !self.days.iter().any(|known| known == day) || text.as_bytes().get(10) != Some(&b'T') {
            return None;
        }
        let end = text.find('Z')?;
        (19..=30).contains(&end).then_some(end + 1)
    }
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    })
}

/// Messages quote values: objects in an order of their own, patched objects as a whole.
fn canonical_values(text: &str) -> String {
    const MARK: &str = "Invalid value: ";
    let Some((before, after)) = text.split_once(MARK) else { return text.to_owned() };
    let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
    let Some(Ok(value)) = values.next() else {
        return format!("{before}{MARK}{}", canonical_values(after));
    };
    let rest = canonical_values(&after[values.byte_offset()..]);
    let patched = value.as_str().is_some_and(|text| text.starts_with("{\"")) && before.ends_with("patch: ")
        || value.as_str().is_some_and(|text| text.starts_with("{\"apiVersion") || text.starts_with("{\"a"));
    let shown = if patched { "<patched object>".to_owned() } else { value.to_string() };
    format!("{before}{MARK}{shown}{rest}")
}

/// Replaces the number that follows a mark.
fn without_number(text: &str, mark: &str) -> String {
    let Some((before, after)) = text.split_once(mark) else { return text.to_owned() };
    let rest = after.trim_start_matches(|character: char| character.is_ascii_digit());
    if rest.len() == after.len() {
        return text.to_owned();
    }
    format!("{before}{mark}<number>{}", without_number(rest, mark))
}

/// Which rule is checked first is nobody's business: causes are compared as a set, and the sentence that lists several
/// only by its beginning.
fn tidy_status(body: &mut Value) {
    if body["kind"] != "Status" {
        return;
    }
    let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) else { return };
    causes.sort_by_key(Value::to_string);
    causes.dedup();
    let several = causes.len() > 1;
    if let (true, Some(message)) = (several, body["message"].as_str())
        && let Some((start, _)) = message.split_once(" is invalid: ")
    {
        body["message"] = json!(format!("{start} is invalid: …"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::script::Request;

    fn normal(normalizer: &mut Normalizer, body: Value) -> Value {
        let answer = Answer { code: 200, headers: BTreeMap::new(), body };
        normalizer.normalize(&Step::Send(Request::new("GET", "/")), &answer)["body"].clone()
    }

    #[test]
    fn what_a_server_makes_up_is_numbered() {
        let mut normalizer = Normalizer::new(vec!["2026-01-31".into()]);
        let uid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let object = |version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version, "creationTimestamp": "2026-01-31T10:00:00Z"}});
        let first = normal(&mut normalizer, object("20"));
        assert_eq!(first["metadata"]["uid"], "<uid 0>");
        assert_eq!(first["metadata"]["resourceVersion"], "<version 0 after 0>");
        assert_eq!(first["metadata"]["creationTimestamp"], "<time>");
        assert_eq!(
            normal(&mut normalizer, object("30"))["metadata"]["resourceVersion"],
            "<version 1 after 1>"
        );
        assert_eq!(
            normal(&mut normalizer, object("5"))["metadata"]["resourceVersion"],
            "<version 2 after 0>"
        );
        let message = json!({"message": format!("UID in object meta: {uid}, at 2020-01-01T00:00:00Z")});
        assert_eq!(
            normal(&mut normalizer, message)["message"],
            "UID in object meta: <uid 0>, at 2020-01-01T00:00:00Z"
        );
    }
}
