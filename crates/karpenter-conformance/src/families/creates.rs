//! Creation: valid and invalid objects of every kind, and everything that metadata may say.

use serde_json::{Value, json};

use super::Library;
use crate::script::{Request, Script};

pub(super) fn script(library: &Library, script: &mut Script) {
    let resource = library.any(&mut script.random);
    for index in 0..3 + script.random.below(4) {
        let name = format!("o{index}");
        let object = library.mutated(script, resource, &name, 2);
        let mut request = Request::new("POST", script.collection(resource)).json(object);
        if script.random.chance(30) {
            let mode = script.random.pick(&["Ignore", "Warn", "Strict", "Lax"]);
            request = request.query("fieldValidation", mode);
        }
        if script.random.chance(10) {
            let mode = script.random.pick(&["All", "All", "Some", ""]);
            request = request.query("dryRun", mode);
        }
        if script.random.chance(20) {
            request = request.query("fieldManager", "tester");
        }
        script.send(request);
        if script.random.chance(40) {
            script.get(resource, &name);
        }
    }
}

const KEYS: &[&str] = &["app", "example.com/role", "", "a b", "UPPER/x", "a/b/c", "-x", "x.", "example.com/"];

pub(super) fn metadata(library: &Library, script: &mut Script) {
    let resource = library.any(&mut script.random);
    for index in 0..4 + script.random.below(4) {
        let name = format!("o{index}");
        let mut object = script.sample(resource, &name);
        if script.random.chance(70) {
            odd_metadata(script, &mut object);
        }
        if script.random.chance(10) {
            object["apiVersion"] = json!(script.random.pick(&["v2", "", "apps/v9", "other.io/v1"]));
        }
        if script.random.chance(10) {
            object["kind"] = json!(script.random.pick(&["Thing", "", "Pod", "ConfigMap"]));
        }
        script.create(resource, object.clone());
        if script.random.chance(25) {
            script.create(resource, object);
        }
    }
}

fn odd_metadata(script: &mut Script, object: &mut Value) {
    let namespace = script.namespace.clone();
    let metadata = &mut object["metadata"];
    let random = &mut script.random;
    let key = random.pick(KEYS);
    let value = random.pick(&["x", "", "a b", "x/y", "-", "A_b.c"]);
    match random.below(16) {
        0 => metadata["labels"] = json!({ key: value, "ok": "yes" }),
        1 => metadata["annotations"] = json!({ key: value }),
        2 => metadata["name"] = json!(random.pick(&["", "UPPER", "a b", "a.b", "-a", "a_b", "x:y", "1a", "a/b", ".."])),
        3 => metadata["name"] = json!("n".repeat(random.pick(&[63, 64, 253, 254]))),
        4 => {
            *metadata = json!({"generateName": random.pick(&["g-", "web.", "UPPER-", "g_", ""])});
        }
        5 => metadata["generateName"] = json!("both-"),
        6 => metadata["namespace"] = json!(random.pick(&["other", "", "default"])),
        7 => metadata["resourceVersion"] = json!(random.pick(&["1", "abc", "0"])),
        8 => {
            let uid = "00000000-0000-0000-0000-000000000001";
            let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
            match random.below(6) {
                0 => owner["name"] = json!(""),
                1 => owner["uid"] = json!(""),
                2 => owner["apiVersion"] = json!("a/b/c"),
                3 => owner["controller"] = json!(true),
                4 => owner = json!({"apiVersion": "v1", "kind": "Event", "name": "e", "uid": uid}),
                _ => {}
            }
            let count = 1 + random.below(2);
            metadata["ownerReferences"] = Value::Array(vec![owner; count]);
        }
        9 => metadata["finalizers"] = json!([random.pick(&["example.com/f", "plain", "Bad Name", "", "orphan", "foregroundDeletion"])]),
        10 => metadata["deletionTimestamp"] = json!("2024-01-01T00:00:00Z"),
        11 => metadata["creationTimestamp"] = json!(random.pick(&[json!("2024-01-01T00:00:00Z"), json!("yesterday"), json!(null), json!(5)])),
        12 => metadata["generation"] = json!(7),
        13 => metadata["managedFields"] = json!(random.pick(&[
            json!([]),
            json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]),
            json!([{"manager": "m", "operation": "Other", "apiVersion": "v1", "fieldsType": "FieldsV1"}]),
        ])),
        14 => metadata["labels"] = json!(random.pick(&[json!({"a": 1}), json!([]), json!(null), json!("x")])),
        _ => *metadata = json!({"name": random.pick(&["plain", "kube-root"]), "namespace": namespace, "selfLink": "/x", "uid": "mine"}),
    }
}
