//! What is refused, and how it is said.

use karpenter_kube::scenario::load;
use serde_json::{Value, json};

#[track_caller]
fn check(scenario: &Value, path: &str, message: &str) {
    let invalid = load(scenario.to_string().as_bytes()).expect_err("the scenario is refused");
    assert_eq!(invalid.path, path, "{invalid}");
    assert!(invalid.message.contains(message), "{invalid}");
}

#[test]
fn a_refusal_names_the_field_and_says_what_to_do() {
    let named = |spec: Value| json!({ "pod": { "metadata": { "name": "web" }, "spec": spec } });
    let pod = |spec: Value| json!({ "podGroups": [{}, named(spec)] });
    let container = json!({ "resources": { "requests": { "memory": "lots" } } });
    check(
        &pod(json!({ "containers": [{}, container] })),
        "podGroups[1].pod.spec.containers[1].resources.requests.memory",
        "write it like",
    );
    check(
        &pod(json!({ "containers": [], "tolerations": [{ "operator": "Sometimes" }] })),
        "podGroups[1].pod.spec.tolerations[0].operator",
        "is not one of Equal, Exists, Lt, Gt",
    );
    let selector = json!({ "matchExpressions": [{ "key": "a", "operator": "Like" }] });
    let constraint = json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector });
    check(
        &pod(json!({ "containers": [], "topologySpreadConstraints": [constraint] })),
        "podGroups[1].pod.spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator",
        "is not one of In, NotIn, Exists, DoesNotExist",
    );
    check(
        &json!({ "nodes": [{ "name": "n", "state": "asleep" }] }),
        "nodes[0].state",
        "initialized, registered, launched",
    );
    check(&json!({ "mode": "guess" }), "mode", "schedule, disrupt");
    check(&json!({ "now": "noon" }), "now", "write it like");
    check(
        &json!({ "options": { "preferencePolicy": "Maybe" } }),
        "options.preferencePolicy",
        "Respect, Ignore",
    );
}

#[test]
fn wrong_shapes_are_refused_with_their_path() {
    check(&json!({ "podGroups": [{ "count": "two" }] }), "podGroups[0].count", "expected u32");
    check(
        &json!({ "instanceTypes": [{ "offerings": [["a", "spot"]] }] }),
        "instanceTypes[0].offerings[0]",
        "[zone, ",
    );
    let pool = json!({ "metadata": { "name": "p" }, "spec": { "weight": "heavy" } });
    check(&json!({ "nodePools": [pool] }), "nodePools[0].spec.weight", "expected i32");
    check(&json!({ "scenario": { "nodes": 5 } }), "scenario.nodes", "expected a sequence");
    check(&json!({ "scenario": { "mode": "guess" } }), "scenario.mode", "schedule, disrupt");
    check(&json!([]), "", "docs/scenario.md");
}

#[test]
fn names_must_be_unique() {
    let twice = |name: &str| json!([{ "name": name }, { "name": name }]);
    check(&json!({ "nodes": twice("n") }), "nodes[1]", "already taken");
    check(&json!({ "instanceTypes": twice("t") }), "instanceTypes[1]", "already taken");
    let pool = json!({ "metadata": { "name": "p" } });
    check(&json!({ "nodePools": [pool, pool] }), "nodePools[1]", "already taken");
}

#[test]
fn pod_groups_of_one_list_need_names_of_their_own() {
    let group = |namespace: &str| json!({ "pod": { "metadata": { "name": "web", "namespace": namespace } } });
    let twice = json!([group("shop"), group("bank"), group("shop")]);
    check(&json!({ "podGroups": twice }), "podGroups[2]", "\"shop/web\" is already taken");
    check(&json!({ "podGroups": [group(""), group("default")] }), "podGroups[1]", "\"default/web\"");
    check(
        &json!({ "nodes": [{ "name": "n", "podGroups": twice }] }),
        "nodes[0].podGroups[2]",
        "already taken",
    );
    let node = |name: &str| json!({ "name": name, "podGroups": [group("shop")] });
    let elsewhere = json!({ "nodes": [node("n"), node("m")], "podGroups": [group("shop"), group("bank")] });
    load(elsewhere.to_string().as_bytes()).expect("pods on nodes carry the node's name as well");
}

#[test]
fn a_slip_in_a_count_does_not_fill_the_memory() {
    check(
        &json!({ "podGroups": [{ "count": 4_000_000_000_u32 }] }),
        "podGroups[0].count",
        "more than 2000000 pods",
    );
    let template = json!({ "metadata": { "name": "t" }, "template": {} });
    let buffer = json!({ "metadata": { "name": "b" }, "spec": { "podTemplateRef": { "name": "t" }, "replicas": i32::MAX } });
    let scenario = json!({ "podTemplates": [template], "capacityBuffers": [buffer] });
    check(&scenario, "capacityBuffers[0]", "more than 2000000 pods");
}

#[test]
fn a_buffer_needs_what_it_refers_to() {
    let buffer = |spec: Value| json!({ "capacityBuffers": [{ "metadata": { "name": "b" }, "spec": spec }] });
    check(
        &buffer(json!({ "podTemplateRef": { "name": "t" }, "replicas": 1 })),
        "capacityBuffers[0].spec.podTemplateRef",
        "add it to podTemplates",
    );
    check(
        &buffer(json!({ "scalableRef": { "kind": "Deployment", "name": "d" } })),
        "capacityBuffers[0].spec.scalableRef",
        "add it to workloads",
    );
    check(&buffer(json!({ "replicas": 1 })), "capacityBuffers[0].spec", "podTemplateRef or a scalableRef");
}

#[test]
fn text_that_is_not_json_is_refused_with_its_place() {
    let invalid = load(b"{\"name\": \"a\",\n  oops}").expect_err("not JSON");
    assert!(invalid.message.contains("line 2"), "{invalid}");
    let invalid = load(b"{} {}").expect_err("two documents");
    assert!(invalid.message.contains("more after the end"), "{invalid}");
}
