//! Every namespace has a service account called `default`.

use std::convert::Infallible;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};

const NAME: &str = "default";

/// Makes default service accounts.
#[derive(Default)]
pub struct ServiceAccounts;

impl ServiceAccounts {
    /// Returns a controller that has made nothing.
    pub fn new() -> Self {
        Self
    }
}

impl Controller for ServiceAccounts {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-service-accounts"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<Namespace>();
        watches.add::<ServiceAccount>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        match change.key().namespace() {
            None => wakes.wake(change.key().clone()),
            Some(namespace) if change.key().name() == NAME => wakes.wake(Key::cluster(namespace)),
            Some(_) => {}
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let account = Key::namespaced(key.name(), NAME);
        let is_going = view
            .caches
            .of::<Namespace>()
            .get(key)
            .is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some());
        if is_going || view.caches.of::<ServiceAccount>().get(&account).is_some() {
            return Outcome::done();
        }
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(key.name().to_owned()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        Outcome::done().then(Write::create(&account).tolerating(403).tolerating(404).tolerating(409))
    }
}
