//! Updates: the right, a stale and no resource version; changes that are allowed and that are not.

use serde_json::json;

use super::Library;
use crate::mutate::{Edit, mutation};
use crate::script::{Request, Script, reference};

pub(super) fn script(library: &Library, script: &mut Script) {
    let resource = library.any(&mut script.random);
    let object = script.sample(resource, "a");
    let created = script.create(resource, object.clone());
    let root = library.kinds.root(resource.api_version(), resource.kind());
    let mut latest = created;
    for _ in 0..3 + script.random.below(5) {
        let mut edits: Vec<Edit> = Vec::new();
        if let Some(root) = root.as_ref().filter(|_| script.random.chance(75)) {
            edits.extend(mutation(&library.kinds, &mut script.random, &object, root));
        }
        if script.random.chance(40) {
            edits.push(metadata(script));
        }
        let version = match script.random.below(12) {
            0 | 1 => Some(None),
            2 => Some(Some(reference(created, "/metadata/resourceVersion"))),
            3 => Some(Some(json!(script.random.pick(&["abc", "999999999", "0"])))),
            _ => None,
        };
        edits.extend(version.map(|version| ("/metadata/resourceVersion".to_owned(), version)));
        let base = if script.random.chance(85) { latest } else { created };
        let mut request = Request::new("PUT", script.item(resource, "a")).edited(base, edits);
        if script.random.chance(10) {
            request = request.query("dryRun", "All");
        }
        if script.random.chance(15) {
            request = request.query("fieldValidation", script.random.pick(&["Strict", "Warn"]));
        }
        if script.random.chance(20) {
            request = request.query("fieldManager", script.random.pick(&["tester", "other"]));
        }
        script.send(request);
        latest = script.get(resource, "a");
    }
    if script.random.chance(30) {
        let missing = Request::new("PUT", script.item(resource, "missing"));
        let name = script.name(resource, "missing");
        script.send(missing.edited(latest, vec![("/metadata/name".to_owned(), Some(json!(name)))]));
    }
}

/// A change of metadata.
pub(super) fn metadata(script: &mut Script) -> Edit {
    let random = &mut script.random;
    let text = random.pick(&["one", "two", "Three"]);
    let (path, value) = match random.below(11) {
        0 | 1 => ("/metadata/labels", Some(json!({"app": text}))),
        2 | 3 => ("/metadata/annotations", Some(json!({"example.com/note": text}))),
        4 => ("/metadata/finalizers", Some(json!(["example.com/keep"]))),
        5 => ("/metadata/labels", None),
        6 => ("/metadata/uid", Some(json!(random.pick(&["", "00000000-0000-0000-0000-000000000002"])))),
        7 => ("/metadata/name", Some(json!(random.pick(&["", "other"])))),
        8 => ("/metadata/namespace", Some(json!(random.pick(&["", "other"])))),
        9 => {
            ("/metadata/creationTimestamp", random.pick(&[None, Some(json!("2020-01-01T00:00:00Z"))]).clone())
        }
        _ => ("/metadata/generation", Some(json!(42))),
    };
    (path.to_owned(), value)
}
