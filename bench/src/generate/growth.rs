//! The same mixes at growing sizes, to see how the cost grows with the number of pods.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{HOSTNAME, ZONE, pod_group, rescale, spread, with_pods};
use crate::random::Random;

/// The deployments of the production-like file, scaled.
pub(super) fn large(mut base: Value, pods: usize) -> Value {
    let mut groups = base["podGroups"].as_array().cloned().unwrap_or_default();
    rescale(&mut groups, pods);
    base["podGroups"] = Value::Array(groups);
    base
}

/// Five kinds in equal parts, as in upstream's own benchmark: plain, zonal spread, hostname spread, zonal affinity to
/// themselves and hostname anti-affinity to each other. The last kind forces one node for every five pods. The pool
/// has no limits: a node counts as its largest type while it is planned, and 20,000 of those exceed the stored ones.
pub(super) fn mix(mut base: Value, mut random: Random, pods: usize) -> Value {
    base["nodePools"][0]["spec"]["limits"] = json!({});
    let mut groups: Vec<Value> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for index in 0..pods {
        let (labels, spec) = kind(index * 5 / pods, &mut random);
        let cpu = *random.pick(&["100m", "250m", "500m", "1000m", "1500m"]);
        let memory = *random.pick(&["100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi"]);
        let key = format!("{labels} {spec} {cpu} {memory}");
        let position = *known.entry(key).or_insert(groups.len());
        if let Some(group) = groups.get_mut(position) {
            group["count"] = json!(group["count"].as_u64().unwrap_or_default() + 1);
        } else {
            groups.push(pod_group(1, &format!("g{position}"), &labels, spec, (cpu, memory)));
        }
    }
    with_pods(base, groups)
}

fn kind(kind: usize, random: &mut Random) -> (Value, Value) {
    let mut value = || *random.pick(&["a", "b", "c", "d", "e", "f", "g"]);
    let same_zone =
        |labels: &Value| json!([{ "labelSelector": { "matchLabels": labels }, "topologyKey": ZONE }]);
    match kind {
        0 => (json!({ "group": value() }), json!({})),
        1 | 2 => {
            let (labels, selected) = (json!({ "group": value() }), json!({ "group": value() }));
            let key = if kind == 1 { ZONE } else { HOSTNAME };
            (labels, json!({ "topologySpreadConstraints": spread(key, &selected) }))
        }
        3 => {
            let labels = json!({ "friends": value() });
            let affinity = json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": same_zone(&labels) } });
            (labels, json!({ "affinity": affinity }))
        }
        _ => {
            let labels = json!({ "app": "alone" });
            let term = json!([{ "labelSelector": { "matchLabels": labels }, "topologyKey": HOSTNAME }]);
            let affinity =
                json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term } });
            (labels, json!({ "affinity": affinity }))
        }
    }
}
