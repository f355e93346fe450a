//! What the NodePool CRD accepts and refuses.

use serde_json::{Map, Value, json};

use crate::admission::Table;
use crate::shared_cases::{
    conditions, duration, label_keys, nillable_duration, node_class_ref, quantities, requirements, taints,
};

const SPEC: &str = "/spec/template/spec";
const LABELS: &str = "/spec/template/metadata";

pub(crate) fn nodepool() -> Table {
    let mut table = Table::new(
        "NodePool",
        json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {
                "disruption": {},
                "template": {"metadata": {}, "spec": {
                    "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "Exists"}],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
                }}
            }
        }),
    );
    table.accept("the smallest pool", "/metadata/name", json!("small"));
    required_parts(&mut table);
    requirements(&mut table, &format!("{SPEC}/requirements"), true);
    nodepool_key(&mut table);
    taints(&mut table, &format!("{SPEC}/taints"));
    taints(&mut table, &format!("{SPEC}/startupTaints"));
    node_class_ref(&mut table, &format!("{SPEC}/nodeClassRef"));
    nillable_duration(&mut table, &format!("{SPEC}/expireAfter"));
    duration(&mut table, &format!("{SPEC}/terminationGracePeriod"));
    nillable_duration(&mut table, "/spec/disruption/consolidateAfter");
    quantities(&mut table, "/spec/limits", "cpu");
    labels(&mut table);
    disruption(&mut table);
    weight_and_replicas(&mut table);
    immutability(&mut table);
    conditions(&mut table, true);
    table.accept("a status", "/status", json!({"nodes": 3, "nodeClassObservedGeneration": 7}));
    for quantity in ["16", "4Gi"] {
        table.accept("resources", "/status", json!({"resources": {"memory": quantity}}));
    }
    table.refuse("wrong resources", "/status", json!({"resources": {"memory": "4GB"}}), "does not match");
    table.refuse(
        "fractional resources",
        "/status",
        json!({"resources": {"cpu": 0.5}}),
        "not valid under any",
    );
    table
}

fn required_parts(table: &mut Table) {
    for pointer in ["/spec", "/spec/template", "/spec/template/spec"] {
        table.add("a part missing", &[(pointer, None)], None, Some("is a required property"));
    }
    for field in ["requirements", "nodeClassRef"] {
        table.add(
            "a part missing",
            &[(&format!("{SPEC}/{field}"), None)],
            None,
            Some("is a required property"),
        );
    }
}

fn nodepool_key(table: &mut Table) {
    let refusal = r#"label "karpenter.sh/nodepool" is restricted"#;
    let requirement = json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}]);
    table.refuse("the pool's own label", &format!("{SPEC}/requirements"), requirement, refusal);
    let labels = json!({"labels": {"karpenter.sh/nodepool": "a"}});
    table.refuse("the pool's own label", LABELS, labels, refusal);
    let kwok = json!([{"key": "karpenter.kwok.sh/unknown", "operator": "Exists"}]);
    table.refuse(
        "a KWOK label",
        &format!("{SPEC}/requirements"),
        kwok,
        r#"label domain "karpenter.kwok.sh" is restricted"#,
    );
    // Upstream's KWOK chart does not guard template labels.
    table.accept("a KWOK label", LABELS, json!({"labels": {"karpenter.kwok.sh/unknown": "a"}}));
}

fn labels(table: &mut Table) {
    let one = |key: &str, value: &str| json!({"labels": {key: value}});
    label_keys(table, &mut |table, key, refusal| match refusal {
        None => table.accept(key, LABELS, one(key, "x")),
        Some(refusal) => table.refuse(key, LABELS, one(key, "x"), refusal),
    });
    for value in ["", "a", "A_b.c-9"] {
        table.accept("a label value", LABELS, one("a", value));
    }
    table.refuse("a wrong label value", LABELS, one("a", "/ is not allowed"), "does not match");
    table.refuse("a long label value", LABELS, one("a", &"a".repeat(64)), "longer than 63");
    let many = |count: usize| {
        let labels: Map<String, Value> = (0..count).map(|index| (format!("l{index}"), json!("x"))).collect();
        json!({ "labels": labels })
    };
    table.accept("a hundred labels", LABELS, many(100));
    table.refuse("more than a hundred labels", LABELS, many(101), "has more than 100 properties");
    table.accept("annotations", LABELS, json!({"annotations": {"any thing": "at all"}}));
}

fn disruption(table: &mut Table) {
    let policy = "/spec/disruption/consolidationPolicy";
    for word in ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] {
        table.accept(word, policy, json!(word));
    }
    table.refuse("an unknown policy", policy, json!("Always"), r#""Always" is not one of"#);

    let budgets = "/spec/disruption/budgets";
    for nodes in ["0", "10", "0%", "10%", "100%", "1000"] {
        table.accept(nodes, budgets, json!([{ "nodes": nodes }]));
    }
    for nodes in ["-10", "-10%", "1000%", "101%", "ten", ""] {
        table.refuse(nodes, budgets, json!([{ "nodes": nodes }]), "does not match");
    }
    let window =
        |schedule: &str, duration: &str| json!([{"nodes": "1", "schedule": schedule, "duration": duration}]);
    for schedule in [
        "* * * * *",
        "0 9 * * mon-fri",
        "@annually",
        "@yearly",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
    ] {
        table.accept(schedule, budgets, window(schedule, "20m"));
    }
    for schedule in ["*", "* * * *", "@every 5m", "@never", ""] {
        table.refuse(schedule, budgets, window(schedule, "20m"), "does not match");
    }
    for length in ["20m", "8h", "1h30m", "1h0m0s", "90m0s"] {
        table.accept(length, budgets, window("@daily", length));
    }
    for length in ["-20m", "30s", "1d", "20", "1h30s"] {
        table.refuse(length, budgets, window("@daily", length), "does not match");
    }
    let together = "'schedule' must be set with 'duration'";
    table.refuse("a schedule alone", budgets, json!([{"nodes": "1", "schedule": "@daily"}]), together);
    table.refuse("a duration alone", budgets, json!([{"nodes": "1", "duration": "20m"}]), together);
    table.refuse(
        "one bad budget of two",
        budgets,
        json!([{"nodes": "1"}, {"nodes": "1", "duration": "20m"}]),
        together,
    );
    table.accept("a budget of defaults", budgets, json!([{}]));
    let many = |count: usize| Value::from(vec![json!({"nodes": "1"}); count]);
    table.accept("fifty budgets", budgets, many(50));
    table.refuse("more than fifty budgets", budgets, many(51), "has more than 50 items");
    reasons(table, budgets);
}

fn reasons(table: &mut Table, budgets: &str) {
    let with = |reasons: Value| json!([{"nodes": "1", "reasons": reasons}]);
    table.accept("every reason", budgets, with(json!(["Underutilized", "Empty", "Drifted", "Unhealthy"])));
    table.refuse("an unknown reason", budgets, with(json!(["Expired"])), r#""Expired" is not one of"#);
    table.refuse("a reason twice", budgets, with(json!(["Empty", "Empty"])), "duplicate");
    table.refuse("too many reasons", budgets, with(Value::from(vec!["Empty"; 51])), "has more than 50 items");
}

fn weight_and_replicas(table: &mut Table) {
    for weight in [1, 100] {
        table.accept("a weight", "/spec/weight", json!(weight));
    }
    table.refuse("weight zero", "/spec/weight", json!(0), "less than the minimum of 1");
    table.refuse("a heavy weight", "/spec/weight", json!(101), "greater than the maximum of 100");
    table.accept("no replicas at all", "/spec/replicas", json!(0));
    table.refuse("negative replicas", "/spec/replicas", json!(-1), "less than the minimum of 0");
    let replicas = ("/spec/replicas", Some(json!(3)));
    let weight = ("/spec/weight", Some(json!(3)));
    table.add(
        "static with weight",
        &[replicas.clone(), weight],
        None,
        Some("'weight' is not supported on static NodePools"),
    );
    for limits in [json!({}), json!({"nodes": 5})] {
        let limits = ("/spec/limits", Some(limits));
        table.add("static with a bound on nodes", &[replicas.clone(), limits], None, None);
    }
    for limits in [json!({"cpu": 5}), json!({"cpu": 5, "nodes": 5})] {
        let limits = ("/spec/limits", Some(limits));
        let refusal = "only 'limits.nodes' is supported on static NodePools";
        table.add("static with other limits", &[replicas.clone(), limits], None, Some(refusal));
    }
}

fn immutability(table: &mut Table) {
    let replicas = |count: i64| [("/spec/replicas", Some(json!(count)))];
    let refusal = "Cannot transition NodePool between static";
    table.add("static becomes dynamic", &[], Some(&replicas(1)), Some(refusal));
    table.add("dynamic becomes static", &replicas(1), Some(&[]), Some(refusal));
    table.add("static pools scale", &replicas(5), Some(&replicas(1)), None);
    let class = |field: &str| format!("{SPEC}/nodeClassRef/{field}");
    for (field, refusal) in [
        ("group", Some("nodeClassRef.group is immutable")),
        ("kind", Some("nodeClassRef.kind is immutable")),
        ("name", None),
    ] {
        table.add("the class changes", &[(&class(field), Some(json!("other")))], Some(&[]), refusal);
    }
    let weight = [("/spec/weight", Some(json!(7)))];
    table.add("anything else changes", &weight, Some(&[]), None);
}
