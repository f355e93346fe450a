//! A provider with what it needs around it, as the controller, local mode and simulations put it into Karpenter.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use karpenter_alibabacloud::AlibabaCloud;
use karpenter_alibabacloud::node_class::{cloud_pilot, container_service, handbook};
use karpenter_aws::{Aws, EC2NodeClass};
use karpenter_controllers::{Karpenter, KeepNodeClass, Shared, keep, keep_if_served};
use karpenter_core::catalog::InstanceType;
use karpenter_environment::Environment;
use karpenter_kwok::{KWOKNodeClass, Kwok, generated_instance_types};
use karpenter_provider::{Provider, ProviderError};
use karpenter_runtime::Runtime;
use karpenter_simcloud::Market;
use kube::Client;

/// Adds the controllers that a provider brings along.
pub type Companions = Box<dyn Fn(&mut Runtime) + Send + Sync>;
/// Takes up what a process before this one had begun; to be repeated if it fails.
pub type Resume = Box<dyn Fn() -> BoxFuture<'static, Result<(), ProviderError>> + Send + Sync>;

/// A cloud that Karpenter can be put on.
pub struct Cloud {
    /// Where machines come from.
    pub provider: Arc<dyn Provider>,
    /// One for each kind of NodeClass the provider serves.
    pub keepers: Vec<KeepNodeClass>,
    /// Controllers of the provider's own.
    pub companions: Companions,
    /// To be done before the first decision.
    pub resume: Resume,
}

impl Cloud {
    /// A provider without controllers of its own that has nothing to take up.
    pub fn new(provider: Arc<dyn Provider>, keepers: Vec<KeepNodeClass>) -> Self {
        let resume = || std::future::ready(Ok(())).boxed();
        Self { provider, keepers, companions: Box::new(|_| {}), resume: Box::new(resume) }
    }

    /// Machines on paper of the built-in types.
    pub fn kwok(client: Client, environment: Arc<dyn Environment>, market: Arc<dyn Market>) -> Self {
        Self::kwok_with(client, environment, market, generated_instance_types(), Vec::new())
    }

    /// Machines on paper of the given types; `labels` are those they bring along.
    pub fn kwok_with(
        client: Client,
        environment: Arc<dyn Environment>,
        market: Arc<dyn Market>,
        types: Vec<InstanceType>,
        labels: Vec<String>,
    ) -> Self {
        let kwok = Kwok::new(client, environment, market, types, labels);
        let provider: Arc<dyn Provider> = Arc::new(kwok.clone());
        let resume = move || {
            let kwok = kwok.clone();
            async move { kwok.resume().await }.boxed()
        };
        Self { resume: Box::new(resume), ..Self::new(provider, vec![keep::<KWOKNodeClass>]) }
    }

    /// Amazon EC2, or what speaks like it.
    pub fn aws(aws: Aws) -> Self {
        let provider: Arc<dyn Provider> = Arc::new(aws.clone());
        let companions = move |runtime: &mut Runtime| aws.install(runtime);
        Self { companions: Box::new(companions), ..Self::new(provider, vec![keep::<EC2NodeClass>]) }
    }

    /// Alibaba Cloud, or what speaks like it.
    pub fn alibabacloud(alibabacloud: AlibabaCloud) -> Self {
        let provider: Arc<dyn Provider> = Arc::new(alibabacloud.clone());
        let keepers: Vec<KeepNodeClass> = vec![
            keep_if_served::<container_service::ECSNodeClass>,
            keep_if_served::<handbook::ECSNodeClass>,
            keep_if_served::<cloud_pilot::ECSNodeClass>,
        ];
        let companions = move |runtime: &mut Runtime| alibabacloud.install(runtime);
        Self { companions: Box::new(companions), ..Self::new(provider, keepers) }
    }

    /// Adds Karpenter's controllers and the provider's own to `runtime`.
    pub fn install(&self, karpenter: &Karpenter, runtime: &mut Runtime) -> Shared {
        let state = karpenter.install_for(runtime, &self.keepers);
        (self.companions)(runtime);
        state
    }
}
