//! Why a pod does not go to a node, in the words of kube-scheduler 1.36.

use std::collections::BTreeMap;
use std::fmt;

/// One reason why a node refuses a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// The pod names another node.
    NodeName,
    /// A taint is not tolerated.
    Taint,
    /// Node selector or required node affinity does not match.
    NodeAffinity,
    /// The pod's affinity names other nodes.
    NotNamed,
    /// A host port is taken.
    HostPort,
    /// The node holds as many pods as it may.
    TooManyPods,
    /// A resource is short.
    Insufficient(String),
    /// The claim is for one pod only and another pod has it.
    ReadWriteOncePod,
    /// The node cannot attach so many volumes.
    VolumeLimit,
    /// A bound volume is not reachable from the node.
    VolumeNodeAffinity,
    /// No volume for a claim exists or can be made for the node.
    NoVolume,
    /// A claim is bound to a volume that does not exist.
    VolumeMissing,
    /// A bound volume is in another zone.
    VolumeZone,
    /// The spread would become too uneven.
    Spread,
    /// The node lacks a label the pods spread over.
    SpreadLabel,
    /// No pod the pod wants to be near is there.
    PodAffinity,
    /// A pod is there that the pod wants to be away from.
    PodAntiAffinity,
    /// A pod is there that wants to be away from the pod.
    ExistingAntiAffinity,
    /// Something about the pod itself that no node can change.
    Pod(String),
}

impl Reason {
    /// Returns whether the node might take the pod once other pods are gone from it.
    pub fn is_resolvable(&self) -> bool {
        matches!(
            self,
            Self::HostPort
                | Self::TooManyPods
                | Self::Insufficient(_)
                | Self::ReadWriteOncePod
                | Self::VolumeLimit
                | Self::Spread
                | Self::PodAntiAffinity
                | Self::ExistingAntiAffinity
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::NodeName => "node(s) didn't match the requested node name",
            Self::Taint => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::HostPort => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::Insufficient(resource) => return write!(formatter, "Insufficient {resource}"),
            Self::ReadWriteOncePod => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Self::VolumeLimit => "node(s) exceed max volume count",
            Self::VolumeNodeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::VolumeMissing => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::PodAffinity => "node(s) didn't match pod affinity rules",
            Self::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::Pod(message) => message,
        })
    }
}

/// Why one node refuses a pod: the reasons of the first filter that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The filter's reasons; several resources may be short at once.
    pub reasons: Vec<Reason>,
    /// Whether removing pods from the node cannot help.
    pub is_final: bool,
}

impl Rejection {
    /// Returns a rejection for one reason.
    pub fn because(reason: Reason) -> Self {
        Self { is_final: !reason.is_resolvable(), reasons: vec![reason] }
    }
}

/// How many nodes refuse a pod for which reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    counts: BTreeMap<Reason, usize>,
}

impl Diagnosis {
    /// Counts `nodes` more nodes for a reason.
    pub fn add(&mut self, reason: &Reason, nodes: usize) {
        match self.counts.get_mut(reason) {
            Some(count) => *count += nodes,
            None => {
                self.counts.insert(reason.clone(), nodes);
            }
        }
    }

    /// Returns the message of the pod's `PodScheduled` condition and of its events.
    pub fn message(&self, nodes: usize, preemption: Option<&str>) -> String {
        if nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let of_pod = self.counts.keys().find(|reason| matches!(reason, Reason::Pod(_)));
        if let Some(reason) = of_pod {
            // Nothing follows from nodes, and who gives devices back finds nothing prepared for it and says just that.
            return format!("0/{nodes} nodes are available: {reason}. not found");
        }
        let mut parts: Vec<String> =
            self.counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        let mut message = format!("0/{nodes} nodes are available: {}.", parts.join(", "));
        if let Some(preemption) = preemption {
            // Who gives devices back speaks before preemption does, and has none to give.
            message.push_str(" no new claims to deallocate, preemption: ");
            message.push_str(preemption);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_counts_nodes_by_reason_in_the_order_of_text() {
        let mut diagnosis = Diagnosis::default();
        diagnosis.add(&Reason::Taint, 10);
        diagnosis.add(&Reason::Insufficient("cpu".to_owned()), 2);
        let expected = "0/12 nodes are available: 10 node(s) had untolerated taint(s), 2 Insufficient cpu.";
        assert_eq!(diagnosis.message(12, None), expected);
    }

    #[test]
    fn what_is_wrong_with_the_pod_itself_is_said_once() {
        let mut diagnosis = Diagnosis::default();
        diagnosis.add(&Reason::Pod("pod has unbound immediate PersistentVolumeClaims".to_owned()), 3);
        let expected = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
        assert_eq!(diagnosis.message(3, None), expected);
    }

    #[test]
    fn what_preemption_has_to_say_comes_last() {
        let mut diagnosis = Diagnosis::default();
        diagnosis.add(&Reason::TooManyPods, 3);
        let expected =
            "0/3 nodes are available: 3 Too many pods. no new claims to deallocate, preemption: no.";
        assert_eq!(diagnosis.message(3, Some("no.")), expected);
    }

    #[test]
    fn a_cluster_without_nodes_has_a_message_of_its_own() {
        assert_eq!(Diagnosis::default().message(0, None), "no nodes available to schedule pods");
    }
}
