//! What controllers ask of the provider, as data, and who answers it.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use karpenter_api::NodeClaim;
use karpenter_provider::{LaunchError, Machine, Provider, ProviderError, RebootError, Termination, Warning};
use karpenter_runtime::{Key, Request};
use tokio::time::Instant;

use crate::metrics::{self, Call, Metrics};
use crate::state::pool_of;

/// A question to the provider.
#[derive(Clone, Debug)]
pub(crate) enum CloudRequest {
    /// Start the machine of a claim.
    Launch(Arc<NodeClaim>),
    /// Stop the machine of a claim.
    Terminate(Arc<NodeClaim>),
    /// Is this machine still there?
    Find(Arc<str>),
    /// Which machines are there?
    List,
    /// What have you said about machines lately?
    Warnings,
    /// These warnings were heeded.
    Heeded(Vec<Warning>),
    /// Restart the machine of a claim; requests with one id are one restart.
    Reboot(Arc<NodeClaim>, String),
}

impl Request for CloudRequest {
    fn action(&self) -> Option<String> {
        let (what, claim) = match self {
            Self::Launch(claim) => ("launch", claim),
            Self::Terminate(claim) => ("stop", claim),
            Self::Reboot(claim, _) => ("restart", claim),
            // Warnings may be taken from a queue; whoever takes them must be the one who acts on them.
            Self::Warnings => return Some("take warnings of the cloud from their queue".to_owned()),
            Self::Heeded(_) => return Some("tell the cloud which warnings were heeded".to_owned()),
            Self::Find(_) | Self::List => return None,
        };
        Some(format!("{what} the machine of NodeClaim {}", Key::of(&**claim)))
    }
}

/// The answer.
#[derive(Clone, Debug)]
pub(crate) enum CloudReply {
    /// To [`CloudRequest::Launch`].
    Launched(Result<Machine, LaunchError>),
    /// To [`CloudRequest::Terminate`].
    Terminated(Result<Termination, ProviderError>),
    /// To [`CloudRequest::Find`].
    Found(Result<Option<Machine>, ProviderError>),
    /// To [`CloudRequest::List`].
    Listed(Result<Vec<Machine>, ProviderError>),
    /// To [`CloudRequest::Warnings`].
    Warned(Result<Vec<Warning>, ProviderError>),
    /// To [`CloudRequest::Heeded`].
    Acknowledged(Result<(), ProviderError>),
    /// To [`CloudRequest::Reboot`].
    Rebooted(Result<(), RebootError>),
}

/// Passes questions of a controller on to `provider`, and takes note of how that goes.
pub(crate) fn handler(
    controller: &'static str,
    provider: Arc<dyn Provider>,
    metrics: Metrics,
) -> impl Fn(CloudRequest) -> BoxFuture<'static, CloudReply> + Send + 'static {
    move |request| {
        let (method, node_pool) = match &request {
            CloudRequest::Launch(claim) => ("Create", node_pool(claim)),
            CloudRequest::Terminate(claim) => ("Delete", node_pool(claim)),
            CloudRequest::Find(_) => ("Get", String::new()),
            CloudRequest::List => ("List", String::new()),
            CloudRequest::Warnings => ("Warnings", String::new()),
            CloudRequest::Heeded(_) => ("Heeded", String::new()),
            CloudRequest::Reboot(claim, _) => ("Reboot", node_pool(claim)),
        };
        let call = Call { controller, method, provider: provider.name(), node_pool };
        let reply = ask(&*provider, request);
        let metrics = metrics.clone();
        async move {
            let asked = Instant::now();
            let reply = reply.await;
            metrics.called(&call, asked.elapsed(), reply.failure());
            reply
        }
        .boxed()
    }
}

fn ask(provider: &dyn Provider, request: CloudRequest) -> BoxFuture<'static, CloudReply> {
    match request {
        CloudRequest::Launch(claim) => provider.launch(claim).map(CloudReply::Launched).boxed(),
        CloudRequest::Terminate(claim) => provider.terminate(claim).map(CloudReply::Terminated).boxed(),
        CloudRequest::Find(id) => provider.find(id).map(CloudReply::Found).boxed(),
        CloudRequest::List => provider.list().map(CloudReply::Listed).boxed(),
        CloudRequest::Warnings => provider.warnings().map(CloudReply::Warned).boxed(),
        CloudRequest::Heeded(warnings) => provider.heeded(warnings).map(CloudReply::Acknowledged).boxed(),
        CloudRequest::Reboot(claim, operation) => {
            provider.reboot(claim, operation).map(CloudReply::Rebooted).boxed()
        }
    }
}

impl CloudReply {
    fn failure(&self) -> Option<&'static str> {
        match self {
            Self::Launched(result) => metrics::launch_failure(result),
            Self::Terminated(result) => metrics::failure(result),
            Self::Found(result) => metrics::failure(result),
            Self::Listed(result) => metrics::failure(result),
            Self::Warned(result) => metrics::failure(result),
            Self::Acknowledged(result) => metrics::failure(result),
            Self::Rebooted(Ok(())) => None,
            Self::Rebooted(Err(RebootError::NotSupported)) => Some("NodeRebootNotImplementedError"),
            Self::Rebooted(Err(RebootError::Final(_))) => Some("NodeRebootFailedError"),
            Self::Rebooted(Err(RebootError::Failed(_))) => Some("unknown"),
        }
    }
}

fn node_pool(claim: &NodeClaim) -> String {
    pool_of(claim).unwrap_or_default().to_owned()
}
