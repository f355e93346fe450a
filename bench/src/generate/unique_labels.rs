//! 10,000 pods with 500 different requests. Labelled, each pod carries a label of its own that nobody selects, as a
//! job controller's pods do: that must not make them different for scheduling.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{pod_group, with_pods};
use crate::random::Random;

const PODS: usize = 10_000;
const REQUESTS: usize = 500;

pub(super) fn scenario(base: Value, mut random: Random, labelled: bool) -> Value {
    let mut requests = BTreeSet::new();
    while requests.len() < REQUESTS {
        requests.insert((50 + 25 * random.below(80), 64 + 64 * random.below(64)));
    }
    let requests: Vec<(String, String)> =
        requests.into_iter().map(|(cpu, memory)| (format!("{cpu}m"), format!("{memory}Mi"))).collect();
    let group = |index: usize| {
        let (cpu, memory) = &requests[index * 7 % REQUESTS];
        let labels = if labelled { json!({ "job-id": format!("job-{index:05}") }) } else { json!({}) };
        pod_group(1, &format!("p{index:05}"), &labels, json!({}), (cpu, memory))
    };
    with_pods(base, (0..PODS).map(group).collect())
}
