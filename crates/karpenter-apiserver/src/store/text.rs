//! The JSON text of an object, less the parts it shares with others.
//!
//! A third of a pod's text is the list of fields its managers own (`fieldsV1`), the same for every pod of a workload.
//! Those parts are cut out, kept once ([`super::pool`]) and put back when the text is written.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

/// Shorter parts cost more to share than to repeat.
const SHARED_MIN: usize = 64;

/// A text with holes, and what belongs into them.
#[derive(Debug)]
pub(super) struct Text {
    own: Box<str>,
    /// How many bytes `{"kind":…,"apiVersion":…,` take, so that lists can leave them out.
    header: u16,
    /// Where in `own` a part belongs.
    parts: Box<[(u32, Arc<str>)]>,
}

/// A text whose parts are not shared yet.
#[derive(Debug, Default)]
pub(super) struct Draft {
    own: String,
    header: u16,
    pub(super) parts: Vec<(u32, String)>,
}

impl Draft {
    /// Writes an object in the order Kubernetes does: `kind`, `apiVersion`, `metadata`, then the other fields.
    pub(super) fn new(value: &Value) -> Self {
        let mut draft = Self { own: String::with_capacity(1024), ..Self::default() };
        draft.put(format_args!("{{\"kind\":{},\"apiVersion\":{},", value["kind"], value["apiVersion"]));
        draft.header = u16::try_from(draft.own.len()).expect("kind and apiVersion are short names");
        draft.own.push_str("\"metadata\":");
        match value["metadata"].as_object() {
            Some(metadata) => draft.put_metadata(metadata),
            None => draft.put(format_args!("{}", value["metadata"])),
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
                draft.put(format_args!(",{}:{field}", Value::String(name.clone())));
            }
        }
        draft.own.push('}');
        draft
    }

    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.own.write_fmt(arguments).expect("writing to a string never fails");
    }

    fn put_metadata(&mut self, metadata: &Map<String, Value>) {
        self.put_object(metadata, |draft, name, value| match (name, value) {
            ("managedFields", Value::Array(entries)) => {
                draft.own.push('[');
                for (index, entry) in entries.iter().enumerate() {
                    if index > 0 {
                        draft.own.push(',');
                    }
                    match entry.as_object() {
                        Some(entry) => draft.put_object(entry, Self::put_manager_field),
                        None => draft.put(format_args!("{entry}")),
                    }
                }
                draft.own.push(']');
            }
            _ => draft.put(format_args!("{value}")),
        });
    }

    fn put_manager_field(&mut self, name: &str, value: &Value) {
        let text = value.to_string();
        if name == "fieldsV1" && text.len() >= SHARED_MIN {
            let place = u32::try_from(self.own.len()).expect("objects are far smaller than 4 GiB");
            self.parts.push((place, text));
        } else {
            self.own.push_str(&text);
        }
    }

    fn put_object(&mut self, object: &Map<String, Value>, put: impl Fn(&mut Self, &str, &Value)) {
        self.own.push('{');
        for (index, (name, value)) in object.iter().enumerate() {
            if index > 0 {
                self.own.push(',');
            }
            self.put(format_args!("{}:", Value::String(name.clone())));
            put(self, name, value);
        }
        self.own.push('}');
    }

    /// Finishes the text with its parts, given in their order.
    pub(super) fn finish(self, parts: impl IntoIterator<Item = Arc<str>>) -> Text {
        let places = self.parts.into_iter().map(|(place, _)| place);
        Text { own: self.own.into(), header: self.header, parts: places.zip(parts).collect() }
    }
}

impl Text {
    /// How many bytes the whole text has.
    pub(super) fn len(&self) -> usize {
        self.own.len() + self.parts.iter().map(|(_, part)| part.len()).sum::<usize>()
    }

    /// Appends the text from its byte `start` on, which is not behind the first part.
    fn write_from(&self, start: usize, output: &mut Vec<u8>) {
        let mut written = start;
        for (place, part) in &self.parts {
            let place = *place as usize;
            output.extend_from_slice(&self.own.as_bytes()[written..place]);
            output.extend_from_slice(part.as_bytes());
            written = place;
        }
        output.extend_from_slice(&self.own.as_bytes()[written..]);
    }

    /// Appends the whole text.
    pub(super) fn write(&self, output: &mut Vec<u8>) {
        self.write_from(0, output);
    }

    /// Appends the text without `kind` and `apiVersion`.
    pub(super) fn write_item(&self, output: &mut Vec<u8>) {
        output.push(b'{');
        self.write_from(usize::from(self.header), output);
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.len());
        self.write(&mut bytes);
        Bytes::from(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_come_back_where_they_were() {
        let fields = json!({"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}}}}});
        let entry = |manager: &str| json!({"manager": manager, "fieldsV1": fields, "time": "now"});
        let object = json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "a", "managedFields": [entry("one"), entry("two"), {"fieldsV1": {}}]},
            "spec": {"quoted \"name\"": "ä"},
        });
        let draft = Draft::new(&object);
        assert_eq!(draft.parts.len(), 2);
        let parts: Vec<Arc<str>> = draft.parts.iter().map(|(_, part)| Arc::from(part.as_str())).collect();
        let text = draft.finish(parts);
        let bytes = text.to_bytes();
        assert_eq!(bytes.len(), text.len());
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), object);
        assert!(bytes.starts_with(b"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":"));
        let mut item = Vec::new();
        text.write_item(&mut item);
        assert!(item.starts_with(b"{\"metadata\":"));
        assert!(bytes.ends_with(&item[1..]));
    }
}
