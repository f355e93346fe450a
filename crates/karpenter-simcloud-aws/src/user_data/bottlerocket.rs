//! Bottlerocket: settings in TOML.

use std::collections::BTreeMap;

use karpenter_simcloud::Taint;
use serde_json::{Map, Value};

use super::{Cluster, Kubelet, check_labels};

pub(super) fn read(text: &str, wanted: &str) -> Result<Kubelet, String> {
    let document: Value =
        toml::from_str(text).map_err(|error| format!("the settings are not TOML: {error}"))?;
    let settings = &document["settings"];
    let kubernetes = &settings["kubernetes"];
    let field = |name: &str| kubernetes[name].as_str().unwrap_or("").to_owned();
    let cluster = Cluster {
        name: field("cluster-name"),
        endpoint: field("api-server"),
        authority: field("cluster-certificate"),
    };
    cluster.check(wanted)?;
    let labels = texts(&kubernetes["node-labels"]);
    check_labels(&labels)?;
    let max_pods = match &kubernetes["max-pods"] {
        Value::Null => None,
        value => {
            let number =
                value.as_u64().ok_or_else(|| format!("max-pods is {value}, which is not a number"))?;
            Some(number as u32)
        }
    };
    Ok(Kubelet {
        labels,
        taints: taints(&kubernetes["node-taints"])?,
        max_pods,
        kube_reserved: texts(&kubernetes["kube-reserved"]),
        system_reserved: texts(&kubernetes["system-reserved"]),
        eviction_hard: texts(&kubernetes["eviction-hard"]),
        raid0: binds_disks(&settings["bootstrap-commands"]),
        reserves_by_itself: true,
        counts_addresses: true,
        ..Kubelet::default()
    })
}

/// Keys with one `value:Effect` or several.
fn taints(table: &Value) -> Result<Vec<Taint>, String> {
    let mut taints = Vec::new();
    for (key, values) in table.as_object().into_iter().flat_map(Map::iter) {
        let values = match values {
            Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        for value in &values {
            let text = value.as_str().ok_or_else(|| format!("the taint {key} is not a text"))?;
            let (value, effect) = text
                .split_once(':')
                .ok_or_else(|| format!("the taint {key} is {text:?}, not value:Effect"))?;
            taints.push(Taint { key: key.clone(), value: value.to_owned(), effect: effect.to_owned() });
        }
    }
    Ok(taints)
}

/// Whether some bootstrap command makes the disks inside the machine the storage of containers.
fn binds_disks(commands: &Value) -> bool {
    let commands = commands.as_object().into_iter().flat_map(Map::values);
    let calls = commands.flat_map(|command| command["commands"].as_array().cloned().unwrap_or_default());
    calls.into_iter().any(|call| {
        let words: Vec<&str> = call.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        matches!(words[..], ["apiclient", "ephemeral-storage", "bind", ..])
    })
}

fn texts(table: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    table.as_object().into_iter().flat_map(Map::iter).map(|(key, value)| (key.clone(), text(value))).collect()
}
