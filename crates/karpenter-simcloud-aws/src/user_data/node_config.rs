//! Amazon Linux 2023: nodeadm merges all `NodeConfig` documents, and later ones win.

use std::collections::BTreeMap;

use karpenter_simcloud::Taint;
use serde_json::{Map, Value};

use super::mime::Part;
use super::{Cluster, Kubelet, arguments, check_labels};

const CONTENT_TYPE: &str = "application/node.eks.aws";

pub(super) fn read(parts: &[Part], wanted: &str) -> Result<Kubelet, String> {
    let mut merged = Value::Null;
    for part in parts {
        // A boot script that is nothing but the document needs no archive.
        if part.content_type.starts_with(CONTENT_TYPE) || (part.content_type.is_empty() && !part.is_script())
        {
            merge(&mut merged, document(&part.body)?);
        }
    }
    if merged.is_null() {
        return Err("the boot script holds no NodeConfig, and nodeadm needs one".to_owned());
    }
    let spec = &merged["spec"];
    let text = |name: &str| spec["cluster"][name].as_str().unwrap_or("").to_owned();
    let cluster = Cluster {
        name: text("name"),
        endpoint: text("apiServerEndpoint"),
        authority: text("certificateAuthority"),
    };
    cluster.check(wanted)?;
    if text("cidr").is_empty() {
        return Err("the NodeConfig does not say the cluster's cidr".to_owned());
    }
    kubelet(spec)
}

fn document(body: &str) -> Result<Value, String> {
    let document: Value =
        serde_saphyr::from_str(body).map_err(|error| format!("the NodeConfig is not YAML: {error}"))?;
    let known = document["kind"] == "NodeConfig"
        && matches!(document["apiVersion"].as_str(), Some("node.eks.aws/v1alpha1" | "node.eks.aws/v1"));
    if known {
        Ok(document)
    } else {
        Err("the document is not a NodeConfig of node.eks.aws/v1alpha1".to_owned())
    }
}

/// Objects are merged, everything else is replaced.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn kubelet(spec: &Value) -> Result<Kubelet, String> {
    let flags: Vec<String> = strings(&spec["kubelet"]["flags"]);
    let flags = arguments(&flags)?;
    check_labels(&flags.labels)?;
    let config = &spec["kubelet"]["config"];
    let number = |name: &str| match &config[name] {
        Value::Null => Ok(None),
        value => value
            .as_u64()
            .map(|number| Some(number as u32))
            .ok_or_else(|| format!("{name} in the NodeConfig is {value}, which is not a number")),
    };
    let mut taints = Vec::new();
    for taint in config["registerWithTaints"].as_array().into_iter().flatten() {
        let field = |name: &str| taint[name].as_str().unwrap_or("").to_owned();
        let taint = Taint { key: field("key"), value: field("value"), effect: field("effect") };
        if !matches!(&*taint.effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            return Err(format!(
                "the taint {} in the NodeConfig has the effect {:?}",
                taint.key, taint.effect
            ));
        }
        taints.push(taint);
    }
    taints.extend(flags.taints);
    Ok(Kubelet {
        labels: flags.labels,
        taints,
        max_pods: flags.max_pods.or(number("maxPods")?),
        pods_per_core: flags.pods_per_core.or(number("podsPerCore")?),
        kube_reserved: texts(&config["kubeReserved"]),
        system_reserved: texts(&config["systemReserved"]),
        eviction_hard: texts(&config["evictionHard"]),
        raid0: spec["instance"]["localStorage"]["strategy"] == "RAID0",
        reserves_by_itself: true,
        counts_addresses: true,
    })
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A map whose values are texts or numbers.
fn texts(map: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    map.as_object().into_iter().flat_map(Map::iter).map(|(key, value)| (key.clone(), text(value))).collect()
}
