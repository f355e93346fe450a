//! Reserved capacity is used first, never twice, and waited for while others hold it.

use serde_json::{Value, json};

use super::{CAPACITY_TYPE, Plan, launch, machine, overwrite, plan_as_if, pods, pool_with, with_defaults};

/// A small machine that can be had `slots` times for nothing, in `zone-b`.
fn reserved(name: &str, cpu: u32, slots: u32) -> Value {
    let mut machine = machine(name, cpu);
    machine["offerings"].as_array_mut().expect("a list of offerings").push(json!({
        "zone": "zone-b", "capacityType": "reserved", "price": 0.0, "reservationId": "r-1", "reservationCapacity": slots,
    }));
    machine
}

/// The checker knows reserved capacity only as one more capacity type.
fn without_reservations(scenario: &Value) -> Value {
    let mut scenario = scenario.clone();
    for machine in scenario["instanceTypes"].as_array_mut().expect("a list of types") {
        for offering in machine["offerings"].as_array_mut().expect("a list of offerings") {
            if offering.is_object() {
                *offering = json!([offering["zone"], offering["capacityType"], offering["price"], true]);
            }
        }
    }
    scenario
}

#[track_caller]
fn planned(machines: Value, fields: Value) -> Plan {
    let mut scenario = json!({ "instanceTypes": machines });
    overwrite(&mut scenario, fields);
    let scenario = with_defaults(scenario);
    plan_as_if(&scenario, &without_reservations(&scenario))
}

fn on(plan: &Plan, capacity_type: &str) -> usize {
    plan.claims().iter().filter(|claim| launch(claim).capacity_type == capacity_type).count()
}

#[test]
fn reserved_capacity_is_used_first() {
    let machines = json!([reserved("small", 2, 1), machine("large", 8)]);
    let plan = planned(machines, json!({ "podGroups": [pods("web", 1, "1", json!({}))] }));
    assert_eq!(plan.only_claim().instance_types, ["small"]);
    assert_eq!(on(&plan, "reserved"), 1);
    plan.assert_price(0.0);
}

#[test]
fn each_slot_is_given_out_once_and_the_rest_waits() {
    let planned = |slots: u32| {
        let web = pods("web", 3, "2", json!({}));
        planned(json!([reserved("small", 2, slots)]), json!({ "podGroups": [web] }))
    };
    let scarce = planned(1);
    assert_eq!((on(&scarce, "reserved"), scarce.claims().len(), scarce.unplaced().len()), (1, 1, 2));
    let enough = planned(3);
    assert_eq!((on(&enough, "reserved"), enough.unplaced().len()), (3, 0));
}

#[test]
fn a_slot_shared_by_two_types_is_one_slot() {
    let machines = json!([reserved("small", 2, 1), reserved("medium", 4, 1)]);
    let plan = planned(machines, json!({ "podGroups": [pods("web", 2, "4", json!({}))] }));
    assert_eq!((on(&plan, "reserved"), plan.unplaced().len()), (1, 1));
}

#[test]
fn pods_that_fit_together_share_the_reserved_machine() {
    let plan =
        planned(json!([reserved("small", 2, 1)]), json!({ "podGroups": [pods("web", 2, "1", json!({}))] }));
    plan.assert_all_placed();
    assert_eq!(plan.only_claim().pods.len(), 2);
    plan.assert_price(0.0);
}

#[test]
fn pods_and_pools_that_do_not_take_reserved_capacity_do_not_wait_for_it() {
    let spot = pods("spot", 1, "2", json!({ "nodeSelector": { CAPACITY_TYPE: "spot" } }));
    let web = pods("web", 1, "2", json!({}));
    let plan = planned(json!([reserved("small", 2, 1)]), json!({ "podGroups": [spot, web] }));
    plan.assert_all_placed();
    assert_eq!((on(&plan, "reserved"), on(&plan, "spot")), (1, 1));
    let pools = json!([pool_with("general", &[(CAPACITY_TYPE, "In", &["on-demand"])])]);
    let machines = json!([reserved("small", 2, 1)]);
    let plan =
        planned(machines, json!({ "nodePools": pools, "podGroups": [pods("web", 3, "2", json!({}))] }));
    plan.assert_all_placed();
    assert_eq!(on(&plan, "on-demand"), plan.claims().len());
}

#[test]
fn a_pod_too_large_for_the_reserved_machine_does_not_wait_for_it() {
    let machines = json!([reserved("small", 2, 1), machine("large", 8)]);
    let groups = json!([pods("web", 1, "2", json!({})), pods("big", 1, "7", json!({}))]);
    let plan = planned(machines, json!({ "podGroups": groups }));
    plan.assert_all_placed();
    assert_eq!((on(&plan, "reserved"), on(&plan, "spot")), (1, 1));
}
