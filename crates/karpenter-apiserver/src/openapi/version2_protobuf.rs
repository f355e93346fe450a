//! OpenAPI version 2 in the protobuf form that client-go reads (the messages of gnostic's `openapi.v2`).
//!
//! The tables below are those messages as far as documents of this server use them: a JSON field, its number, and how
//! it is written.

use serde_json::Value;

/// How a field is written.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Boolean,
    Integer,
    Number,
    /// Every text of a list.
    Texts,
    /// Any value, as YAML text; JSON is YAML.
    Any,
    /// Every value of a list, so.
    Anys,
    Message(&'static Message),
    /// One message with this field number for every entry: name in field 1, value in field 2.
    Named(u32, &'static Message),
    /// Messages inside messages: this field of that field.
    Inside(u32, &'static Form),
}

/// The fields of a message; what the table does not name and starts with `x-` is an extension.
struct Message {
    fields: &'static [(&'static str, u32, Form)],
    /// The number of `vendor_extension`, zero when there are none.
    extensions: u32,
}

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Form::Text),
        ("format", 2, Form::Text),
        ("title", 3, Form::Text),
        ("description", 4, Form::Text),
        ("default", 5, Form::Any),
        ("multipleOf", 6, Form::Number),
        ("maximum", 7, Form::Number),
        ("exclusiveMaximum", 8, Form::Boolean),
        ("minimum", 9, Form::Number),
        ("exclusiveMinimum", 10, Form::Boolean),
        ("maxLength", 11, Form::Integer),
        ("minLength", 12, Form::Integer),
        ("pattern", 13, Form::Text),
        ("maxItems", 14, Form::Integer),
        ("minItems", 15, Form::Integer),
        ("uniqueItems", 16, Form::Boolean),
        ("maxProperties", 17, Form::Integer),
        ("minProperties", 18, Form::Integer),
        ("required", 19, Form::Texts),
        ("enum", 20, Form::Anys),
        ("additionalProperties", 21, Form::Inside(1, &Form::Message(&SCHEMA))),
        ("type", 22, Form::Inside(1, &Form::Text)),
        ("items", 23, Form::Inside(1, &Form::Message(&SCHEMA))),
        ("properties", 25, Form::Named(1, &SCHEMA)),
    ],
    extensions: 31,
};
static INFO: Message =
    Message { fields: &[("title", 1, Form::Text), ("version", 2, Form::Text)], extensions: 7 };
static RESPONSE: Message = Message {
    fields: &[("description", 1, Form::Text), ("schema", 2, Form::Inside(1, &Form::Message(&SCHEMA)))],
    extensions: 5,
};
static RESPONSE_VALUE: Message =
    Message { fields: &[("response", 1, Form::Message(&RESPONSE))], extensions: 0 };
static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("required", 4, Form::Boolean),
        ("schema", 5, Form::Message(&SCHEMA)),
    ],
    extensions: 6,
};
static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Form::Boolean),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 6, Form::Text),
        ("uniqueItems", 20, Form::Boolean),
    ],
    extensions: 23,
};
static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Form::Boolean),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 5, Form::Text),
        ("uniqueItems", 19, Form::Boolean),
    ],
    extensions: 22,
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Form::Texts),
        ("description", 3, Form::Text),
        ("operationId", 5, Form::Text),
        ("produces", 6, Form::Texts),
        ("consumes", 7, Form::Texts),
    ],
    extensions: 13,
};

/// Encodes a document of version 2.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    text(&mut bytes, 1, document["swagger"].as_str().unwrap_or_default());
    delimited(&mut bytes, 2, &message(&document["info"], &INFO));
    let mut paths = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        delimited(&mut paths, 2, &named(path, &path_item(item)));
    }
    delimited(&mut bytes, 8, &paths);
    put(&mut bytes, 9, &document["definitions"], Form::Named(1, &SCHEMA));
    bytes
}

fn path_item(item: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (method, number) in [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)] {
        if item[method].is_object() {
            delimited(&mut bytes, number, &operation(&item[method]));
        }
    }
    for parameter in item["parameters"].as_array().into_iter().flatten() {
        delimited(&mut bytes, 9, &parameters_item(parameter));
    }
    bytes
}

fn operation(operation: &Value) -> Vec<u8> {
    let mut bytes = message(operation, &OPERATION);
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        delimited(&mut bytes, 8, &parameters_item(parameter));
    }
    let mut responses = Vec::new();
    for (code, response) in operation["responses"].as_object().into_iter().flatten() {
        let value = message(&serde_json::json!({"response": response}), &RESPONSE_VALUE);
        delimited(&mut responses, 1, &named(code, &value));
    }
    delimited(&mut bytes, 9, &responses);
    bytes
}

/// A parameter inside the two unions that surround it.
fn parameters_item(parameter: &Value) -> Vec<u8> {
    let wrapped = |number, content: &[u8]| {
        let mut bytes = Vec::new();
        delimited(&mut bytes, number, content);
        bytes
    };
    let parameter = match parameter["in"].as_str() {
        Some("body") => wrapped(1, &message(parameter, &BODY_PARAMETER)),
        Some("path") => wrapped(2, &wrapped(4, &message(parameter, &PATH_PARAMETER))),
        _ => wrapped(2, &wrapped(3, &message(parameter, &QUERY_PARAMETER))),
    };
    wrapped(1, &parameter)
}

fn message(value: &Value, message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, field) in value.as_object().into_iter().flatten() {
        if let Some((_, number, form)) = message.fields.iter().find(|(known, ..)| known == name) {
            put(&mut bytes, *number, field, *form);
        } else if name.starts_with("x-") && message.extensions != 0 {
            delimited(&mut bytes, message.extensions, &named(name, &any(field)));
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, number: u32, value: &Value, form: Form) {
    let items = || value.as_array().into_iter().flatten();
    match form {
        Form::Text => text(bytes, number, value.as_str().unwrap_or_default()),
        Form::Texts => items().for_each(|item| put(bytes, number, item, Form::Text)),
        Form::Boolean => {
            varint(bytes, u64::from(number) << 3);
            varint(bytes, u64::from(value == true));
        }
        Form::Integer => {
            varint(bytes, u64::from(number) << 3);
            varint(bytes, value.as_i64().unwrap_or_default() as u64);
        }
        Form::Number => {
            varint(bytes, u64::from(number) << 3 | 1);
            bytes.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Form::Any => delimited(bytes, number, &any(value)),
        Form::Anys => items().for_each(|item| put(bytes, number, item, Form::Any)),
        Form::Message(table) => delimited(bytes, number, &message(value, table)),
        Form::Named(inner, table) => {
            let mut entries = Vec::new();
            for (name, value) in value.as_object().into_iter().flatten() {
                delimited(&mut entries, inner, &named(name, &message(value, table)));
            }
            delimited(bytes, number, &entries);
        }
        Form::Inside(inner, form) => {
            let mut content = Vec::new();
            match value {
                // `additionalProperties: true` is the second choice of its union.
                Value::Bool(_) => put(&mut content, 2, value, Form::Boolean),
                value => put(&mut content, inner, value, *form),
            }
            delimited(bytes, number, &content);
        }
    }
}

fn any(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    text(&mut bytes, 2, &value.to_string());
    bytes
}

fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    text(&mut bytes, 1, name);
    delimited(&mut bytes, 2, value);
    bytes
}

fn text(bytes: &mut Vec<u8>, number: u32, text: &str) {
    delimited(bytes, number, text.as_bytes());
}

fn delimited(bytes: &mut Vec<u8>, number: u32, content: &[u8]) {
    varint(bytes, u64::from(number) << 3 | 2);
    varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_small_document_has_the_bytes_gnostic_reads() {
        let document = json!({
            "swagger": "2.0", "info": {"title": "t", "version": "v"}, "paths": {},
            "definitions": {"A": {"type": "object", "x-kind": [1]}},
        });
        let expected: &[&[u8]] = &[
            b"\x0a\x032.0",
            b"\x12\x06\x0a\x01t\x12\x01v",
            b"\x42\x00",
            b"\x4a\x24\x0a\x22\x0a\x01A\x12\x1d",
            b"\xb2\x01\x08\x0a\x06object",
            b"\xfa\x01\x0f\x0a\x06x-kind\x12\x05\x12\x03[1]",
        ];
        assert_eq!(encode(&document), expected.concat());
    }
}
