//! What counts as a change of an EC2NodeClass.

use karpenter_aws::{EC2NodeClass, HashContext};
use serde_json::{Value, json};

const CONTEXT: HashContext<'static> = HashContext { ami_family: "AL2023", cluster_ca_bundle: Some("Q0E=") };

fn hash(spec: &Value) -> String {
    let object = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": "default" }, "spec": spec,
    });
    serde_json::from_value::<EC2NodeClass>(object).unwrap().hash(CONTEXT)
}

fn base() -> Value {
    json!({
        "amiFamily": "AL2023",
        "amiSelectorTerms": [{ "alias": "al2023@latest" }],
        "subnetSelectorTerms": [{ "tags": { "Name": "a-private*" } }],
        "securityGroupSelectorTerms": [{ "id": "sg-1" }],
        "role": "node",
        "tags": { "team": "data" },
        "kubelet": { "maxPods": 110 },
        "blockDeviceMappings": [
            { "deviceName": "/dev/xvda", "ebs": { "volumeSize": "20Gi", "volumeType": "gp3" } },
            { "deviceName": "/dev/xvdb", "ebs": { "volumeSize": "100Gi", "encrypted": true } },
        ],
        "metadataOptions": { "httpTokens": "required", "httpPutResponseHopLimit": 2 },
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut spec = base();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    spec.pointer_mut(parent).unwrap()[name] = value;
    spec
}

#[test]
fn what_ends_up_on_machines_counts() {
    let changes = [
        ("/role", json!("other")),
        ("/userData", json!("#!/bin/sh")),
        ("/tags/team", json!("web")),
        ("/tags/more", json!("x")),
        ("/kubelet/maxPods", json!(50)),
        ("/kubelet/podsPerCore", json!(0)),
        ("/metadataOptions/httpPutResponseHopLimit", json!(1)),
        ("/blockDeviceMappings", json!([{ "deviceName": "/dev/xvda" }])),
        ("/detailedMonitoring", json!(true)),
        ("/instanceStorePolicy", json!("RAID0")),
        (
            "/networkInterfaces",
            json!([{ "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface" }]),
        ),
        ("/placementGroupSelector", json!({ "name": "group" })),
        ("/associatePublicIPAddress", json!(true)),
        ("/connectionTracking", json!({ "udpTimeout": 30 })),
        ("/context", json!("ctx")),
        ("/cpuOptions", json!({ "nestedVirtualization": "enabled" })),
    ];
    for (pointer, value) in changes {
        assert_ne!(hash(&with(pointer, value)), hash(&base()), "{pointer}");
    }
}

#[test]
fn selectors_order_and_zero_values_do_not_count() {
    let mut reversed = base();
    reversed["blockDeviceMappings"].as_array_mut().unwrap().reverse();
    let same = [
        with("/subnetSelectorTerms", json!([{ "id": "subnet-1" }])),
        with("/securityGroupSelectorTerms", json!([{ "name": "nodes" }])),
        with("/capacityReservationSelectorTerms", json!([{ "id": "cr-1" }])),
        with("/amiSelectorTerms", json!([{ "id": "ami-1" }])),
        with("/amiFamily", json!("Custom")),
        with("/ipPrefixCount", json!(2)),
        with("/detailedMonitoring", json!(false)),
        with("/userData", json!("")),
        reversed,
    ];
    for spec in same {
        assert_eq!(hash(&spec), hash(&base()), "{spec}");
    }
}

#[test]
fn the_resolved_family_and_the_trust_bundle_count() {
    let class = EC2NodeClass::default();
    let hash = |ami_family, cluster_ca_bundle| class.hash(HashContext { ami_family, cluster_ca_bundle });
    assert_ne!(hash("AL2023", None), hash("Bottlerocket", None));
    assert_ne!(hash("AL2023", None), hash("AL2023", Some("Q0E=")));
}

#[test]
fn the_value_of_a_version_never_changes() {
    assert_eq!(hash(&base()), "6328330953974187150");
}
