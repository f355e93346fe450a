//! Patches: JSON patch, merge patch and strategic merge patch with all directives.

use serde_json::{Value, json};

use super::Library;
use crate::mutate::mutation;
use crate::random::Random;
use crate::script::{JSON_PATCH, MERGE_PATCH, Request, STRATEGIC_PATCH, Script, reference};
use crate::side::edit;

pub(super) fn script(library: &Library, script: &mut Script) {
    let resource = library.any(&mut script.random);
    let object = script.sample(resource, "a");
    let created = script.create(resource, object.clone());
    let Some(root) = library.kinds.root(resource.api_version(), resource.kind()) else { return };
    for _ in 0..4 + script.random.below(5) {
        let change = mutation(&library.kinds, &mut script.random, &object, &root);
        let (format, mut body) = match (script.random.below(10), change) {
            (0..=3, Some((pointer, value))) => (MERGE_PATCH, merge(&object, &pointer, value)),
            (4..=6, Some((pointer, value))) => (STRATEGIC_PATCH, merge(&object, &pointer, value)),
            (_, change) => (JSON_PATCH, operations(&mut script.random, change)),
        };
        if script.random.chance(15) && body.is_object() {
            let version = match script.random.below(3) {
                0 => reference(created, "/metadata/resourceVersion"),
                1 => json!("abc"),
                _ => json!(""),
            };
            edit(&mut body, "/metadata/resourceVersion", Some(version));
        }
        if script.random.chance(15) && body.is_object() {
            let (pointer, value) = super::updates::metadata(script);
            edit(&mut body, &pointer, Some(value.unwrap_or(Value::Null)));
        }
        let mut request = Request::new("PATCH", script.item(resource, "a")).patch(format, body);
        if script.random.chance(20) {
            request = request.query("fieldManager", "patcher");
        }
        if script.random.chance(10) {
            request = request.query("dryRun", "All");
        }
        if script.random.chance(15) {
            request = request.query("fieldValidation", script.random.pick(&["Strict", "Warn", "Ignore"]));
        }
        script.send(request);
    }
    script.get(resource, "a");
}

/// A merge patch for one change; a change inside a list takes the whole list along.
fn merge(object: &Value, pointer: &str, value: Option<Value>) -> Value {
    let mut changed = object.clone();
    let mut patch = json!({});
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    let whole = parts.iter().position(|part| *part == "-" || part.parse::<usize>().is_ok());
    match whole {
        None => edit(&mut patch, pointer, Some(value.unwrap_or(Value::Null))),
        Some(at) => {
            edit(&mut changed, pointer, value);
            let list = format!("/{}", parts[..at].join("/"));
            let value = changed.pointer(&list).cloned();
            edit(&mut patch, &list, value);
        }
    }
    patch
}

/// A JSON patch for one change, with company.
fn operations(random: &mut Random, change: Option<(String, Option<Value>)>) -> Value {
    let mut operations = vec![match change {
        Some((path, None)) => json!({"op": "remove", "path": path}),
        Some((path, Some(value))) => {
            json!({"op": random.pick(&["add", "replace", "test"]), "path": path, "value": value})
        }
        None => json!({"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}),
    }];
    match random.below(9) {
        0 => operations.insert(0, json!({"op": "test", "path": "/kind", "value": "Thing"})),
        1 => {
            operations.push(json!({"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations"}));
        }
        2 => operations.push(json!({"op": "add", "path": "/metadata/labels", "value": {"x": "y"}})),
        3 => operations
            .push(json!({"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"})),
        4 => operations.push(json!({"op": "remove", "path": "/metadata/nothing"})),
        5 => operations.push(json!({"op": "add", "path": "/a/b/c", "value": 1})),
        6 => operations.push(json!({"op": "jump", "path": "/metadata"})),
        _ => {}
    }
    Value::Array(operations)
}

/// Places where pods stand in the kinds that have them.
const POD_HOLDERS: &[(&str, &str)] = &[
    ("apps/v1/deployments", "/spec/template/spec"),
    ("apps/v1/daemonsets", "/spec/template/spec"),
    ("apps/v1/replicasets", "/spec/template/spec"),
    ("v1/podtemplates", "/template/spec"),
];

pub(super) fn strategic(library: &Library, script: &mut Script) {
    let (path, holder) = script.random.pick(POD_HOLDERS);
    let resource = library.resource(path);
    let mut object = script.sample(resource, "a");
    object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    object["metadata"]["labels"] = json!({"one": "1", "two": "2"});
    edit(
        &mut object,
        holder,
        Some(json!({
            "containers": [
                {"name": "main", "image": "app:1", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
                 "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["x", "y"],
                 "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                {"name": "side", "image": "side:1"},
            ],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "c"}}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "s1"}, {"name": "s2"}],
            "nodeSelector": {"zone": "a"},
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
        })),
    );
    script.create(resource, object);
    for _ in 0..5 + script.random.below(5) {
        let mut body = json!({});
        let (pointer, value) = directive(&mut script.random, holder);
        edit(&mut body, &pointer, Some(value));
        if script.random.chance(30) {
            let (pointer, value) = directive(&mut script.random, holder);
            edit(&mut body, &pointer, Some(value));
        }
        let request = Request::new("PATCH", script.item(resource, "a")).patch(STRATEGIC_PATCH, body);
        script.send(request);
    }
    script.get(resource, "a");
}

/// One strategic change: where and what.
fn directive(random: &mut Random, holder: &str) -> (String, Value) {
    let inside = |name: &str| format!("{holder}/{name}");
    let choices = [
        (inside("containers"), json!([{"name": "main", "image": "app:2"}])),
        (inside("containers"), json!([{"name": "new", "image": "new:1"}])),
        (inside("containers"), json!([{"name": "side", "$patch": "delete"}])),
        (inside("containers"), json!([{"$patch": "replace"}, {"name": "only", "image": "only:1"}])),
        (inside("containers"), json!([{"name": "main", "image": null}])),
        (inside("containers"), json!([{"image": "nameless"}])),
        (
            inside("containers"),
            json!([{"name": "main", "env": [{"name": "C", "value": "3"}, {"name": "A", "$patch": "delete"}]}]),
        ),
        (
            inside("containers"),
            json!([{"name": "main", "ports": [{"containerPort": 443}, {"containerPort": 80, "name": "web"}]}]),
        ),
        (inside("containers"), json!([{"name": "main", "args": ["z"]}])),
        (
            inside("containers"),
            json!([{"name": "main", "$setElementOrder/env": [{"name": "B"}, {"name": "A"}], "env": [{"name": "B", "value": "9"}]}]),
        ),
        (
            inside("containers"),
            json!([{"name": "main", "volumeMounts": [{"mountPath": "/data", "readOnly": true}]}]),
        ),
        (inside("containers"), json!([])),
        (inside("containers"), json!(null)),
        (inside("$setElementOrder~1containers"), json!([{"name": "side"}, {"name": "main"}])),
        (inside("volumes"), json!([{"name": "data", "emptyDir": null, "configMap": {"name": "c"}}])),
        (
            inside("volumes"),
            json!([{"name": "data", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]),
        ),
        (inside("volumes"), json!([{"name": "data", "secret": {"secretName": "s"}}])),
        (inside("volumes"), json!([{"name": "extra", "emptyDir": {}}])),
        (inside("tolerations"), json!([{"key": "b", "operator": "Exists"}])),
        (inside("imagePullSecrets"), json!([{"name": "s3"}])),
        (inside("imagePullSecrets"), json!([{"name": "s1", "$patch": "delete"}])),
        (inside("nodeSelector"), json!({"zone": null, "size": "l"})),
        (inside("nodeSelector"), json!({"$patch": "replace", "only": "this"})),
        (inside("hostAliases"), json!([{"ip": "10.0.0.1", "hostnames": ["b"]}])),
        (
            inside("affinity"),
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}),
        ),
        (inside("securityContext"), json!({"runAsUser": 1000})),
        (
            inside("topologySpreadConstraints"),
            json!([{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]),
        ),
        (
            holder.to_owned(),
            json!({"$patch": "replace", "containers": [{"name": "fresh", "image": "fresh:1"}]}),
        ),
        (holder.to_owned(), json!({"$retainKeys": ["containers", "volumes"]})),
        (holder.to_owned(), json!({"$patch": "delete"})),
        (holder.to_owned(), json!({"$patch": "unknown"})),
        ("/metadata/finalizers".to_owned(), json!(["example.com/c"])),
        ("/metadata/$deleteFromPrimitiveList~1finalizers".to_owned(), json!(["example.com/a"])),
        ("/metadata/$setElementOrder~1finalizers".to_owned(), json!(["example.com/b", "example.com/a"])),
        ("/metadata/labels".to_owned(), json!({"one": null, "three": "3"})),
        ("/metadata/labels".to_owned(), json!({"$patch": "replace", "four": "4"})),
        ("/metadata/labels".to_owned(), json!(null)),
        ("/metadata/annotations".to_owned(), json!({"example.com/a": "b"})),
        ("/metadata/unheardOf".to_owned(), json!(1)),
        ("/spec/strategy".to_owned(), json!({"$retainKeys": ["type"], "type": "Recreate"})),
        ("/spec/replicas".to_owned(), json!(3)),
    ];
    random.pick(&choices).clone()
}
