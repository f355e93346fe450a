//! What changes from hour to hour: prices, stock, room in reservations, zones to stay out of, memory that nodes turned out to have.
//!
//! A [`Market`] is a picture of one moment. Whoever learns something makes a new one; what did not change is shared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_quantity::Quantity;
use rustc_hash::FxHashMap;

use crate::embedded::Region;

/// One moment.
#[derive(Clone, Debug, Default)]
pub struct Market {
    /// What machines cost.
    pub prices: Arc<Prices>,
    /// What EC2 refused lately.
    pub refused: Arc<Refused>,
    /// Instances left, by reservation. One that is not listed has none.
    pub reserved: Arc<BTreeMap<Arc<str>, u32>>,
    /// Zones that traffic is being moved out of.
    pub shifted_zones: Arc<BTreeSet<Arc<str>>>,
    /// Memory that nodes turned out to have.
    pub memory: Arc<DiscoveredMemory>,
}

/// Memory of nodes, by type and the images of their class; the least that was seen.
pub type DiscoveredMemory = BTreeMap<(Arc<str>, Arc<str>), Quantity>;

/// Offerings that EC2 could not serve, and what it follows that others cannot be had either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Single offerings.
    pub offerings: BTreeSet<RefusedOffering>,
    /// Whole capacity types.
    pub capacity_types: BTreeSet<Arc<str>>,
    /// Subnets that are out of addresses. A class can start nothing in a zone once all its subnets there are among them.
    pub subnets: BTreeSet<Arc<str>>,
}

/// An offering that was refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedOffering {
    /// The type.
    pub instance_type: Arc<str>,
    /// The zone, by name.
    pub zone: Arc<str>,
    /// `on-demand` or `spot`.
    pub capacity_type: Arc<str>,
    /// The placement group it was refused in.
    pub group: Option<Arc<str>>,
    /// The partition of that group; none for all of them.
    pub partition: Option<Arc<str>>,
}

/// On-demand and spot prices of one region, per hour.
#[derive(Clone, Debug, Default)]
pub struct Prices {
    types: FxHashMap<Arc<str>, TypePrices>,
    /// Until EC2 has told spot prices, a spot machine is taken to cost the on-demand price.
    spot_known: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TypePrices {
    on_demand: Option<f64>,
    /// By name of the zone.
    spot: BTreeMap<Arc<str>, f64>,
    /// What an operator says it costs where EC2 does not say.
    stand_in: Option<f64>,
}

impl TypePrices {
    pub(crate) fn on_demand(&self) -> Option<f64> {
        self.on_demand.or(self.stand_in)
    }
}

impl Prices {
    /// The compiled-in on-demand prices of a region, until EC2 has told its own.
    pub fn embedded(region: &Region) -> Self {
        let mut prices = Self::default();
        prices.learn_on_demand(region.on_demand_prices().map(|(name, price)| (name.clone(), price)));
        prices
    }

    /// Takes on-demand prices that were asked for; types that are not among them keep theirs. A price of zero is none.
    pub fn learn_on_demand(&mut self, prices: impl IntoIterator<Item = (Arc<str>, f64)>) {
        for (instance_type, price) in prices.into_iter().filter(|(_, price)| *price > 0.0) {
            self.types.entry(instance_type).or_default().on_demand = Some(price);
        }
    }

    /// Takes spot prices by type and zone; zones that are not among them keep theirs.
    pub fn learn_spot(&mut self, prices: impl IntoIterator<Item = (Arc<str>, Arc<str>, f64)>) {
        for (instance_type, zone, price) in prices.into_iter().filter(|(_, _, price)| *price > 0.0) {
            self.spot_known = true;
            self.types.entry(instance_type).or_default().spot.insert(zone, price);
        }
    }

    /// Takes prices from NodeOverlays that name nothing but types: they stand in where EC2 says no price. Those taken before are forgotten.
    pub fn stand_in(&mut self, prices: impl IntoIterator<Item = (Arc<str>, f64)>) {
        self.types.values_mut().for_each(|known| known.stand_in = None);
        for (instance_type, price) in prices {
            self.types.entry(instance_type).or_default().stand_in = Some(price);
        }
    }

    /// The on-demand price.
    pub fn on_demand(&self, instance_type: &str) -> Option<f64> {
        self.of(instance_type)?.on_demand()
    }

    /// The spot price in a zone.
    pub fn spot(&self, instance_type: &str, zone: &str) -> Option<f64> {
        self.spot_of(self.of(instance_type)?, zone)
    }

    /// What is known about one type.
    pub(crate) fn of(&self, instance_type: &str) -> Option<&TypePrices> {
        self.types.get(instance_type)
    }

    pub(crate) fn spot_of(&self, known: &TypePrices, zone: &str) -> Option<f64> {
        let told = if self.spot_known { known.spot.get(zone).copied() } else { known.on_demand };
        told.or(known.stand_in)
    }

    /// How many types have an on-demand price, and how many offerings have a spot price.
    pub fn len(&self) -> (usize, usize) {
        let on_demand = self.types.values().filter(|known| known.on_demand.is_some()).count();
        (on_demand, self.types.values().map(|known| known.spot.len()).sum())
    }
}

impl Refused {
    /// Whether nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.offerings.is_empty() && self.capacity_types.is_empty() && self.subnets.is_empty()
    }

    /// What was refused of a type.
    pub(crate) fn of(&self, instance_type: &Arc<str>) -> Vec<&RefusedOffering> {
        if self.offerings.is_empty() {
            return Vec::new();
        }
        let nowhere: Arc<str> = "".into();
        let first = RefusedOffering {
            instance_type: instance_type.clone(),
            zone: nowhere.clone(),
            capacity_type: nowhere,
            group: None,
            partition: None,
        };
        let rest = self.offerings.range(first..);
        rest.take_while(|refused| refused.instance_type == *instance_type).collect()
    }

    /// Whether every subnet is out of addresses; of no subnets that cannot be said.
    pub(crate) fn covers_all(&self, subnets: &[Arc<str>]) -> bool {
        !subnets.is_empty() && subnets.iter().all(|subnet| self.subnets.contains(subnet))
    }
}
