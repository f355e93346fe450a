//! Claims that are made for one pod and go with it.

use std::convert::Infallible;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};

use crate::pod::{PodFacts, watch_pods};

/// Makes the claims of pods with ephemeral volumes.
#[derive(Default)]
pub struct EphemeralClaims;

impl EphemeralClaims {
    /// Returns a controller that has made nothing.
    pub fn new() -> Self {
        Self
    }
}

impl Controller for EphemeralClaims {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-ephemeral-claims"
    }

    fn watches(&self, watches: &mut Watches) {
        watch_pods(watches);
        watches.add::<PersistentVolumeClaim>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        let delta = change.of::<PodFacts>();
        if delta.is_some_and(|delta| delta.new.is_some_and(|pod| !pod.ephemeral_claims.is_empty())) {
            wakes.wake(change.key().clone());
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(pod) = view.caches.of::<PodFacts>().get(key).filter(|pod| pod.is_active()) else {
            return Outcome::done();
        };
        let claims = view.caches.of::<PersistentVolumeClaim>();
        let missing = pod
            .ephemeral_claims
            .iter()
            .filter(|(name, _)| claims.get(&Key::namespaced(pod.namespace(), name)).is_none());
        let writes = missing.map(|(name, template)| {
            let meta = template.metadata.clone().unwrap_or_default();
            let claim = PersistentVolumeClaim {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    namespace: Some(pod.namespace().to_owned()),
                    labels: meta.labels,
                    annotations: meta.annotations,
                    owner_references: Some(vec![owner(key, pod)]),
                    ..ObjectMeta::default()
                },
                spec: Some(template.spec.clone()),
                status: None,
            };
            Write::create(&claim).tolerating(409)
        });
        Outcome::done().then_all(writes.collect::<Vec<_>>())
    }
}

fn owner(key: &Key, pod: &PodFacts) -> OwnerReference {
    use kube::Resource as _;
    OwnerReference {
        api_version: Pod::api_version(&()).into_owned(),
        kind: Pod::kind(&()).into_owned(),
        name: key.name().to_owned(),
        uid: pod.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
