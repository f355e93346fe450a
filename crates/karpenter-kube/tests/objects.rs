//! Catalog, pools and the other objects of a scenario.

use karpenter_core::catalog::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_core::plan::{MinValuesPolicy, PreferencePolicy};
use serde_json::json;

use crate::{EXAMPLE, loaded};

#[test]
fn requirements_of_a_type_follow_from_the_offerings_in_stock() {
    let problem = loaded(&json!({
        "nodePools": [{ "metadata": { "name": "pool" } }],
        "instanceTypes": [{ "name": "t", "offerings": [
            ["a", "spot", 0.5, true],
            ["b", "on-demand", 1.0, false],
            { "zone": "c", "capacityType": "reserved", "price": 0, "reservationId": "r", "reservationCapacity": 3 },
        ] }],
    }));
    let instance_type = &problem.catalog.types("pool")[0];
    let values = |key: &str| -> Vec<String> {
        let set = instance_type.requirements.get(key).unwrap();
        set.values().unwrap().map(ToString::to_string).collect()
    };
    assert_eq!(values(INSTANCE_TYPE), ["t"]);
    assert_eq!(values(ZONE), ["a", "c"]);
    assert_eq!(values(CAPACITY_TYPE), ["reserved", "spot"]);
    let reservation = instance_type.offerings[2].reservation.as_ref().unwrap();
    assert_eq!((&*reservation.id, reservation.remaining), ("r", 3));
    assert!(!instance_type.offerings[1].is_launchable());
}

#[test]
fn static_and_leaving_pools_get_no_nodes_but_their_labels_stay_on_their_nodes() {
    let pool = |name: &str, replicas: Option<u8>, deleted: Option<&str>| {
        let labels = json!({ "pool": name });
        json!({
            "metadata": { "name": name, "deletionTimestamp": deleted },
            "spec": { "replicas": replicas, "template": { "metadata": { "labels": labels }, "spec": { "requirements": null } } },
        })
    };
    let problem = loaded(&json!({
        "nodePools": [pool("a", None, None), pool("b", Some(2), None), pool("c", None, Some("2026-01-01T00:00:00Z"))],
        "nodes": [{ "name": "n", "nodePool": "b" }],
    }));
    let names: Vec<&str> = problem.snapshot.node_pools.iter().map(|pool| &*pool.name).collect();
    assert_eq!(names, ["a"]);
    assert_eq!(problem.snapshot.nodes[0].labels.get("pool").map(AsRef::as_ref), Some("b"));
}

#[test]
fn options_and_label_rules_are_taken_over() {
    let options = json!({ "preferencePolicy": "Ignore", "minValuesPolicy": "BestEffort" });
    let problem = loaded(&json!({ "options": options, "wellKnownLabels": ["example.com/family"] }));
    assert_eq!(problem.options.preferences, PreferencePolicy::Ignore);
    assert_eq!(problem.options.min_values, MinValuesPolicy::BestEffort);
    let rules = &problem.snapshot.label_rules;
    assert!(rules.well_known.contains("example.com/family"));
    assert!(rules.well_known.contains("topology.kubernetes.io/zone"));
    assert!(rules.is_restricted("karpenter.sh/initialized"));
}

#[test]
fn the_example_of_the_documentation_is_read_in_full() {
    let snapshot = loaded(&serde_json::from_str(EXAMPLE).unwrap()).snapshot;
    assert_eq!(snapshot.nodes.len(), 4);
    assert_eq!(snapshot.node_pools.len(), 2);
    assert_eq!(snapshot.daemon_sets[0].spec.requests.get("cpu").to_string(), "50m", "the limit stands in");
    assert_eq!(&*snapshot.storage_classes["fast"].provisioner, "ebs.csi.aws.com");
    assert!(snapshot.volume_claims.contains_key(&("shop".into(), "data".into())));
    assert_eq!(snapshot.volumes["pv-1"].node_terms.len(), 1);
    assert_eq!(snapshot.disruption_budgets.len(), 1);
    let labels = &snapshot.namespaces["shop"];
    assert_eq!(labels.get("kubernetes.io/metadata.name").map(AsRef::as_ref), Some("shop"));
    assert_eq!(labels.get("tier").map(AsRef::as_ref), Some("front"));
}
