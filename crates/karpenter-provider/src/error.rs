//! What goes wrong in a cloud, by what has to be done about it.

use thiserror::Error;

/// A machine was not started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchError {
    /// Nothing that fits can be had now. The claim is given up; its pods are planned anew, without what was refused.
    #[error("no capacity for this NodeClaim: {0}")]
    InsufficientCapacity(String),
    /// The NodeClass cannot be used. The claim is given up.
    #[error("the NodeClass cannot be used: {0}")]
    NodeClassNotReady(String),
    /// Anything else. It is tried again until the launch times out; the reason becomes the condition's.
    #[error("{message}")]
    Failed {
        /// One word for the condition.
        reason: String,
        /// What a person should know.
        message: String,
    },
}

impl LaunchError {
    /// A failure without a reason of its own.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed { reason: "LaunchFailed".to_owned(), message: message.into() }
    }

    /// Its value in the label `error` of metrics.
    pub fn metric(&self) -> &'static str {
        match self {
            Self::InsufficientCapacity(_) => "InsufficientCapacityError",
            Self::NodeClassNotReady(_) => "NodeClassNotReadyError",
            Self::Failed { .. } => "unknown",
        }
    }
}

/// The cloud did not answer, or not as it should. The call is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ProviderError(pub String);

/// The instance types of a NodePool are not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// The NodeClass does not exist or is not ready: the pool is left out until it is.
    #[error("the NodeClass cannot be used: {0}")]
    NodeClassNotReady(String),
    /// The pool's overlays have not been evaluated yet: the pool is left out until they are.
    #[error("the NodeOverlays of NodePool {0} have not been evaluated yet")]
    Unevaluated(String),
    /// The cloud did not answer.
    #[error("{0}")]
    Failed(String),
}

/// A machine was not restarted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RebootError {
    /// The provider cannot restart machines.
    #[error("this provider cannot restart machines")]
    NotSupported,
    /// Repeating it is no use.
    #[error("{0}")]
    Final(String),
    /// The call is repeated.
    #[error("{0}")]
    Failed(String),
}
