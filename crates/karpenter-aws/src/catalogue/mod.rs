//! What can be bought now: instance types of each EC2NodeClass, at the prices and with the stock of the moment.
//!
//! Questions are answered from memory. Whoever learns something (prices, refusals, room in reservations, the memory of nodes) tells it
//! here; only what it touches is made anew at the next question.

mod class;
mod facts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_catalogue::{
    ClassSettings, ControllerSettings, Embedded, Expressions, Market, Prices, RegionTypes, Resolver,
};
use karpenter_provider::InstanceTypes;
use karpenter_quantity::Quantity;

pub(crate) use class::{Formulas, images, settings};
pub(crate) use facts::{facts, offerings_question, types_question};

use crate::launch::refused::Refusals;
use crate::node_class::ResolvedClass;

/// How long it counts what memory a node turned out to have: later ones may have more.
const MEMORY_COUNTS: SignedDuration = SignedDuration::from_hours(60 * 24);

/// The catalogue. Clones share it.
#[derive(Clone)]
pub(crate) struct Catalogue {
    refusals: Refusals,
    state: Arc<Mutex<State>>,
}

struct State {
    types: Arc<RegionTypes>,
    resolver: Resolver,
    prices: Arc<Prices>,
    /// Prices that operators name.
    stand_ins: BTreeMap<Arc<str>, f64>,
    shifted_zones: Arc<BTreeSet<Arc<str>>>,
    memory: Arc<Discovered>,
    /// Since when each of them is known.
    discovered: BTreeMap<(Arc<str>, Arc<str>), Timestamp>,
    rooms: BTreeMap<Arc<str>, Room>,
    /// Grows with everything that is learnt, so that pictures of the market are made only when they differ.
    learnt: u64,
    /// The market, and what it is a picture of.
    market: (Version, Arc<Market>),
    /// What each class asks for, by name.
    classes: BTreeMap<String, (Arc<ResolvedClass>, Arc<ClassSettings>)>,
}

/// Memory of nodes, by type and images.
type Discovered = BTreeMap<(Arc<str>, Arc<str>), Quantity>;

/// Room in a capacity reservation.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    /// What the last look found.
    seen: u32,
    /// What is left since.
    left: u32,
}

/// Tells pictures of the market apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    learnt: u64,
    refusals: (u64, Option<Timestamp>),
}

impl Catalogue {
    /// A catalogue of a region, which sells nothing until types are learnt. `formulas` says whether classes may use expressions.
    pub(crate) fn new(
        region: &str,
        settings: ControllerSettings,
        formulas: bool,
        refusals: Refusals,
    ) -> Self {
        let expressions: Option<Arc<dyn Expressions>> =
            formulas.then(|| Arc::new(class::Formulas) as Arc<dyn Expressions>);
        let state = State {
            types: Arc::new(RegionTypes::new(region, [], [])),
            resolver: Resolver::new(settings, expressions),
            prices: Arc::new(Prices::embedded(Embedded::get().region_or_fallback(region))),
            stand_ins: BTreeMap::new(),
            shifted_zones: Arc::default(),
            memory: Arc::default(),
            discovered: BTreeMap::new(),
            rooms: BTreeMap::new(),
            learnt: 1,
            market: (Version { learnt: 0, refusals: (0, None) }, Arc::default()),
            classes: BTreeMap::new(),
        };
        Self { refusals, state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instance types of a class at `now`.
    pub(crate) fn instance_types(
        &self,
        name: &str,
        class: &Arc<ResolvedClass>,
        now: Timestamp,
    ) -> InstanceTypes {
        let mut state = self.lock();
        let settings = state.settings(name, class);
        let market = state.market(&self.refusals, now);
        let State { resolver, types, .. } = &mut *state;
        resolver.resolve(types, &settings, &market)
    }

    /// What a class asks of instance types.
    pub(crate) fn settings(&self, name: &str, class: &Arc<ResolvedClass>) -> Arc<ClassSettings> {
        self.lock().settings(name, class)
    }

    /// What the region sells.
    pub(crate) fn types(&self) -> Arc<RegionTypes> {
        Arc::clone(&self.lock().types)
    }

    /// Forgets classes that are not among `names`.
    pub(crate) fn keep_only(&self, names: &BTreeSet<String>) {
        let mut state = self.lock();
        state.classes.retain(|name, _| names.contains(name));
        state.resolver.forget_unused();
    }

    /// Takes what the region sells; the same as before changes nothing.
    pub(crate) fn learn_types(&self, types: RegionTypes) {
        let mut state = self.lock();
        let same = state.types.types().len() == types.types().len()
            && state
                .types
                .types()
                .iter()
                .zip(types.types())
                .all(|(before, now)| before.facts == now.facts && before.zones == now.zones);
        if !same {
            state.types = Arc::new(types);
            state.learnt += 1;
        }
    }

    /// Changes prices.
    pub(crate) fn learn_prices(&self, learn: impl FnOnce(&mut Prices)) {
        let mut state = self.lock();
        learn(Arc::make_mut(&mut state.prices));
        state.learnt += 1;
    }

    /// Takes prices that operators name for types: they stand in where EC2 names none.
    pub(crate) fn stand_in(&self, prices: BTreeMap<Arc<str>, f64>) {
        let mut state = self.lock();
        if state.stand_ins != prices {
            Arc::make_mut(&mut state.prices).stand_in(prices.clone());
            state.stand_ins = prices;
            state.learnt += 1;
        }
    }

    /// Takes which zones are to be left alone.
    pub(crate) fn learn_shifted_zones(&self, zones: &BTreeSet<Arc<str>>) {
        let mut state = self.lock();
        if *state.shifted_zones != *zones {
            state.shifted_zones = Arc::new(zones.clone());
            state.learnt += 1;
        }
    }

    /// Whether a zone is to be left alone.
    pub(crate) fn is_shifted(&self, zone: &str) -> bool {
        self.lock().shifted_zones.contains(zone)
    }

    /// Takes how much memory a node of a type turned out to have with some images; the least counts.
    pub(crate) fn learn_memory(
        &self,
        instance_type: &str,
        images: &Arc<str>,
        memory: Quantity,
        now: Timestamp,
    ) {
        let mut state = self.lock();
        let key = (Arc::from(instance_type), Arc::clone(images));
        if state.memory.get(&key).is_some_and(|known| *known <= memory) {
            return;
        }
        state.discovered.insert(key.clone(), now);
        Arc::make_mut(&mut state.memory).insert(key, memory);
        state.learnt += 1;
    }

    /// Forgets the memory of nodes that were seen too long ago.
    pub(crate) fn forget_old_memory(&self, now: Timestamp) {
        let mut state = self.lock();
        let State { discovered, memory, learnt, .. } = &mut *state;
        let before = discovered.len();
        discovered.retain(|_, since| now.duration_since(*since) < MEMORY_COUNTS);
        if discovered.len() < before {
            Arc::make_mut(memory).retain(|key, _| discovered.contains_key(key));
            *learnt += 1;
        }
    }

    /// Notes that a reservation was used (`true`), or that a machine on it is gone.
    pub(crate) fn use_reservation(&self, id: &str, used: bool) {
        let mut state = self.lock();
        if let Some(room) = state.rooms.get_mut(id) {
            room.left = if used { room.left.saturating_sub(1) } else { (room.left + 1).min(room.seen) };
            state.learnt += 1;
        }
    }
}

impl State {
    /// What a class asks for; worked out once for each look at it.
    fn settings(&mut self, name: &str, class: &Arc<ResolvedClass>) -> Arc<ClassSettings> {
        if let Some((known, settings)) = self.classes.get(name)
            && Arc::ptr_eq(known, class)
        {
            return Arc::clone(settings);
        }
        for reservation in &class.reservations {
            let room = self.rooms.entry(reservation.id.as_str().into()).or_default();
            if room.seen != reservation.available {
                *room = Room { seen: reservation.available, left: reservation.available };
                self.learnt += 1;
            }
        }
        let settings = Arc::new(class::settings(class));
        self.classes.insert(name.to_owned(), (Arc::clone(class), Arc::clone(&settings)));
        settings
    }

    /// The market at `now`: the same object until something happens.
    fn market(&mut self, refusals: &Refusals, now: Timestamp) -> Arc<Market> {
        let version = Version { learnt: self.learnt, refusals: refusals.version(now) };
        if self.market.0 != version {
            let left = |id: &Arc<str>, room: &Room| {
                if refusals.refuses_reservation(id, now) { 0 } else { room.left }
            };
            let market = Market {
                prices: Arc::clone(&self.prices),
                refused: Arc::new(refusals.picture(now)),
                reserved: Arc::new(
                    self.rooms.iter().map(|(id, room)| (Arc::clone(id), left(id, room))).collect(),
                ),
                shifted_zones: Arc::clone(&self.shifted_zones),
                memory: Arc::clone(&self.memory),
            };
            self.market = (version, Arc::new(market));
        }
        Arc::clone(&self.market.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_memory_of_a_node_counts_for_sixty_days() {
        let settings = ControllerSettings { vm_memory_overhead_percent: 0.075, reserved_enis: 0 };
        let catalogue = Catalogue::new("us-west-2", settings, false, Refusals::default());
        let images: Arc<str> = "images".into();
        let start: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        let day = |number: i64| start + SignedDuration::from_hours(24 * number);
        let known = || catalogue.lock().memory.values().next().copied();
        let memory = |text: &str| -> Quantity { text.parse().unwrap() };
        catalogue.learn_memory("m5.large", &images, memory("7800Mi"), day(0));
        catalogue.learn_memory("m5.large", &images, memory("7700Mi"), day(10));
        catalogue.learn_memory("m5.large", &images, memory("7750Mi"), day(50));
        catalogue.forget_old_memory(day(69));
        assert_eq!(known(), Some(memory("7700Mi")));
        catalogue.forget_old_memory(day(70));
        assert_eq!(known(), None, "what was learnt on the tenth day has had its time");
        catalogue.learn_memory("m5.large", &images, memory("7750Mi"), day(71));
        assert_eq!(known(), Some(memory("7750Mi")));
    }
}
