//! Between the version a client speaks and the version that is stored.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::registry::{Conversion, Resource};
use crate::schema::{apply_defaults, prune};
use crate::store::StoredObject;

/// Returns the text of a stored object in the version of `resource`.
pub(super) fn served_bytes(resource: &Resource, object: &StoredObject) -> Bytes {
    match resource.conversion {
        Conversion::Stored => object.to_bytes(),
        _ => Bytes::from(served(resource, object.value()).to_string()),
    }
}

/// Turns a stored object into the version of `resource`.
pub(crate) fn served(resource: &Resource, mut value: Value) -> Value {
    match resource.conversion {
        Conversion::Stored => {}
        Conversion::ApiVersion => {
            value["apiVersion"] = resource.api_version().into();
            prune(&mut value, resource.schema());
            apply_defaults(&mut value, resource.schema());
        }
        Conversion::Event => {
            rename(&mut value, false);
            value["apiVersion"] = resource.api_version().into();
        }
    }
    value
}

/// Turns an object in the version of `resource` into the stored version.
pub(crate) fn stored(resource: &Arc<Resource>, mut value: Value) -> Value {
    match resource.conversion {
        Conversion::Stored => {}
        Conversion::ApiVersion => reform(resource, &mut value),
        Conversion::Event => {
            rename(&mut value, true);
            value["apiVersion"] = resource.stored_api_version().into();
        }
    }
    value
}

/// Gives a custom object the form in which its definition now says that it is stored.
pub(crate) fn reform(resource: &Resource, value: &mut Value) {
    value["apiVersion"] = resource.stored_api_version().into();
    if let Some(custom) = &resource.custom {
        prune(value, &custom.storage);
        apply_defaults(value, &custom.storage);
    }
}

/// Fields that core events and `events.k8s.io` events name differently: stored name, served name.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("reportingComponent", "reportingController"),
];

fn rename(event: &mut Value, to_stored: bool) {
    let Some(fields) = event.as_object_mut() else { return };
    let mut renamed = Map::new();
    for (name, value) in std::mem::take(fields) {
        let pair = EVENT_FIELDS
            .iter()
            .map(|(stored, served)| if to_stored { (*served, *stored) } else { (*stored, *served) })
            .find(|(from, _)| *from == name);
        renamed.insert(pair.map_or(name, |(_, to)| to.to_owned()), value);
    }
    *fields = renamed;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_both_groups_are_one_object() {
        let mut event = json!({"regarding": {"name": "a"}, "note": "hello", "reason": "R"});
        rename(&mut event, true);
        assert_eq!(event, json!({"involvedObject": {"name": "a"}, "message": "hello", "reason": "R"}));
        rename(&mut event, false);
        assert_eq!(event["regarding"]["name"], "a");
    }
}
