//! What the cloud sells at this moment: types, stock and prices as it last said, and what it refused since.
//!
//! A snapshot is plain data that the catalogue turns into instance types. What is not known is told apart from what is sold out: without
//! the right to ask for stock, everything counts as on sale until a launch shows otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud_client::ecs;
use karpenter_provider::{OfferingKey, Unavailable};
use karpenter_quantity::Quantity;

/// How long an offering that was refused is left alone at first, and at most.
const REFUSED_FIRST: SignedDuration = SignedDuration::from_mins(3);
const REFUSED_LONGEST: SignedDuration = SignedDuration::from_mins(30);
/// The same for spot, where stock comes back later.
const SPOT_REFUSED_FIRST: SignedDuration = SignedDuration::from_mins(6);
/// How long a quota that is used up is left alone.
const QUOTA_FIRST: SignedDuration = SignedDuration::from_mins(5);
/// How long a vSwitch without addresses is left alone.
const FULL_FIRST: SignedDuration = SignedDuration::from_mins(1);
const FULL_LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// By then the cloud has been asked again what is left of a reservation.
const COUNTED_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// Which zones sell a type, and whether they have it: type, then zone.
pub type Stock = BTreeMap<Arc<str>, BTreeMap<Arc<str>, bool>>;

/// What the cloud said last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sales {
    /// Every instance type of the region.
    pub types: Arc<[Arc<ecs::InstanceType>]>,
    /// Stock on demand; `None` while it is not known.
    pub on_demand_stock: Option<Stock>,
    /// Stock of the spot market; `None` while it is not known.
    pub spot_stock: Option<Stock>,
    /// Prices on demand per hour, by type.
    pub on_demand_prices: BTreeMap<Arc<str>, f64>,
    /// Spot prices per hour, by type and zone.
    pub spot_prices: BTreeMap<Arc<str>, BTreeMap<Arc<str>, f64>>,
    /// What prices are in.
    pub currency: Option<String>,
    /// The memory that machines turned out to have, by type and image.
    pub memory: BTreeMap<(Arc<str>, Arc<str>), Quantity>,
}

impl Sales {
    /// Whether `zone` sells the type in this way at all, in stock or not.
    pub fn is_sold(&self, instance_type: &str, zone: &str, spot: bool) -> bool {
        match self.stock(spot) {
            Some(stock) => stock.get(instance_type).is_some_and(|zones| zones.contains_key(zone)),
            // Spot cannot be bought on trust: nothing says that the type has a spot market.
            None => !spot,
        }
    }

    /// Whether it is believed to be in stock.
    pub fn in_stock(&self, instance_type: &str, zone: &str, spot: bool) -> bool {
        match self.stock(spot) {
            Some(stock) => {
                stock.get(instance_type).and_then(|zones| zones.get(zone)).is_some_and(|stocked| *stocked)
            }
            None => !spot,
        }
    }

    /// Whether anything is believed to be in stock in a zone.
    pub fn has_stock(&self, zone: &str) -> bool {
        let any = |stock: &Stock| stock.values().any(|zones| zones.get(zone).is_some_and(|stocked| *stocked));
        self.on_demand_stock.as_ref().is_none_or(any) || self.spot_stock.as_ref().is_some_and(any)
    }

    fn stock(&self, spot: bool) -> Option<&Stock> {
        if spot { self.spot_stock.as_ref() } else { self.on_demand_stock.as_ref() }
    }
}

/// Reads stock from the cloud's answer. Zones that have gone from it keep the types they sold, as sold out: a zone without stock is no
/// reason to replace the nodes in it.
pub fn stock(answer: &ecs::DescribeAvailableResourceAnswer, before: Option<&Stock>) -> Stock {
    let mut stock: Stock = before
        .into_iter()
        .flatten()
        .map(|(name, zones)| (name.clone(), zones.keys().map(|zone| (zone.clone(), false)).collect()))
        .collect();
    for zone in &answer.available_zones {
        let id: Arc<str> = zone.zone_id.as_str().into();
        for resource in zone.available_resources.iter().flat_map(|resource| &resource.supported_resources) {
            let zones = stock.entry(resource.value.as_str().into()).or_default();
            zones.insert(id.clone(), resource.in_stock());
        }
    }
    stock
}

/// What the cloud refused.
#[derive(Clone, Debug)]
pub struct Refusals {
    on_demand: Unavailable,
    spot: Unavailable,
    /// Capacity types whose quota is used up.
    quotas: Unavailable<Arc<str>>,
    v_switches: Unavailable<Arc<str>>,
    /// When machines of reservations were started, by reservation.
    taken: BTreeMap<Arc<str>, Vec<Timestamp>>,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            on_demand: Unavailable::new(REFUSED_FIRST, REFUSED_LONGEST),
            spot: Unavailable::new(SPOT_REFUSED_FIRST, REFUSED_LONGEST),
            quotas: Unavailable::new(QUOTA_FIRST, REFUSED_LONGEST),
            v_switches: Unavailable::new(FULL_FIRST, FULL_LONGEST),
            taken: BTreeMap::new(),
        }
    }
}

impl Refusals {
    fn of(&mut self, key: &OfferingKey) -> &mut Unavailable {
        if is_spot(key) { &mut self.spot } else { &mut self.on_demand }
    }

    /// There was no stock.
    pub fn refuse(&mut self, key: OfferingKey, now: Timestamp) {
        self.of(&key).refuse(key, now);
    }

    /// It could be had.
    pub fn accept(&mut self, key: &OfferingKey) {
        self.of(key).accept(key);
        self.quotas.accept(&key.capacity_type);
    }

    /// The account may not have more of a capacity type.
    pub fn refuse_capacity_type(&mut self, capacity_type: &Arc<str>, now: Timestamp) {
        self.quotas.refuse(capacity_type.clone(), now);
    }

    /// A vSwitch has no addresses left.
    pub fn refuse_v_switch(&mut self, id: &Arc<str>, now: Timestamp) {
        self.v_switches.refuse(id.clone(), now);
    }

    /// A machine of a reservation was started.
    pub fn take(&mut self, reservation: &Arc<str>, now: Timestamp) {
        self.taken.entry(reservation.clone()).or_default().push(now);
    }

    /// How many machines of a reservation were started so lately that the cloud may not have counted them.
    pub fn taken(&self, reservation: &str, now: Timestamp) -> u32 {
        let started = self.taken.get(reservation).into_iter().flatten();
        let lately = started.filter(|started| now.duration_since(**started) < COUNTED_AFTER);
        u32::try_from(lately.count()).unwrap_or(u32::MAX)
    }

    /// Whether an offering is to be left alone.
    pub fn is_refused(&self, key: &OfferingKey, now: Timestamp) -> bool {
        let offerings = if is_spot(key) { &self.spot } else { &self.on_demand };
        offerings.is_refused(key, now) || self.quotas.is_refused(&key.capacity_type, now)
    }

    /// Whether a vSwitch is to be left alone.
    pub fn is_full(&self, v_switch: &Arc<str>, now: Timestamp) -> bool {
        self.v_switches.is_refused(v_switch, now)
    }

    /// Whether anything is to be left alone.
    pub fn any(&self, now: Timestamp) -> bool {
        let offerings =
            [&self.on_demand, &self.spot].into_iter().any(|refused| refused.next_change(now).is_some());
        offerings
            || self.quotas.next_change(now).is_some()
            || self.v_switches.next_change(now).is_some()
            || !self.taken.is_empty()
    }

    /// Forgets what no longer matters.
    pub fn forget_old(&mut self, now: Timestamp) {
        self.on_demand.forget_old(now);
        self.spot.forget_old(now);
        self.quotas.forget_old(now);
        self.v_switches.forget_old(now);
        self.taken.retain(|_, started| {
            started.retain(|started| now.duration_since(*started) < COUNTED_AFTER);
            !started.is_empty()
        });
    }
}

fn is_spot(key: &OfferingKey) -> bool {
    &*key.capacity_type == karpenter_api::labels::CAPACITY_TYPE_SPOT
}

/// The market as launches, catalogue and refresh share it. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Market {
    sales: Arc<RwLock<Arc<Sales>>>,
    refusals: Arc<Mutex<Refusals>>,
}

impl Market {
    /// What is sold now.
    pub fn sales(&self) -> Arc<Sales> {
        Arc::clone(&self.sales.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in what the cloud said.
    pub fn update(&self, change: impl FnOnce(&mut Sales)) {
        let mut sales = self.sales.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut sales));
    }

    /// Takes in how much memory a machine turned out to have. The least that was seen counts.
    pub fn learn_memory(&self, instance_type: Arc<str>, image: Arc<str>, memory: Quantity) {
        let key = (instance_type, image);
        if self.sales().memory.get(&key).is_none_or(|known| memory < *known) {
            self.update(|sales| {
                sales.memory.insert(key, memory);
            });
        }
    }

    /// What was refused.
    pub fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of every type the region sells.
    pub fn type_names(&self) -> BTreeSet<Arc<str>> {
        self.sales()
            .types
            .iter()
            .map(|instance_type| instance_type.instance_type_id.as_str().into())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(zones: &[(&str, &[(&str, &str)])]) -> ecs::DescribeAvailableResourceAnswer {
        let zone = |(id, types): &(&str, &[(&str, &str)])| ecs::AvailableZone {
            zone_id: (*id).into(),
            available_resources: vec![ecs::AvailableResource {
                supported_resources: types
                    .iter()
                    .map(|(value, category)| ecs::SupportedResource {
                        value: (*value).into(),
                        status_category: Some((*category).into()),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        ecs::DescribeAvailableResourceAnswer { available_zones: zones.iter().map(zone).collect() }
    }

    #[test]
    fn a_zone_that_sells_out_keeps_its_offerings() {
        let before = stock(
            &answer(&[("z-a", &[("ecs.g7.large", "WithStock")]), ("z-b", &[("ecs.g7.large", "WithStock")])]),
            None,
        );
        let after = stock(&answer(&[("z-a", &[("ecs.g7.large", "ClosedWithoutStock")])]), Some(&before));
        let sales = Sales { on_demand_stock: Some(after), ..Sales::default() };
        for zone in ["z-a", "z-b"] {
            assert!(sales.is_sold("ecs.g7.large", zone, false), "{zone}");
            assert!(!sales.in_stock("ecs.g7.large", zone, false), "{zone}");
        }
    }

    #[test]
    fn without_the_right_to_ask_for_stock_on_demand_counts_as_on_sale_and_spot_does_not() {
        let sales = Sales::default();
        assert!(sales.in_stock("ecs.g7.large", "z-a", false));
        assert!(!sales.in_stock("ecs.g7.large", "z-a", true));
    }

    #[test]
    fn a_region_without_spot_offers_is_no_error() {
        let sales = Sales { spot_stock: Some(stock(&answer(&[]), None)), ..Sales::default() };
        assert!(!sales.is_sold("ecs.g7.large", "z-a", true));
        assert!(sales.in_stock("ecs.g7.large", "z-a", false));
    }

    #[test]
    fn refusals_are_exact_and_a_quota_stops_its_capacity_type_only() {
        let now = Timestamp::UNIX_EPOCH;
        let key = |zone: &str, capacity_type: &str| OfferingKey {
            instance_type: "ecs.g7.large".into(),
            zone: zone.into(),
            capacity_type: capacity_type.into(),
        };
        let mut refusals = Refusals::default();
        refusals.refuse(key("z-a", "spot"), now);
        assert!(refusals.is_refused(&key("z-a", "spot"), now));
        assert!(
            !refusals.is_refused(&key("z-b", "spot"), now)
                && !refusals.is_refused(&key("z-a", "on-demand"), now)
        );
        let later = now + SignedDuration::from_mins(4);
        assert!(refusals.is_refused(&key("z-a", "spot"), later), "spot is left alone for longer");
        refusals.refuse_capacity_type(&"spot".into(), now);
        assert!(
            refusals.is_refused(&key("z-b", "spot"), now)
                && !refusals.is_refused(&key("z-b", "on-demand"), now)
        );
    }
}
