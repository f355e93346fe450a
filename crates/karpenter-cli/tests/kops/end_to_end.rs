//! kOps' files in, nodes out of the simulated EC2: a whole cluster in local mode, whose machines boot with kOps' own script.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use karpenter_aws_client::ec2::{CreateTags, DescribeSecurityGroups, DescribeSubnets, Filter, Subnet, Tag};
use karpenter_aws_client::iam::{AddRoleToInstanceProfile, CreateInstanceProfile};
use karpenter_aws_client::{Client, Config, Credentials, HttpTransport, Source};
use karpenter_environment::SystemEnvironment;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use crate::apiserver::process::{Server, client};
use crate::local::ready;
use crate::{stderr, stdout};

/// The cluster of local mode goes by this name, and so does kOps'.
const CLUSTER: &str = "local";
const GROUP: &str = "workers";
/// By an account's number and a name of which the newest counts, as kOps' users mostly write images.
const IMAGE: &str = "602401143452/amazon-eks-node-al2023-x86_64-standard-1.34-v*";

/// The script as kOps writes it, less what only a real machine needs.
const SCRIPT: &str = "#!/bin/bash
NODEUP_URL_AMD64=https://artifacts.example.com/nodeup
cat > conf/kube_env.yaml << '__EOF_KUBE_ENV'
CloudProvider: aws
ClusterName: local
InstanceGroupName: workers
InstanceGroupRole: Node

__EOF_KUBE_ENV

download-release
";

/// The simulated account of a running `karpenter local`.
struct Account {
    /// By which clients find it.
    variables: BTreeMap<String, String>,
    client: Client,
}

impl Account {
    fn of(server: &Server) -> Self {
        let exported = server.greeting.lines().filter_map(|line| line.trim().strip_prefix("export "));
        let pairs = exported.filter_map(|line| line.split_once('='));
        let variables: BTreeMap<String, String> =
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let keys = Credentials::fixed(&variables["AWS_ACCESS_KEY_ID"], &variables["AWS_SECRET_ACCESS_KEY"]);
        let config = Config::at(&variables["AWS_ENDPOINT_URL"], &variables["AWS_REGION"], Source::Keys(keys));
        let transport = HttpTransport::new(None).expect("loopback needs no certificates");
        Self { client: Client::new(config, Arc::new(transport), Arc::new(SystemEnvironment)), variables }
    }

    /// Does what `kops update cluster` does for a group: the instance profile, and the tags by which subnets and security groups are
    /// found. The answer is the group's subnet.
    async fn prepare(&self) -> Subnet {
        let profile = format!("nodes.{CLUSTER}");
        let created = CreateInstanceProfile {
            instance_profile_name: profile.clone(),
            ..CreateInstanceProfile::default()
        };
        self.client.iam().call(&created).await.expect("a profile can be made");
        let role_name = format!("KarpenterNodeRole-{CLUSTER}");
        let added = AddRoleToInstanceProfile { instance_profile_name: profile.clone(), role_name };
        self.client.iam().call(&added).await.expect("the account has the role");
        let filters = vec![Filter::new("tag:karpenter.sh/discovery", [CLUSTER])];
        let subnets = DescribeSubnets { filters: filters.clone(), ..DescribeSubnets::default() };
        let subnet = self.client.ec2().list(&subnets).await.expect("EC2 answers").remove(0);
        self.tag(&subnet.subnet_id, &format!("kops.k8s.io/instance-group/{GROUP}"), "true").await;
        let groups = DescribeSecurityGroups { filters, ..DescribeSecurityGroups::default() };
        let group = self.client.ec2().list(&groups).await.expect("EC2 answers").remove(0);
        self.tag(&group.group_id, "Name", &profile).await;
        subnet
    }

    /// Tags a resource as one of the cluster.
    async fn tag(&self, resource: &str, key: &str, value: &str) {
        let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
        let tags = vec![tag("KubernetesCluster", CLUSTER), tag(key, value)];
        let request = CreateTags { resources: vec![resource.to_owned()], tags };
        self.client.ec2().call(&request).await.expect("EC2 tags what is there");
    }

    /// All instances, with what no API of AWS shows at once.
    fn instances(&self) -> Vec<Value> {
        let address = self.variables["AWS_ENDPOINT_URL"].trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("the account is served");
        stream.write_all(b"GET /_simulated/instances HTTP/1.0\r\n\r\n").expect("the account listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the account answers in text");
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer has a body");
        serde_json::from_str(body).expect("the body is a list")
    }

    /// Runs `karpenter kops` against the account and the local cluster.
    fn kops(&self, kubeconfig: &Path, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_karpenter"))
            .arg("kops")
            .args(arguments)
            .env_remove("AWS_PROFILE")
            .envs(&self.variables)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .output()
            .expect("the program is built beside its tests");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }
}

/// A state store with a cluster that has only its control plane yet.
fn store(subnet: &Subnet) -> tempfile::TempDir {
    let store = tempfile::tempdir().expect("a folder can be made");
    let groups = store.path().join(CLUSTER).join("instancegroup");
    fs::create_dir_all(&groups).expect("folders can be made");
    let zone = &subnet.availability_zone;
    let config = format!(
        "apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata: {{name: {CLUSTER}}}
spec:
  cloudProvider: aws
  etcdClusters:
  - {{name: main, etcdMembers: [{{instanceGroup: control-plane, name: a}}]}}
  kubelet: {{maxPods: 20}}
  subnets:
  - {{name: {zone}, type: Private, zone: {zone}}}
"
    );
    let control_plane = format!(
        "apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {{name: control-plane}}
spec: {{role: Master, image: {IMAGE}, machineType: m5.large, minSize: 1, maxSize: 1, subnets: [{zone}]}}
"
    );
    fs::write(store.path().join(CLUSTER).join("config"), config).expect("files can be written");
    fs::write(groups.join("control-plane"), control_plane).expect("files can be written");
    store
}

/// Pods that only nodes of the group can run.
fn deployment() -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "nodeSelector": {"kops.k8s.io/instancegroup": GROUP},
                "containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}],
            },
        }},
    }))
    .expect("this is a Deployment")
}

#[tokio::test]
async fn groups_of_kops_become_nodes_that_boot_with_kops_script() {
    let data = tempfile::tempdir().expect("a folder can be made");
    let options = ["--provider", "aws", "--boot-time", "1s", "--quiet"];
    let server = Server::start_until("AWS_SECRET_ACCESS_KEY", "local", data.path(), &options);
    let account = Account::of(&server);
    let subnet = account.prepare().await;
    let store = store(&subnet);
    let kubeconfig = data.path().join("kubeconfig");
    let state = format!("file://{}", store.path().display());
    let kops = |command: &str, more: &[&str]| {
        account.kops(&kubeconfig, &[&[command, "--state", &state, "--name", CLUSTER], more].concat())
    };

    kops(
        "create",
        &["--group", GROUP, "--node-size", "m5.large,c5.xlarge", "--discovery-store", "s3://keys"],
    );
    let scripts = store.path().join(CLUSTER).join("igconfig/node").join(GROUP);
    fs::create_dir_all(&scripts).expect("folders can be made");
    fs::write(scripts.join("nodeupscript.sh"), SCRIPT).expect("files can be written");
    assert!(kops("generate", &[]).contains("  amiFamily: Custom\n"));
    let applied = kops("apply", &[]);
    assert_eq!(applied, format!("ec2nodeclass/{GROUP} created\nnodepool/{GROUP} created\n"));

    let cluster = client(&server.kubeconfig()).await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.clone(), "default");
    deployments.create(&PostParams::default(), &deployment()).await.expect("the server answers");
    ready(&cluster, "web", 3).await;
    let nodes: Api<Node> = Api::all(cluster);
    let nodes = nodes.list(&ListParams::default()).await.expect("the server answers").items;
    let instances = account.instances();
    assert_eq!((nodes.is_empty(), nodes.len()), (false, instances.len()));
    for node in &nodes {
        let labels = node.metadata.labels.as_ref().expect("nodes have labels");
        assert_eq!(labels["karpenter.sh/nodepool"], GROUP);
        assert_eq!(labels["topology.kubernetes.io/zone"], subnet.availability_zone);
    }
    for instance in &instances {
        assert_eq!(instance["userData"], SCRIPT.trim_end_matches('\n'), "the script goes in as it is");
        assert_eq!(instance["subnet"], *subnet.subnet_id);
        let group = ["kops.k8s.io/instancegroup", "KubernetesCluster"].map(|tag| &instance["tags"][tag]);
        assert_eq!(group, [GROUP, CLUSTER], "kOps finds the group's machines by these");
        assert!(["m5.large", "c5.xlarge"].map(Value::from).contains(&instance["instanceType"]), "{instance}");
    }
    assert!(server.stop().success());
}
