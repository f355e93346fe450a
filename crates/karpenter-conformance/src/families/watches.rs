//! Watches: from now, from a version, with initial events, with selectors that objects start and stop matching.

use serde_json::json;

use super::Library;
use crate::script::{MERGE_PATCH, Request, Script};

pub(super) fn script(library: &Library, script: &mut Script) {
    let path =
        script.random.pick(&["v1/configmaps", "v1/secrets", "v1/pods", "coordination.k8s.io/v1/leases"]);
    let resource = library.resource(path);
    let labelled = |script: &mut Script, name: &str, app: &str| {
        let mut object = script.sample(resource, name);
        object["metadata"]["labels"] = json!({ "app": app });
        object
    };
    let object = labelled(script, "before", "web");
    let before = script.create(resource, object);
    let object = labelled(script, "other", "api");
    script.create(resource, object);
    let mut request =
        Request::new("GET", script.collection(resource)).query("watch", script.random.pick(&["true", "1"]));
    let version = format!("$({before}/metadata/resourceVersion)");
    match script.random.below(8) {
        0 => {}
        1 => request = request.query("resourceVersion", "0"),
        2 | 3 => request = request.query("resourceVersion", &version),
        4 => request = request.query("resourceVersion", "abc"),
        5 => {
            request = request
                .query("sendInitialEvents", "true")
                .query("resourceVersionMatch", "NotOlderThan")
                .query("allowWatchBookmarks", "true");
        }
        6 => {
            request = request
                .query("sendInitialEvents", "true")
                .query("resourceVersionMatch", "NotOlderThan")
                .query("allowWatchBookmarks", "true")
                .query("resourceVersion", &version);
        }
        _ => request = request.query("sendInitialEvents", script.random.pick(&["true", "false"])),
    }
    match script.random.below(6) {
        0 | 1 => request = request.query("labelSelector", "app in (web,last)"),
        2 => request = request.query("fieldSelector", "metadata.name!=other"),
        3 => request = request.query("resourceVersionMatch", "Exact"),
        _ => {}
    }
    if script.random.chance(20) {
        let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        request = request.header("accept", accept);
    }
    if script.random.chance(10) {
        request = request.query("timeoutSeconds", "2");
    }
    let watch = script.watch(request);
    for _ in 0..3 + script.random.below(4) {
        change(library, script, resource);
    }
    let object = labelled(script, "last", "last");
    script.create(resource, object);
    script.drain(watch, "last");
}

fn change(library: &Library, script: &mut Script, resource: &crate::samples::Resource) {
    let name = script.random.pick(&["before", "other", "new"]);
    let item = script.item(resource, name);
    match script.random.below(6) {
        0 => {
            let object = library.mutated(script, resource, name, 0);
            script.create(resource, object);
        }
        1 => {
            script.send(Request::new("DELETE", item).query("gracePeriodSeconds", "0"));
        }
        2 => {
            let patch = json!({"metadata": {"annotations": {"n": script.random.below(9).to_string()}}});
            script.send(Request::new("PATCH", item).patch(MERGE_PATCH, patch));
        }
        _ => {
            let app = script.random.pick(&["web", "api"]);
            let patch = json!({"metadata": {"labels": {"app": app}}});
            script.send(Request::new("PATCH", item).patch(MERGE_PATCH, patch));
        }
    }
}
