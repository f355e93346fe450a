//! Boot scripts that are programs: EKS's for Amazon Linux 2, EKS's for Windows, kOps's nodeup.

use karpenter_simcloud::Taint;
use serde_json::Value;

use super::{Cluster, Kubelet, arguments, words};

/// Reads the call of `/etc/eks/bootstrap.sh`; `None` if there is none.
pub(super) fn bootstrap(script: &str, cluster: &str) -> Option<Result<Kubelet, String>> {
    let command = words::command(script, "/etc/eks/bootstrap.sh", '\\')?;
    Some(bootstrap_call(&words::split(&command)[1..], cluster))
}

fn bootstrap_call(words: &[String], wanted: &str) -> Result<Kubelet, String> {
    let mut cluster = Cluster::default();
    let mut extra = String::new();
    let mut raid0 = false;
    let mut counts_addresses = true;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if !word.starts_with("--") {
            cluster.name.clone_from(word);
            continue;
        }
        let value = rest.next().cloned().ok_or_else(|| format!("{word} has no value"))?;
        match &**word {
            "--apiserver-endpoint" => cluster.endpoint = value,
            "--b64-cluster-ca" => cluster.authority = value,
            "--kubelet-extra-args" => extra = value,
            "--use-max-pods" => counts_addresses = value == "true",
            "--local-disks" => raid0 = value == "raid0",
            "--dns-cluster-ip" | "--ip-family" | "--container-runtime" | "--pause-container-account" => {}
            other => return Err(format!("/etc/eks/bootstrap.sh does not know {other}")),
        }
    }
    cluster.check(wanted)?;
    let kubelet = arguments(&words::split(&extra))?;
    Ok(Kubelet { raid0, counts_addresses, reserves_by_itself: true, ..kubelet })
}

/// Reads the call of `Start-EKSBootstrap.ps1` in a block of `PowerShell`.
pub(super) fn windows(text: &str, wanted: &str) -> Result<Kubelet, String> {
    let block = text
        .split_once("<powershell>")
        .and_then(|(_, rest)| rest.split_once("</powershell>"))
        .map(|(block, _)| block)
        .ok_or("the boot script has no <powershell> block that is closed")?;
    if !block.contains("Start-EKSBootstrap.ps1") {
        return Err("the boot script does not name Start-EKSBootstrap.ps1".to_owned());
    }
    let command = words::command(block, "-EKSClusterName", '`')
        .ok_or("the boot script does not call Start-EKSBootstrap.ps1 with -EKSClusterName")?;
    let words = words::split(&command);
    let value = |name: &str| {
        let at = words.iter().position(|word| word.eq_ignore_ascii_case(name));
        at.and_then(|at| words.get(at + 1)).cloned().unwrap_or_default()
    };
    let cluster = Cluster {
        name: value("-EKSClusterName"),
        endpoint: value("-APIServerEndpoint"),
        authority: value("-Base64ClusterCA"),
    };
    cluster.check(wanted)?;
    let kubelet = arguments(&words::split(&value("-KubeletExtraArgs")))?;
    Ok(Kubelet { reserves_by_itself: true, ..kubelet })
}

/// Reads what a script hands to kOps's nodeup; `None` if it does not call it.
pub(super) fn nodeup(script: &str, wanted: &str) -> Option<Result<Kubelet, String>> {
    if !script.contains("nodeup") || !script.contains("kube_env.yaml") {
        return None;
    }
    Some(nodeup_call(script, wanted))
}

fn nodeup_call(script: &str, wanted: &str) -> Result<Kubelet, String> {
    let written =
        script.split_once("__EOF_KUBE_ENV'\n").and_then(|(_, rest)| rest.split_once("__EOF_KUBE_ENV"));
    let (document, _) = written.ok_or("the boot script writes no conf/kube_env.yaml")?;
    let config: Value = serde_saphyr::from_str(document)
        .map_err(|error| format!("conf/kube_env.yaml in the boot script is not YAML: {error}"))?;
    let field = |name: &str| config[name].as_str().unwrap_or("").to_owned();
    if field("ClusterName") != wanted {
        return Err(format!(
            "nodeup joins the cluster {:?}, and this one is {wanted:?}",
            field("ClusterName")
        ));
    }
    let group = field("InstanceGroupName");
    if group.is_empty() {
        return Err("conf/kube_env.yaml in the boot script names no instance group".to_owned());
    }
    // kOps registers nodes of Karpenter's groups with the taint that Karpenter waits for.
    let taint = Taint {
        key: "karpenter.sh/unregistered".to_owned(),
        value: String::new(),
        effect: "NoExecute".to_owned(),
    };
    let labels = [
        ("kops.k8s.io/instancegroup".to_owned(), group),
        ("node-role.kubernetes.io/node".to_owned(), String::new()),
    ];
    Ok(Kubelet { labels: labels.into(), taints: vec![taint], ..Kubelet::default() })
}
