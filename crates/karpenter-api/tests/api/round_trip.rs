//! The Rust types against the schemas: an object with every field goes through the types unchanged, so no
//! field of a schema is missing in a type, and no field of a type is missing in a schema.

use karpenter_api::crd::crds;
use karpenter_api::{CapacityBuffer, LabelRules, NodeClaim, NodeOverlay, NodePool};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::admission::schema_of;

fn conditions() -> Value {
    json!([{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2024-01-01T01:01:01Z", "observedGeneration": 4
    }])
}

fn taints() -> Value {
    json!([{"key": "a", "value": "b", "effect": "NoExecute", "timeAdded": "2024-01-01T01:01:01Z"}])
}

fn nodepool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "full", "labels": {"a": "b"}, "finalizers": ["x/y"], "generation": 7},
        "spec": {
            "template": {
                "metadata": {"labels": {"team": ""}, "annotations": {"note": "x"}},
                "spec": {
                    "taints": taints(), "startupTaints": taints(),
                    "requirements": [{"key": "a", "operator": "In", "values": ["x"], "minValues": 1}],
                    "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
                    "terminationGracePeriod": "60m", "expireAfter": "Never"
                }
            },
            "disruption": {
                "consolidateAfter": "90s", "consolidationPolicy": "Balanced",
                "budgets": [{"nodes": "5%", "schedule": "@daily", "duration": "90m", "reasons": ["Empty"]}]
            },
            "limits": {"cpu": "1000", "memory": "1Ti"}, "weight": 5, "replicas": 3
        },
        "status": {
            "resources": {"cpu": "16"}, "nodes": 3, "nodeClassObservedGeneration": 2, "conditions": conditions()
        }
    })
}

fn nodeclaim() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "full-abcde", "generateName": "full-"},
        "spec": {
            "taints": taints(), "startupTaints": taints(),
            "requirements": [{"key": "a", "operator": "Gte", "values": ["1"], "minValues": 1}],
            "resources": {"requests": {"cpu": "100m"}},
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            "terminationGracePeriod": "1h", "expireAfter": "720h"
        },
        "status": {
            "nodeName": "n", "providerID": "kwok://n", "imageID": "ami-1", "capacity": {"cpu": "2"},
            "allocatable": {"cpu": "1900m"}, "lastPodEventTime": "2024-01-01T01:01:01Z", "conditions": conditions()
        }
    })
}

fn nodeoverlay() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "full"},
        "spec": {
            "requirements": [{"key": "a", "operator": "NotIn", "values": []}], "price": "0.5",
            "priceAdjustment": "-10%", "capacity": {"example.com/x": "3"}, "weight": 9
        },
        "status": {"conditions": conditions()}
    })
}

fn capacitybuffer() -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "full", "namespace": "default"},
        "spec": {
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity", "podTemplateRef": {"name": "t"},
            "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
            "replicas": 2, "percentage": 10, "limits": {"cpu": "4"}
        },
        "status": {
            "podTemplateRef": {"name": "t"}, "podTemplateGeneration": 1, "replicas": 2,
            "provisioningStrategy": "s", "conditions": conditions()
        }
    })
}

/// Checks that the object has every field of the schema and no other.
fn same_fields(schema: &Value, object: &Value, path: &str) {
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let value = object.get(name).unwrap_or_else(|| panic!("the full object lacks {path}.{name}"));
        same_fields(child, value, &format!("{path}.{name}"));
    }
    if let (Some(properties), Some(fields)) = (schema["properties"].as_object(), object.as_object()) {
        for name in fields.keys() {
            assert!(properties.contains_key(name), "the schema lacks {path}.{name}");
        }
    }
    for item in object.as_array().into_iter().flatten() {
        same_fields(&schema["items"], item, &format!("{path}[]"));
    }
}

fn check<K: Serialize + DeserializeOwned>(kind: &str, full: &Value) {
    let definitions = crds(&LabelRules::default());
    let definition = definitions.iter().find(|definition| definition.spec.names.kind == kind).unwrap();
    same_fields(&schema_of(definition), full, "");
    let read: K = serde_json::from_value(full.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&read).unwrap(), full);
}

#[test]
fn an_object_with_every_field_goes_through_the_types_unchanged() {
    check::<NodePool>("NodePool", &nodepool());
    check::<NodeClaim>("NodeClaim", &nodeclaim());
    check::<NodeOverlay>("NodeOverlay", &nodeoverlay());
    check::<CapacityBuffer>("CapacityBuffer", &capacitybuffer());
}

#[test]
fn absent_and_empty_stay_apart() {
    let spec = json!({"template": {"spec": {
        "requirements": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists", "values": []}],
        "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "taints": []
    }, "metadata": {"labels": {}}}, "limits": {}, "disruption": {"budgets": []}});
    let object = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {}, "spec": spec});
    let pool: NodePool = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&pool).unwrap(), object);
}

#[test]
fn a_whole_number_is_a_quantity_too() {
    let mut object = nodepool();
    object["spec"]["limits"] = json!({"cpu": 1000});
    let pool: NodePool = serde_json::from_value(object).unwrap();
    assert_eq!(pool.spec.limits.unwrap()["cpu"].0, "1000");
}

#[test]
fn an_object_of_another_kind_is_refused_and_a_list_item_is_not() {
    let message = serde_json::from_value::<NodeClaim>(nodepool()).unwrap_err().to_string();
    assert!(message.contains("this is a NodePool of karpenter.sh/v1, but a NodeClaim"), "{message}");
    let mut item = nodepool();
    item.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
    assert_eq!(serde_json::from_value::<NodePool>(item).unwrap().metadata.name.as_deref(), Some("full"));
}
