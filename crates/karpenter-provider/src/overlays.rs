//! NodeOverlays in force: what the provider sells becomes what operators say of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use karpenter_api::NodeClaim;
use karpenter_core::catalog::{Catalog, INSTANCE_TYPE, NODE_POOL, NodeOverlay, OverlayPrice, apply_overlays};
use karpenter_core::cluster::NodePool;
use karpenter_core::requirements::Operator;

use crate::InstanceTypes;

/// The overlays that conflict with no other, and the pools they were held against. Clones share what was worked out.
#[derive(Clone, Debug, Default)]
pub struct Overlays {
    in_force: Arc<[NodeOverlay]>,
    pools: Arc<BTreeMap<Arc<str>, Arc<NodePool>>>,
    /// Labels of pools that make a difference.
    keys: Arc<BTreeSet<Arc<str>>>,
    applied: Arc<Mutex<Vec<Applied>>>,
}

/// What overlays made of a list of types, for all pools that look alike to them.
#[derive(Debug)]
struct Applied {
    labels: BTreeMap<Arc<str>, Arc<str>>,
    sold: InstanceTypes,
    overlaid: InstanceTypes,
}

impl Overlays {
    /// These overlays, for these pools.
    pub fn new(overlays: Vec<NodeOverlay>, pools: impl IntoIterator<Item = Arc<NodePool>>) -> Self {
        let lines = overlays.iter().flat_map(|overlay| &overlay.requirements);
        Self {
            keys: Arc::new(lines.map(|line| line.key.clone()).collect()),
            pools: Arc::new(pools.into_iter().map(|pool| (pool.name.clone(), pool)).collect()),
            in_force: overlays.into(),
            applied: Arc::default(),
        }
    }

    /// What a pool is sold, with the overlays applied; none if the pool was not looked at yet. The same list is answered with the same list.
    pub fn applied(&self, pool: &str, sold: &InstanceTypes) -> Option<InstanceTypes> {
        let pool = self.pools.get(pool)?;
        if self.in_force.is_empty() {
            return Some(Arc::clone(sold));
        }
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = self.labels(pool);
        if let Some(known) =
            applied.iter().find(|known| known.labels == labels && Arc::ptr_eq(&known.sold, sold))
        {
            return Some(Arc::clone(&known.overlaid));
        }
        // Lists that nobody else holds any more will not come again.
        applied.retain(|known| Arc::strong_count(&known.sold) > 1);
        let catalog = Catalog { by_pool: [(pool.name.clone(), Arc::clone(sold))].into() };
        let (catalog, _) = apply_overlays(&catalog, std::slice::from_ref(pool), &self.in_force);
        let overlaid = catalog.by_pool.get(&pool.name).map_or_else(|| Arc::clone(sold), Arc::clone);
        applied.push(Applied { labels, sold: Arc::clone(sold), overlaid: Arc::clone(&overlaid) });
        Some(overlaid)
    }

    /// What overlays see of a pool.
    fn labels(&self, pool: &NodePool) -> BTreeMap<Arc<str>, Arc<str>> {
        let own = pool.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        let labels = own.chain([(Arc::from(NODE_POOL), pool.name.clone())]);
        labels.filter(|(key, _)| self.keys.contains(key)).collect()
    }

    /// Prices of overlays that select by nothing but the names of types: they can stand in where the cloud names none. The heaviest wins.
    pub fn prices_by_type(&self) -> BTreeMap<Arc<str>, f64> {
        let mut ordered: Vec<&NodeOverlay> = self.in_force.iter().collect();
        ordered.sort_by(|a, b| a.weight.cmp(&b.weight).then_with(|| a.name.cmp(&b.name)));
        let mut prices = BTreeMap::new();
        for overlay in ordered {
            let (Some(OverlayPrice::Absolute(price)), [line]) = (overlay.price, &*overlay.requirements)
            else {
                continue;
            };
            if &*line.key == INSTANCE_TYPE && line.operator == Operator::In {
                prices.extend(line.values.iter().map(|name| (name.clone(), price)));
            }
        }
        prices
    }
}

/// Where a provider keeps what it heard last.
#[derive(Debug, Default)]
pub struct HeededOverlays(Mutex<Overlays>);

impl HeededOverlays {
    /// Takes what is in force now.
    pub fn heed(&self, overlays: Overlays) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = overlays;
    }

    /// What is sold, as operators say it is for a claim's pool.
    pub fn of(&self, claim: &NodeClaim, sold: InstanceTypes) -> InstanceTypes {
        let overlays = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get(NODE_POOL));
        pool.and_then(|pool| overlays.applied(pool, &sold)).unwrap_or(sold)
    }
}
