//! What a scrape reads from the state about pods: where they are, and how long they have waited for what.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};
use karpenter_environment::Environment;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::cluster::{Pairs, age, gauges};
use crate::observed::ObservedPod;
use crate::state::{Shared, State};

/// Reads the pods at every scrape.
pub(super) struct Pods {
    state: Shared,
    environment: Arc<dyn Environment>,
}

impl fmt::Debug for Pods {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pods").finish_non_exhaustive()
    }
}

impl Pods {
    pub(super) fn new(state: Shared, environment: Arc<dyn Environment>) -> Self {
        Self { state, environment }
    }
}

impl Collector for Pods {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.environment.now();
        let state = self.state.lock();
        let series = state.pods().map(|pod| (pod_pairs(pod, &state), 1.0));
        gauges(&mut encoder, "karpenter_pods_state", "Pods and where they are", series)?;
        encode_waits(&mut encoder, &state, now)?;
        encode_provisioning(&mut encoder, &state, now)
    }
}

/// Pods that have not run to their end.
fn live(state: &State) -> impl Iterator<Item = &Arc<ObservedPod>> {
    state.pods().filter(|pod| !pod.is_terminal())
}

fn encode_waits(encoder: &mut DescriptorEncoder<'_>, state: &State, now: Timestamp) -> fmt::Result {
    let created = |pod: &ObservedPod| pod.pod.as_ref().ok().map(|pod| pod.created);
    let unstarted = live(state).filter(|pod| pod.ready.is_none());
    let unstarted = unstarted.filter_map(|pod| Some((named(pod), age(created(pod)?, now))));
    let help = "How long pods have not been ready";
    gauges(encoder, "karpenter_pods_unstarted_time_seconds", help, unstarted)?;
    let unbound = live(state).filter(|pod| pod.node.is_none());
    let unbound = unbound.filter_map(|pod| Some((with_devices(pod), age(created(pod)?, now))));
    gauges(encoder, "karpenter_pods_unbound_time_seconds", "How long pods have had no node", unbound)
}

/// The same, counted from when a plan found a place for the pod.
fn encode_provisioning(encoder: &mut DescriptorEncoder<'_>, state: &State, now: Timestamp) -> fmt::Result {
    let planned = |pod: &ObservedPod| state.waited(pod.uid()).and_then(|waited| waited.placed);
    let unbound = live(state).filter(|pod| pod.node.is_none());
    let unbound = unbound.filter_map(|pod| Some((with_devices(pod), age(planned(pod)?, now))));
    let help = "How long pods with a planned place have had no node";
    gauges(encoder, "karpenter_pods_provisioning_unbound_time_seconds", help, unbound)?;
    let unstarted = live(state).filter(|pod| pod.ready.is_none());
    let unstarted = unstarted.filter_map(|pod| Some((named(pod), age(planned(pod)?, now))));
    let help = "How long pods with a planned place have not been ready";
    gauges(encoder, "karpenter_pods_provisioning_unstarted_time_seconds", help, unstarted)?;
    let undecided = live(state).filter_map(|pod| {
        let waited = state.waited(pod.uid()).filter(|waited| waited.decided.is_none())?;
        Some((named(pod), age(waited.since, now)))
    });
    let help = "How long pods have waited for a plan to say something about them";
    gauges(encoder, "karpenter_pods_provisioning_scheduling_undecided_time_seconds", help, undecided)
}

fn named(pod: &ObservedPod) -> Pairs {
    let (namespace, name) = pod.names();
    vec![(Cow::Borrowed("name"), name.to_owned()), (Cow::Borrowed("namespace"), namespace.to_owned())]
}

fn with_devices(pod: &ObservedPod) -> Pairs {
    let mut pairs = named(pod);
    let dynamic = pod.pod.as_ref().is_ok_and(|pod| pod.spec.uses_dynamic_resources);
    pairs.push((Cow::Borrowed("dynamic_resources"), dynamic.to_string()));
    pairs
}

fn pod_pairs(pod: &ObservedPod, state: &State) -> Pairs {
    let node = pod.node.as_deref().unwrap_or_default();
    let labels = state.node(node).and_then(|node| node.metadata.labels.as_ref());
    let of_node = |key: &str| labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
    let (namespace, name) = pod.names();
    let pool = of_node(NODEPOOL);
    let managed = !pool.is_empty();
    [
        ("name", name.to_owned()),
        ("namespace", namespace.to_owned()),
        ("owner", pod.owner.as_deref().unwrap_or_default().to_owned()),
        ("node", node.to_owned()),
        ("scheduled", pod.node.is_some().to_string()),
        ("nodepool", pool),
        ("zone", of_node(ZONE)),
        ("arch", of_node(ARCH)),
        ("capacity_type", of_node(CAPACITY_TYPE)),
        ("instance_type", of_node(INSTANCE_TYPE)),
        ("phase", pod.phase.to_string()),
        ("ready", pod.ready.is_some().to_string()),
        ("managed", managed.to_string()),
    ]
    .map(|(name, value)| (Cow::Borrowed(name), value))
    .into()
}
