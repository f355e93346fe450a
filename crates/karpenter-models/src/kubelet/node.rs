//! Gets nodes ready and keeps them alive.
//!
//! A real kubelet renews its lease every ten seconds. Here a lease lasts for long and is renewed rarely, so that ten thousand
//! nodes are no storm; when a node is made unreachable its lease is cut short to what a real one would be.

use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::node_status::node_status;
use super::{Health, health};
use crate::annotations::{READY_AFTER, duration};
use crate::config::KubeletConfig;

const LEASES: &str = "kube-node-lease";
/// How long the lease of a real kubelet lasts.
const LEASE_SECONDS: i32 = 40;

/// Runs nodes.
pub struct NodeKubelet {
    config: KubeletConfig,
}

impl NodeKubelet {
    /// Returns a model that runs the nodes the configuration says.
    pub fn new(config: KubeletConfig) -> Self {
        Self { config }
    }

    fn status(&self, node: &Node, key: &Key, ready: bool, now: Timestamp) -> Write {
        let status = node_status(node, ready, &self.config.version, now);
        Write::strategic_patch::<Node>(key, json!({"status": status})).status()
    }

    /// Returns the write that keeps the lease alive if it is due, and when it is due next.
    fn lease(&self, node: &Node, lease: Option<&Lease>, now: Timestamp) -> (Option<Write>, Duration) {
        let heartbeat = self.config.heartbeat;
        let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|time| time.0);
        let lasting =
            i32::try_from(heartbeat.as_secs().saturating_mul(2)).unwrap_or(i32::MAX).max(LEASE_SECONDS);
        let seconds = lease.and_then(|lease| lease.spec.as_ref()?.lease_duration_seconds);
        let age = renewed.map(|renewed| now.duration_since(renewed));
        let left = age.map(|age| {
            let heartbeat = SignedDuration::try_from(heartbeat).unwrap_or(SignedDuration::MAX);
            Duration::try_from(heartbeat - age).unwrap_or_default()
        });
        match left {
            Some(left) if !left.is_zero() && seconds == Some(lasting) => (None, left),
            _ => (Some(write_lease(node, lease, lasting, now)), heartbeat),
        }
    }

    /// Returns the write that tells which storage drivers a node has, unless that is known.
    fn drivers(&self, node: &Node, caches: &Caches) -> Option<Write> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        if self.config.csi_drivers.is_empty() || caches.of::<CSINode>().get(&Key::cluster(name)).is_some() {
            return None;
        }
        let drivers = self.config.csi_drivers.iter().map(|driver| CSINodeDriver {
            name: driver.name.clone(),
            node_id: name.to_owned(),
            allocatable: driver.volumes_max.map(|count| VolumeNodeResources { count: Some(count) }),
            topology_keys: Some(driver.topology_keys.clone()).filter(|keys| !keys.is_empty()),
        });
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: name.to_owned(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        };
        let object = CSINode {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: CSINodeSpec { drivers: drivers.collect() },
        };
        Some(Write::create(&object).tolerating(409))
    }
}

impl Controller for NodeKubelet {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-kubelet-nodes"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<Node>();
        watches.add::<Lease>();
        watches.add::<CSINode>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if change.of::<Node>().is_some() {
            wakes.wake(change.key().clone());
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(node) = view.caches.of::<Node>().get(key) else { return Outcome::done() };
        let Some(health) = health(node, self.config.nodes) else { return Outcome::done() };
        let lease = view.caches.of::<Lease>().get(&Key::namespaced(LEASES, key.name())).map(|lease| &**lease);
        let ready = ready_status(node);
        match health {
            Health::Unreachable => match lease.filter(|lease| !is_short(lease)) {
                Some(lease) => Outcome::done()
                    .then(write_lease(node, Some(lease), LEASE_SECONDS, view.now).tolerating(409)),
                None => Outcome::done(),
            },
            Health::NotReady if ready != Some("False") => {
                Outcome::done().then(self.status(node, key, false, view.now).tolerating(404))
            }
            Health::Running if ready != Some("True") => {
                let wait = boot_wait(node, &self.config, view.now);
                if !wait.is_zero() {
                    return Outcome::after(wait);
                }
                let (lease, next) = self.lease(node, lease, view.now);
                let ready = self.status(node, key, true, view.now).tolerating(404);
                let drivers = self.drivers(node, view.caches);
                Outcome::done().then_all(drivers).then(ready).then_all(lease).again(next)
            }
            Health::NotReady | Health::Running | Health::Silent => {
                let (lease, next) = self.lease(node, lease, view.now);
                Outcome::done().then_all(lease).again(next)
            }
        }
    }
}

/// Returns the status of the node's `Ready` condition.
fn ready_status(node: &Node) -> Option<&str> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "Ready").map(|condition| condition.status.as_str())
}

/// Returns how long a new node still boots. One that was ready before is ready at once.
fn boot_wait(node: &Node, config: &KubeletConfig, now: Timestamp) -> Duration {
    if ready_status(node).is_some() {
        return Duration::ZERO;
    }
    let boot = duration(node.metadata.annotations.as_ref(), READY_AFTER).unwrap_or(config.node_ready_after);
    let created = node.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let age = now.duration_since(created);
    let boot = SignedDuration::try_from(boot).unwrap_or(SignedDuration::MAX);
    Duration::try_from(boot - age).unwrap_or_default()
}

fn is_short(lease: &Lease) -> bool {
    lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds) == Some(LEASE_SECONDS)
}

fn write_lease(node: &Node, lease: Option<&Lease>, seconds: i32, now: Timestamp) -> Write {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let renewed = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": renewed});
    let key = Key::namespaced(LEASES, name);
    if lease.is_some() {
        return Write::merge_patch::<Lease>(&key, json!({"spec": spec})).tolerating(404);
    }
    let owner: Value = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}]);
    let lease =
        json!({"metadata": {"namespace": LEASES, "name": name, "ownerReferences": owner}, "spec": spec});
    Write::create_json::<Lease>(&key, lease).tolerating(409)
}
