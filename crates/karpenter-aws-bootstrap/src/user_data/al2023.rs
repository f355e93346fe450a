//! AL2023: a configuration for nodeadm, which merges it with the user's own; later parts win.

use serde_json::{Map, Value, json};

use super::{Input, UserDataError, joined};
use crate::kubelet::MaxPods;
use crate::mime::{Archive, NODE_CONFIG, Part, SHELL_SCRIPT};

pub(super) fn user_data(input: &Input<'_>) -> Result<String, UserDataError> {
    let mut archive = match input.custom.filter(|text| !text.trim().is_empty()) {
        None => Archive::default(),
        Some(text) if Archive::is_archive(text) => Archive::parse(text)?,
        Some(text) if is_yaml_map(text) => Archive { parts: vec![Part::new(NODE_CONFIG, text)] },
        Some(text) => Archive { parts: vec![Part::new(SHELL_SCRIPT, text)] },
    };
    archive.parts.push(Part::new(NODE_CONFIG, node_config(input)?));
    Ok(archive.to_string())
}

fn is_yaml_map(text: &str) -> bool {
    serde_saphyr::from_str::<Value>(text).is_ok_and(|value| value.is_object())
}

fn node_config(input: &Input<'_>) -> Result<String, UserDataError> {
    let cluster = input.cluster;
    let cidr = cluster.service_cidr.as_deref().ok_or(UserDataError::NoServiceCidr)?;
    let mut about = json!({"name": cluster.name, "apiServerEndpoint": cluster.endpoint, "cidr": cidr});
    if let Some(bundle) = &cluster.ca_bundle {
        about["certificateAuthority"] = bundle.as_str().into();
    }
    let mut kubelet = json!({"config": configuration(input)});
    if !input.labels.is_empty() {
        kubelet["flags"] = json!([format!("--node-labels=\"{}\"", joined(input.labels, "="))]);
    }
    let mut spec = json!({"cluster": about, "kubelet": kubelet});
    if input.raid0 {
        spec["instance"] = json!({"localStorage": {"strategy": "RAID0"}});
    }
    let config = json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec});
    Ok(format!("# Written by Karpenter\n{}", karpenter_api::yaml::to_yaml(&config)))
}

/// The user's own configuration, with what was resolved for the machine's type in it.
fn configuration(input: &Input<'_>) -> Value {
    let kubelet = input.kubelet;
    let mut fields: Map<String, Value> = input.kubelet_fields.cloned().unwrap_or_default();
    fields.remove("maxPods");
    if let Some(MaxPods::Number(number)) = kubelet.max_pods {
        fields.insert("maxPods".to_owned(), number.into());
    }
    for (name, reserved) in
        [("kubeReserved", &kubelet.kube_reserved), ("systemReserved", &kubelet.system_reserved)]
    {
        fields.remove(name);
        if !reserved.is_empty() {
            fields.insert(name.to_owned(), json!(reserved));
        }
    }
    if kubelet.cluster_dns.is_empty()
        && let Some(dns) = &input.cluster.dns
    {
        fields.insert("clusterDNS".to_owned(), json!([dns]));
    }
    let taint = |taint: &k8s_openapi::api::core::v1::Taint| {
        let mut fields = json!({"key": taint.key, "effect": taint.effect});
        if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty()) {
            fields["value"] = value.into();
        }
        fields
    };
    let taints: Vec<Value> = input.taints.iter().map(taint).collect();
    fields.insert("registerWithTaints".to_owned(), taints.into());
    Value::Object(fields)
}
