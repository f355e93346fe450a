//! What a cloud must be able to do for Karpenter, and what can go wrong there.
//!
//! A provider starts, finds and stops machines and knows what can be bought. It never decides: which machines are wanted is the core's
//! business. Calls may be repeated at any time (after a crash, a lost answer, a change of leader), so `launch` is
//! idempotent by the claim's UID and `terminate` by the machine. Start at [`Provider`].

pub mod conformance;
mod error;
mod machine;
mod offering_metrics;
mod offerings;
mod overlays;
mod repair;
mod unavailable;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_core::catalog::InstanceType;
use prometheus_client::registry::Registry;

pub use error::{CatalogError, LaunchError, ProviderError, RebootError};
pub use machine::{Machine, Response, Termination, Warning, WarningKind};
pub use offering_metrics::OfferingMetrics;
pub use offerings::{Choice, choices};
pub use overlays::{HeededOverlays, Overlays};
pub use repair::{ConditionSeen, RepairAction, RepairDue, RepairPolicies, RepairPolicy, RepairVerdict};
pub use unavailable::{OfferingKey, Unavailable};

/// The instance types a NodePool may use, unavailable offerings included.
pub type InstanceTypes = Arc<[Arc<InstanceType>]>;

/// A kind of object that configures a provider's machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeClassKind {
    /// Its API group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its plural, as in URLs.
    pub plural: &'static str,
}

impl NodeClassKind {
    /// The label that carries the NodeClass's name on claims and nodes, and says that a node is ours.
    pub fn label(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_lowercase())
    }
}

/// A NodeClass, as far as pools care.
pub trait NodeClassObject {
    /// Its status conditions; `Ready` says whether nodes can be launched with it.
    fn conditions(&self) -> &[Condition];
}

/// A cloud.
pub trait Provider: Send + Sync + 'static {
    /// Its name in logs and metrics.
    fn name(&self) -> &'static str;

    /// The NodeClass kinds it serves; the first is the default.
    fn node_classes(&self) -> &'static [NodeClassKind];

    /// The labels it knows.
    fn label_rules(&self) -> LabelRules;

    /// Starts a machine for `claim`, or returns the one that was already started for it.
    fn launch(&self, claim: Arc<NodeClaim>) -> BoxFuture<'static, Result<Machine, LaunchError>>;

    /// Stops the machine of `claim`. To be repeated until it is gone.
    fn terminate(&self, claim: Arc<NodeClaim>) -> BoxFuture<'static, Result<Termination, ProviderError>>;

    /// Looks a machine up; `None` if there is none, or only its remains.
    fn find(&self, provider_id: Arc<str>) -> BoxFuture<'static, Result<Option<Machine>, ProviderError>>;

    /// Lists every machine of this cluster.
    fn list(&self) -> BoxFuture<'static, Result<Vec<Machine>, ProviderError>>;

    /// Returns the instance types of a NodePool. Asked before every plan, so it must answer from memory.
    fn instance_types(&self, pool: Arc<NodePool>) -> BoxFuture<'static, Result<InstanceTypes, CatalogError>>;

    /// Says why the machine of `claim` is no longer what its NodeClass asks for, in one word; `None` if it is.
    fn drift(&self, claim: Arc<NodeClaim>) -> BoxFuture<'static, Result<Option<String>, ProviderError>>;

    /// Restarts the machine of `claim` in place. Requests with one operation id are one restart.
    fn reboot(&self, claim: Arc<NodeClaim>, operation: String)
    -> BoxFuture<'static, Result<(), RebootError>>;

    /// Which node conditions are a reason to repair a node, and how.
    fn repair_policies(&self) -> Vec<RepairPolicy>;

    /// Whether the cloud says beforehand that it will take machines back.
    fn warns(&self) -> bool {
        false
    }

    /// Returns what the cloud has said about machines since it was last asked; asked every few seconds where it warns. What is not
    /// [`heeded`](Self::heeded) may be said again.
    fn warnings(&self) -> BoxFuture<'static, Result<Vec<Warning>, ProviderError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Hears which warnings were heeded: what had to be written is written, so that they need not be repeated.
    fn heeded(&self, warnings: Vec<Warning>) -> BoxFuture<'static, Result<(), ProviderError>> {
        let _ = warnings;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Hears which NodeOverlays are in force, whenever that changes: where the cloud chooses among several machines, it should choose by
    /// the prices of overlays.
    fn heed_overlays(&self, overlays: Overlays) {
        let _ = overlays;
    }

    /// Adds what the provider itself counts to what a scrape shows.
    fn register_metrics(&self, registry: &mut Registry) {
        let _ = registry;
    }

    /// Says how long to wait before `claim`'s node may count as registered; `None` if nothing stands in the way.
    fn delays_registration(&self, claim: &NodeClaim) -> Option<Duration> {
        let _ = claim;
        None
    }
}
