//! Cases for shapes that several kinds share: requirements, taints, quantities, durations, conditions,
//! references to a NodeClass. Each takes the table to fill and the place of the shape in the object.

use serde_json::{Value, json};

use crate::admission::Table;

/// A list of requirements at `pointer`; overlays know no `minValues`.
pub(crate) fn requirements(table: &mut Table, pointer: &str, has_min_values: bool) {
    let one = |requirement: Value| json!([requirement]);
    let with = |operator: &str, values: &[&str]| json!([{"key": "example.com/size", "operator": operator, "values": values}]);
    for operator in ["In", "NotIn"] {
        table.accept(operator, pointer, with(operator, &["a", "b"]));
    }
    for operator in ["Exists", "DoesNotExist"] {
        table.accept(operator, pointer, one(json!({"key": "example.com/size", "operator": operator})));
    }
    for operator in ["Gt", "Lt", "Gte", "Lte"] {
        table.accept(operator, pointer, with(operator, &["0"]));
        for values in [&[][..], &["1", "2"][..], &["-1"][..]] {
            table.refuse(
                operator,
                pointer,
                with(operator, values),
                "must have a single positive integer value",
            );
        }
        table.refuse("a number that is none", pointer, with(operator, &["a"]), "requirements");
    }
    table.refuse(
        "In without values",
        pointer,
        with("In", &[]),
        "requirements with operator 'In' must have a value defined",
    );
    table.refuse("an unknown operator", pointer, with("Near", &["a"]), r#""Near" is not one of"#);
    table.refuse("no key", pointer, one(json!({"operator": "Exists"})), r#""key" is a required property"#);
    table.refuse("no operator", pointer, one(json!({"key": "a"})), r#""operator" is a required property"#);
    let exists = |key: &str| json!([{"key": key, "operator": "Exists"}]);
    for key in [
        "a",
        "Test",
        "example.com/Test",
        "a.b.c/x_y.z",
        "kubernetes.io/arch",
        "beta.kubernetes.io/arch",
        "k8s.io/x",
    ] {
        table.accept(key, pointer, exists(key));
    }
    for key in ["Test.com/test", "a b", "a/b/c", "", "-a", "a/"] {
        table.refuse(key, pointer, exists(key), "does not match");
    }
    table.refuse("a long key", pointer, exists(&"a".repeat(317)), "longer than 316");
    let many = |count: usize| Value::from(vec![json!({"key": "a", "operator": "Exists"}); count]);
    table.accept("a hundred requirements", pointer, many(100));
    table.refuse("more than a hundred", pointer, many(101), "has more than 100 items");
    if has_min_values {
        min_values(table, pointer);
    }
    label_keys(table, &mut |table, key, refusal| match refusal {
        None => table.accept(key, pointer, exists(key)),
        Some(refusal) => table.refuse(key, pointer, exists(key), refusal),
    });
}

fn min_values(table: &mut Table, pointer: &str) {
    let with = |operator: &str, values: &[&str], least: i64| json!([{"key": "a", "operator": operator, "values": values, "minValues": least}]);
    table.accept("as many values as minValues", pointer, with("In", &["a", "b"], 2));
    table.accept("minValues without In", pointer, with("Exists", &[], 50));
    table.refuse(
        "fewer values than minValues",
        pointer,
        with("In", &["a"], 2),
        "must have at least that many values",
    );
    table.refuse("minValues zero", pointer, with("In", &["a"], 0), "less than the minimum of 1");
    table.refuse("minValues above fifty", pointer, with("Exists", &[], 51), "greater than the maximum of 50");
}

/// Label keys that every place treats alike when all providers are guarded.
pub(crate) fn label_keys(table: &mut Table, check: &mut dyn FnMut(&mut Table, &str, Option<&'static str>)) {
    let accepted = [
        "karpenter.sh/capacity-type",
        "karpenter.kwok.sh/instance-family",
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/ec2nodeclass",
        "karpenter.k8s.alibabacloud/instance-family",
        "karpenter.k8s.alibabacloud.com/ecs-instance-family",
        "karpenter.alibabacloud.com/instance-family",
        "topology.k8s.aws/zone-id",
        "example.com/karpenter.sh",
        "node.kubernetes.io/instance-type",
    ];
    for key in accepted {
        check(table, key, None);
    }
    let refused = [
        ("karpenter.sh/unknown", r#"label domain "karpenter.sh" is restricted"#),
        ("sub.karpenter.sh/unknown", r#"label domain "karpenter.sh" is restricted"#),
        ("kubernetes.io/hostname", r#"label "kubernetes.io/hostname" is restricted"#),
        ("karpenter.k8s.aws/instance-famly", r#"label domain "karpenter.k8s.aws" is restricted"#),
        ("karpenter.k8s.alibabacloud/unknown", r#"label domain "karpenter.k8s.alibabacloud" is restricted"#),
    ];
    for (key, refusal) in refused {
        check(table, key, Some(refusal));
    }
}

/// A list of taints at `pointer`.
pub(crate) fn taints(table: &mut Table, pointer: &str) {
    let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
    for effect in ["NoSchedule", "PreferNoSchedule", "NoExecute"] {
        table.accept(effect, pointer, taint("example.com/Team", effect));
    }
    table.accept(
        "a value",
        pointer,
        json!([{"key": "a", "effect": "NoExecute", "value": "b.c/d", "timeAdded": "2024-01-01T00:00:00Z"}]),
    );
    table.refuse("an unknown effect", pointer, taint("a", "Never"), r#""Never" is not one of"#);
    table.refuse("an empty key", pointer, taint("", "NoExecute"), "shorter than 1 character");
    table.refuse(
        "a key with capitals in its domain",
        pointer,
        taint("Test.com/a", "NoExecute"),
        "does not match",
    );
    table.refuse(
        "a wrong value",
        pointer,
        json!([{"key": "a", "effect": "NoExecute", "value": "a b"}]),
        "does not match",
    );
    table.refuse("no key", pointer, json!([{"effect": "NoExecute"}]), r#""key" is a required property"#);
    table.refuse("no effect", pointer, json!([{"key": "a"}]), r#""effect" is a required property"#);
    table.refuse(
        "a wrong time",
        pointer,
        json!([{"key": "a", "effect": "NoExecute", "timeAdded": "noon"}]),
        "date-time",
    );
}

/// A map of quantities at `pointer`; `name` is a resource the place admits.
pub(crate) fn quantities(table: &mut Table, pointer: &str, name: &str) {
    for quantity in
        [json!(1000), json!("500m"), json!("4Gi"), json!("1e3"), json!("1E"), json!("-1"), json!("0.5")]
    {
        table.accept("a quantity", pointer, json!({ name: quantity }));
    }
    table.refuse("a wrong quantity", pointer, json!({name: "4GB"}), "does not match");
    table.refuse("a fraction", pointer, json!({name: 0.5}), "not valid under any of the schemas");
}

/// A duration at `pointer`.
pub(crate) fn duration(table: &mut Table, pointer: &str) {
    for text in ["30s", "1h30m", "720h", "90m10s", "0s"] {
        table.accept(text, pointer, json!(text));
    }
    for text in ["-30s", "1d", "30", "", "never", "1.5h", "1ms"] {
        table.refuse(text, pointer, json!(text), "does not match");
    }
}

/// A duration or `Never` at `pointer`.
pub(crate) fn nillable_duration(table: &mut Table, pointer: &str) {
    duration(table, pointer);
    table.accept("Never", pointer, json!("Never"));
}

/// A reference to a NodeClass at `pointer`.
pub(crate) fn node_class_ref(table: &mut Table, pointer: &str) {
    let at = |field: &str| format!("{pointer}/{field}");
    table.refuse("a version in the group", &at("group"), json!("karpenter.k8s.aws/v1"), "does not match");
    for (field, message) in [
        ("group", "group may not be empty"),
        ("kind", "kind may not be empty"),
        ("name", "name may not be empty"),
    ] {
        table.refuse("an empty part of the reference", &at(field), json!(""), message);
        table.add(
            "a part of the reference missing",
            &[(&at(field), None)],
            None,
            Some("is a required property"),
        );
    }
}

/// Status conditions; `strict` if they must give a reason and a message.
pub(crate) fn conditions(table: &mut Table, strict: bool) {
    let full = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2024-01-01T00:00:00Z", "observedGeneration": 3
    });
    let pointer = "/status";
    let status = |condition: &Value| json!({"conditions": [condition]});
    let with = |field: &str, value: Value| {
        let mut condition = full.clone();
        condition[field] = value;
        status(&condition)
    };
    table.accept("a condition", pointer, status(&full));
    table.refuse("a condition twice", pointer, json!({"conditions": [full, full]}), "duplicate");
    let refused = [
        ("status", json!("Maybe"), r#""Maybe" is not one of"#),
        ("type", json!("a b"), "does not match"),
        ("type", json!("a".repeat(317)), "longer than 316"),
        ("reason", json!("9"), "does not match"),
        ("reason", json!("a".repeat(1025)), "longer than 1024"),
        ("message", json!("a".repeat(32769)), "longer than 32768"),
        ("lastTransitionTime", json!("noon"), "date-time"),
        ("observedGeneration", json!(-1), "less than the minimum of 0"),
    ];
    for (field, value, refusal) in refused {
        table.refuse(field, pointer, with(field, value), refusal);
    }
    for field in ["type", "status", "reason", "message", "lastTransitionTime"] {
        let mut condition = full.clone();
        condition.as_object_mut().unwrap().remove(field);
        if strict || !matches!(field, "reason" | "message") {
            table.refuse(field, pointer, status(&condition), "is a required property");
        } else {
            table.accept(field, pointer, status(&condition));
        }
    }
    if strict {
        table.refuse("an empty reason", pointer, with("reason", json!("")), "shorter than 1 character");
    } else {
        table.accept("an empty reason", pointer, with("reason", json!("")));
    }
}
