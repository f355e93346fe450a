//! What groups become.

use karpenter_kops::{CloudFacts, Inventory, Scripts, generate, questions};
use serde_json::{Value, json};

use crate::kops::{FACTS, Kops};

fn class_of(spec: &Value) -> Value {
    Kops::with(spec).node_class()
}

fn pool_of(spec: &Value) -> Value {
    Kops::with(spec).node_pool()
}

#[test]
fn a_plain_group_becomes_a_class_and_a_pool_of_its_name() {
    let (class, pool) = Kops::with(&json!({})).objects();
    let labels = json!({
        "addon.kops.k8s.io/name": "karpenter.sh",
        "app.kubernetes.io/managed-by": "kops",
        "k8s-addon": "karpenter.sh",
    });
    let expected = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "workers", "labels": labels},
        "spec": {
            "amiFamily": "Custom",
            "amiSelectorTerms": [{"id": "ami-0a"}],
            "associatePublicIPAddress": true,
            "blockDeviceMappings": [{
                "deviceName": "/dev/sda1",
                "ebs": {
                    "deleteOnTermination": true, "encrypted": true, "iops": 3000, "throughput": 125,
                    "volumeSize": "128Gi", "volumeType": "gp3",
                },
                "rootVolume": true,
            }],
            "instanceProfile": "nodes.one.example.com",
            "securityGroupSelectorTerms": [
                {"tags": {"KubernetesCluster": "one.example.com", "Name": "nodes.one.example.com"}},
            ],
            "subnetSelectorTerms": [
                {"tags": {"KubernetesCluster": "one.example.com", "kops.k8s.io/instance-group/workers": "true"}},
            ],
            "tags": {
                "KubernetesCluster": "one.example.com",
                "Name": "workers.one.example.com",
                "k8s.io/cluster-autoscaler/node-template/label/node-role.kubernetes.io/node": "",
                "k8s.io/role/node": "1",
                "kops.k8s.io/instancegroup": "workers",
            },
            "userData": "#!/bin/sh\nexit 0",
        },
    });
    assert_eq!(class, expected);
    let expected = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "workers", "labels": labels},
        "spec": {"template": {
            "metadata": {"labels": {"node-role.kubernetes.io/node": ""}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "workers"},
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
            },
        }},
    });
    assert_eq!(pool, expected);
}

#[test]
fn an_image_is_selected_as_it_is_named_and_its_newest_one_gives_the_root_device() {
    let check = |image: &str, term: Value, device: &str| {
        let class = class_of(&json!({"image": image}));
        assert_eq!(class["amiSelectorTerms"], json!([term]));
        assert_eq!(class["blockDeviceMappings"][0]["deviceName"], device);
    };
    check(" ami-0b ", json!({"id": "ami-0b"}), "/dev/sdb1");
    check("ssm:/images/base", json!({"ssmParameter": "/images/base"}), "/dev/sda1");
    check("base-*", json!({"name": "base-*", "owner": "self"}), "/dev/sdb1");
    check("ubuntu/images/*", json!({"name": "images/*", "owner": "099720109477"}), "/dev/xvda");
    check("111122223333/base-1", json!({"name": "base-1", "owner": "111122223333"}), "/dev/sda1");
}

#[test]
fn only_machines_in_public_subnets_have_public_addresses() {
    let check = |subnets: Value, wish: Value, expected: bool| {
        let class = class_of(&json!({"subnets": subnets, "associatePublicIp": wish}));
        assert_eq!(class["associatePublicIPAddress"], expected);
    };
    check(json!(["a", "b"]), Value::Null, true);
    check(json!(["a"]), json!(false), false);
    check(json!(["inner"]), Value::Null, false);
    check(json!(["inner"]), json!(true), false);
}

#[test]
fn a_group_without_subnets_gets_those_that_are_neither_utility_nor_dual_stack() {
    let subnets = |types: &[&str]| {
        let subnets: Vec<Value> = types.iter().map(|kind| json!({"name": kind, "type": kind})).collect();
        json!({"subnets": subnets})
    };
    let kops = |types: &[&str]| {
        let mut kops = Kops::with(&json!({"subnets": null})).in_cluster(&subnets(types));
        kops.control_plane["spec"]["subnets"] = json!([types[0]]);
        kops
    };
    assert_eq!(kops(&["Public", "Utility", "DualStack"]).node_class()["associatePublicIPAddress"], true);
    assert_eq!(kops(&["Utility", "DualStack"]).node_class()["associatePublicIPAddress"], false);
    assert_eq!(kops(&["Private", "Utility"]).node_class()["associatePublicIPAddress"], false);
    assert!(kops(&["Public", "Private"]).failure().contains("\"Public\""));
    assert!(kops(&["Utility"]).failure().contains("no subnets"));
    assert!(kops(&["Odd"]).failure().contains("\"Odd\""));
}

#[test]
fn the_root_volume_is_carried_over_within_its_type_s_bounds() {
    let ebs = |spec: Value| class_of(&spec)["blockDeviceMappings"][0]["ebs"].take();
    assert_eq!(
        ebs(json!({
            "rootVolumeType": "io1", "rootVolumeIops": 900, "rootVolumeThroughput": 300, "rootVolumeSize": 77,
            "rootVolumeEncryption": true, "rootVolumeEncryptionKey": "arn:aws:kms:eu-west-1:111122223333:key/k",
        })),
        json!({
            "deleteOnTermination": true, "encrypted": true, "iops": 900, "volumeSize": "77Gi", "volumeType": "io1",
            "kmsKeyID": "arn:aws:kms:eu-west-1:111122223333:key/k",
        })
    );
    // A key without the flag is left out, and so is an empty one.
    assert_eq!(ebs(json!({"rootVolumeEncryptionKey": "k"})).get("kmsKeyID"), None);
    assert_eq!(
        ebs(json!({"rootVolumeEncryption": true, "rootVolumeEncryptionKey": ""})).get("kmsKeyID"),
        None
    );
    assert_eq!(ebs(json!({"rootVolumeEncryption": false}))["encrypted"], false);
    assert_eq!(ebs(json!({"rootVolumeType": "standard", "rootVolumeSize": 0}))["volumeSize"], "128Gi");
}

#[test]
fn sizes_become_replicas_and_a_limit() {
    let pool = pool_of(&json!({"minSize": 4, "maxSize": 9}));
    assert_eq!(pool["replicas"], 4);
    assert_eq!(pool["limits"], json!({"nodes": "9"}));
}

#[test]
fn types_are_collected_sorted_and_said_once() {
    let types = |spec: Value| pool_of(&spec)["template"]["spec"]["requirements"][1]["values"].take();
    assert_eq!(types(json!({"machineType": "m5.large,c5.large,m5.large"})), json!(["c5.large", "m5.large"]));
    let mixed = json!({"machineType": "m5.large", "mixedInstancesPolicy": {"instances": ["r5.large", "m5.large", "c5.large,c5.xlarge"]}});
    assert_eq!(types(mixed), json!(["c5.large,c5.xlarge", "m5.large", "r5.large"]));
}

#[test]
fn capacity_types_follow_prices_and_the_mixed_policy() {
    let types = |spec: Value| {
        let requirements = pool_of(&spec)["template"]["spec"]["requirements"].take();
        let requirements = requirements.as_array().unwrap();
        let found =
            requirements.iter().find(|requirement| requirement["key"] == "karpenter.sh/capacity-type");
        found.unwrap()["values"].clone()
    };
    let mixed = |percent: i64| json!({"machineType": "m5.large", "mixedInstancesPolicy": {"onDemandAboveBase": percent}});
    assert_eq!(types(json!({"maxPrice": "0.1"})), json!(["spot"]));
    assert_eq!(types(json!({"spotDurationInMinutes": 60})), json!(["spot"]));
    assert_eq!(types(mixed(99)), json!(["on-demand", "spot"]));
    assert_eq!(types(mixed(100)), json!(["on-demand"]));
    let both = json!({"maxPrice": "1", "machineType": "m5.large", "mixedInstancesPolicy": {"onDemandAboveBase": 50}});
    assert_eq!(types(both), json!(["spot"]));
}

#[test]
fn labels_come_from_three_places_and_tags_carry_all_of_them() {
    let kops = Kops::with(&json!({
        "kubelet": {"nodeLabels": {"shared": "kubelet", "own": "k"}},
        "nodeLabels": {"shared": "group", "karpenter.sh/custom": "x", "node-role.kubernetes.io/node": "mine"},
        "cloudLabels": {"Team": "group", "karpenter.sh/nodepool": "np"},
    }))
    .in_cluster(&json!({
        "kubelet": {"nodeLabels": {"shared": "cluster", "from": "cluster"}},
        "cloudLabels": {"Team": "cluster", "Cost": "7"},
    }));
    let labels = kops.node_pool()["template"]["metadata"]["labels"].take();
    assert_eq!(
        labels,
        json!({"from": "cluster", "own": "k", "shared": "group", "node-role.kubernetes.io/node": "mine"})
    );
    let tags = kops.node_class()["tags"].take();
    assert_eq!(tags["k8s.io/cluster-autoscaler/node-template/label/karpenter.sh/custom"], "x");
    assert_eq!(tags["Team"], "group");
    assert_eq!(tags["Cost"], "7");
    assert_eq!(tags.get("karpenter.sh/nodepool"), None);
}

#[test]
fn taints_have_three_spellings() {
    let spec = json!({"taints": ["a=b:NoSchedule", "c:NoExecute", "d=:PreferNoSchedule", "e", "f=g"], "kubelet": {"taints": ["k:NoSchedule"]}});
    assert_eq!(
        pool_of(&spec)["template"]["spec"]["taints"],
        json!([
            {"key": "a", "value": "b", "effect": "NoSchedule"},
            {"key": "c", "effect": "NoExecute"},
            {"key": "d", "effect": "PreferNoSchedule"},
            {"key": "e", "effect": ""},
            {"key": "f=g", "effect": ""},
        ])
    );
    let tags = class_of(&spec)["tags"].take();
    assert_eq!(tags["k8s.io/cluster-autoscaler/node-template/taint/a"], "b:NoSchedule");
    assert_eq!(tags["k8s.io/cluster-autoscaler/node-template/taint/d"], ":PreferNoSchedule");
    assert_eq!(tags.get("k8s.io/cluster-autoscaler/node-template/taint/e"), None);
}

#[test]
fn kubelet_settings_of_cluster_and_group_are_merged() {
    let kops = Kops::with(&json!({"kubelet": {"maxPods": 20, "systemReserved": {"cpu": "1"}, "podPidsLimit": 9}}))
        .in_cluster(&json!({"kubelet": {"maxPods": 99, "systemReserved": {"cpu": "2", "memory": "1Gi"}, "kubeReserved": {"cpu": "3"}}}));
    assert_eq!(
        kops.node_class()["kubelet"],
        json!({"maxPods": 20, "systemReserved": {"cpu": "1", "memory": "1Gi"}, "kubeReserved": {"cpu": "3"}})
    );
    assert_eq!(class_of(&json!({"kubelet": {"podPidsLimit": 9}})).get("kubelet"), None);
}

#[test]
fn security_groups_and_profiles_can_be_replaced() {
    let class = class_of(&json!({
        "securityGroupOverride": "sg-1",
        "additionalSecurityGroups": ["sg-3", "sg-2"],
        "iam": {"profile": "arn:aws:iam::111122223333:instance-profile/path/mine"},
    }));
    assert_eq!(class["securityGroupSelectorTerms"], json!([{"id": "sg-1"}, {"id": "sg-3"}, {"id": "sg-2"}]));
    assert_eq!(class["instanceProfile"], "mine");
}

#[test]
fn gpu_machines_are_labelled_and_tainted_where_gpus_are_enabled() {
    let gpu = json!({"containerd": {"nvidiaGPU": {"enabled": true}}});
    let pool = Kops::with(&json!({"machineType": "g5.xlarge"})).in_cluster(&gpu).node_pool();
    assert_eq!(pool["template"]["metadata"]["labels"]["kops.k8s.io/gpu"], "1");
    assert_eq!(
        pool["template"]["spec"]["taints"],
        json!([{"key": "nvidia.com/gpu", "effect": "NoSchedule"}])
    );
    let tainted = json!({"machineType": "g5.xlarge", "taints": ["nvidia.com/gpu=own:NoExecute"], "containerd": {"nvidiaGPU": {"enabled": true}}});
    assert_eq!(pool_of(&tainted)["template"]["spec"]["taints"].as_array().unwrap().len(), 1);
    let plain = Kops::with(&json!({"machineType": "m5.large"})).in_cluster(&gpu).node_pool();
    assert_eq!(plain["template"]["spec"].get("taints"), None);
    assert!(Kops::with(&json!({})).in_cluster(&gpu).failure().contains("machineType"));
    let sandboxed = pool_of(&json!({"containerd": {"gvisor": {"enabled": true}}}));
    assert_eq!(sandboxed["template"]["metadata"]["labels"]["kops.k8s.io/gvisor"], "1");
}

#[test]
fn an_image_without_a_root_device_is_an_error() {
    assert!(Kops::with(&json!({"image": "rootless"})).failure().contains("root device"));
    assert!(Kops::with(&json!({"image": "ami-nowhere"})).failure().contains("ami-nowhere"));
}

#[test]
fn a_group_without_an_image_gets_the_channel_s_for_its_machines() {
    let kops = Kops::with(&json!({"image": null, "machineType": "m6g.large"}))
        .in_cluster(&json!({"kubernetesVersion": "v1.33.1"}));
    let inventory = kops.inventory();
    let name = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20260714";
    let facts = format!(
        "{{images: [{{id: ami-0e, name: {name}, owner: '099720109477', rootDeviceName: /dev/sda1, architecture: arm64}}]}}"
    );
    let answers = CloudFacts::read(&facts).unwrap().answer(&questions(&inventory));
    let scripts: Scripts = [("workers".to_owned(), String::new())].into();
    let pairs = generate(&inventory, &answers, &scripts).unwrap();
    let term = json!([{"name": name, "owner": "099720109477"}]);
    assert_eq!(pairs[0].node_class["spec"]["amiSelectorTerms"], term);
    let own = CloudFacts::read(&format!("{FACTS}defaultImages: {{arm64: ubuntu/images/arm}}\n")).unwrap();
    let pairs = generate(&inventory, &own.answer(&questions(&inventory)), &scripts).unwrap();
    assert_eq!(pairs[0].node_class["spec"]["amiSelectorTerms"][0]["name"], "images/arm");
}

#[test]
fn both_versions_of_the_api_mean_the_same() {
    let text = "
apiVersion: kops.k8s.io/v1alpha3
kind: Cluster
metadata: {name: one.example.com}
spec:
  cloudProvider: {aws: {}}
  iam: {useServiceAccountExternalPermissions: true}
  karpenter: {enabled: true}
  networking: {subnets: [{name: a, type: Public}]}
---
apiVersion: kops.k8s.io/v1alpha3
kind: InstanceGroup
metadata: {name: workers}
spec:
  {role: Node, manager: Karpenter, image: ami-0a, subnets: [a], associatePublicIP: false, rootVolume: {size: 9, type: gp2}}
";
    let inventory = Inventory::read([("new.yaml", text)]).unwrap();
    let answers = CloudFacts::read(FACTS).unwrap().answer(&questions(&inventory));
    let scripts: Scripts = [("workers".to_owned(), "#!/bin/sh\nexit 0\n".to_owned())].into();
    let pairs = generate(&inventory, &answers, &scripts).unwrap();
    let old = Kops::with(&json!({"associatePublicIp": false, "rootVolumeSize": 9, "rootVolumeType": "gp2"}));
    assert_eq!((pairs[0].node_class.clone(), pairs[0].node_pool.clone()), old.objects());
}

#[test]
fn without_karpenter_or_another_manager_nothing_is_generated() {
    let count = |kops: &Kops| kops.inventory().karpenter_groups().len();
    assert_eq!(count(&Kops::with(&json!({}))), 1);
    assert_eq!(count(&Kops::with(&json!({"manager": "CloudGroup"}))), 0);
    assert_eq!(count(&Kops::with(&json!({"manager": "karpenter"}))), 0);
    assert_eq!(count(&Kops::with(&json!({})).in_cluster(&json!({"karpenter": {"enabled": false}}))), 0);
    assert_eq!(count(&Kops::with(&json!({})).in_cluster(&json!({"cloudProvider": "gce"}))), 0);
}
