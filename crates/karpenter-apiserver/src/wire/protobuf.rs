//! Kubernetes' protobuf bodies, for the few kinds that clients send that way on their own accord.
//!
//! kubectl sends protobuf where it uses typed clients: `create namespace`, `create configmap`, `auth can-i`, the
//! evictions of `drain`. Answers are always JSON, which those clients accept. Other kinds get 415.
//!
//! A body is the four bytes `k8s\0` and a `runtime.Unknown` message: type in field 1, the object in field 2.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// How a field is written.
enum Kind {
    Text,
    Integer,
    Boolean,
    Time,
    Bytes,
    Message(&'static Message),
    Texts,
    Messages(&'static Message),
    TextMap,
    BytesMap,
}

/// The known fields of a message: number, name and kind.
struct Message(&'static [(u32, &'static str, Kind)]);

static OWNER: Message = Message(&[
    (1, "kind", Kind::Text),
    (3, "name", Kind::Text),
    (4, "uid", Kind::Text),
    (5, "apiVersion", Kind::Text),
    (6, "controller", Kind::Boolean),
    (7, "blockOwnerDeletion", Kind::Boolean),
]);
static METADATA: Message = Message(&[
    (1, "name", Kind::Text),
    (2, "generateName", Kind::Text),
    (3, "namespace", Kind::Text),
    (5, "uid", Kind::Text),
    (6, "resourceVersion", Kind::Text),
    (7, "generation", Kind::Integer),
    (8, "creationTimestamp", Kind::Time),
    (9, "deletionTimestamp", Kind::Time),
    (10, "deletionGracePeriodSeconds", Kind::Integer),
    (11, "labels", Kind::TextMap),
    (12, "annotations", Kind::TextMap),
    (13, "ownerReferences", Kind::Messages(&OWNER)),
    (14, "finalizers", Kind::Texts),
]);
static PRECONDITIONS: Message = Message(&[(1, "uid", Kind::Text), (2, "resourceVersion", Kind::Text)]);
static DELETE_OPTIONS: Message = Message(&[
    (1, "gracePeriodSeconds", Kind::Integer),
    (2, "preconditions", Kind::Message(&PRECONDITIONS)),
    (3, "orphanDependents", Kind::Boolean),
    (4, "propagationPolicy", Kind::Text),
    (5, "dryRun", Kind::Texts),
]);
static EVICTION: Message = Message(&[
    (1, "metadata", Kind::Message(&METADATA)),
    (2, "deleteOptions", Kind::Message(&DELETE_OPTIONS)),
]);
static NAMESPACE_SPEC: Message = Message(&[(1, "finalizers", Kind::Texts)]);
static NAMESPACE: Message =
    Message(&[(1, "metadata", Kind::Message(&METADATA)), (2, "spec", Kind::Message(&NAMESPACE_SPEC))]);
static CONFIG_MAP: Message = Message(&[
    (1, "metadata", Kind::Message(&METADATA)),
    (2, "data", Kind::TextMap),
    (3, "binaryData", Kind::BytesMap),
    (4, "immutable", Kind::Boolean),
]);
static SECRET: Message = Message(&[
    (1, "metadata", Kind::Message(&METADATA)),
    (2, "data", Kind::BytesMap),
    (3, "type", Kind::Text),
    (4, "stringData", Kind::TextMap),
    (5, "immutable", Kind::Boolean),
]);
static METADATA_ONLY: Message = Message(&[(1, "metadata", Kind::Message(&METADATA))]);
static RESOURCE_ATTRIBUTES: Message = Message(&[
    (1, "namespace", Kind::Text),
    (2, "verb", Kind::Text),
    (3, "group", Kind::Text),
    (4, "version", Kind::Text),
    (5, "resource", Kind::Text),
    (6, "subresource", Kind::Text),
    (7, "name", Kind::Text),
]);
static PATH_ATTRIBUTES: Message = Message(&[(1, "path", Kind::Text), (2, "verb", Kind::Text)]);
static ACCESS_SPEC: Message = Message(&[
    (1, "resourceAttributes", Kind::Message(&RESOURCE_ATTRIBUTES)),
    (2, "nonResourceAttributes", Kind::Message(&PATH_ATTRIBUTES)),
]);
static ACCESS_REVIEW: Message =
    Message(&[(1, "metadata", Kind::Message(&METADATA)), (2, "spec", Kind::Message(&ACCESS_SPEC))]);
static RULES_SPEC: Message = Message(&[(1, "namespace", Kind::Text)]);
static RULES_REVIEW: Message =
    Message(&[(1, "metadata", Kind::Message(&METADATA)), (2, "spec", Kind::Message(&RULES_SPEC))]);
static TYPE: Message = Message(&[(1, "apiVersion", Kind::Text), (2, "kind", Kind::Text)]);
static ENVELOPE: Message = Message(&[(1, "type", Kind::Message(&TYPE)), (2, "raw", Kind::Bytes)]);

fn message(api_version: &str, kind: &str) -> Option<&'static Message> {
    Some(match (api_version, kind) {
        ("v1", "Namespace") => &NAMESPACE,
        ("v1", "ConfigMap") => &CONFIG_MAP,
        ("v1", "Secret") => &SECRET,
        ("policy/v1", "Eviction") => &EVICTION,
        (_, "DeleteOptions") => &DELETE_OPTIONS,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => &ACCESS_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => &RULES_REVIEW,
        // Their other fields are rarely set; when they are, decoding fails rather than dropping them.
        ("v1", "ServiceAccount") | ("authentication.k8s.io/v1", "SelfSubjectReview") => &METADATA_ONLY,
        _ => return None,
    })
}

/// Decodes a body into the JSON form of its object; `None` when it is malformed or of a kind not known here.
pub(super) fn decode(body: &[u8]) -> Option<Value> {
    let envelope = read(body.strip_prefix(MAGIC)?, &ENVELOPE)?;
    let text = |name: &str| envelope["type"][name].as_str().unwrap_or_default();
    let raw = STANDARD.decode(envelope["raw"].as_str().unwrap_or_default()).ok()?;
    let mut object = read(&raw, message(text("apiVersion"), text("kind"))?)?;
    object["apiVersion"] = text("apiVersion").into();
    object["kind"] = text("kind").into();
    Some(object)
}

/// A field's payload on the wire.
enum Payload<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

fn read(mut bytes: &[u8], message: &Message) -> Option<Value> {
    let mut object = Map::new();
    while !bytes.is_empty() {
        let (number, payload) = field(&mut bytes)?;
        let known = message.0.iter().find(|(known, ..)| *known == number);
        match known {
            Some((_, name, kind)) => put(&mut object, name, kind, payload)?,
            // A message that a writer leaves empty (`status: {}`) says nothing.
            None if is_blank(&payload) => {}
            None => return None,
        }
    }
    Some(Value::Object(object))
}

/// Whether an unknown field is zero, or a message of empty texts, zeros and such messages.
fn is_blank(payload: &Payload<'_>) -> bool {
    let mut bytes = match payload {
        Payload::Number(number) => return *number == 0,
        Payload::Bytes(bytes) => *bytes,
    };
    while !bytes.is_empty() {
        match field(&mut bytes) {
            Some((_, payload)) if is_blank(&payload) => {}
            _ => return false,
        }
    }
    true
}

fn put(object: &mut Map<String, Value>, name: &str, kind: &Kind, payload: Payload<'_>) -> Option<()> {
    let value = match (kind, payload) {
        (Kind::Integer, Payload::Number(number)) => json!(number as i64),
        (Kind::Boolean, Payload::Number(number)) => json!(number != 0),
        (Kind::Text, Payload::Bytes(bytes)) => json!(std::str::from_utf8(bytes).ok()?),
        (Kind::Bytes, Payload::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        (Kind::Time, Payload::Bytes(bytes)) => time(bytes)?,
        (Kind::Message(message), Payload::Bytes(bytes)) => read(bytes, message)?,
        (Kind::Texts, Payload::Bytes(bytes)) => {
            return append(object, name, json!(std::str::from_utf8(bytes).ok()?));
        }
        (Kind::Messages(message), Payload::Bytes(bytes)) => {
            return append(object, name, read(bytes, message)?);
        }
        (Kind::TextMap | Kind::BytesMap, Payload::Bytes(bytes)) => {
            let (key, value) = entry(bytes, matches!(kind, Kind::BytesMap))?;
            let map = object.entry(name).or_insert_with(|| json!({}));
            map[key] = value;
            return Some(());
        }
        _ => return None,
    };
    // Writers emit empty texts for absent ones, and null times.
    if value != json!("") && !value.is_null() {
        object.insert(name.to_owned(), value);
    }
    Some(())
}

fn append(object: &mut Map<String, Value>, name: &str, item: Value) -> Option<()> {
    object.entry(name).or_insert_with(|| json!([])).as_array_mut()?.push(item);
    Some(())
}

fn entry(mut bytes: &[u8], encoded: bool) -> Option<(String, Value)> {
    let (mut key, mut value) = (String::new(), json!(""));
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Payload::Bytes(bytes)) => std::str::from_utf8(bytes).ok()?.clone_into(&mut key),
            (2, Payload::Bytes(bytes)) if encoded => value = json!(STANDARD.encode(bytes)),
            (2, Payload::Bytes(bytes)) => value = json!(std::str::from_utf8(bytes).ok()?),
            _ => return None,
        }
    }
    Some((key, value))
}

fn time(mut bytes: &[u8]) -> Option<Value> {
    let mut seconds = 0;
    while !bytes.is_empty() {
        if let (1, Payload::Number(number)) = field(&mut bytes)? {
            seconds = number as i64;
        }
    }
    if seconds == 0 {
        return Some(Value::Null);
    }
    Some(karpenter_environment::format_time(Timestamp::from_second(seconds).ok()?).into())
}

fn field<'b>(bytes: &mut &'b [u8]) -> Option<(u32, Payload<'b>)> {
    let tag = varint(bytes)?;
    let number = u32::try_from(tag >> 3).ok()?;
    match tag & 7 {
        0 => Some((number, Payload::Number(varint(bytes)?))),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            let (payload, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Some((number, Payload::Bytes(payload)))
        }
        _ => None,
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delimited(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![(number << 3) | 2, u8::try_from(bytes.len()).unwrap()];
        field.extend_from_slice(bytes);
        field
    }

    fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
        let kind = [delimited(1, api_version.as_bytes()), delimited(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), delimited(1, &kind), delimited(2, object)].concat()
    }

    #[test]
    fn a_namespace_as_kubectl_sends_it() {
        let metadata = [delimited(1, b"demo"), delimited(2, b""), delimited(8, b"")].concat();
        let labels = delimited(11, &[delimited(1, b"a"), delimited(2, b"b")].concat());
        let metadata = [metadata, labels].concat();
        let object = [delimited(1, &metadata), delimited(2, b""), delimited(3, &delimited(1, b""))].concat();
        assert_eq!(
            decode(&body("v1", "Namespace", &object)),
            Some(json!({
                "apiVersion": "v1", "kind": "Namespace", "spec": {},
                "metadata": {"name": "demo", "labels": {"a": "b"}},
            }))
        );
    }

    #[test]
    fn an_empty_status_below_an_empty_message_is_no_surprise() {
        let status = delimited(1, &[delimited(1, b""), delimited(2, b"")].concat());
        let object = [delimited(1, b""), delimited(2, &status)].concat();
        assert!(decode(&body("authentication.k8s.io/v1", "SelfSubjectReview", &object)).is_some());
    }

    #[test]
    fn malformed_and_unknown_bodies_are_refused() {
        assert_eq!(decode(b"{}"), None);
        assert_eq!(decode(b"k8s\0\xff\xff\xff"), None);
        assert_eq!(decode(&body("v1", "Pod", b"")), None);
        let surprising = delimited(9, b"value");
        assert_eq!(decode(&body("v1", "Namespace", &surprising)), None);
    }
}
