//! A provider that is KWOK, except for what the test has it say.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_kwok::Kwok;
use karpenter_provider::{
    CatalogError, InstanceTypes, LaunchError, Machine, NodeClassKind, Overlays, Provider, ProviderError,
    RebootError, RepairPolicy, Termination, Warning,
};

/// What the test has the provider say.
#[derive(Default)]
pub(crate) struct Said {
    /// Why every machine has drifted.
    pub(crate) drift: Mutex<Option<String>>,
    /// Instance types that are no longer sold.
    pub(crate) withdrawn: Mutex<Vec<String>>,
    /// How long the next launches take, one after the other; others take no time.
    pub(crate) launches_take: Mutex<VecDeque<Duration>>,
    /// Why machines cannot be restarted.
    pub(crate) no_reboot: Mutex<Option<RebootError>>,
}

/// See the head of the file.
pub(crate) struct Double {
    pub(crate) kwok: Kwok,
    pub(crate) said: Arc<Said>,
}

impl Provider for Double {
    fn name(&self) -> &'static str {
        self.kwok.name()
    }

    fn node_classes(&self) -> &'static [NodeClassKind] {
        self.kwok.node_classes()
    }

    fn label_rules(&self) -> LabelRules {
        self.kwok.label_rules()
    }

    fn launch(&self, claim: Arc<NodeClaim>) -> BoxFuture<'static, Result<Machine, LaunchError>> {
        let takes = self.said.launches_take.lock().unwrap().pop_front();
        let launch = self.kwok.launch(claim);
        async move {
            tokio::time::sleep(takes.unwrap_or_default()).await;
            launch.await
        }
        .boxed()
    }

    fn terminate(&self, claim: Arc<NodeClaim>) -> BoxFuture<'static, Result<Termination, ProviderError>> {
        self.kwok.terminate(claim)
    }

    fn find(&self, provider_id: Arc<str>) -> BoxFuture<'static, Result<Option<Machine>, ProviderError>> {
        self.kwok.find(provider_id)
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<Machine>, ProviderError>> {
        self.kwok.list()
    }

    fn instance_types(&self, pool: Arc<NodePool>) -> BoxFuture<'static, Result<InstanceTypes, CatalogError>> {
        let withdrawn = self.said.withdrawn.lock().unwrap().clone();
        let types = self.kwok.instance_types(pool);
        async move {
            let types = types.await?;
            Ok(types.iter().filter(|found| !withdrawn.contains(&found.name.to_string())).cloned().collect())
        }
        .boxed()
    }

    fn heed_overlays(&self, overlays: Overlays) {
        self.kwok.heed_overlays(overlays);
    }

    fn drift(&self, _: Arc<NodeClaim>) -> BoxFuture<'static, Result<Option<String>, ProviderError>> {
        let drift = self.said.drift.lock().unwrap().clone();
        async move { Ok(drift) }.boxed()
    }

    fn reboot(
        &self,
        claim: Arc<NodeClaim>,
        operation: String,
    ) -> BoxFuture<'static, Result<(), RebootError>> {
        match self.said.no_reboot.lock().unwrap().clone() {
            Some(error) => async move { Err(error) }.boxed(),
            None => self.kwok.reboot(claim, operation),
        }
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        self.kwok.repair_policies()
    }

    fn warns(&self) -> bool {
        self.kwok.warns()
    }

    fn warnings(&self) -> BoxFuture<'static, Result<Vec<Warning>, ProviderError>> {
        self.kwok.warnings()
    }
}
