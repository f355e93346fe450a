//! Karpenter in new clusters and in clusters that exist.

use karpenter_kops::{Change, CreateOptions, create, read_documents};
use serde_json::{Value, json};

fn options() -> CreateOptions {
    CreateOptions {
        cluster: "one.example.com".to_owned(),
        state: "s3://state".to_owned(),
        group: "nodes".to_owned(),
        zones: vec!["eu-west-1a".to_owned(), "eu-west-1b".to_owned(), "eu-west-1c".to_owned()],
        discovery_store: Some("s3://keys/".to_owned()),
        kubernetes_version: Some("v1.35.0".to_owned()),
        networking: "calico".to_owned(),
        control_plane_size: "t3.medium".to_owned(),
        now: "2026-01-01T00:00:00Z".to_owned(),
        ..CreateOptions::default()
    }
}

fn object(change: &Change) -> Value {
    read_documents(&change.after).unwrap().remove(0)
}

#[test]
fn a_new_cluster_has_a_control_plane_and_one_group_for_karpenter() {
    let changes = create(&[], &CreateOptions { node_count: 4, ..options() }).unwrap();
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "one.example.com/config",
            "one.example.com/instancegroup/control-plane-eu-west-1a",
            "one.example.com/instancegroup/nodes",
        ]
    );
    let cluster = object(&changes[0]);
    assert_eq!(cluster["spec"]["karpenter"], json!({"enabled": true}));
    assert_eq!(cluster["spec"]["iam"]["useServiceAccountExternalPermissions"], true);
    assert_eq!(cluster["spec"]["configBase"], "s3://state/one.example.com");
    assert_eq!(
        cluster["spec"]["serviceAccountIssuerDiscovery"],
        json!({"discoveryStore": "s3://keys/one.example.com", "enableAWSOIDCProvider": true})
    );
    let cidrs: Vec<&Value> =
        cluster["spec"]["subnets"].as_array().unwrap().iter().map(|subnet| &subnet["cidr"]).collect();
    assert_eq!(cidrs, ["172.20.0.0/18", "172.20.64.0/18", "172.20.128.0/18"]);
    let nodes = object(&changes[2]);
    assert_eq!(nodes["spec"]["manager"], "Karpenter");
    assert_eq!(nodes["spec"]["minSize"], 4);
    assert_eq!(nodes["spec"].get("maxSize"), None);
    assert_eq!(nodes["spec"].get("machineType"), None);
    assert_eq!(nodes["spec"]["subnets"], json!(["eu-west-1a", "eu-west-1b", "eu-west-1c"]));
    assert_eq!(nodes["spec"]["nodeLabels"], json!({"kops.k8s.io/instancegroup": "nodes"}));
}

#[test]
fn sizes_and_counts_become_fields_of_the_group() {
    let nodes =
        |options: CreateOptions| object(create(&[], &options).unwrap().last().unwrap())["spec"].take();
    let sizes = |sizes: &[&str]| sizes.iter().map(|&size| size.to_owned()).collect::<Vec<_>>();
    assert_eq!(nodes(options()).get("minSize"), None);
    let one = nodes(CreateOptions { node_sizes: sizes(&["m6g.large"]), ..options() });
    assert_eq!((&one["machineType"], one.get("mixedInstancesPolicy")), (&json!("m6g.large"), None));
    let two = nodes(CreateOptions { node_sizes: sizes(&["m5.large", "c5.large"]), ..options() });
    assert_eq!(two["machineType"], "m5.large");
    assert_eq!(two["mixedInstancesPolicy"], json!({"instances": ["m5.large", "c5.large"]}));
    let volume = nodes(CreateOptions {
        node_volume_size: Some(50),
        node_volume_type: Some("gp3".into()),
        ..options()
    });
    assert_eq!((&volume["rootVolumeSize"], &volume["rootVolumeType"]), (&json!(50), &json!("gp3")));
}

#[test]
fn what_a_new_cluster_needs_is_asked_for() {
    let error = |options: CreateOptions| create(&[], &options).unwrap_err().to_string();
    assert!(error(CreateOptions { discovery_store: None, ..options() }).contains("--discovery-store"));
    assert!(error(CreateOptions { zones: Vec::new(), ..options() }).contains("--zones"));
    assert!(error(CreateOptions { kubernetes_version: None, ..options() }).contains("--kubernetes-version"));
    let gates = (vec!["spec".into(), "karpenter".into(), "featureGates".into()], json!("NodeRepair=true"));
    let refused = CreateOptions { set: vec![gates], node_count: 2, ..options() };
    assert!(error(refused).contains("spec.minSize"));
}

const CONFIG: &str = "# The production cluster
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata:
  name: one.example.com
spec:
  cloudProvider: aws   # only here
  # etcd on its own disks
  etcdClusters:
  - name: main
    etcdMembers:
    - {instanceGroup: control-plane, name: a}
  iam:
    legacy: false  # never again
  # where nodes live
  subnets:
  - {name: inner-a, type: Private, zone: eu-west-1a}
  - {name: inner-b, type: Private, zone: eu-west-1b}
  - {name: utility-a, type: Utility, zone: eu-west-1a}
";

const CONTROL_PLANE: &str = "apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: control-plane}
spec: {role: Master, image: ami-0a, machineType: m5.large, minSize: 1, maxSize: 1, subnets: [inner-a]}
";

fn existing(config: &str) -> Vec<(String, String)> {
    vec![
        ("one.example.com/config".to_owned(), config.to_owned()),
        ("one.example.com/instancegroup/control-plane".to_owned(), CONTROL_PLANE.to_owned()),
    ]
}

#[test]
fn an_existing_cluster_keeps_every_line_it_had() {
    let wanted = CreateOptions { zones: vec!["eu-west-1b".into()], ..options() };
    let changes = create(&existing(CONFIG), &wanted).unwrap();
    let config = &changes[0];
    assert_eq!(config.before.as_deref(), Some(CONFIG));
    let mut rest = config.after.lines();
    for line in CONFIG.lines() {
        assert!(rest.any(|found| found == line), "{line:?} is gone from\n{}", config.after);
    }
    let cluster = object(config);
    assert_eq!(cluster["spec"]["karpenter"]["enabled"], true);
    assert_eq!(
        cluster["spec"]["iam"],
        json!({"legacy": false, "useServiceAccountExternalPermissions": true})
    );
    assert_eq!(
        cluster["spec"]["serviceAccountIssuerDiscovery"]["discoveryStore"],
        "s3://keys/one.example.com"
    );
    let nodes = object(&changes[1]);
    assert_eq!(changes[1].path, "one.example.com/instancegroup/nodes");
    assert_eq!(nodes["spec"]["subnets"], json!(["inner-b"]));
    assert_eq!(nodes["spec"]["image"], "ami-0a");
}

#[test]
fn a_cluster_that_has_everything_is_not_touched() {
    let config = CONFIG.replace(
        "  iam:\n    legacy: false  # never again\n",
        "  iam: {useServiceAccountExternalPermissions: true}\n  karpenter: {enabled: true, featureGates: NodeRepair=true}\n  serviceAccountIssuerDiscovery: {discoveryStore: 's3://other', enableAWSOIDCProvider: true}\n",
    );
    let wanted = CreateOptions { zones: Vec::new(), discovery_store: None, ..options() };
    let changes = create(&existing(&config), &wanted).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(object(&changes[0])["spec"]["subnets"], json!(["inner-a", "inner-b"]));
    // A fixed number of nodes needs its gate; the others stay.
    let changes = create(&existing(&config), &CreateOptions { node_count: 2, ..wanted }).unwrap();
    assert_eq!(
        object(&changes[0])["spec"]["karpenter"]["featureGates"],
        "NodeRepair=true,StaticCapacity=true"
    );
}

#[test]
fn what_does_not_fit_an_existing_cluster_is_refused() {
    let error =
        |config: &str, options: CreateOptions| create(&existing(config), &options).unwrap_err().to_string();
    assert!(error(CONFIG, CreateOptions { group: "control-plane".into(), ..options() }).contains("--group"));
    assert!(error(CONFIG, options()).contains("eu-west-1c"));
    let anywhere = || CreateOptions { zones: Vec::new(), ..options() };
    assert!(
        error(CONFIG, CreateOptions { discovery_store: None, ..anywhere() }).contains("--discovery-store")
    );
    // What can be said without a cloud is said, also of images.
    for image in ["ssm:", "https://images/base", "/base"] {
        let wanted = CreateOptions { image: Some(image.into()), ..anywhere() };
        assert!(error(CONFIG, wanted).contains("spec.image: Invalid value"), "{image}");
    }
    let handler = format!("{CONFIG}  nodeTerminationHandler: {{enabled: true}}\n");
    assert!(error(&handler, anywhere()).contains("nodeTerminationHandler: Forbidden"));
}
