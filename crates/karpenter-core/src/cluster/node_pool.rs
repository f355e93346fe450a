//! NodePools: what kind of nodes may be created, in which order of preference, up to which limit, and how they may be disrupted.

use std::sync::Arc;

use karpenter_quantity::ResourceList;

use super::labels::Labels;
use super::node::Taint;
use crate::disruption::PoolDisruption;
use crate::requirements::Requirement;

/// A NodePool that is ready and not static, reduced to what provisioning needs.
#[derive(Clone, Debug, Default)]
pub struct NodePool {
    /// Its name.
    pub name: Arc<str>,
    /// Heavier pools are tried first.
    pub weight: i32,
    /// Labels its nodes get, with `karpenter.sh/nodepool` and the NodeClass label.
    pub labels: Labels,
    /// Requirements on its nodes, with `minValues`.
    pub requirements: Vec<Requirement>,
    /// Taints its nodes keep.
    pub taints: Vec<Taint>,
    /// Upper bounds on the capacity of all its nodes; `nodes` bounds their number.
    pub limits: Option<ResourceList>,
    /// How its nodes may be disrupted.
    pub disruption: PoolDisruption,
}
