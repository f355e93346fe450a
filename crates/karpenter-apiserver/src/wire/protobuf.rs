//! Kubernetes' protobuf bodies, which client-go and kubectl send for built-in kinds.
//!
//! A body is the four bytes `k8s\0` and a `runtime.Unknown` message: type in field 1, the object in field 2. The field
//! numbers of all kinds come from the table in `schema::facts`. Answers are always JSON, which those clients accept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use karpenter_environment::format_time;
use serde_json::{Map, Value, json};

use crate::schema::facts::{Facts, Field, FieldType, Type};

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const MAGIC: &[u8] = b"k8s\0";
/// Schemas of CRDs nest; nothing else comes close.
const DEPTH_MAX: usize = 100;

/// Decodes a body into the JSON form of its object; `None` when it is malformed or of an unknown kind.
pub(super) fn decode(body: &[u8]) -> Option<Value> {
    let (mut kind, mut raw): (&[u8], &[u8]) = (&[], &[]);
    let mut rest = body.strip_prefix(MAGIC)?;
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, Payload::Bytes(bytes)) => kind = bytes,
            (2, Payload::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (mut api_version, mut name) = ("", "");
    while !kind.is_empty() {
        match field(&mut kind)? {
            (1, Payload::Bytes(bytes)) => api_version = std::str::from_utf8(bytes).ok()?,
            (2, Payload::Bytes(bytes)) => name = std::str::from_utf8(bytes).ok()?,
            _ => {}
        }
    }
    let facts = Facts::get();
    let message = match name {
        // Options are registered in every group.
        "DeleteOptions" => facts.named("meta.v1.DeleteOptions"),
        _ => facts.kind(api_version, name),
    };
    let mut object = Map::new();
    read(raw, message?, &mut object, DEPTH_MAX)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), name.into());
    Some(Value::Object(object))
}

/// A field's payload on the wire.
#[derive(Clone, Copy)]
enum Payload<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    Double(f64),
}

/// Reads a message into an object. Fields that are not known are dropped, as Kubernetes drops them.
fn read(mut bytes: &[u8], message: &Type, object: &mut Map<String, Value>, depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    while !bytes.is_empty() {
        let (number, payload) = field(&mut bytes)?;
        let Some(known) = message.fields.iter().find(|known| known.number == number) else { continue };
        if known.name.is_empty() {
            embedded(known, payload, object, depth)?;
        } else {
            put(known, payload, object, depth)?;
        }
    }
    Some(())
}

/// Reads a struct whose fields are those of the object itself.
fn embedded(
    known: &Field,
    payload: Payload<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Option<()> {
    match (&known.kind, payload) {
        (FieldType::Named(name), Payload::Bytes(bytes)) => {
            read(bytes, Facts::get().named(name)?, object, depth)
        }
        _ => None,
    }
}

fn put(known: &Field, payload: Payload<'_>, object: &mut Map<String, Value>, depth: usize) -> Option<()> {
    match &known.kind {
        FieldType::List(items) => {
            let list = object.entry(known.name).or_insert_with(|| json!([])).as_array_mut()?;
            match (&**items, payload) {
                (FieldType::Integer, Payload::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        list.push(json!(varint(&mut packed)? as i64));
                    }
                }
                (items, payload) => list.push(value(items, payload, depth)?),
            }
        }
        FieldType::Map(values) => {
            let (key, value) = entry(values, payload, depth)?;
            object.entry(known.name).or_insert_with(|| json!({}))[key] = value;
        }
        FieldType::Pointer(inner) => {
            object.insert(known.name.into(), value(inner, payload, depth)?);
        }
        kind => {
            // Go writes values that are not pointers even when they are empty; its JSON leaves those out.
            let value = value(kind, payload, depth)?;
            let empty = match &value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Number(number) => number.as_f64() == Some(0.0),
                Value::Bool(value) => !value,
                _ => false,
            };
            if !(empty && (known.omits_empty || value.is_null())) {
                object.insert(known.name.into(), value);
            }
        }
    }
    Some(())
}

fn entry(values: &FieldType, payload: Payload<'_>, depth: usize) -> Option<(String, Value)> {
    let Payload::Bytes(mut bytes) = payload else { return None };
    let (mut key, mut content) = (String::new(), None);
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Payload::Bytes(bytes)) => std::str::from_utf8(bytes).ok()?.clone_into(&mut key),
            (2, payload) => content = Some(value(values, payload, depth)?),
            _ => {}
        }
    }
    let empty = || match values {
        FieldType::Text | FieldType::Special("bytes") => json!(""),
        FieldType::List(_) => json!([]),
        FieldType::Boolean => json!(false),
        FieldType::Integer => json!(0),
        _ => json!({}),
    };
    Some((key, content.unwrap_or_else(empty)))
}

fn value(kind: &FieldType, payload: Payload<'_>, depth: usize) -> Option<Value> {
    Some(match (kind, payload) {
        (FieldType::Pointer(inner), payload) => value(inner, payload, depth)?,
        (FieldType::Integer, Payload::Number(number)) => json!(number as i64),
        (FieldType::Boolean, Payload::Number(number)) => json!(number != 0),
        (FieldType::Float, Payload::Double(number)) => json!(number),
        (FieldType::Text, Payload::Bytes(bytes)) => json!(std::str::from_utf8(bytes).ok()?),
        (FieldType::Named(name), Payload::Bytes(bytes)) => message(bytes, name, depth)?,
        // A list inside a map is a message with the items as its first field.
        (FieldType::List(items), Payload::Bytes(bytes)) => list(bytes, 1, items, depth)?,
        (FieldType::Special(name), Payload::Bytes(bytes)) => special(name, bytes, depth)?,
        _ => return None,
    })
}

fn message(bytes: &[u8], name: &str, depth: usize) -> Option<Value> {
    let mut object = Map::new();
    read(bytes, Facts::get().named(name)?, &mut object, depth)?;
    Some(Value::Object(object))
}

const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// Reads a type whose JSON form is not that of its message.
fn special(name: &str, bytes: &[u8], depth: usize) -> Option<Value> {
    let first = |number| members(bytes, number).map(|members| members.first().copied());
    let text = |number| match first(number)? {
        Some(Payload::Bytes(bytes)) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        _ => Some(String::new()),
    };
    let number = |number| match first(number)? {
        Some(Payload::Number(number)) => Some(number as i64),
        _ => Some(0),
    };
    Some(match name {
        "bytes" => json!(STANDARD.encode(bytes)),
        "quantity" => json!(text(1)?),
        "intstr" if number(1)? == 0 => json!(number(2)? as i32),
        "intstr" => json!(text(3)?),
        "time" | "microtime" => time(number(1)?, number(2)?, name == "microtime")?,
        "fields" | "raw" | "json" => match first(1)? {
            Some(Payload::Bytes(raw)) if raw.starts_with(MAGIC) => decode(raw)?,
            Some(Payload::Bytes(raw)) if !raw.is_empty() => serde_json::from_slice(raw).ok()?,
            _ => Value::Null,
        },
        "propsorbool" | "propsorarray" | "propsorstrings" => {
            let schema = first(if name == "propsorbool" { 2 } else { 1 })?;
            match (schema, name) {
                (Some(Payload::Bytes(bytes)), _) => message(bytes, SCHEMA, depth)?,
                (_, "propsorbool") => json!(number(1)? != 0),
                (_, "propsorarray") => list(bytes, 2, &FieldType::Named(SCHEMA), depth)?,
                _ => list(bytes, 2, &FieldType::Text, depth)?,
            }
        }
        _ => return None,
    })
}

/// Reads all fields with a number as a list.
fn list(bytes: &[u8], number: u32, items: &FieldType, depth: usize) -> Option<Value> {
    let items = members(bytes, number)?.into_iter().map(|payload| value(items, payload, depth));
    items.collect::<Option<Vec<_>>>().map(Value::Array)
}

/// Returns the payloads of all fields with a number.
fn members(mut bytes: &[u8], number: u32) -> Option<Vec<Payload<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (other, payload) = field(&mut bytes)?;
        if other == number {
            found.push(payload);
        }
    }
    Some(found)
}

fn time(seconds: i64, nanoseconds: i64, micro: bool) -> Option<Value> {
    // Go's zero time is in the year 1; an empty message is a time that is not set.
    if seconds <= 0 && nanoseconds == 0 {
        return Some(Value::Null);
    }
    let time = Timestamp::new(seconds, i32::try_from(nanoseconds).ok()?).ok()?;
    Some(if micro { time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string() } else { format_time(time) }.into())
}

fn field<'b>(bytes: &mut &'b [u8]) -> Option<(u32, Payload<'b>)> {
    let tag = varint(bytes)?;
    let number = u32::try_from(tag >> 3).ok()?;
    match tag & 7 {
        0 => Some((number, Payload::Number(varint(bytes)?))),
        1 => {
            let (payload, rest) = bytes.split_first_chunk::<8>()?;
            *bytes = rest;
            Some((number, Payload::Double(f64::from_le_bytes(*payload))))
        }
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
                "apiVersion": "v1", "kind": "Namespace", "spec": {}, "status": {},
                "metadata": {"name": "demo", "labels": {"a": "b"}},
            }))
        );
    }

    #[test]
    fn a_pod_with_embedded_structs_quantities_and_ports() {
        let quantity = delimited(1, b"100m");
        let request = delimited(2, &[delimited(1, b"cpu"), delimited(2, &quantity)].concat());
        let port = [vec![0x18, 80], delimited(4, b"TCP")].concat();
        let probe_port = [vec![0x08, 1], delimited(3, b"http")].concat();
        let probe = delimited(1, &delimited(2, &delimited(2, &probe_port)));
        let container =
            [delimited(1, b"main"), delimited(6, &port), delimited(8, &request), delimited(10, &probe)]
                .concat();
        let volume = [delimited(1, b"v"), delimited(2, &delimited(2, b""))].concat();
        let spec = [delimited(1, &volume), delimited(2, &container), vec![0x20, 0]].concat();
        let decoded = decode(&body("v1", "Pod", &delimited(2, &spec))).unwrap();
        assert_eq!(
            decoded["spec"],
            json!({
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{
                    "name": "main", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"port": "http"}},
                }],
                "terminationGracePeriodSeconds": 0,
            })
        );
    }

    #[test]
    fn malformed_bodies_and_unknown_kinds_are_refused_and_unknown_fields_dropped() {
        assert_eq!(decode(b"{}"), None);
        assert_eq!(decode(b"k8s\0\xff\xff\xff"), None);
        assert_eq!(decode(&body("v1", "Thing", b"")), None);
        let surprising = decode(&body("v1", "Namespace", &delimited(15, b"value")));
        assert_eq!(surprising, Some(json!({"apiVersion": "v1", "kind": "Namespace"})));
    }
}
