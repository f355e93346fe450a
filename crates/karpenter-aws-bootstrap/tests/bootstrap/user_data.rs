//! User data, family by family.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use karpenter_aws_bootstrap::kubelet::{Kubelet, MaxPods};
use karpenter_aws_bootstrap::mime::Archive;
use karpenter_aws_bootstrap::{
    AmiFamily, Cluster, Input, LARGEST, UserData, UserDataError, bottlerocket_release, node_labels,
    node_taints, user_data,
};
use serde_json::{Map, Value, json};

/// A machine; tests change what they are about.
struct Machine {
    cluster: Cluster,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    fields: Map<String, Value>,
    max_pods: i64,
    custom: Option<String>,
    raid0: bool,
    release: Option<String>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            cluster: Cluster {
                name: "prod".to_owned(),
                endpoint: "https://api.example".to_owned(),
                ca_bundle: Some("Y2E=".to_owned()),
                service_cidr: Some("10.100.0.0/16".to_owned()),
                dns: Some("10.100.0.10".to_owned()),
            },
            labels: BTreeMap::from([("team".to_owned(), "a".to_owned()), ("app".to_owned(), "b".to_owned())]),
            taints: node_taints(&[taint("dedicated", Some("x"), "NoSchedule")], &[]),
            fields: Map::new(),
            max_pods: 58,
            custom: None,
            raid0: false,
            release: None,
        }
    }
}

impl Machine {
    fn with(fields: &Value) -> Self {
        Self { fields: fields.as_object().unwrap().clone(), ..Self::default() }
    }

    fn custom(text: &str) -> Self {
        Self { custom: Some(text.to_owned()), ..Self::default() }
    }

    fn data(&self, family: AmiFamily) -> Result<UserData, UserDataError> {
        let mut kubelet = Kubelet::read(&self.fields);
        kubelet.max_pods.get_or_insert(MaxPods::Number(self.max_pods));
        user_data(
            family,
            &Input {
                cluster: &self.cluster,
                labels: &self.labels,
                taints: &self.taints,
                kubelet: &kubelet,
                kubelet_fields: Some(&self.fields),
                custom: self.custom.as_deref(),
                raid0: self.raid0,
                bottlerocket_release: self.release.as_deref(),
            },
        )
    }

    fn text(&self, family: AmiFamily) -> String {
        self.data(family).unwrap().text
    }
}

fn taint(key: &str, value: Option<&str>, effect: &str) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.map(str::to_owned),
        effect: effect.to_owned(),
        ..Taint::default()
    }
}

const EVERYTHING: &str = r#"{
    "clusterDNS": ["10.0.0.53"], "maxPods": 20, "podsPerCore": 2,
    "systemReserved": {"cpu": "100m", "memory": "100Mi"}, "kubeReserved": {"cpu": "200m"},
    "evictionHard": {"memory.available": "5%"}, "evictionSoft": {"memory.available": "10%"},
    "evictionSoftGracePeriod": {"memory.available": "1m"}, "evictionMaxPodGracePeriod": 60,
    "imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 50, "cpuCFSQuota": false
}"#;

fn everything() -> Machine {
    Machine::with(&serde_json::from_str(EVERYTHING).unwrap())
}

#[test]
fn nodes_get_the_labels_a_kubelet_may_set() {
    let labels = [
        ("team", "a"),
        ("karpenter.sh/nodepool", "default"),
        ("kubernetes.io/arch", "amd64"),
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("topology.kubernetes.io/zone", "us-west-2a"),
        ("node-restriction.kubernetes.io/x", "y"),
        ("sub.node-restriction.kubernetes.io/x", "y"),
        ("k8s.io/x", "y"),
        ("kops.k8s.io/x", "y"),
        ("notkubernetes.io/x", "y"),
        ("myk8s.io/x", "y"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let keys = |family| node_labels(family, &labels).into_keys().collect::<Vec<_>>();
    let custom = ["karpenter.sh/nodepool", "myk8s.io/x", "notkubernetes.io/x", "team"];
    assert_eq!(keys(AmiFamily::Custom), custom);
    assert!(keys(AmiFamily::Al2023).contains(&"karpenter.sh/do-not-sync-taints".to_owned()));
}

#[test]
fn nodes_join_unregistered_once() {
    let own = taint("a", None, "NoSchedule");
    let startup = taint("b", Some("c"), "NoExecute");
    let unregistered = taint("karpenter.sh/unregistered", None, "NoExecute");
    let all = node_taints(std::slice::from_ref(&own), std::slice::from_ref(&startup));
    assert_eq!(all, [own.clone(), startup, unregistered.clone()]);
    assert_eq!(
        node_taints(std::slice::from_ref(&unregistered), std::slice::from_ref(&own)),
        [unregistered, own]
    );
}

#[test]
fn al2_calls_the_bootstrap_script() {
    let archive = Archive::parse(&Machine::default().text(AmiFamily::Al2)).unwrap();
    assert_eq!(archive.parts.len(), 1);
    assert_eq!(archive.parts[0].content_type(), Some("text/x-shellscript; charset=\"us-ascii\""));
    let expected = "#!/bin/bash -xe\n\
exec > >(tee /var/log/user-data.log | logger -t user-data -s 2>/dev/console) 2>&1\n\
/etc/eks/bootstrap.sh 'prod' \\\n\
--apiserver-endpoint 'https://api.example' \\\n\
--b64-cluster-ca 'Y2E=' \\\n\
--dns-cluster-ip '10.100.0.10' \\\n\
--use-max-pods false \\\n\
--kubelet-extra-args '--node-labels=\"app=b,team=a\" \
--register-with-taints=\"dedicated=x:NoSchedule,karpenter.sh/unregistered:NoExecute\" --max-pods=58'";
    assert_eq!(archive.parts[0].content(), expected);
}

#[test]
fn al2_passes_the_kubelets_fields_as_arguments() {
    let text = everything().text(AmiFamily::Al2);
    let arguments = "--max-pods=20 --pods-per-core=2 --system-reserved=\"cpu=100m,memory=100Mi\" --kube-reserved=\"cpu=200m\" \
--eviction-hard=\"memory.available<5%\" --eviction-soft=\"memory.available<10%\" \
--eviction-soft-grace-period=\"memory.available=1m\" --eviction-max-pod-grace-period=60 \
--image-gc-high-threshold=80 --image-gc-low-threshold=50 --cpu-cfs-quota=false'";
    assert!(text.contains(arguments), "{text}");
    assert!(text.contains("--dns-cluster-ip '10.0.0.53'"), "the user's own DNS wins");
}

#[test]
fn al2_knows_ipv6_local_disks_and_a_missing_bundle() {
    let mut machine = Machine { raid0: true, ..Machine::default() };
    machine.cluster.dns = Some("fd4b:121b:812b::a".to_owned());
    machine.cluster.ca_bundle = None;
    let text = machine.text(AmiFamily::Al2);
    assert!(text.contains("--ip-family ipv6 \\\n--dns-cluster-ip 'fd4b:121b:812b::a'"), "{text}");
    assert!(text.contains(" \\\n--local-disks raid0\n"), "{text}");
    assert!(!text.contains("b64-cluster-ca"));
    machine.cluster.dns = None;
    assert!(!machine.text(AmiFamily::Al2).contains("dns-cluster-ip"));
}

#[test]
fn the_users_part_comes_first() {
    let script = "#!/bin/bash\necho first\r\n";
    let own_archive =
        "Content-Type: multipart/mixed; boundary=X\n\n--X\nContent-Type: text/cloud-config\n\na: b\n--X--\n";
    let yaml = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";
    let shell = "text/x-shellscript; charset=\"us-ascii\"";
    let config = "application/node.eks.aws";
    let cases = [
        (AmiFamily::Al2, script, vec![shell, shell]),
        (AmiFamily::Al2, own_archive, vec!["text/cloud-config", shell]),
        (AmiFamily::Al2, yaml, vec![shell, shell]),
        (AmiFamily::Al2, "", vec![shell]),
        (AmiFamily::Al2023, script, vec![shell, config]),
        (AmiFamily::Al2023, own_archive, vec!["text/cloud-config", config]),
        (AmiFamily::Al2023, yaml, vec![config, config]),
        (AmiFamily::Al2023, "  ", vec![config]),
    ];
    for (family, custom, types) in cases {
        let text = Machine::custom(custom).text(family);
        let archive = Archive::parse(&text).unwrap();
        let found: Vec<&str> = archive.parts.iter().filter_map(|part| part.content_type()).collect();
        assert_eq!(found, types, "{family} {custom:?}");
        assert!(!text.contains('\r'));
    }
    let refused = "Content-Type: text/plain\n\nx";
    for family in [AmiFamily::Al2, AmiFamily::Al2023] {
        assert!(matches!(Machine::custom(refused).data(family), Err(UserDataError::Mime(_))));
    }
}

fn node_config(machine: &Machine) -> Value {
    let archive = Archive::parse(&machine.text(AmiFamily::Al2023)).unwrap();
    let last = archive.parts.last().unwrap();
    assert_eq!(last.content_type(), Some("application/node.eks.aws"));
    assert!(last.content().starts_with("# Written by Karpenter\n"));
    serde_saphyr::from_str(last.content()).unwrap()
}

#[test]
fn al2023_configures_nodeadm() {
    let expected = json!({
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": "prod", "apiServerEndpoint": "https://api.example", "certificateAuthority": "Y2E=",
                "cidr": "10.100.0.0/16",
            },
            "kubelet": {
                "config": {
                    "clusterDNS": ["10.100.0.10"],
                    "maxPods": 58,
                    "registerWithTaints": [
                        {"key": "dedicated", "value": "x", "effect": "NoSchedule"},
                        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                    ],
                },
                "flags": ["--node-labels=\"app=b,team=a\""],
            },
        },
    });
    assert_eq!(node_config(&Machine::default()), expected);
}

#[test]
fn al2023_passes_every_kubelet_field_on() {
    let mut machine = everything();
    machine.fields.insert("cpuManagerPolicy".to_owned(), json!("static"));
    machine.fields.insert("registerWithTaints".to_owned(), json!([{"key": "mine"}]));
    let config = node_config(&machine);
    let kubelet = &config["spec"]["kubelet"]["config"];
    for (name, value) in &machine.fields {
        if name == "registerWithTaints" {
            assert_eq!(kubelet[name].as_array().unwrap().len(), 2, "taints are the NodePool's");
        } else {
            assert_eq!(&kubelet[name], value, "{name}");
        }
    }
}

#[test]
fn al2023_leaves_out_what_is_not_known_and_needs_the_service_cidr() {
    let mut machine = Machine { raid0: true, labels: BTreeMap::new(), ..Machine::default() };
    machine.cluster.ca_bundle = None;
    machine.cluster.dns = None;
    let config = node_config(&machine);
    assert_eq!(config["spec"]["instance"]["localStorage"]["strategy"], "RAID0");
    assert_eq!(config["spec"]["cluster"].get("certificateAuthority"), None);
    assert_eq!(config["spec"]["kubelet"].get("flags"), None);
    assert_eq!(config["spec"]["kubelet"]["config"].get("clusterDNS"), None);
    machine.cluster.service_cidr = None;
    assert_eq!(machine.data(AmiFamily::Al2023), Err(UserDataError::NoServiceCidr));
}

fn settings(machine: &Machine) -> toml::Table {
    machine.text(AmiFamily::Bottlerocket).parse().unwrap()
}

#[test]
fn bottlerocket_gets_settings() {
    let expected: toml::Table = r#"
        [settings.kubernetes]
        cluster-name = "prod"
        api-server = "https://api.example"
        cluster-certificate = "Y2E="
        cluster-dns-ip = "10.100.0.10"
        max-pods = 58
        [settings.kubernetes.node-labels]
        app = "b"
        team = "a"
        [settings.kubernetes.node-taints]
        dedicated = ["x:NoSchedule"]
        "karpenter.sh/unregistered" = [":NoExecute"]
    "#
    .parse()
    .unwrap();
    assert_eq!(settings(&Machine::default()), expected);
}

#[test]
fn bottlerocket_takes_the_kubelets_fields_in_its_own_words() {
    let kubernetes = settings(&everything())["settings"]["kubernetes"].clone();
    let expected: toml::Value = r#"
        cluster-dns-ip = "10.0.0.53"
        max-pods = 20
        eviction-max-pod-grace-period = 60
        image-gc-high-threshold-percent = "80"
        image-gc-low-threshold-percent = "50"
        cpu-cfs-quota-enforced = false
        system-reserved = { cpu = "100m", memory = "100Mi" }
        kube-reserved = { cpu = "200m" }
        eviction-hard = { "memory.available" = "5%" }
        eviction-soft = { "memory.available" = "10%" }
        eviction-soft-grace-period = { "memory.available" = "1m" }
    "#
    .parse::<toml::Table>()
    .unwrap()
    .into();
    for (name, value) in expected.as_table().unwrap() {
        assert_eq!(&kubernetes[name.as_str()], value, "{name}");
    }
}

#[test]
fn bottlerocket_keeps_the_users_settings_except_those_of_the_cluster() {
    let machine = Machine::custom(
        r#"
        [settings.kernel]
        lockdown = "integrity"
        [settings.kubernetes]
        cluster-name = "other"
        cloud-provider = "external"
        max-pods = 5
        wrong-name = 1
        [settings.kubernetes.node-labels]
        mine = "x"
        team = "mine"
        [settings.kubernetes.node-taints]
        mine = ["x:NoSchedule"]
        [settings.bootstrap-commands.mine]
        mode = "off"
        "#,
    );
    let data = machine.data(AmiFamily::Bottlerocket).unwrap();
    assert_eq!(data.ignored, ["settings.kubernetes.wrong-name"]);
    let all: toml::Table = data.text.parse().unwrap();
    assert_eq!(all["settings"]["kernel"]["lockdown"].as_str(), Some("integrity"));
    assert_eq!(all["settings"]["bootstrap-commands"]["mine"]["mode"].as_str(), Some("off"));
    let kubernetes = &all["settings"]["kubernetes"];
    assert_eq!(kubernetes["cluster-name"].as_str(), Some("prod"));
    assert_eq!(kubernetes["cloud-provider"].as_str(), Some("external"));
    assert_eq!(kubernetes["max-pods"].as_integer(), Some(58));
    assert_eq!(kubernetes.get("wrong-name"), None);
    assert_eq!(kubernetes["node-labels"]["mine"].as_str(), Some("x"));
    assert_eq!(kubernetes["node-labels"]["team"].as_str(), Some("a"));
    assert_eq!(kubernetes["node-taints"].get("mine"), None);
    let broken = Machine::custom("#!/bin/bash\necho").data(AmiFamily::Bottlerocket);
    assert!(matches!(broken, Err(UserDataError::Toml(_))), "{broken:?}");
}

#[test]
fn bottlerocket_mounts_local_disks_as_its_release_wants() {
    let cases = [
        (Some("latest"), 3),
        (Some("v1.46.0"), 3),
        (Some("1.46.0"), 3),
        (Some("1.50.1"), 3),
        (Some("v2.0.0"), 3),
        (Some("1.45.9"), 7),
        (Some("strange"), 7),
        (None, 7),
    ];
    for (release, words) in cases {
        let machine = Machine { raid0: true, release: release.map(str::to_owned), ..Machine::default() };
        let all = settings(&machine);
        let command = &all["settings"]["bootstrap-commands"]["000-mount-instance-storage"];
        assert_eq!(command["mode"].as_str(), Some("always"));
        assert_eq!(command["essential"].as_bool(), Some(true));
        let commands = command["commands"].as_array().unwrap();
        assert_eq!(commands[0].as_array().unwrap()[2].as_str(), Some("init"));
        assert_eq!(commands[1].as_array().unwrap().len(), words, "{release:?}");
    }
    assert_eq!(settings(&Machine::default())["settings"].get("bootstrap-commands"), None);
}

#[test]
fn the_release_of_bottlerocket_is_found_in_names() {
    let name = "bottlerocket-aws-k8s-1.31-x86_64-v1.47.0-abcdef";
    assert_eq!(bottlerocket_release(Some("v1.40.0"), [name]).as_deref(), Some("v1.40.0"));
    assert_eq!(bottlerocket_release(None, ["my-image-v9.9.9", name]).as_deref(), Some("v1.47.0"));
    assert_eq!(bottlerocket_release(None, ["bottlerocket-mine"]), None);
}

#[test]
fn windows_runs_powershell() {
    let text = everything().text(AmiFamily::Windows2022);
    assert!(text.starts_with("<powershell>\n[string]$EKSBootstrapScript"), "{text}");
    assert!(text.ends_with("\n</powershell>"));
    assert!(text.contains("-EKSClusterName 'prod' -APIServerEndpoint 'https://api.example' -Base64ClusterCA 'Y2E=' -KubeletExtraArgs '--node-labels=\"app=b,team=a\" "));
    assert!(text.contains(" -DNSClusterIP '10.0.0.53'\n"));
    let own = Machine::custom("Write-Host \"Hello\"").text(AmiFamily::Windows2019);
    assert!(own.starts_with("<powershell>\nWrite-Host \"Hello\"\n[string]"), "{own}");
    let raid = Machine { raid0: true, ..Machine::default() };
    assert_eq!(raid.text(AmiFamily::Windows2025), Machine::default().text(AmiFamily::Windows2025));
}

#[test]
fn custom_user_data_is_the_users_own() {
    assert_eq!(Machine::custom("anything\r\n").text(AmiFamily::Custom), "anything\r\n");
    assert_eq!(Machine::default().text(AmiFamily::Custom), "");
}

#[test]
fn user_data_is_encoded_and_measured() {
    let data = UserData { text: "abc".to_owned(), ignored: Vec::new() };
    assert_eq!(data.encoded(), "YWJj");
    assert!(data.fits());
    assert!(UserData { text: "x".repeat(LARGEST), ignored: Vec::new() }.fits());
    assert!(!UserData { text: "x".repeat(LARGEST + 1), ignored: Vec::new() }.fits());
}
