//! Texts that the cells of many kinds are made of.

use serde_json::{Value, json};

use crate::selector::LabelSelector;

/// A text, empty when it is absent.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text, or `otherwise` when it is absent or empty.
pub(super) fn or<'v>(value: &'v Value, otherwise: &'v str) -> &'v str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

/// A number, zero when it is absent.
pub(super) fn count(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// How many items a list or a map has.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

/// The items of a list.
pub(super) fn items(value: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Labels as `a=1,b=2`.
pub(super) fn labels(map: &Value) -> String {
    let pairs: Vec<String> =
        map.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value))).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A selector as clients write it.
pub(super) fn selector(value: &Value) -> String {
    let shown = LabelSelector::from_object(value).render();
    if shown.is_empty() { "<none>".to_owned() } else { shown }
}

/// The names and the images of containers.
pub(super) fn containers(template: &Value) -> [Value; 2] {
    let list = &template["spec"]["containers"];
    ["name", "image"].map(|field| {
        let texts: Vec<&str> = items(list).map(|container| text(&container[field])).collect();
        json!(texts.join(","))
    })
}

/// The short names of access modes.
pub(super) fn access_modes(modes: &Value) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown = known.iter().filter(|(name, _)| items(modes).any(|mode| mode == name));
    shown.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// At most `most` texts, and how many more there are.
pub(super) fn first(texts: &[String], most: usize) -> String {
    let shown = texts[..most.min(texts.len())].join(",");
    match texts.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// Whether a condition is true.
pub(super) fn condition(object: &Value, kind: &str) -> bool {
    items(&object["status"]["conditions"])
        .find(|condition| condition["type"] == kind)
        .is_some_and(|condition| condition["status"] == "True")
}
