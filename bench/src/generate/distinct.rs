//! Pods no two of which are equal for scheduling: nothing can be grouped, every pod is a class of its own.

use serde_json::{Value, json};

use super::{ARCH, CAPACITY_TYPE, HOSTNAME, ZONE, pod_group, spread, with_pods};
use crate::random::Random;

pub(super) fn scenario(base: Value, mut random: Random, pods: usize) -> Value {
    let group = |index: usize| {
        let name = format!("p{index:05}");
        let labels = json!({ "app": name });
        let cpu = format!("{}m", 100 + index % 2_000);
        let memory = format!("{}Mi", 128 + 13 * (index / 2_000) + random.below(4_000));
        pod_group(1, &name, &labels, spec(index, &labels, &mut random), (&cpu, &memory))
    };
    with_pods(base, (0..pods).map(group).collect())
}

/// A toleration of its own makes every pod distinct even where requests and selectors happen to be equal.
fn spec(index: usize, labels: &Value, random: &mut Random) -> Value {
    let toleration = json!([{ "key": format!("team-{index}"), "operator": "Exists" }]);
    let zone = *random.pick(&["zone-a", "zone-b", "zone-c"]);
    let family = format!("f{:02}", random.below(50));
    let generation = random.below(4) + 2;
    match index % 6 {
        0 => json!({ "tolerations": toleration }),
        1 => json!({ "tolerations": toleration, "nodeSelector": { ZONE: zone } }),
        2 => {
            json!({ "tolerations": toleration, "nodeSelector": { ARCH: *random.pick(&["amd64", "arm64"]) } })
        }
        3 => json!({ "tolerations": toleration, "affinity": required(&json!([
            { "key": "example.com/instance-family", "operator": "NotIn", "values": [family] },
            { "key": "example.com/instance-generation", "operator": "Gt", "values": [generation.to_string()] },
            { "key": CAPACITY_TYPE, "operator": "In", "values": [*random.pick(&["spot", "on-demand"])] },
        ])) }),
        4 => json!({ "tolerations": toleration, "topologySpreadConstraints": spread(ZONE, labels) }),
        _ => json!({ "tolerations": toleration, "topologySpreadConstraints": spread(HOSTNAME, labels) }),
    }
}

fn required(expressions: &Value) -> Value {
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": expressions }],
    } } })
}
