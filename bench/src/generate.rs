//! Benchmark scenarios that are made rather than stored: each is a catalog of a stored file with pods of our own.
//!
//! Everything is drawn from [`Random`] with a fixed seed, so a scenario is the same file on every run.

pub(crate) mod disruption;
mod distinct;
mod growth;
mod unique_labels;
mod warm;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::random::Random;

/// Sizes of the growth series.
pub(crate) const GROWTH: [usize; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];

/// Names of the generated scenarios, in the order in which they are reported.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> =
        ["unlabelled", "unique-labels", "all-distinct", "warm", "small-distinct", "small-warm"]
            .map(String::from)
            .into();
    for series in ["growth-mix", "growth-large"] {
        names.extend(GROWTH.iter().map(|pods| format!("{series}-{pods}")));
    }
    names.extend(disruption::NODES.iter().map(|nodes| format!("disruption-{nodes}")));
    names
}

/// Makes a scenario. `stored` reads a stored scenario by name: catalogs are taken from there.
pub(crate) fn scenario(name: &str, stored: impl Fn(&str) -> Result<Value>) -> Result<Value> {
    let random = Random::new(20_260_101);
    let mut made = match name {
        "unique-labels" => unique_labels::scenario(stored("large-1000")?, random, true),
        "unlabelled" => unique_labels::scenario(stored("large-1000")?, random, false),
        "all-distinct" => distinct::scenario(stored("large-1000")?, random, 10_000),
        "small-distinct" => distinct::scenario(stored("large-1000")?, random, 200),
        "warm" => warm::scenario(stored("large-1000")?, random, 5_000, 1_000)?,
        "small-warm" => warm::scenario(stored("large-1000")?, random, 50, 50)?,
        _ => match name.rsplit_once('-').map(|(series, pods)| (series, pods.parse())) {
            Some(("growth-mix", Ok(pods))) => growth::mix(stored("bench-500")?, random, pods),
            Some(("disruption", Ok(nodes))) => disruption::scenario(stored("large-1000")?, random, nodes)?,
            Some(("growth-large", Ok(pods))) => growth::large(stored("large-10000")?, pods),
            _ => bail!("no benchmark is called {name}; `cargo xtask bench --list` prints their names"),
        },
    };
    made["name"] = json!(name);
    Ok(made)
}

/// The stored scenario's catalog, node pools and daemon sets with other pending pods.
fn with_pods(mut base: Value, pod_groups: Vec<Value>) -> Value {
    base["podGroups"] = Value::Array(pod_groups);
    base
}

/// A pod group of `count` pods whose only container asks for `cpu` and `memory`.
fn pod_group(
    count: usize,
    name: &str,
    labels: &Value,
    mut spec: Value,
    (cpu, memory): (&str, &str),
) -> Value {
    spec["containers"] = json!([{ "resources": { "requests": { "cpu": cpu, "memory": memory } } }]);
    json!({ "count": count, "pod": { "metadata": { "name": name, "labels": labels }, "spec": spec } })
}

/// Deals `total` pods to groups in proportion to the counts they have; every group keeps at least one pod.
fn rescale(pod_groups: &mut [Value], total: usize) {
    let count = |group: &Value| group["count"].as_u64().unwrap_or(1) as usize;
    let before: usize = pod_groups.iter().map(count).sum();
    let mut left = total;
    for group in pod_groups.iter_mut() {
        let share = (count(group) * total / before).max(1).min(left);
        left -= share;
        group["count"] = json!(share);
    }
    if let Some(first) = pod_groups.first_mut() {
        first["count"] = json!(count(first) + left);
    }
}

/// A spread over `topology_key` of the pods that carry `labels`.
fn spread(topology_key: &str, labels: &Value) -> Value {
    json!([{ "maxSkew": 1, "topologyKey": topology_key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": labels } }])
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ARCH: &str = "kubernetes.io/arch";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::files;

    fn make(name: &str) -> Value {
        scenario(name, files::stored).expect("the scenario is known")
    }

    fn groups(scenario: &Value) -> &[Value] {
        scenario["podGroups"].as_array().map_or(&[], Vec::as_slice)
    }

    fn pods(scenario: &Value) -> u64 {
        groups(scenario).iter().filter_map(|group| group["count"].as_u64()).sum()
    }

    #[test]
    fn the_twin_differs_from_unique_labels_in_the_labels_alone() {
        let (mut labelled, mut plain) = (make("unique-labels"), make("unlabelled"));
        assert_eq!(pods(&labelled), 10_000);
        let labels: BTreeSet<String> =
            groups(&labelled).iter().map(|group| group["pod"]["metadata"]["labels"].to_string()).collect();
        assert_eq!(labels.len(), 10_000);
        let requests: BTreeSet<String> =
            groups(&plain).iter().map(|group| group["pod"]["spec"]["containers"].to_string()).collect();
        assert_eq!(requests.len(), 500);
        for scenario in [&mut labelled, &mut plain] {
            scenario["name"] = Value::Null;
            for group in scenario["podGroups"].as_array_mut().expect("pod groups are an array") {
                group["pod"]["metadata"]["labels"] = Value::Null;
            }
        }
        assert_eq!(labelled, plain);
    }

    #[test]
    fn no_two_pods_of_all_distinct_are_equal_for_scheduling() {
        let scenario = make("all-distinct");
        let specs: BTreeSet<String> =
            groups(&scenario).iter().map(|group| group["pod"]["spec"].to_string()).collect();
        assert_eq!(specs.len(), 10_000);
        assert_eq!(pods(&scenario), 10_000);
    }

    #[test]
    fn the_warm_cluster_has_its_nodes_and_pods() {
        let scenario = make("warm");
        let nodes = scenario["nodes"].as_array().expect("nodes are an array");
        assert_eq!(nodes.len(), 5_000);
        let bound: u64 = nodes.iter().map(pods).sum();
        assert_eq!(bound, 50_000);
        assert_eq!(pods(&scenario), 1_000);
    }

    #[test]
    fn a_cluster_to_consolidate_has_ten_pods_on_every_node_and_twenty_pools() {
        let scenario = make("disruption-100");
        let nodes = scenario["nodes"].as_array().expect("nodes are an array");
        assert_eq!(nodes.len(), 100);
        assert!(nodes.iter().all(|node| pods(node) == 10));
        assert_eq!(scenario["nodePools"].as_array().map(Vec::len), Some(20));
        assert_eq!(scenario["mode"], "disrupt");
    }

    #[test]
    fn growth_has_exactly_the_pods_its_name_says() {
        for name in names().iter().filter(|name| name.starts_with("growth-")) {
            let count = name.rsplit('-').next().and_then(|count| count.parse().ok());
            assert_eq!(Some(pods(&make(name))), count, "{name}");
        }
    }
}
