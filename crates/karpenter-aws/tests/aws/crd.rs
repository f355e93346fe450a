//! Our definition against upstream's: the same shape, bounds, defaults, rules, columns and names.
//!
//! `upstream_ec2nodeclass.tsv` was taken by program from the definition on upstream's main branch when 1.14.1 was released: path in
//! the schema, and everything said there except descriptions. It admits whatever the definition in the 1.14.1 chart admits.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws::{EC2NodeClass, definition};
use serde_json::{Map, Value, json};

type Facts = BTreeMap<String, Value>;

fn upstream() -> Facts {
    let table = include_str!("../data/upstream_ec2nodeclass.tsv");
    table
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(path, facts)| (path.to_owned(), serde_json::from_str(facts).unwrap()))
        .collect()
}

fn ours() -> Facts {
    let document = serde_json::to_value(definition()).unwrap();
    let spec = &document["spec"];
    let version = &spec["versions"][0];
    let head = json!({
        "group": spec["group"], "names": spec["names"], "scope": spec["scope"], "version": version["name"],
        "served": version["served"], "storage": version["storage"], "subresources": version["subresources"],
        "columns": version["additionalPrinterColumns"],
    });
    let mut facts = Facts::from([(String::new(), head)]);
    collect(&version["schema"]["openAPIV3Schema"], "", &mut facts);
    facts
}

/// Notes what the schema says at each path; order does not count in what is a set.
fn collect(schema: &Value, path: &str, facts: &mut Facts) {
    let mut said = Map::new();
    for (keyword, value) in schema.as_object().unwrap() {
        match (keyword.as_str(), value) {
            ("description", _) => {}
            ("properties", Value::Object(children)) => {
                for (name, child) in children {
                    collect(child, &format!("{path}.{name}"), facts);
                }
            }
            ("items", child) => collect(child, &format!("{path}[]"), facts),
            ("additionalProperties", child) => collect(child, &format!("{path}{{}}"), facts),
            ("x-kubernetes-validations", Value::Array(rules)) => {
                let rules: BTreeSet<(String, String)> = rules
                    .iter()
                    .map(|rule| {
                        (rule["rule"].as_str().unwrap().into(), rule["message"].as_str().unwrap().into())
                    })
                    .collect();
                said.insert(keyword.clone(), json!(rules));
            }
            ("required", Value::Array(names)) => {
                let names: BTreeSet<&str> = names.iter().map(|name| name.as_str().unwrap()).collect();
                said.insert(keyword.clone(), json!(names));
            }
            ("minimum" | "maximum", bound) => {
                said.insert(keyword.clone(), json!(bound.as_f64().unwrap() as i64));
            }
            _ => {
                said.insert(keyword.clone(), value.clone());
            }
        }
    }
    facts.insert(if path.is_empty() { ".".to_owned() } else { path.to_owned() }, Value::Object(said));
}

#[test]
fn the_schema_says_what_upstreams_says() {
    let (ours, upstream) = (ours(), upstream());
    assert_eq!(upstream.len(), 120);
    for (path, facts) in &upstream {
        assert_eq!(ours.get(path), Some(facts), "{path:?}");
    }
    let extra: Vec<_> = ours.keys().filter(|path| !upstream.contains_key(*path)).collect();
    assert!(extra.is_empty(), "{extra:?}");
}

#[test]
fn every_field_is_described() {
    fn check(schema: &Value, path: &str) {
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            assert!(path == ".metadata" || child["description"].is_string(), "{path}");
            check(child, &path);
            check(&child["items"], &path);
        }
    }
    let document = serde_json::to_value(definition()).unwrap();
    check(&document["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
}

/// A value for every field of a schema.
fn filled(schema: &Value) -> Value {
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    match schema["type"].as_str() {
        Some("object") if schema["properties"].is_object() => {
            let fields = schema["properties"].as_object().unwrap();
            fields.iter().map(|(name, child)| (name.clone(), filled(child))).collect()
        }
        Some("object") => json!({ "key": "value" }),
        Some("array") => json!([filled(&schema["items"])]),
        Some("integer") => json!(7),
        Some("boolean") => json!(true),
        _ if schema["format"] == "date-time" => json!("2026-11-17T06:00:00Z"),
        _ => json!("text"),
    }
}

#[test]
fn the_types_carry_every_field_of_the_schema() {
    let document = serde_json::to_value(definition()).unwrap();
    let schema = &document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let object = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": "all" },
        "spec": filled(&schema["spec"]), "status": filled(&schema["status"]),
    });
    let read: EC2NodeClass = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), object);
}
