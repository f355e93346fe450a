//! What controllers ask of the provider, as data, and who answers it.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use karpenter_api::NodeClaim;
use karpenter_provider::{LaunchError, Machine, Provider, ProviderError, Termination};

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
}

/// Passes questions on to `provider`.
pub(crate) fn handler(
    provider: Arc<dyn Provider>,
) -> impl Fn(CloudRequest) -> BoxFuture<'static, CloudReply> + Send + 'static {
    move |request| match request {
        CloudRequest::Launch(claim) => provider.launch(claim).map(CloudReply::Launched).boxed(),
        CloudRequest::Terminate(claim) => provider.terminate(claim).map(CloudReply::Terminated).boxed(),
        CloudRequest::Find(id) => provider.find(id).map(CloudReply::Found).boxed(),
        CloudRequest::List => provider.list().map(CloudReply::Listed).boxed(),
    }
}
