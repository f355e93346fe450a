//! Our CRDs against upstream's: the same shape, bounds, defaults, rules, columns and names.
//!
//! `upstream_crds.tsv` was taken by program from the CRDs of upstream 1.15.0: CRD, path in the schema, and
//! everything said there except descriptions. `upstream_provider_rules.tsv` holds the CEL rules that the
//! charts of the KWOK (1.15.0) and AWS (1.14.1) providers add.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::crd::{crds, crds_yaml};
use karpenter_api::{LabelRules, Provider};
use serde_json::{Map, Value, json};

use crate::admission::schema_of;

type Facts = BTreeMap<(String, String), Value>;

fn upstream() -> Facts {
    let table = include_str!("../data/upstream_crds.tsv");
    let line = |line: &str| {
        let mut cells = line.splitn(3, '\t');
        let mut cell = || cells.next().unwrap().to_owned();
        ((cell(), cell()), serde_json::from_str(&cell()).unwrap())
    };
    table.lines().map(line).collect()
}

fn ours(rules: &LabelRules) -> Facts {
    let mut facts = Facts::new();
    for definition in crds(rules) {
        let name = definition.metadata.name.clone().unwrap();
        let document = serde_json::to_value(&definition).unwrap();
        let version = &document["spec"]["versions"][0];
        let mut columns = version["additionalPrinterColumns"].clone();
        for column in columns.as_array_mut().unwrap() {
            column.as_object_mut().unwrap().remove("description");
        }
        let head = json!({
            "group": document["spec"]["group"], "names": document["spec"]["names"],
            "scope": document["spec"]["scope"], "version": version["name"], "served": version["served"],
            "storage": version["storage"], "subresources": version["subresources"], "columns": columns
        });
        facts.insert((name.clone(), String::new()), head);
        schema_facts(&name, &schema_of(&definition), "", &mut facts);
    }
    facts
}

fn schema_facts(crd: &str, schema: &Value, path: &str, facts: &mut Facts) {
    let mut said = Map::new();
    for (keyword, value) in schema.as_object().unwrap() {
        let value = match keyword.as_str() {
            "description" => continue,
            "properties" => {
                for (name, child) in value.as_object().unwrap() {
                    schema_facts(crd, child, &format!("{path}.{name}"), facts);
                }
                continue;
            }
            "items" | "additionalProperties" => {
                let mark = if keyword == "items" { "[]" } else { "{}" };
                schema_facts(crd, value, &format!("{path}{mark}"), facts);
                continue;
            }
            "x-kubernetes-validations" => {
                let pair = |rule: &Value| (rule["rule"].to_string(), rule["message"].to_string());
                let rules: BTreeMap<_, _> = value
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|rule| (pair(rule), json!([rule["rule"], rule["message"]])))
                    .collect();
                rules.into_values().collect()
            }
            "required" => {
                let names: BTreeSet<_> =
                    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
                json!(names)
            }
            "minimum" | "maximum" => json!(value.as_f64().unwrap() as i64),
            _ => value.clone(),
        };
        said.insert(keyword.clone(), value);
    }
    let path = if path.is_empty() { "." } else { path };
    facts.insert((crd.to_owned(), path.to_owned()), Value::Object(said));
}

#[test]
fn the_schemas_say_what_upstreams_say() {
    let (ours, upstream) = (ours(&LabelRules::default()), upstream());
    assert_eq!(upstream.len(), 173);
    for (place, facts) in &upstream {
        assert_eq!(ours.get(place), Some(facts), "{place:?}");
    }
    let extra: Vec<_> = ours.keys().filter(|place| !upstream.contains_key(place)).collect();
    assert!(extra.is_empty(), "{extra:?}");
}

/// The label keys a domain rule admits, in the quotes of its list.
fn admitted(rule: &str) -> BTreeSet<&str> {
    let list = rule.split_once('[').unwrap().1.split_once(']').unwrap().0;
    list.split('"').skip(1).step_by(2).collect()
}

#[test]
fn the_label_rules_of_a_provider_stand_where_its_own_chart_puts_them() {
    let table = include_str!("../data/upstream_provider_rules.tsv");
    let core = ours(&LabelRules::default());
    for provider in [Provider::Kwok, Provider::Aws] {
        let facts = ours(&LabelRules::for_providers(&[provider]));
        let mut expected = BTreeSet::new();
        for line in table.lines() {
            let cells: Vec<&str> = line.split('\t').collect();
            let [name, crd, path, rule, message] = cells[..] else { panic!("{line}") };
            if name != provider.name() {
                continue;
            }
            expected.insert((crd.to_owned(), path.to_owned()));
            let rules = facts[&(crd.to_owned(), path.to_owned())]["x-kubernetes-validations"].clone();
            let ours = rules.as_array().unwrap().iter().find(|rule| rule[1] == message).unwrap();
            let ours = ours[0].as_str().unwrap();
            assert!(admitted(ours).is_superset(&admitted(rule)), "{ours}\n{rule}");
            if provider == Provider::Kwok {
                assert_eq!(ours, rule);
            } else if !crd.starts_with("nodeoverlays") {
                assert_eq!(admitted(ours), admitted(rule));
            }
            assert_eq!(ours.rsplit_once(']').unwrap().1, rule.rsplit_once(']').unwrap().1);
        }
        let changed: BTreeSet<_> = facts
            .into_iter()
            .filter(|(place, facts)| core.get(place) != Some(facts))
            .map(|(place, _)| place)
            .collect();
        assert_eq!(changed, expected);
    }
}

#[test]
fn every_field_is_described_and_none_is_nullable() {
    fn check(schema: &Value, path: &str) {
        assert!(schema["nullable"].is_null(), "{path}");
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let description = child["description"].as_str().unwrap_or_default();
            assert!(path == ".metadata" || description.ends_with('.'), "{path}: {description:?}");
            check(child, &path);
        }
        for child in
            [&schema["items"], &schema["additionalProperties"]].into_iter().filter(|child| child.is_object())
        {
            check(child, path);
        }
    }
    for definition in crds(&LabelRules::default()) {
        check(&schema_of(&definition), "");
    }
}

#[test]
fn the_yaml_is_the_same_on_every_run_and_reads_back_as_the_definitions() {
    let definitions = crds(&LabelRules::for_providers(Provider::ALL));
    let text = crds_yaml(&definitions);
    assert_eq!(text, crds_yaml(&crds(&LabelRules::for_providers(Provider::ALL))));
    assert!(!text.contains(".0\n"), "bounds are whole numbers");
    let documents: Vec<&str> = text.split("---\n").skip(1).collect();
    assert_eq!(documents.len(), definitions.len());
    for (document, definition) in documents.iter().zip(&definitions) {
        let read: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
            serde_saphyr::from_str(document).unwrap();
        assert_eq!(&read, definition);
    }
}
