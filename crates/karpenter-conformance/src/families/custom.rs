//! Custom resources: definitions good and bad, and objects against pruning, defaults, schemas and CEL rules.

use serde_json::{Value, json};

use super::Library;
use crate::kinds::Kinds;
use crate::mutate::{mutate, mutation};
use crate::samples::Resource;
use crate::script::{APPLY_PATCH, Condition, JSON_PATCH, MERGE_PATCH, Request, STRATEGIC_PATCH, Script};
use crate::side::edit;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A schema with something of everything.
fn schema() -> Value {
    serde_saphyr::from_str(include_str!("../thing.yaml")).expect("the schema is YAML")
}

fn definition(script: &mut Script) -> (Value, Resource) {
    let group = format!("{}.example.com", script.namespace);
    let namespaced = script.random.chance(70);
    let with_status = script.random.chance(70);
    let mut version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema()},
        "additionalPrinterColumns": [{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}],
        "selectableFields": [{"jsonPath": ".spec.mode"}],
    });
    if with_status {
        version["subresources"] = json!({"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
        }});
    }
    let mut versions = vec![version];
    if script.random.chance(40) {
        versions.push(
            json!({"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}),
        );
    }
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": if namespaced { "Namespaced" } else { "Cluster" }, "versions": versions,
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "shortNames": ["th"]}},
    });
    let object = json!({"kind": "Thing", "spec": {
        "name": "one", "low": 1, "share": 1.5, "frozen": "ice", "maybe": null, "port": "http", "free": {"any": [1]},
        "labels": {"a": "b"}, "tags": ["x"], "parts": [{"id": "p1", "weight": 2}, {"id": "p2"}], "steps": [1, 2],
        "when": "2024-01-01T00:00:00Z", "either": {"a": "x"}, "replicas": 2,
    }});
    let resource = Resource { path: format!("{group}/v1/things"), namespaced, objects: vec![object] };
    (definition, resource)
}

/// Waits until both servers serve a new resource.
fn serve(script: &mut Script, name: &str, resource: &Resource) {
    let established = "/status/conditions/1/status".to_owned();
    script.wait(Condition::Value(format!("{DEFINITIONS}/{name}"), established, json!("True")));
    script.wait(Condition::Code(resource.collection(&script.namespace), 200));
}

pub(super) fn objects(_: &Library, script: &mut Script) {
    let (definition, resource) = definition(script);
    let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    script.send(Request::new("POST", DEFINITIONS).json(definition));
    serve(script, &name, &resource);
    let (kinds, root) = Kinds::custom(&schema());
    for index in 0..4 {
        let mut object = script.sample(&resource, &format!("o{index}"));
        for _ in 0..script.random.below(3) {
            mutate(&kinds, &mut script.random, &mut object, &root);
        }
        let mut request = Request::new("POST", script.collection(&resource)).json(object);
        if script.random.chance(40) {
            request = request.query("fieldValidation", script.random.pick(&["Strict", "Warn", "Ignore"]));
        }
        script.send(request);
    }
    changes(script, &resource, &kinds, &root);
    script.send(Request::new("GET", script.collection(&resource)));
    script.send(Request::new("GET", script.collection(&resource)).query("fieldSelector", "spec.mode=fast"));
    script.send(Request::new("GET", script.collection(&resource).replace("/v1/", "/v1beta1/")));
    script.send(Request::new("DELETE", format!("{DEFINITIONS}/{name}")));
    script.wait(Condition::Code(format!("{DEFINITIONS}/{name}"), 404));
    // The real server takes a moment to forget what it served.
    script.wait(Condition::Code(script.collection(&resource), 404));
    script.send(Request::new("GET", script.collection(&resource)));
}

fn changes(script: &mut Script, resource: &Resource, kinds: &Kinds, root: &crate::kinds::Type) {
    let base = script.sample(resource, "a");
    script.create(resource, base.clone());
    for _ in 0..6 {
        let item = script.item(resource, "a");
        let change = mutation(kinds, &mut script.random, &base, root);
        let mut changed = base.clone();
        if let Some((pointer, value)) = &change {
            edit(&mut changed, pointer, value.clone());
        }
        match script.random.below(7) {
            0 | 1 => {
                let read = script.get(resource, "a");
                script.send(Request::new("PUT", item).edited(read, change.into_iter().collect()));
            }
            2 => {
                let spec = changed["spec"].clone();
                script.send(Request::new("PATCH", item).patch(MERGE_PATCH, json!({ "spec": spec })));
            }
            3 => {
                let operations: Vec<Value> = change
                    .into_iter()
                    .map(|(path, value)| match value {
                        Some(value) => json!({"op": "add", "path": path, "value": value}),
                        None => json!({"op": "remove", "path": path}),
                    })
                    .collect();
                script.send(Request::new("PATCH", item).patch(JSON_PATCH, Value::Array(operations)));
            }
            4 => {
                let manager = script.random.pick(&["one", "two"]);
                let mut request =
                    Request::new("PATCH", item).patch(APPLY_PATCH, changed).query("fieldManager", manager);
                if script.random.chance(50) {
                    request = request.query("force", "true");
                }
                script.send(request);
            }
            5 => {
                let status = json!({"status": {"phase": "Ready", "replicas": 1, "selector": "a=b", "conditions": [{"type": "R", "status": "True"}]}, "spec": {"name": "ignored"}});
                script.send(Request::new("PATCH", format!("{item}/status")).patch(MERGE_PATCH, status));
                script.send(Request::new("GET", format!("{item}/scale")));
                let scale = json!({"spec": {"replicas": script.random.pick(&[0, 4, -1])}});
                script.send(Request::new("PATCH", format!("{item}/scale")).patch(MERGE_PATCH, scale));
            }
            _ => {
                script.send(Request::new("PATCH", item).patch(STRATEGIC_PATCH, json!({"spec": {"low": 2}})));
            }
        }
    }
    script.get(resource, "a");
    script.send(Request::new("DELETE", script.item(resource, "a")));
}

/// Definitions with something wrong.
pub(super) fn definitions(_: &Library, script: &mut Script) {
    let (good, _) = definition(script);
    for _ in 0..4 {
        let mut definition = good.clone();
        for _ in 0..=script.random.below(2) {
            let (pointer, value) = damage(script);
            edit(&mut definition, &pointer, value);
        }
        let mut request = Request::new("POST", DEFINITIONS).json(definition);
        // What is accepted must not stay: the next attempt has the same name.
        request = request.query("dryRun", "All");
        script.send(request);
    }
}

fn damage(script: &mut Script) -> (String, Option<Value>) {
    let inside =
        |name: &str| format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{name}");
    let choices = [
        ("/metadata/name".to_owned(), Some(json!("other"))),
        ("/spec/group".to_owned(), Some(json!("Bad Group"))),
        ("/spec/group".to_owned(), None),
        ("/spec/scope".to_owned(), Some(json!("Everywhere"))),
        ("/spec/scope".to_owned(), None),
        ("/spec/names/plural".to_owned(), Some(json!("Things"))),
        ("/spec/names/kind".to_owned(), Some(json!("thing thing"))),
        ("/spec/names/kind".to_owned(), None),
        ("/spec/names/shortNames".to_owned(), Some(json!(["BAD"]))),
        ("/spec/versions".to_owned(), Some(json!([]))),
        ("/spec/versions/0/storage".to_owned(), Some(json!(false))),
        ("/spec/versions/0/name".to_owned(), Some(json!("V1"))),
        ("/spec/versions/0/schema".to_owned(), None),
        ("/spec/versions/0/schema/openAPIV3Schema/type".to_owned(), Some(json!("array"))),
        ("/spec/versions/0/schema/openAPIV3Schema/type".to_owned(), None),
        (inside("name"), Some(json!({}))),
        (inside("name/type"), Some(json!("text"))),
        (inside("name/pattern"), Some(json!("(["))),
        (inside("low/default"), Some(json!("x"))),
        (inside("low/default"), Some(json!(500))),
        (inside("mode/default"), Some(json!("medium"))),
        (inside("parts/x-kubernetes-list-map-keys"), None),
        (inside("parts/x-kubernetes-list-map-keys"), Some(json!(["nothing"]))),
        (inside("tags/x-kubernetes-list-type"), Some(json!("bag"))),
        (inside("tags/items"), None),
        (inside("free/properties"), Some(json!({"a": {"type": "string"}}))),
        (inside("labels/properties"), Some(json!({"a": {"type": "string"}}))),
        (inside("port/type"), Some(json!("string"))),
        (inside("either/oneOf/0/type"), Some(json!("object"))),
        (inside("frozen/x-kubernetes-validations/0/rule"), Some(json!("self =="))),
        (inside("frozen/x-kubernetes-validations/0/rule"), Some(json!("self.size() > 1 && unknown(self)"))),
        (inside("frozen/x-kubernetes-validations/0/rule"), Some(json!("self + 1 == 2"))),
        (inside("frozen/x-kubernetes-validations/0/rule"), Some(json!(""))),
        (inside("frozen/x-kubernetes-validations/0/message"), Some(json!(" "))),
        ("/spec/conversion".to_owned(), Some(json!({"strategy": "Magic"}))),
        ("/spec/preserveUnknownFields".to_owned(), Some(json!(true))),
        ("/spec/versions/0/subresources/scale/specReplicasPath".to_owned(), Some(json!("spec.replicas"))),
        ("/spec/versions/0/additionalPrinterColumns/0/jsonPath".to_owned(), Some(json!("no dot"))),
        ("/spec/versions/0/additionalPrinterColumns/0/type".to_owned(), Some(json!("thing"))),
        ("/spec/unheardOf".to_owned(), Some(json!(1))),
    ];
    script.random.pick(&choices).clone()
}
