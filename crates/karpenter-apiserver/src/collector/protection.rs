//! Storage in use is kept: a claim while a pod mounts it, a volume while it is bound.

use serde_json::Value;

use crate::kinds::{CLAIM_PROTECTION, VOLUME_PROTECTION};
use crate::server::Core;
use crate::store::Key;

const CLAIMS: &str = "persistentvolumeclaims";

impl Core {
    /// Lets a claim or a volume that is being deleted go when nothing uses it.
    pub(super) fn release_storage(&self, resource: &str, key: &Key, object: &Value) {
        if resource == CLAIMS && !self.is_mounted(key) {
            self.drop_finalizer(resource, key, CLAIM_PROTECTION);
        }
        if resource == "persistentvolumes" && object["status"]["phase"] != "Bound" {
            self.drop_finalizer(resource, key, VOLUME_PROTECTION);
        }
    }

    /// Looks again at the claims being deleted in a namespace one of whose pods has ended.
    pub(super) fn recheck_claims(&self, namespace: &str) {
        let page = self.store.list(CLAIMS, Some(namespace), None, None);
        for (key, claim) in page.map(|page| page.objects).unwrap_or_default() {
            if claim.deleting {
                self.release_storage(CLAIMS, &key, &Value::Null);
            }
        }
    }

    fn is_mounted(&self, claim: &Key) -> bool {
        let page = self.store.list("pods", Some(&claim.namespace), None, None);
        let pods = page.map(|page| page.objects).unwrap_or_default();
        pods.iter().any(|(_, pod)| {
            let pod = pod.value();
            !has_ended(&pod) && mounts(&pod, &claim.name)
        })
    }
}

/// Whether a pod's containers will not run again.
pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// A pod without a node does not use its claims yet.
fn mounts(pod: &Value, claim: &str) -> bool {
    let own = |volume: &Value| {
        let made_for = format!("{}-{}", pod_name(pod), volume["name"].as_str().unwrap_or_default());
        volume["ephemeral"].is_object() && made_for == claim
    };
    pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty())
        && pod["spec"]["volumes"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim || own(volume))
}

fn pod_name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}
