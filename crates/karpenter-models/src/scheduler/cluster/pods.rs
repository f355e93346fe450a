//! Pods come, change and go, waiting or placed.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;

use super::super::class::{Demand, with_labels};
use super::{Cluster, PodState, key_of};
use karpenter_runtime::Key;

use crate::pod::PodFacts;
use crate::selector::Labels;

impl Cluster {
    /// Takes in a pod as it is now. Pods that are finished count no more.
    pub fn set_pod(&mut self, pod: &core::Pod) {
        self.set_known_pod(&KnownPod::read(pod));
    }

    /// Takes in a pod as it is now and returns its number.
    ///
    /// A pod that was assumed to be on a node stays there until it is bound, forgotten or gone.
    pub(crate) fn set_known_pod(&mut self, pod: &KnownPod<'_>) -> Option<u32> {
        let key = pod.key.clone();
        if pod.is_finished {
            self.remove_pod(&key);
            return None;
        }
        if self.find_pod(&key).is_some_and(|id| self.pod(id).uid != pod.uid) {
            self.remove_pod(&key);
        }
        let class = self.enter_class(self.class_of(&pod.demand));
        let id = match self.find_pod(&key) {
            Some(id) => {
                self.unplace_for_change(id, class);
                id
            }
            None => self.file_pod(key, pod.uid.to_owned(), class),
        };
        let bound = pod.node.map(|name| self.nodes.enter(name));
        let is_terminating = pod.is_terminating;
        let own_labels = if self.keeps_numbers { Labels::new() } else { pod.demand.own_labels.clone() };
        let state = self.pod_mut(id);
        state.claims.clone_from(&pod.demand.claims);
        state.own_labels = own_labels;
        state.pin.clone_from(&pod.demand.pin);
        state.started = pod.started;
        let placed = state.node;
        let target = bound.or(placed);
        if placed != target {
            if placed.is_some() {
                self.unplace(id);
            }
            self.pod_mut(id).is_terminating = is_terminating;
            if let Some(node) = target {
                self.place(id, node);
            }
        } else if self.pod(id).is_terminating != is_terminating {
            self.set_terminating(id, is_terminating);
        }
        Some(id)
    }

    /// Takes in that a pod is gone.
    pub fn remove_pod(&mut self, key: &Key) {
        let Some(id) = self.pod_index.remove(key) else { return };
        self.unplace(id);
        self.nominate(id, None);
        let class = self.pod(id).class;
        self.pods[id as usize] = None;
        self.free_pods.push(id);
        self.leave_class(class);
    }

    /// Counts a pod on a node: bound there, or assumed until it is.
    pub(crate) fn place(&mut self, id: u32, node: u32) {
        self.put_on(id, node);
        self.nominate(id, None);
    }

    /// Counts a pod on no node.
    pub(crate) fn unplace(&mut self, id: u32) {
        if let Some(node) = self.take_off(id) {
            self.improve(node);
            self.nodes.drop_if_empty(node);
        }
    }

    /// Counts a pod on a node, for a moment or for good.
    pub(crate) fn put_on(&mut self, id: u32, node: u32) {
        let pod = self.pod_mut(id);
        assert!(pod.node.is_none(), "a pod is on one node at most");
        pod.node = Some(node);
        let (class, gone) = (pod.class, i64::from(pod.is_terminating));
        self.change_room(id, node, 1);
        self.nodes.get_mut(node).tally(class, 1, gone);
        self.count_pods(node, class, 1, gone);
    }

    /// Counts a pod off its node, for a moment or for good, and returns the node.
    pub(crate) fn take_off(&mut self, id: u32) -> Option<u32> {
        let pod = self.pod_mut(id);
        let node = pod.node.take()?;
        let (class, gone) = (pod.class, i64::from(pod.is_terminating));
        self.change_room(id, node, -1);
        self.count_pods(node, class, -1, -gone);
        self.nodes.get_mut(node).tally(class, -1, -gone);
        Some(node)
    }

    /// Notes that a pod waits for others to leave a node, or no longer.
    pub(crate) fn nominate(&mut self, id: u32, node: Option<u32>) {
        let before = std::mem::replace(&mut self.pod_mut(id).nominated, node);
        if before == node {
            return;
        }
        if let Some(before) = before {
            self.nodes.get_mut(before).nominated.remove(&id);
            self.improve(before);
        }
        if let Some(node) = node {
            self.nodes.get_mut(node).nominated.insert(id);
        }
    }

    fn set_terminating(&mut self, id: u32, is_terminating: bool) {
        let pod = self.pod_mut(id);
        pod.is_terminating = is_terminating;
        let (class, change) = (pod.class, if is_terminating { 1 } else { -1 });
        if let Some(node) = pod.node {
            self.nodes.get_mut(node).tally(class, 0, change);
            self.count_pods(node, class, 0, change);
        }
    }

    /// Adds a pod's requests, ports and claims to a node, or takes them off.
    fn change_room(&mut self, id: u32, node: u32, sign: i64) {
        let pod =
            self.pods[id as usize].as_ref().expect("a pod's number is used only while the pod is known");
        let class = self.classes.get(pod.class);
        let spec = self.classes.key(pod.class);
        let state = self.nodes.get_mut(node);
        for (resource, amount) in &class.requests {
            if state.requested.len() <= *resource {
                state.requested.resize(resource + 1, 0);
            }
            state.requested[*resource] += sign * amount;
        }
        for (total, amount) in state.weighed.iter_mut().zip(class.weighed) {
            *total += sign * amount;
        }
        if sign > 0 {
            state.ports.take(&spec.ports);
            state.pods.insert(id);
        } else {
            state.ports.release(&spec.ports);
            state.pods.remove(&id);
        }
        for claim in &pod.claims {
            let key = Key::namespaced(&spec.namespace, &claim.name);
            if sign > 0 {
                self.volumes.use_claim(key, id);
            } else {
                self.volumes.release_claim(&key, id);
            }
        }
    }

    fn file_pod(&mut self, key: Key, uid: String, class: u32) -> u32 {
        let state = PodState {
            key: key.clone(),
            uid,
            class,
            node: None,
            is_terminating: false,
            claims: Vec::new(),
            own_labels: crate::selector::Labels::new(),
            pin: None,
            started: None,
            nominated: None,
        };
        let id = if let Some(id) = self.free_pods.pop() {
            self.pods[id as usize] = Some(state);
            id
        } else {
            self.pods.push(Some(state));
            u32::try_from(self.pods.len() - 1).expect("fewer than four billion pods")
        };
        self.pod_index.insert(key, id);
        id
    }

    /// Moves a known pod to the class it has now; the caller's use of that class becomes the pod's.
    fn unplace_for_change(&mut self, id: u32, class: u32) {
        let before = self.pod(id).class;
        if before == class {
            self.leave_class(class);
            return;
        }
        let node = self.pod(id).node.map(|node| self.nodes.get(node).name.clone());
        let nominated = self.pod(id).nominated;
        self.unplace(id);
        self.pod_mut(id).class = class;
        if let Some(name) = node {
            // The last pod of a node that is gone frees the node's number, so it is asked for again.
            let node = self.nodes.enter(&name);
            self.place(id, node);
        }
        self.nominate(id, nominated);
        self.leave_class(before);
    }

    /// Gives every pod the class that its numbering labels make.
    pub(super) fn reclassify_all(&mut self) {
        for id in 0..u32::try_from(self.pods.len()).expect("pods are numbered in 32 bits") {
            let Some(pod) = &self.pods[id as usize] else { continue };
            if pod.own_labels.is_empty() {
                continue;
            }
            let spec = with_labels(self.classes.key(pod.class), &pod.own_labels);
            let class = self.enter_class(spec);
            self.pod_mut(id).own_labels.clear();
            self.unplace_for_change(id, class);
        }
    }
}

/// What the cluster is told about a pod.
pub(crate) struct KnownPod<'a> {
    pub(crate) key: Key,
    pub(crate) uid: &'a str,
    pub(crate) demand: Cow<'a, Demand>,
    pub(crate) node: Option<&'a str>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) is_terminating: bool,
    /// Whether it runs no more and takes nothing from its node.
    pub(crate) is_finished: bool,
}

impl<'a> KnownPod<'a> {
    pub(crate) fn read(pod: &'a core::Pod) -> Self {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        Self {
            key: key_of(&pod.metadata),
            uid: pod.metadata.uid.as_deref().unwrap_or_default(),
            demand: Cow::Owned(Demand::read(pod)),
            node: node.filter(|name| !name.is_empty()),
            started: pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            is_finished: matches!(phase, Some("Succeeded" | "Failed")),
        }
    }

    /// Looks at a pod as the models keep it.
    pub(crate) fn of(pod: &'a PodFacts) -> Self {
        Self {
            key: Key::namespaced(pod.namespace(), pod.name()),
            uid: pod.uid(),
            demand: Cow::Borrowed(&pod.demand),
            node: pod.node.as_deref(),
            started: pod.started,
            is_terminating: pod.is_terminating(),
            is_finished: pod.is_finished(),
        }
    }
}
