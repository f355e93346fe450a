//! Boot scripts of every kind, good ones and broken ones.

use super::*;

const AL2: &str = r#"MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo "mine"
--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash -xe
exec > >(tee /var/log/user-data.log) 2>&1
/etc/eks/bootstrap.sh 'local' --apiserver-endpoint 'https://x' --b64-cluster-ca 'Y2E=' \
--dns-cluster-ip '10.100.0.10' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="karpenter.sh/nodepool=default,team=a" --register-with-taints="karpenter.sh/unregistered:NoExecute,dedicated=gpu:NoSchedule" --max-pods=29 --kube-reserved="cpu=70m,memory=574Mi" --eviction-hard="memory.available<5%"' \
--local-disks raid0
--//--
"#;

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn amazon_linux_2_reads_the_arguments_of_its_script() {
    let kubelet = read(Family::Al2, AL2.as_bytes(), "local").unwrap();
    assert_eq!(kubelet.labels, pairs(&[("karpenter.sh/nodepool", "default"), ("team", "a")]));
    assert_eq!(kubelet.max_pods, Some(29));
    assert_eq!(kubelet.kube_reserved, pairs(&[("cpu", "70m"), ("memory", "574Mi")]));
    assert_eq!(kubelet.eviction_hard, pairs(&[("memory.available", "5%")]));
    assert!(kubelet.raid0);
    let taints: Vec<_> =
        kubelet.taints.iter().map(|taint| (&*taint.key, &*taint.value, &*taint.effect)).collect();
    assert_eq!(taints, [("karpenter.sh/unregistered", "", "NoExecute"), ("dedicated", "gpu", "NoSchedule")]);
}

#[test]
fn a_script_for_another_cluster_or_family_says_so() {
    let error = |family, text: &str| read(family, text.as_bytes(), "local").unwrap_err();
    assert_eq!(
        read(Family::Al2, AL2.as_bytes(), "other").unwrap_err(),
        "the boot script joins the cluster \"local\", and this one is \"other\""
    );
    assert_eq!(error(Family::Al2023, AL2), "the boot script holds no NodeConfig, and nodeadm needs one");
    assert!(error(Family::Bottlerocket, AL2).starts_with("the settings are not TOML: "));
    assert!(error(Family::Windows, AL2).contains("<powershell>"));
    assert_eq!(error(Family::Al2, ""), "there is no boot script, so nothing starts a kubelet");
    assert!(
        error(Family::Other, "#!/bin/bash\necho hello\n")
            .starts_with("nothing in the boot script starts a kubelet")
    );
    assert!(error(Family::Al2, &AL2.replace("--//--", "")).contains("closing boundary"));
    let forbidden = AL2.replace("team=a", "node-role.kubernetes.io/x=y");
    assert!(error(Family::Al2, &forbidden).contains("may not set the label node-role.kubernetes.io/x"));
}

#[test]
fn nodeadm_merges_documents_and_later_ones_win() {
    let text = r#"MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      maxPods: 10
      kubeReserved: {cpu: 100m}
--//
Content-Type: application/node.eks.aws

# Generated
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {}
spec:
  cluster:
    name: local
    apiServerEndpoint: https://x
    certificateAuthority: Y2E=
    cidr: 10.100.0.0/16
  instance:
    localStorage:
      strategy: RAID0
  kubelet:
    config:
      maxPods: 58
      registerWithTaints:
      - key: karpenter.sh/unregistered
        effect: NoExecute
    flags:
    - --node-labels="karpenter.sh/nodepool=default,karpenter.sh/capacity-type=spot"
--//--
"#;
    let kubelet = read(Family::Al2023, text.as_bytes(), "local").unwrap();
    assert_eq!(kubelet.max_pods, Some(58));
    assert_eq!(kubelet.kube_reserved, pairs(&[("cpu", "100m")]));
    assert_eq!(kubelet.labels["karpenter.sh/capacity-type"], "spot");
    assert_eq!(kubelet.taints[0].key, "karpenter.sh/unregistered");
    assert!(kubelet.raid0);
    let broken = text.replace("    cidr: 10.100.0.0/16\n", "");
    assert_eq!(
        read(Family::Al2023, broken.as_bytes(), "local").unwrap_err(),
        "the NodeConfig does not say the cluster's cidr"
    );
}

#[test]
fn bottlerocket_reads_its_settings() {
    let text = r#"
[settings.kubernetes]
cluster-name = "local"
api-server = "https://x"
cluster-certificate = "Y2E="
max-pods = 58
[settings.kubernetes.node-labels]
"karpenter.sh/nodepool" = "default"
[settings.kubernetes.node-taints]
"karpenter.sh/unregistered" = [":NoExecute"]
dedicated = "gpu:NoSchedule"
[settings.kubernetes.kube-reserved]
memory = "1Gi"
[settings.bootstrap-commands.000-mount-instance-storage]
commands = [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind"]]
mode = "always"
essential = true
"#;
    let kubelet = read(Family::Bottlerocket, text.as_bytes(), "local").unwrap();
    assert_eq!((kubelet.max_pods, kubelet.taints.len(), kubelet.raid0), (Some(58), 2, true));
    assert_eq!(kubelet.kube_reserved, pairs(&[("memory", "1Gi")]));
}

#[test]
fn windows_calls_its_bootstrap_script() {
    let text = r#"<powershell>
Write-Host "mine"
[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
& $EKSBootstrapScriptFile -EKSClusterName 'local' -APIServerEndpoint 'https://x' -Base64ClusterCA 'Y2E=' -KubeletExtraArgs '--node-labels="a=b" --register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=110' -DNSClusterIP '10.100.0.10'
</powershell>"#;
    let kubelet = read(Family::Windows, text.as_bytes(), "local").unwrap();
    assert_eq!(kubelet.max_pods, Some(110));
    assert_eq!(kubelet.labels, pairs(&[("a", "b")]));
}

#[test]
fn nodeup_knows_its_instance_group() {
    let text = "#!/bin/bash\nNODEUP_URL_AMD64=https://x/nodeup\ncat > conf/kube_env.yaml << '__EOF_KUBE_ENV'\nClusterName: local\nInstanceGroupName: nodes\nInstanceGroupRole: Node\n\n__EOF_KUBE_ENV\n\ndownload-release\n";
    let kubelet = read(Family::Other, text.as_bytes(), "local").unwrap();
    assert_eq!(kubelet.labels["kops.k8s.io/instancegroup"], "nodes");
    assert_eq!(kubelet.taints[0].key, "karpenter.sh/unregistered");
    assert!(read(Family::Other, text.as_bytes(), "else").unwrap_err().contains("joins the cluster"));
}
