//! Deletion: finalizers, preconditions, grace periods, propagation policies, collections.

use serde_json::{Value, json};

use super::Library;
use crate::samples::Resource;
use crate::script::{MERGE_PATCH, Request, Script};

pub(super) fn script(library: &Library, script: &mut Script) {
    let resource = library.any(&mut script.random);
    if script.random.chance(20) && resource.namespaced {
        return collection(script, resource);
    }
    let mut object = script.sample(resource, "a");
    let held = script.random.chance(50);
    if held {
        object["metadata"]["finalizers"] = json!(["example.com/keep"]);
    }
    if resource.plural() == "pods" && script.random.chance(60) {
        object["spec"]["nodeName"] = json!("node-1");
        object["spec"]["schedulingGates"].take();
    }
    let created = script.create(resource, object.clone());
    for _ in 0..=script.random.below(3) {
        let options = options(script, created);
        let mut request = Request::new("DELETE", script.item(resource, "a"));
        if let Some(options) = options {
            request = request.json(options);
        } else if script.random.chance(30) {
            request = match script.random.below(5) {
                0 => request.query("gracePeriodSeconds", script.random.pick(&["0", "10", "-1", "x"])),
                1 => request.query(
                    "propagationPolicy",
                    script.random.pick(&["Background", "Foreground", "Orphan", "Other"]),
                ),
                2 => request.query("dryRun", "All"),
                3 => request.query("orphanDependents", script.random.pick(&["true", "false"])),
                _ => request,
            };
        }
        script.send(request);
        script.get(resource, "a");
    }
    if held {
        let item = script.item(resource, "a");
        let more = json!({"metadata": {"finalizers": ["example.com/keep", "example.com/new"]}});
        if script.random.chance(40) {
            script.send(Request::new("PATCH", item.clone()).patch(MERGE_PATCH, more));
        }
        let labels = json!({"metadata": {"labels": {"late": "yes"}}});
        script.send(Request::new("PATCH", item.clone()).patch(MERGE_PATCH, labels));
        script
            .send(Request::new("PATCH", item).patch(MERGE_PATCH, json!({"metadata": {"finalizers": null}})));
        script.get(resource, "a");
    }
    if script.random.chance(40) {
        script.create(resource, object);
    }
    script.send(Request::new("DELETE", script.item(resource, "missing")));
}

fn options(script: &mut Script, created: usize) -> Option<Value> {
    let random = &mut script.random;
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    match random.below(14) {
        0 => options["gracePeriodSeconds"] = json!(random.pick(&[0, 5, -1, 30])),
        1 => {
            options["propagationPolicy"] =
                json!(random.pick(&["Background", "Foreground", "Orphan", "Never"]));
        }
        2 => options["preconditions"] = json!({"uid": format!("$({created}/metadata/uid)")}),
        3 => options["preconditions"] = json!({"uid": "00000000-0000-0000-0000-000000000009"}),
        4 => {
            options["preconditions"] =
                json!({"resourceVersion": format!("$({created}/metadata/resourceVersion)")});
        }
        5 => options["preconditions"] = json!({"resourceVersion": "1"}),
        6 => options["dryRun"] = json!(random.pick(&[json!(["All"]), json!(["Some"])])),
        7 => options["orphanDependents"] = json!(random.chance(50)),
        8 => {
            options["orphanDependents"] = json!(true);
            options["propagationPolicy"] = json!("Orphan");
        }
        9 => options["kind"] = json!(random.pick(&["Pod", "", "deleteoptions"])),
        10 => options["unheardOf"] = json!(1),
        _ => return None,
    }
    Some(options)
}

fn collection(script: &mut Script, resource: &Resource) {
    for index in 0..4 {
        let mut object = script.sample(resource, &format!("o{index}"));
        object["metadata"]["labels"] = json!({"app": if index % 2 == 0 { "web" } else { "api" }});
        if index == 3 && script.random.chance(50) {
            object["metadata"]["finalizers"] = json!(["example.com/keep"]);
        }
        script.create(resource, object);
    }
    let all = Request::new("DELETE", script.collection(resource));
    let request = match script.random.below(5) {
        0 => all.query("labelSelector", "app=web"),
        1 => all.query("fieldSelector", "metadata.name=o1"),
        2 => all.query("labelSelector", "a b"),
        3 => all.query("dryRun", "All"),
        _ => {
            all.json(json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}))
        }
    };
    script.send(request);
    script.send(Request::new("GET", script.collection(resource)));
}
