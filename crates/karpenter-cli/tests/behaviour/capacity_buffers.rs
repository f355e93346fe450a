//! CapacityBuffers keep room for pods that do not exist yet, after all pods that do.

use karpenter_checker::PlanResult;
use serde_json::{Value, json};

use super::{Plan, assert_feasible, node, overwrite, pods, pool, with_defaults};
use crate::planned::{printed_plan, read_plan};

/// A buffer of pods that ask for `cpu`, with these other fields.
fn buffer(cpu: &str, fields: Value) -> Value {
    let template = pods("spare", 1, cpu, json!({}))["pod"].clone();
    let mut spec = json!({ "podTemplateRef": { "name": "spare" } });
    overwrite(&mut spec, fields);
    json!({
        "podTemplates": [{ "metadata": { "name": "spare" },
            "template": { "metadata": { "labels": { "app": "spare" } }, "spec": template["spec"] } }],
        "capacityBuffers": [{ "metadata": { "name": "room" }, "spec": spec }],
    })
}

/// Plans with the buffer. The checker is told of `count` pods in the buffer's place, which it counts from zero.
#[track_caller]
fn planned(buffer: Value, cpu: &str, count: u32, fields: Value) -> Plan {
    let mut scenario = with_defaults(fields);
    let mut same = scenario.clone();
    let virtual_pods = pods("capacity-buffer-room", count, cpu, json!({}));
    if count > 0 {
        let groups = same.as_object_mut().expect("a scenario").entry("podGroups").or_insert(json!([]));
        groups.as_array_mut().expect("a list of pods").push(virtual_pods);
    }
    overwrite(&mut scenario, buffer);
    let result = read_plan(&printed_plan(&scenario));
    assert_feasible(&same, &counted_from_zero(&result, count));
    Plan { result }
}

fn counted_from_zero(result: &PlanResult, count: u32) -> PlanResult {
    let mut text = serde_json::to_string(result).expect("a plan can be printed");
    for number in 1..=count {
        let name = |number: u32| format!("\"default/capacity-buffer-room-{number}\"");
        text = text.replace(&name(number), &name(number - 1));
    }
    read_plan(&text)
}

#[test]
fn a_buffer_is_room_that_is_bought() {
    let plan = planned(buffer("2", json!({ "replicas": 2 })), "2", 2, json!({}));
    plan.assert_all_placed();
    plan.assert_price(0.16);
}

#[test]
fn room_that_is_free_is_the_buffer() {
    let nodes = json!([node("n", "medium", "zone-a", json!({}))]);
    let plan = planned(buffer("2", json!({ "replicas": 2 })), "2", 2, json!({ "nodes": nodes }));
    assert_eq!(plan.on_nodes()["n"], ["capacity-buffer-room-1", "capacity-buffer-room-2"]);
    assert!(plan.claims().is_empty());
}

#[test]
fn limits_of_the_buffer_bound_its_size() {
    let limited = buffer("2", json!({ "replicas": 9, "limits": { "cpu": "5" } }));
    planned(limited, "2", 2, json!({})).assert_all_placed();
    let filled = buffer("2", json!({ "limits": { "cpu": "7" } }));
    planned(filled, "2", 3, json!({})).assert_all_placed();
}

#[test]
fn a_share_of_a_workload_is_rounded_up() {
    let mut share = buffer("1", json!({}));
    share["workloads"] = json!([{ "kind": "Deployment", "metadata": { "name": "web" }, "spec": { "replicas": 11,
        "template": { "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] } } } }]);
    share["capacityBuffers"][0]["spec"] = json!({
        "scalableRef": { "apiGroup": "apps", "kind": "Deployment", "name": "web" }, "percentage": 10 });
    let plan = planned(share, "1", 2, json!({}));
    plan.assert_all_placed();
    plan.assert_price(0.08);
}

#[test]
fn real_pods_come_before_the_buffer_even_if_they_are_smaller() {
    let scarce = pool("general", json!({ "limits": { "cpu": "2" } }));
    let web = pods("web", 1, "1", json!({ "priority": -1000 }));
    let plan = planned(
        buffer("2", json!({ "replicas": 1 })),
        "2",
        1,
        json!({ "nodePools": [scarce], "podGroups": [web] }),
    );
    assert_eq!(plan.unplaced(), ["capacity-buffer-room-1"]);
    plan.assert_price(0.08);
}

#[test]
fn a_buffer_and_pods_share_machines() {
    let plan = planned(
        buffer("1", json!({ "replicas": 1 })),
        "1",
        1,
        json!({ "podGroups": [pods("web", 1, "1", json!({}))] }),
    );
    plan.assert_all_placed();
    plan.assert_price(0.08);
}
