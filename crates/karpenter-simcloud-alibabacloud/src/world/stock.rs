//! How machines can be bought, and what is in stock.

use serde::{Deserialize, Serialize};

use super::Tags;

/// Capacity of one type in one zone that was paid for in advance: a private pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityReservation {
    /// Its id.
    pub id: String,
    /// The type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// Machines in all.
    pub total: u32,
    /// Whether machines use it that do not name it.
    #[serde(default)]
    pub open: bool,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
}

/// How an offering can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stock {
    /// It can be had.
    WithStock,
    /// It can be had and will be taken off sale.
    ClosedWithStock,
    /// It is sold out.
    WithoutStock,
    /// It is not sold here.
    NotSold,
}

impl Stock {
    /// Whether a machine can be had.
    pub fn has_any(self) -> bool {
        matches!(self, Self::WithStock | Self::ClosedWithStock)
    }
}

/// Sets the stock of some offerings; later rules go before earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockRule {
    /// The type; any when left out.
    #[serde(default)]
    pub instance_type: Option<String>,
    /// The zone; any when left out.
    #[serde(default)]
    pub zone: Option<String>,
    /// `spot` or `on-demand`; both when left out.
    #[serde(default)]
    pub market: Option<Market>,
    /// What it is.
    pub stock: Stock,
}

/// How a machine is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Market {
    /// At list price, for as long as one likes.
    OnDemand,
    /// Cheaper, and taken back at need.
    Spot,
}

impl Market {
    /// The word Karpenter has for it.
    pub fn capacity_type(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
        }
    }
}
