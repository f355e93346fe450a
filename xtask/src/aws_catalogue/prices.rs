//! Prices of every region, put together from current prices of one region and older prices of all.
//!
//! On demand: the current price in us-east-1, times what the region cost of us-east-1 for this type a year before, else for its family,
//! else for all types. Spot: the share of the on-demand price seen in the region a year before, spread over the zones; for types that were
//! not sold then the family's, else the region's, a little more or less by zone. A type without any price stays without.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::sources::{Priced, PricedLinux, Prices, Zone};

const HOME: &str = "us-east-1";
/// A spot share nobody has seen, in thousandths.
const USUAL_SPOT: f64 = 400.0;

/// Old prices of a type in a region.
struct Old {
    on_demand: f64,
    /// Thousandths of the on-demand price, cheapest first.
    spot: Vec<f64>,
}

/// A number for a type, for its family, for a whole region: the first that is known holds.
#[derive(Default)]
struct Usual {
    types: BTreeMap<String, f64>,
    families: BTreeMap<String, f64>,
    all: Option<f64>,
}

impl Usual {
    fn of(numbers: BTreeMap<String, f64>) -> Self {
        let mut families: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (name, number) in &numbers {
            families.entry(family(name).to_owned()).or_default().push(*number);
        }
        let families = families.into_iter().filter_map(|(name, all)| Some((name, median(all)?))).collect();
        Self { families, all: median(numbers.values().copied().collect()), types: numbers }
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.types.get(name).or_else(|| self.families.get(family(name))).copied().or(self.all)
    }
}

/// What is known about prices.
pub(super) struct PriceBook {
    current: Prices,
    old: BTreeMap<String, BTreeMap<String, Old>>,
    /// Regional price by price in us-east-1.
    ratios: BTreeMap<String, Usual>,
    /// For a region that is younger than the old prices.
    usual_ratio: f64,
    spot: BTreeMap<String, Usual>,
}

impl PriceBook {
    pub(super) fn new(current: Prices, priced: &[Priced]) -> Self {
        let mut old: BTreeMap<String, BTreeMap<String, Old>> = BTreeMap::new();
        for one in priced {
            for (region, prices) in &one.pricing {
                if let Some(prices) = prices.linux.as_ref().and_then(old_price) {
                    old.entry(region.clone()).or_default().insert(one.instance_type.clone(), prices);
                }
            }
        }
        let home = |name: &str| Some(old.get(HOME)?.get(name)?.on_demand);
        let mut ratios = BTreeMap::new();
        let mut spot = BTreeMap::new();
        for (region, types) in &old {
            let ratio =
                types.iter().filter_map(|(name, price)| Some((name.clone(), price.on_demand / home(name)?)));
            ratios.insert(region.clone(), Usual::of(ratio.collect()));
            let share =
                types.iter().filter_map(|(name, price)| Some((name.clone(), median(price.spot.clone())?)));
            spot.insert(region.clone(), Usual::of(share.collect()));
        }
        let usual_ratio = median(ratios.values().filter_map(|usual| usual.all).collect()).unwrap_or(1.0);
        Self { current, old, ratios, usual_ratio, spot }
    }

    /// Regions that have a table of current prices of their own and no known zones.
    pub(super) fn regions_of_prices_only(&self) -> impl Iterator<Item = String> {
        self.current.keys().filter(|region| *region != HOME).cloned()
    }

    /// The region's line of the catalogue.
    pub(super) fn region(&self, region: &str, zones: &[Zone], types: &BTreeMap<&str, Value>) -> Value {
        let mut names: BTreeSet<&str> =
            zones.iter().flat_map(|zone| zone.types.iter().map(String::as_str)).collect();
        if let Some(listed) = self.current.get(region) {
            names.extend(listed.keys().map(String::as_str));
        }
        let on_demand: Vec<f64> =
            names.iter().map(|name| self.on_demand(region, name).unwrap_or(0.0)).collect();
        let spot = names.iter().flat_map(|name| {
            let on_spot = types.get(name).is_some_and(sold_on_spot);
            zones.iter().map(move |zone| {
                let share = || if on_spot { self.spot(region, name, &zone.name) } else { 0 };
                zone.types.contains(*name).then(share)
            })
        });
        let spot: Vec<Option<u16>> = spot.collect();
        let zones: Vec<Value> =
            zones.iter().map(|zone| json!({ "name": zone.name, "id": zone.id })).collect();
        json!({ "zones": zones, "types": names, "on_demand": on_demand, "spot_per_mille": spot })
    }

    fn on_demand(&self, region: &str, name: &str) -> Option<f64> {
        if let Some(price) = self.current.get(region).and_then(|types| types.get(name)) {
            return Some(*price);
        }
        let ratio = self.ratios.get(region).and_then(|usual| usual.get(name)).unwrap_or(self.usual_ratio);
        let home = self.current.get(HOME).and_then(|types| types.get(name));
        let price =
            home.map(|price| price * ratio).or_else(|| Some(self.old.get(region)?.get(name)?.on_demand))?;
        Some((price * 1e5).round() / 1e5)
    }

    /// Thousandths of the on-demand price.
    fn spot(&self, region: &str, name: &str, zone: &str) -> u16 {
        let chance = chance(name, zone);
        let seen = self.old.get(region).and_then(|types| types.get(name)).map(|old| old.spot.as_slice());
        let share = match seen {
            Some(seen) if !seen.is_empty() => seen[chance as usize % seen.len()],
            _ => {
                let usual = self.spot.get(region).and_then(|usual| usual.get(name)).unwrap_or(USUAL_SPOT);
                usual * (0.92 + 0.16 * (chance % 1000) as f64 / 1000.0)
            }
        };
        share.round().clamp(50.0, 1000.0) as u16
    }
}

fn old_price(linux: &PricedLinux) -> Option<Old> {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok()).or(value.as_f64());
    let on_demand = number(&linux.ondemand).filter(|price| *price > 0.0)?;
    let mut spot: Vec<f64> = linux.spot.iter().filter_map(number).filter(|price| *price > 0.0).collect();
    spot.sort_by(f64::total_cmp);
    spot.iter_mut().for_each(|price| *price = *price / on_demand * 1000.0);
    Some(Old { on_demand, spot })
}

fn sold_on_spot(facts: &Value) -> bool {
    facts["usage_classes"].as_array().is_some_and(|classes| classes.iter().any(|class| class == "spot"))
}

fn family(name: &str) -> &str {
    name.split_once('.').map_or(name, |(family, _)| family)
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// A number that looks random and is the same for the same words: FNV-1a.
fn chance(name: &str, zone: &str) -> u64 {
    let bytes = name.bytes().chain([0]).chain(zone.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash ^ (hash >> 32)
}
