//! What can be bought for a pool: what the provider sells, as NodeOverlays correct it where they are on.

use std::sync::Arc;

use karpenter_api::NodePool;
use karpenter_provider::{CatalogError, InstanceTypes, Provider};

use crate::state::Shared;

/// Answers what can be bought.
#[derive(Clone)]
pub(crate) struct Assortment {
    provider: Arc<dyn Provider>,
    /// Where the NodeOverlays in force are found, if they count.
    overlays: Option<Shared>,
}

impl Assortment {
    /// What `provider` sells, with the NodeOverlays that `overlays` knows.
    pub(crate) fn new(provider: Arc<dyn Provider>, overlays: Option<Shared>) -> Self {
        Self { provider, overlays }
    }

    /// The provider's name.
    pub(crate) fn provider(&self) -> &'static str {
        self.provider.name()
    }

    /// The instance types of a pool. While overlays are being looked at for the first time, nobody knows what it costs.
    pub(crate) async fn of(&self, pool: Arc<NodePool>) -> Result<InstanceTypes, CatalogError> {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let sold = self.provider.instance_types(pool).await?;
        let Some(state) = &self.overlays else { return Ok(sold) };
        let overlays = state.lock().overlays();
        overlays.and_then(|overlays| overlays.applied(&name, &sold)).ok_or(CatalogError::Unevaluated(name))
    }
}
