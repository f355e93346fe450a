//! Reads objects as JSON.

use jiff::SignedDuration;
use serde_json::Value;

/// The reason of a condition that is true.
pub(crate) fn condition<'o>(object: &'o Value, type_: &str) -> Option<&'o str> {
    let found = any_condition(object, type_)?;
    (text(&found["status"]) == "True").then(|| text(&found["reason"]))
}

/// A condition, whatever it says.
pub(crate) fn any_condition<'o>(object: &'o Value, type_: &str) -> Option<&'o Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|found| text(&found["type"]) == type_)
}

/// Whether the pod was asked to leave through the eviction API.
pub(crate) fn was_evicted(pod: &Value) -> bool {
    any_condition(pod, "DisruptionTarget")
        .is_some_and(|found| text(&found["reason"]) == "EvictionByEvictionAPI")
}

pub(crate) fn is_leaving(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(crate) fn is_active(pod: &Value) -> bool {
    !is_leaving(pod) && !matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed")
}

/// The object's controller, by kind and name.
pub(crate) fn owner(object: &Value) -> Option<(&str, &str)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    Some((text(&owner["kind"]), text(&owner["name"])))
}

pub(crate) fn label<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["labels"][key].as_str()
}

pub(crate) fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["annotations"][key].as_str()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn name_of(object: &Value) -> String {
    let metadata = &object["metadata"];
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", text(&metadata["name"])),
        None => text(&metadata["name"]).to_owned(),
    }
}

/// A Go duration of hours, minutes and seconds; nothing if it is not positive.
pub(crate) fn duration(written: &str) -> Option<SignedDuration> {
    let mut seconds = 0;
    let mut number = String::new();
    for letter in written.chars() {
        if letter.is_ascii_digit() {
            number.push(letter);
            continue;
        }
        let unit = match letter {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        seconds += std::mem::take(&mut number).parse::<i64>().ok()? * unit;
    }
    (seconds > 0).then(|| SignedDuration::from_secs(seconds))
}
