//! NodeOverlays correct what the provider says about machines.

use serde_json::{Value, json};

use super::{
    CAPACITY_TYPE, INSTANCE_TYPE, Plan, expressions, launch, machine, plan_as_if, pods, with_defaults,
};

fn overlay(name: &str, requirements: &[(&str, &str, &[&str])], fields: Value) -> Value {
    let mut spec = json!({ "requirements": expressions(requirements) });
    super::overwrite(&mut spec, fields);
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// Two machines of equal size; the first costs 1, the second 2 per hour.
fn one(name: &str, price: f64) -> Value {
    let mut machine = machine(name, 2);
    machine["offerings"] = json!([["zone-a", "on-demand", price, true]]);
    machine
}

/// Plans one pod with these overlays, checked against the machines they amount to.
#[track_caller]
fn planned(overlays: Value, cpu_pod: Value, corrected: [Value; 2]) -> Plan {
    let machines = json!([one("first", 1.0), one("second", 2.0)]);
    let fields = |machines: Value| json!({ "instanceTypes": machines, "podGroups": [cpu_pod] });
    let mut scenario = with_defaults(fields(machines));
    scenario["nodeOverlays"] = overlays;
    plan_as_if(&scenario, &with_defaults(fields(json!(corrected))))
}

fn web() -> Value {
    pods("web", 1, "1", json!({}))
}

const SECOND: &[(&str, &str, &[&str])] = &[(INSTANCE_TYPE, "In", &["second"])];

#[test]
fn prices_are_replaced_or_adjusted_before_machines_are_compared() {
    let check = |fields: Value, price: f64, cheapest: &str| {
        let overlays = json!([overlay("o", SECOND, fields.clone())]);
        let plan = planned(overlays, web(), [one("first", 1.0), one("second", price)]);
        assert_eq!(launch(plan.only_claim()).instance_type, cheapest, "{fields}");
        plan.assert_price(price.min(1.0));
    };
    check(json!({ "price": "0.5" }), 0.5, "second");
    check(json!({ "priceAdjustment": "-75%" }), 0.5, "second");
    check(json!({ "priceAdjustment": "-1.5" }), 0.5, "second");
    check(json!({ "priceAdjustment": "-9" }), 0.0, "second");
    check(json!({ "priceAdjustment": "+10%" }), 2.2, "first");
}

#[test]
fn an_overlay_for_other_offerings_changes_nothing() {
    let spot: &[(&str, &str, &[&str])] = &[(CAPACITY_TYPE, "In", &["spot"])];
    let overlays = json!([overlay("o", spot, json!({ "price": "0.01" }))]);
    planned(overlays, web(), [one("first", 1.0), one("second", 2.0)]).assert_price(1.0);
}

#[test]
fn the_heavier_overlay_wins() {
    let overlays = json!([
        overlay("light", SECOND, json!({ "price": "0.1", "weight": 1 })),
        overlay("heavy", SECOND, json!({ "price": "0.7", "weight": 2 })),
    ]);
    planned(overlays, web(), [one("first", 1.0), one("second", 0.7)]).assert_price(0.7);
}

#[test]
fn a_resource_an_overlay_adds_makes_room_for_pods() {
    let overlays = json!([overlay("o", SECOND, json!({ "capacity": { "example.com/gpu": "1" } }))]);
    let containers = json!([{ "resources": { "requests": { "cpu": "1", "example.com/gpu": "1" } } }]);
    let gpu_pod = pods("web", 1, "1", json!({ "containers": containers }));
    let mut second = one("second", 2.0);
    second["capacity"]["example.com/gpu"] = json!("1");
    let plan = planned(overlays, gpu_pod, [one("first", 1.0), second]);
    plan.assert_all_placed();
    assert_eq!(plan.only_claim().instance_types, ["second"]);
}

#[test]
fn overlays_of_equal_weight_that_contradict_each_other_are_reported() {
    let scenario = with_defaults(json!({
        "podGroups": [web()],
        "nodeOverlays": [
            overlay("a", &[(INSTANCE_TYPE, "In", &["small"])], json!({ "price": "0.1" })),
            overlay("b", &[(INSTANCE_TYPE, "In", &["small"])], json!({ "price": "0.2" })),
        ],
    }));
    let result: Value = serde_json::from_str(&crate::planned::printed_plan(&scenario)).unwrap();
    assert_eq!(result["conflictingNodeOverlays"].as_array().map(Vec::len), Some(1), "{result}");
}
