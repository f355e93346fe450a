//! The cluster as it was at one moment, made of what was told until then.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::budgets::{desired_healthy, selects};
use crate::fields::{annotation, any_condition, condition, duration, is_active, name_of, owner, text};
use crate::history::Seen;

#[derive(Default)]
pub(crate) struct Cluster {
    objects: BTreeMap<&'static str, BTreeMap<String, Arc<Value>>>,
}

impl Cluster {
    pub(crate) fn take_in(&mut self, event: &Seen) {
        let of_kind = self.objects.entry(event.kind).or_default();
        if event.gone {
            of_kind.remove(&name_of(&event.object));
        } else {
            of_kind.insert(name_of(&event.object), Arc::clone(&event.object));
        }
    }

    pub(crate) fn of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.get(kind).into_iter().flat_map(|objects| objects.values().map(AsRef::as_ref))
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<&Value> {
        Some(self.objects.get(kind)?.get(name)?.as_ref())
    }

    pub(crate) fn node_of(&self, claim: &Value) -> Option<&Value> {
        self.get("Node", text(&claim["status"]["nodeName"]))
    }

    /// The claim of the node that a pod is on.
    pub(crate) fn claim_under(&self, pod: &Value) -> Option<&Value> {
        let node = text(&pod["spec"]["nodeName"]);
        self.of("NodeClaim").find(|claim| !node.is_empty() && text(&claim["status"]["nodeName"]) == node)
    }

    /// The PodDisruptionBudgets that speak of a pod.
    pub(crate) fn covering<'a>(&'a self, pod: &'a Value) -> impl Iterator<Item = &'a Value> {
        self.of("PodDisruptionBudget").filter(|budget| selects(budget, pod))
    }

    /// The workload that a pod belongs to.
    pub(crate) fn workload_of(&self, pod: &Value) -> Option<&Value> {
        let (kind, name) = owner(pod)?;
        self.get(kind, &format!("{}/{name}", text(&pod["metadata"]["namespace"])))
    }

    /// How many of the pods that a PodDisruptionBudget speaks of must stay healthy.
    pub(crate) fn desired_healthy(&self, budget: &Value) -> u64 {
        let covered: Vec<&Value> =
            self.of("Pod").filter(|pod| is_active(pod) && selects(budget, pod)).collect();
        let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
        for pod in &covered {
            match self.workload_of(pod).and_then(|workload| workload["spec"]["replicas"].as_u64()) {
                Some(replicas) => {
                    let (kind, name) = owner(pod).unwrap_or_default();
                    wanted.insert(format!("{kind}/{name}"), replicas);
                }
                None => *wanted.entry(String::new()).or_default() += 1,
            }
        }
        desired_healthy(budget, wanted.values().sum())
    }

    /// Whether a node is up in the sense of budgets.
    pub(crate) fn is_broken(&self, node: &str) -> bool {
        self.get("Node", node).is_some_and(|node| condition(node, "Ready").is_none())
    }

    /// Whether a pod does its work.
    pub(crate) fn is_healthy(&self, pod: &str) -> bool {
        self.get("Pod", pod).is_some_and(is_healthy)
    }
}

pub(crate) fn is_healthy(pod: &Value) -> bool {
    let ready = match any_condition(pod, "Ready") {
        Some(ready) => text(&ready["status"]) == "True",
        // Where no kubelet is played, nobody says more than this.
        None => text(&pod["status"]["phase"]) == "Running",
    };
    ready && is_active(pod)
}

/// Whether the pod says that it must not be disrupted now.
pub(crate) fn refuses(pod: &Value, now: Timestamp) -> bool {
    match annotation(pod, "karpenter.sh/do-not-disrupt") {
        None => false,
        Some("true") => true,
        Some(written) => {
            let Some(lasts) = duration(written) else { return false };
            let started = pod["status"]["startTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
            started.is_none_or(|started| now.duration_since(started) < lasts)
        }
    }
}

/// Whether the pod goes down with its node.
pub(crate) fn stays(pod: &Value) -> bool {
    let tolerations = pod["spec"]["tolerations"].as_array();
    let tolerates = tolerations.into_iter().flatten().any(|toleration| {
        let key = text(&toleration["key"]);
        (key.is_empty() && text(&toleration["operator"]) == "Exists" || key == "karpenter.sh/disrupted")
            && matches!(text(&toleration["effect"]), "" | "NoSchedule")
    });
    tolerates || owner(pod).is_some_and(|(kind, _)| kind == "Node")
}
