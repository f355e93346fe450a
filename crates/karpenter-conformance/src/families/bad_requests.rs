//! Requests that no client means: broken JSON, unknown kinds, wrong methods and content types, huge objects.

use serde_json::{Value, json};

use super::Library;
use crate::random::Random;
use crate::script::{APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, Request, STRATEGIC_PATCH, Script};

pub(super) fn script(library: &Library, script: &mut Script) {
    let resource = library.any(&mut script.random);
    let collection = script.collection(resource);
    let item = script.item(resource, "a");
    let object = script.sample(resource, "a");
    script.create(resource, object.clone());
    for _ in 0..6 {
        let request = request(&mut script.random, &collection, &item, &object);
        script.send(request);
    }
}

const BROKEN: &[&str] = &[
    "{",
    "[]",
    "",
    "null",
    "\"x\"",
    "{\"a\":}",
    "{\"kind\": 5}",
    "{} {}",
    "{\"metadata\": []}",
    "not json",
    "{\"kind\":\"Pod\",}",
];
const BODY_TYPES: &[&str] = &[JSON, JSON, "application/yaml", "text/plain", "application/cbor", ""];
const PATCH_TYPES: &[&str] = &[MERGE_PATCH, JSON_PATCH, STRATEGIC_PATCH, APPLY_PATCH, JSON, "text/plain"];
const PATCHES: &[&str] = &["{", "[]", "{}", "null", "5", "[{}]", "[{\"op\": \"add\"}]", "a: b", ""];
const ACCEPTS: &[&str] = &[
    "text/html",
    "application/xml",
    "application/json;as=Thing;g=meta.k8s.io;v=v1",
    "application/yaml",
    "*/*",
    "application/json; q=0.5",
];
const NOWHERE: &[&str] = &[
    "/api/v1/things",
    "/apis/none.io/v1/x",
    "/apis/apps/v2/deployments",
    "/api/v1/namespaces/x/nodes",
    "/nowhere",
    "/api/v1/pods/x",
    "/apis/apps/v1/namespaces/n/deployments/a/nothing",
];

/// One request that no client means.
fn request(random: &mut Random, collection: &str, item: &str, object: &Value) -> Request {
    match random.below(16) {
        0 => Request::new("POST", collection).text(random.pick(BODY_TYPES), random.pick(BROKEN)),
        1 => Request::new("PUT", item).text(JSON, random.pick(&["{", "", "[]", "{}"])),
        2 => {
            let request = Request::new("PATCH", item).text(random.pick(PATCH_TYPES), random.pick(PATCHES));
            if random.chance(70) { request.query("fieldManager", "m") } else { request }
        }
        3 => Request::new("POST", item).json(object.clone()),
        4 => Request::new("PUT", collection).json(object.clone()),
        5 => Request::new("PATCH", collection).patch(MERGE_PATCH, json!({})),
        6 => Request::new(random.pick(&["OPTIONS", "TRACE", "HEAD", "BREW"]), item),
        7 => Request::new("GET", random.pick(NOWHERE)),
        8 => {
            let mut object = object.clone();
            object["metadata"]["annotations"] = json!({"big": "x".repeat(random.below(2) * 300_000)});
            Request::new("POST", collection).json(object)
        }
        9 => Request::new("POST", collection).text(JSON, format!("{{\"x\": \"{}\"}}", "y".repeat(3_200_000))),
        10 => Request::new("GET", item).header("accept", random.pick(ACCEPTS)),
        11 => {
            let kind = random.pick(&[JSON, "text/plain"]);
            Request::new("DELETE", item).text(kind, random.pick(&["{", "[]", "{}", "null"]))
        }
        12 => {
            let twice = "\"metadata\":{\"name\":\"twice\"},\"metadata\":";
            let doubled = object.to_string().replacen("\"metadata\":", twice, 1);
            let mode = random.pick(&["Ignore", "Warn", "Strict"]);
            Request::new("POST", collection).text(JSON, doubled).query("fieldValidation", mode)
        }
        13 => Request::new("GET", item).query("resourceVersion", random.pick(&["0", "abc", "1"])),
        14 => {
            Request::new("GET", format!("{item}{}", random.pick(&["/status", "/scale", "/log", "/x/y", "/"])))
        }
        _ => Request::new("DELETE", collection).query("limit", "x"),
    }
}
