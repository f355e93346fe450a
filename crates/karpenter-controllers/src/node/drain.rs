//! Draining: which pods are asked to leave a node now, and which are waited for.
//!
//! Pods leave in four groups: ordinary pods, pods of DaemonSets, critical pods, critical pods of DaemonSets. A group begins when the one before it has
//! left. Where the node has a deadline, every pod gets its own grace period before it, whatever protects the pod.

use jiff::{SignedDuration, Timestamp};
use karpenter_api::taints;
use karpenter_core::cluster::{PodOwner, Taint, TaintEffect, tolerates};
use karpenter_runtime::Key;

use crate::observed::ObservedPod;

/// A pod that should have stopped this long ago will not stop any more; its node is not kept for it.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// What draining asks for now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Drain {
    /// Pods to be evicted.
    pub(crate) evict: Vec<Key>,
    /// Pods to be deleted within this many seconds, because the deadline leaves no more.
    pub(crate) delete: Vec<(Key, i64)>,
    /// How many pods are still waited for.
    pub(crate) waiting: usize,
    /// When the next pod must be deleted because of the deadline.
    pub(crate) next: Option<Timestamp>,
}

/// Decides about the pods of one node.
pub(crate) fn drain<'a>(
    pods: impl IntoIterator<Item = (&'a Key, &'a ObservedPod)>,
    deadline: Option<Timestamp>,
    protected: impl Fn(&ObservedPod) -> bool,
    now: Timestamp,
) -> Drain {
    let leaving: Vec<(&Key, &ObservedPod)> =
        pods.into_iter().filter(|(_, pod)| must_leave(pod, now)).collect();
    let mut drain = Drain { waiting: leaving.len(), ..Drain::default() };
    for (key, pod) in &leaving {
        let Some(deadline) = deadline else { continue };
        let last_moment =
            deadline.saturating_sub(SignedDuration::from_secs(pod.grace_seconds)).unwrap_or(now);
        let too_slow = pod.deletion.is_some_and(|end| end > deadline);
        if too_slow || (pod.deletion.is_none() && now >= last_moment) {
            let left = deadline.duration_since(now).as_secs().max(1);
            drain.delete.push(((*key).clone(), left));
        } else if pod.deletion.is_none() {
            drain.next = Some(drain.next.map_or(last_moment, |sooner| sooner.min(last_moment)));
        }
    }
    let Some(current) = leaving.iter().map(|(_, pod)| group(pod)).min() else { return drain };
    let evictable = leaving.iter().filter(|(key, pod)| {
        group(pod) == current
            && pod.deletion.is_none()
            && !protected(pod)
            && !drain.delete.iter().any(|(deleted, _)| deleted == *key)
    });
    drain.evict = evictable.map(|(key, _)| (*key).clone()).collect();
    drain
}

/// Whether the node is kept until this pod has left.
fn must_leave(pod: &ObservedPod, now: Timestamp) -> bool {
    let stuck = pod.deletion.is_some_and(|end| now.duration_since(end) > STUCK_AFTER);
    !pod.is_terminal() && !stays(pod) && !stuck
}

/// Whether the pod belongs to the node and goes down with it: it tolerates the taint of leaving nodes, or the node itself runs it.
pub(super) fn stays(pod: &ObservedPod) -> bool {
    let Ok(pod) = &pod.pod else { return false };
    let taint = Taint { key: taints::DISRUPTED.into(), value: "".into(), effect: TaintEffect::NoSchedule };
    pod.owner == PodOwner::Node || tolerates(&pod.spec.tolerations, std::slice::from_ref(&taint)).is_ok()
}

fn group(pod: &ObservedPod) -> u8 {
    let daemon = pod.pod.as_ref().is_ok_and(|pod| pod.owner == PodOwner::DaemonSet);
    u8::from(pod.critical) * 2 + u8::from(daemon)
}
