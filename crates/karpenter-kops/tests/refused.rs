//! What is refused, with which path and kind.

use karpenter_kops::{Inventory, Source, validate_version};
use serde_json::{Value, json};

use crate::kops::Kops;

/// Checks the start of every error of the group, in order.
fn refused(spec: &Value, expected: &[&str]) {
    let text = Kops::with(spec).refusal(Source::StateStore);
    check(&text, expected);
}

fn refused_in(cluster: &Value, spec: &Value, expected: &[&str]) {
    check(&Kops::with(spec).in_cluster(cluster).refusal(Source::StateStore), expected);
}

fn check(text: &str, expected: &[&str]) {
    if expected.is_empty() {
        assert_eq!(text, "");
    }
    let mut rest = text;
    for error in expected {
        let found = rest.find(error).unwrap_or_else(|| panic!("{error} is not said by {text:?}"));
        rest = &rest[found + error.len()..];
    }
    if expected.len() > 1 {
        assert!(text.contains('['), "{text}");
    }
}

#[test]
fn karpenter_s_groups_have_rules_of_their_own() {
    refused(&json!({"maxSize": 0}), &["workers: spec.maxSize: Invalid value: 0"]);
    refused(&json!({"minSize": 0}), &["spec.minSize: Invalid value: 0"]);
    refused(&json!({"minSize": -1}), &["spec.minSize: Invalid value: -1"]);
    refused(&json!({"role": "APIServer"}), &["spec.role: Forbidden"]);
    for image in ["https://x/y", "/x", "x/", "a://b"] {
        refused(&json!({"image": image}), &["spec.image: Invalid value"]);
    }
    refused(&json!({"image": "ssm:"}), &["spec.image: Invalid value: \"ssm:\""]);
    refused(
        &json!({"role": "Bastion", "maxSize": -2, "image": "/x", "minSize": -3}),
        &[
            "spec.role: Forbidden",
            "spec.maxSize: Invalid value: -2",
            "spec.image: Invalid",
            "spec.minSize: Invalid value: -3",
        ],
    );
    refused_in(&json!({"cloudProvider": "gce"}), &json!({}), &["spec.manager: Forbidden"]);
}

#[test]
fn static_capacity_needs_its_gate_unless_nobody_touched_the_gates() {
    let gates = |gates: &str| json!({"karpenter": {"enabled": true, "featureGates": gates}});
    let forbidden: &[&str] = &["spec.minSize: Forbidden"];
    let cases: [(&str, &[&str]); 9] = [
        ("", &[]),
        ("StaticCapacity=true", &[]),
        ("NodeRepair=false, StaticCapacity = True ", &[]),
        ("StaticCapacity=false,StaticCapacity=true", &[]),
        ("StaticCapacity=true,StaticCapacity=false", forbidden),
        (" ", forbidden),
        ("StaticCapacity", forbidden),
        ("staticcapacity=true", forbidden),
        ("NodeRepair=true", forbidden),
    ];
    for (text, expected) in cases {
        refused_in(&gates(text), &json!({"minSize": 3}), expected);
        refused_in(&gates(text), &json!({}), &[]);
    }
}

#[test]
fn every_group_has_common_rules() {
    refused(&json!({"role": null}), &["spec.role: Required value"]);
    refused(&json!({"role": "Worker"}), &["spec.role: Unsupported value: \"Worker\""]);
    refused(&json!({"minSize": 5, "maxSize": 4}), &["spec.maxSize: Forbidden"]);
    refused(&json!({"rootVolumeIops": -1}), &["spec.rootVolume.iops: Invalid value: -1"]);
    refused(&json!({"rootVolumeThroughput": -1}), &["spec.rootVolume.throughput: Invalid value: -1"]);
    refused(&json!({"rootVolumeType": "st1"}), &["spec.rootVolume.type: Unsupported value: \"st1\""]);
    refused(&json!({"tenancy": "shared"}), &["spec.tenancy: Unsupported value"]);
    refused(
        &json!({"additionalUserData": [{"type": "text/x-perl"}]}),
        &[
            "additionalUserData.name: Required",
            "additionalUserData.content: Required",
            "additionalUserData.type: Unsupported",
        ],
    );
    refused(
        &json!({"volumes": [{"size": 1, "device": "/dev/a"}, {}]}),
        &["spec.volumes[1].device: Required", "spec.volumes[1].size: Invalid value: 0"],
    );
    refused(&json!({"iam": {"profile": "mine"}}), &["spec.iam.profile: Invalid value"]);
    refused(&json!({"iam": {"profile": "arn:aws:iam::1:role/x"}}), &["spec.iam.profile: Invalid value"]);
    refused(&json!({"nodeLabels": {"a/b/c": ""}}), &["spec.nodeLabels: Invalid value: \"a/b/c\""]);
    refused(&json!({"taints": ["a=b=c:NoSchedule"]}), &["spec.taints[0]: Invalid value"]);
    refused(
        &json!({"taints": ["a:b:c", "x", "x"]}),
        &["spec.taints[0]: Invalid value", "spec.taints[2]: Duplicate value"],
    );
    refused(&json!({"subnets": ["a", "z"]}), &["spec.networking.subnets[1]: Not found: \"z\""]);
    refused(&json!({"updatePolicy": "never"}), &["spec.updatePolicy: Unsupported value"]);
    refused(&json!({"warmPool": {}, "maxPrice": "1"}), &["spec.warmPool: Forbidden"]);
    refused(&json!({"warmPool": {"maxSize": 0}, "maxPrice": "1"}), &[]);
    refused_in(
        &json!({"warmPool": {"minSize": 1}}),
        &json!({"maxPrice": "1"}),
        &["spec.warmPool: Forbidden"],
    );
}

#[test]
fn tags_of_kops_cannot_be_set() {
    for key in ["Name", "KubernetesCluster", "kubernetes.io/cluster/x", "k8s.io/role/node", "kops.k8s.io/x"] {
        refused(&json!({"cloudLabels": {key: "v"}}), &[&format!("spec.cloudLabels.{key}: Forbidden")]);
    }
    let group = "kops.k8s.io/instancegroup";
    refused(&json!({"cloudLabels": {group: "workers"}}), &[]);
    refused(
        &json!({"cloudLabels": {group: "others"}}),
        &["spec.cloudLabels.kops.k8s.io/instancegroup: Invalid value"],
    );
}

#[test]
fn machines_must_exist_and_run_the_image() {
    refused(&json!({"machineType": "m5.odd"}), &["workers.spec.machineType: Invalid value: \"m5.odd\""]);
    refused(&json!({"machineType": "m5.large, c5.large"}), &["workers.spec.machineType: Invalid value"]);
    refused(&json!({"machineType": "m6g.large"}), &["workers.spec.machineType: Invalid value"]);
    refused(&json!({"machineType": "m5.large", "image": "nowhere"}), &["workers.spec.image: Invalid value"]);
    let mixed = |spec: Value| json!({"machineType": "m5.large", "maxSize": 9, "mixedInstancesPolicy": spec});
    refused(
        &mixed(json!({"instances": ["c5.large", "m6g.large"]})),
        &["spec.mixedInstancesPolicy.instances[1]: Invalid value"],
    );
    refused(
        &mixed(json!({"instances": ["g5.xlarge"]})),
        &["spec.mixedInstancesPolicy.instances[0]: Forbidden"],
    );
    refused(
        &mixed(json!({"instances": ["c5.odd"]})),
        &["spec.mixedInstancesPolicy.instances[0]: Invalid value", "spec.machineType: Invalid value"],
    );
    refused(
        &mixed(json!({"onDemandBase": 10})),
        &["spec.mixedInstancesPolicy.onDemandBase: Invalid value: 10"],
    );
    refused(
        &mixed(json!({"onDemandBase": -1})),
        &["spec.mixedInstancesPolicy.onDemandBase: Invalid value: -1"],
    );
    refused(
        &mixed(json!({"onDemandAboveBase": 101})),
        &["spec.mixedInstancesPolicy.onDemandAboveBase: Invalid value"],
    );
    refused(
        &mixed(json!({"spotAllocationStrategy": "luck"})),
        &["spec.mixedInstancesPolicy.spotAllocationStrategy: Unsupported"],
    );
    refused(&json!({"mixedInstancesPolicy": {}}), &["spec.machineType: Invalid value: \"\""]);
    refused(
        &json!({"machineType": "m5.large,c5.large", "mixedInstancesPolicy": {}}),
        &["spec.machineType: Invalid value"],
    );
}

#[test]
fn aws_has_rules_for_the_rest() {
    refused(
        &json!({"additionalSecurityGroups": ["sg-1", "sg-1", " ", "web"]}),
        &[
            "spec.additionalSecurityGroups[1]: Duplicate value",
            "spec.additionalSecurityGroups[2]: Invalid value",
            "spec.additionalSecurityGroups[3]: Invalid value",
        ],
    );
    refused(
        &json!({"spotDurationInMinutes": 61}),
        &["workers.spec.spotDurationInMinutes: Unsupported value: \"61\""],
    );
    refused(
        &json!({"instanceMetadata": {"httpTokens": "maybe"}}),
        &["spec.instanceMetadata.httpTokens: Unsupported"],
    );
    refused(
        &json!({"instanceMetadata": {"httpPutResponseHopLimit": 65}}),
        &["spec.instanceMetadata.httpPutResponseHopLimit: Invalid"],
    );
    refused(
        &json!({"instanceInterruptionBehavior": "sleep"}),
        &["workers.spec.instanceInterruptionBehavior: Unsupported value"],
    );
    refused(&json!({"instanceInterruptionBehavior": "hibernate"}), &[]);
    refused(&json!({"cpuCredits": "some"}), &["spec.cpuCredits: Unsupported value"]);
    refused(&json!({"maxInstanceLifetime": "1h"}), &["workers.spec.maxInstanceLifetime: Invalid value"]);
    refused(&json!({"maxInstanceLifetime": "0s"}), &[]);
    refused(&json!({"maxInstanceLifetime": "24h"}), &[]);
}

#[test]
fn clusters_have_rules_too() {
    let permissions = json!({"iam": {"useServiceAccountExternalPermissions": false}});
    refused_in(&permissions, &json!({}), &["spec.karpenter.enabled: Forbidden"]);
    for handler in [json!({}), json!({"enabled": true})] {
        let cluster = json!({"nodeTerminationHandler": handler});
        refused_in(&cluster, &json!({}), &["spec.cloudProvider.aws.nodeTerminationHandler: Forbidden"]);
    }
    refused_in(&json!({"nodeTerminationHandler": {"enabled": false}}), &json!({}), &[]);
    let discovery = |fields: Value| json!({"serviceAccountIssuerDiscovery": fields});
    refused_in(
        &discovery(json!({"discoveryStore": "s3://x", "discoveryService": {"url": "u"}})),
        &json!({}),
        &["spec.serviceAccountIssuerDiscovery.discoveryStore: Forbidden"],
    );
    refused_in(
        &discovery(json!({"enableAWSOIDCProvider": true})),
        &json!({}),
        &["spec.serviceAccountIssuerDiscovery.enableAWSOIDCProvider: Forbidden"],
    );
}

#[test]
fn a_cluster_needs_a_control_plane_and_workers() {
    let mut kops = Kops::with(&json!({"role": "Master", "manager": null}));
    assert!(kops.refusal(Source::StateStore).contains("role Node"));
    kops = Kops::with(&json!({}));
    kops.control_plane["spec"]["role"] = json!("Node");
    assert!(kops.refusal(Source::StateStore).contains("ControlPlane"));
}

#[test]
fn files_are_first_judged_as_they_are_stored() {
    // The gate is looked at when the cluster is updated, the taint when the group is stored.
    let kops = Kops::with(&json!({"image": "/x", "taints": ["a:b:c"]}));
    let stored = kops.refusal(Source::Files);
    assert!(stored.contains("spec.taints[0]") && !stored.contains("spec.image"), "{stored}");
    let updated = kops.refusal(Source::StateStore);
    assert!(updated.contains("spec.taints[0]") && updated.contains("spec.image"), "{updated}");
}

#[test]
fn texts_that_yaml_takes_for_something_else_are_refused() {
    for (field, value) in
        [("nodeLabels", "{a: yes}"), ("cloudLabels", "{a: 42}"), ("maxPrice", "0.10"), ("minSize", "two")]
    {
        let text = format!(
            "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata: {{name: g}}\nspec: {{role: Node, {field}: {value}}}\n"
        );
        let error = Inventory::read([("g.yaml", text.as_str())]).unwrap_err().to_string();
        assert!(error.contains("g.yaml") && error.contains(&format!("spec.{field}")), "{error}");
    }
}

#[test]
fn objects_that_are_no_cluster_of_kops_are_refused() {
    let error = |text: &str| Inventory::read([("f.yaml", text)]).unwrap_err().to_string();
    assert!(error("kind: Pod\napiVersion: v1\n").contains("Pod"));
    assert!(error("a: [").contains("f.yaml"));
    assert!(error("").contains("no Cluster"));
    let cluster = "---\napiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata: {name: c}\n";
    assert!(error(&cluster.repeat(2)).contains("two Clusters"));
    let group = "---\napiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata: {name: g}\n";
    assert!(error(&format!("{cluster}{group}{group}")).contains("two InstanceGroups"));
}

#[test]
fn a_kops_without_karpenter_is_refused() {
    let inventory = Kops::with(&json!({})).inventory();
    assert!(validate_version(&inventory, "1.33.2".parse().unwrap()).is_some());
    assert!(validate_version(&inventory, "1.34.0-beta.1".parse().unwrap()).is_none());
    let without = Kops::with(&json!({"manager": null})).in_cluster(&json!({"karpenter": null})).inventory();
    assert!(validate_version(&without, "1.33.2".parse().unwrap()).is_none());
}
