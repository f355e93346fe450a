//! Boot scripts as our provider writes them, read as the images read them: two writings that know nothing of each other.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_aws_bootstrap::kubelet::{Kubelet, MaxPods};
use karpenter_aws_bootstrap::{AmiFamily, Cluster, Input, node_labels, node_taints, user_data};
use karpenter_aws_client::ec2::LaunchTemplateData;
use karpenter_simcloud::{Boot, MachineEvent};

use crate::account::{Account, ids};

const EKS: &str = "/aws/service/eks/optimized-ami/1.32";

/// Writes the boot script of a family, launches a machine of the image at `path` with it and waits for its node.
async fn node(family: AmiFamily, path: &str, custom: Option<&str>) -> Boot {
    let account = Account::new();
    let cluster = Cluster {
        name: "local".into(),
        endpoint: "https://x".into(),
        ca_bundle: Some("Y2E=".into()),
        service_cidr: Some("10.100.0.0/16".into()),
        dns: Some("10.100.0.10".into()),
    };
    let labels = [("karpenter.sh/nodepool", "default"), ("team", "a"), ("topology.kubernetes.io/zone", "z")];
    let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let kubelet = Kubelet {
        max_pods: Some(MaxPods::Number(42)),
        kube_reserved: BTreeMap::from([
            ("cpu".to_owned(), "100m".to_owned()),
            ("memory".to_owned(), "512Mi".to_owned()),
        ]),
        eviction_hard: BTreeMap::from([("memory.available".to_owned(), "5%".to_owned())]),
        ..Kubelet::default()
    };
    let fields = serde_json::json!({"evictionHard": {"memory.available": "5%"}});
    let input = Input {
        cluster: &cluster,
        labels: &node_labels(family, &labels),
        taints: &node_taints(&[], &[]),
        kubelet: &kubelet,
        kubelet_fields: fields.as_object(),
        custom,
        raid0: false,
        bottlerocket_release: None,
    };
    let script = user_data(family, &input).unwrap();
    let data = LaunchTemplateData {
        image_id: account.service.parameter(path),
        user_data: Some(STANDARD.encode(&script.text)),
        ..LaunchTemplateData::default()
    };
    account.create("nodes", data).await;
    let answer = account.launch(&account.fleet("nodes", "on-demand", 1, &[("m5.large", 'a')])).await;
    assert_eq!(ids(&answer).len(), 1, "{answer:?}");
    tokio::time::sleep(Duration::from_secs(30)).await;
    match account.told().remove(0) {
        MachineEvent::Booted(boot) => boot,
        other => panic!("{other:?}\n{}", script.text),
    }
}

fn check(boot: &Boot) {
    assert_eq!((&*boot.labels["team"], &*boot.labels["karpenter.sh/nodepool"]), ("a", "default"));
    assert_eq!(boot.labels["karpenter.sh/do-not-sync-taints"], "true");
    assert_eq!(boot.labels["topology.kubernetes.io/zone"], "us-west-2a", "the cloud's, not the claim's");
    assert_eq!((&*boot.capacity["pods"], &*boot.allocatable["cpu"]), ("42", "1900m"));
    let taints: Vec<_> = boot.taints.iter().map(|taint| (&*taint.key, &*taint.effect)).collect();
    assert_eq!(taints, [("karpenter.sh/unregistered", "NoExecute")]);
    let kibibytes = |list: &BTreeMap<String, String>| -> f64 {
        list["memory"].strip_suffix("Ki").unwrap().parse().unwrap()
    };
    let reserved = kibibytes(&boot.capacity) - kibibytes(&boot.allocatable);
    assert!((reserved - (512.0 * 1024.0 + 0.05 * kibibytes(&boot.capacity))).abs() < 2.0, "{reserved}");
}

#[tokio::test(start_paused = true)]
async fn amazon_linux_2_joins() {
    let path = format!("{EKS}/amazon-linux-2/recommended/image_id");
    check(&node(AmiFamily::Al2, &path, Some("#!/bin/bash\necho mine")).await);
}

#[tokio::test(start_paused = true)]
async fn amazon_linux_2023_joins() {
    let path = format!("{EKS}/amazon-linux-2023/x86_64/standard/recommended/image_id");
    check(&node(AmiFamily::Al2023, &path, Some("#!/bin/bash\necho mine")).await);
}

#[tokio::test(start_paused = true)]
async fn bottlerocket_joins() {
    let path = "/aws/service/bottlerocket/aws-k8s-1.32/x86_64/latest/image_id";
    check(
        &node(AmiFamily::Bottlerocket, path, Some("[settings.host-containers.admin]\nenabled = true\n"))
            .await,
    );
}

#[tokio::test(start_paused = true)]
async fn windows_joins() {
    let path = "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.32/image_id";
    let boot = node(AmiFamily::Windows2022, path, Some("Write-Host mine")).await;
    check(&boot);
    assert_eq!(boot.labels["node.kubernetes.io/windows-build"], "10.0.20348");
    assert_eq!(boot.labels["kubernetes.io/os"], "windows");
}
