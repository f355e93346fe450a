//! Where the data of a claim comes from, which its spec says twice.
//!
//! `dataSource` knows claims and snapshots, `dataSourceRef` anything; whichever is given fills in the other.

use serde_json::{Map, Value};

const OLD: &str = "dataSource";
const NEW: &str = "dataSourceRef";

/// Settles both fields of a new or changed claim.
pub(super) fn settle_sources(old: Option<&Value>, claim: &mut Value) {
    let had = |name: &str| old.is_some_and(|old| old["spec"][name].is_object());
    let (had_old, had_new) = (had(OLD), had(NEW));
    let Some(spec) = claim["spec"].as_object_mut() else { return };
    // Sources in other namespaces are a feature that is off by default.
    if is_elsewhere(spec) && !had_new {
        spec.remove(NEW);
    }
    // What nobody could provide was never an error.
    if !had_old && !had_new && !is_given(spec, NEW) && !spec.get(OLD).is_some_and(is_claim_or_snapshot) {
        spec.remove(OLD);
    }
    if is_given(spec, OLD) && !is_given(spec, NEW) {
        copy(spec, OLD, NEW);
    } else if is_given(spec, NEW) && !is_given(spec, OLD) && !is_elsewhere(spec) {
        copy(spec, NEW, OLD);
    }
}

fn is_given(spec: &Map<String, Value>, name: &str) -> bool {
    spec.get(name).is_some_and(Value::is_object)
}

fn is_elsewhere(spec: &Map<String, Value>) -> bool {
    spec.get(NEW).is_some_and(|source| source["namespace"].as_str().is_some_and(|name| !name.is_empty()))
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    let group = source["apiGroup"].as_str().unwrap_or_default();
    matches!(
        (source["kind"].as_str(), group),
        (Some("PersistentVolumeClaim"), "") | (Some("VolumeSnapshot"), "snapshot.storage.k8s.io")
    )
}

fn copy(spec: &mut Map<String, Value>, from: &str, to: &str) {
    let mut source = spec[from].clone();
    if let Some(fields) = source.as_object_mut() {
        fields.remove("namespace");
    }
    spec.insert(to.to_owned(), source);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settled(spec: &Value) -> Value {
        let mut claim = json!({"spec": spec});
        settle_sources(None, &mut claim);
        claim["spec"].take()
    }

    #[test]
    fn either_field_fills_in_the_other() {
        let source = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        let both = json!({"dataSource": source, "dataSourceRef": source});
        assert_eq!(settled(&json!({"dataSource": source})), both);
        assert_eq!(settled(&json!({"dataSourceRef": source})), both);
    }

    #[test]
    fn what_nobody_provides_is_dropped() {
        assert_eq!(settled(&json!({"dataSource": {"kind": "Pod", "name": "a"}})), json!({}));
        let elsewhere = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "b"});
        assert_eq!(settled(&json!({"dataSourceRef": elsewhere})), json!({}));
    }
}
