//! A cloud with moods: how many machines of a kind there are, what they cost now, when a zone is out, when spot machines are taken back.
//!
//! Everything follows from the description, the seed and the time, so a simulation sees the same moods on every run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_api::GoDuration;
use karpenter_provider::OfferingKey;
use serde::Deserialize;

use crate::market::{Market, Plenty};

/// How a cloud behaves, as users write it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloudDescription {
    /// How many machines there are.
    #[serde(default)]
    pub capacity: Vec<Capacity>,
    /// How prices move.
    #[serde(default)]
    pub prices: Vec<Price>,
    /// When nothing can be had.
    #[serde(default)]
    pub outages: Vec<Outage>,
    /// How often machines are taken back.
    #[serde(default)]
    pub interruptions: Vec<Interruption>,
}

/// Which offerings a line is about; what is left out means any.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Which {
    /// The instance type.
    pub instance_type: Option<String>,
    /// The zone.
    pub zone: Option<String>,
    /// `spot` or `on-demand`.
    pub capacity_type: Option<String>,
}

/// At most this many machines at once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// Of which offerings together.
    #[serde(flatten)]
    pub which: Which,
    /// How many.
    pub machines: usize,
}

/// A price that moves around the list price.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    /// Of which offerings.
    #[serde(flatten)]
    pub which: Which,
    /// How far, in percent of the list price.
    pub swing: f64,
    /// How often.
    pub every: GoDuration,
}

/// A time in which nothing can be had.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outage {
    /// Of which offerings.
    #[serde(flatten)]
    pub which: Which,
    /// When it begins, counted from the start.
    pub after: GoDuration,
    /// How long it lasts.
    pub lasting: GoDuration,
}

/// Machines that are taken back.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interruption {
    /// Of which offerings.
    #[serde(flatten)]
    pub which: Which,
    /// How long a machine runs before that, on average.
    pub every: GoDuration,
    /// How long before its end a machine is warned.
    pub notice: GoDuration,
}

impl Which {
    fn covers(&self, offering: &OfferingKey) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.instance_type, &offering.instance_type)
            && is(&self.zone, &offering.zone)
            && is(&self.capacity_type, &offering.capacity_type)
    }
}

/// A machine that was sold.
#[derive(Clone, Debug)]
struct Sold {
    offering: OfferingKey,
    /// When it is warned and when it ends, if it will be taken back.
    end: Option<(Timestamp, Timestamp)>,
    warned: bool,
}

/// A cloud that behaves as described.
pub struct SimulatedCloud {
    description: CloudDescription,
    seed: u64,
    start: Timestamp,
    sold: Mutex<BTreeMap<String, Sold>>,
}

/// The market that a description asks for, its time beginning at `start`; without one everything can be had.
pub fn market(description: Option<CloudDescription>, seed: u64, start: Timestamp) -> Arc<dyn Market> {
    match description {
        Some(description) => Arc::new(SimulatedCloud::new(description, seed, start)),
        None => Arc::new(Plenty),
    }
}

impl SimulatedCloud {
    /// A cloud whose time begins at `start`.
    pub fn new(description: CloudDescription, seed: u64, start: Timestamp) -> Self {
        Self { description, seed, start, sold: Mutex::default() }
    }

    fn sold(&self) -> MutexGuard<'_, BTreeMap<String, Sold>> {
        self.sold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why an offering cannot be had at `now`.
    fn refusal(&self, offering: &OfferingKey, now: Timestamp) -> Option<String> {
        let running = |outage: &&Outage| {
            let past = now.duration_since(self.start);
            let begun = past >= outage.after.value();
            begun && past < outage.after.value().saturating_add(outage.lasting.value())
        };
        let out = self.description.outages.iter().filter(|outage| outage.which.covers(offering));
        if out.clone().any(|outage| running(&outage)) {
            return Some("there is an outage".to_owned());
        }
        let sold = self.sold();
        let taken = |which: &Which| sold.values().filter(|machine| which.covers(&machine.offering)).count();
        let mut limits = self.description.capacity.iter().filter(|limit| limit.which.covers(offering));
        let full = limits.find(|limit| taken(&limit.which) >= limit.machines)?;
        Some(format!("all {} machines are taken", full.machines))
    }

    /// When a machine sold at `now` is warned and ends: sooner or later, around the average.
    fn end(&self, offering: &OfferingKey, machine: &str, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let rule = self.description.interruptions.iter().find(|rule| rule.which.covers(offering))?;
        let chance = self.chance(&[machine, "interruption"]).max(1e-9);
        let lives = rule.every.value().as_secs_f64() * -chance.ln();
        let warned = now.checked_add(SignedDuration::from_secs_f64(lives.min(1e9))).ok()?;
        Some((warned, warned.checked_add(rule.notice.value()).ok()?))
    }

    /// A number from 0 to 1 that depends on the seed and the words, and on nothing else.
    fn chance(&self, words: &[&str]) -> f64 {
        let mut hash = 0xcbf2_9ce4_8422_2325 ^ self.seed;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        // The low bits of this hash are poor; mixing makes all alike.
        hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Market for SimulatedCloud {
    fn price(&self, offering: &OfferingKey, list: f64, now: Timestamp) -> f64 {
        let Some(rule) = self.description.prices.iter().find(|rule| rule.which.covers(offering)) else {
            return list;
        };
        let period = rule.every.value().as_secs().max(1);
        let round = now.duration_since(self.start).as_secs().div_euclid(period).to_string();
        let place = [&*offering.instance_type, &*offering.zone, &*offering.capacity_type, &round];
        let swing = rule.swing / 100.0 * (2.0 * self.chance(&place) - 1.0);
        list * (1.0 + swing).max(0.0)
    }

    fn buy(&self, offering: &OfferingKey, machine: &str, now: Timestamp) -> Result<(), String> {
        if self.sold().contains_key(machine) {
            return Ok(());
        }
        if let Some(why) = self.refusal(offering, now) {
            return Err(why);
        }
        let end = self.end(offering, machine, now);
        self.sold().insert(machine.to_owned(), Sold { offering: offering.clone(), end, warned: false });
        Ok(())
    }

    fn give_back(&self, machine: &str, _: Timestamp) {
        self.sold().remove(machine);
    }

    fn warns(&self) -> bool {
        !self.description.interruptions.is_empty()
    }

    fn warned(&self, now: Timestamp) -> Vec<String> {
        let mut warned = Vec::new();
        for (name, machine) in self.sold().iter_mut() {
            if !machine.warned && machine.end.is_some_and(|(warning, _)| now >= warning) {
                machine.warned = true;
                warned.push(name.clone());
            }
        }
        warned
    }

    fn taken_back(&self, now: Timestamp) -> Vec<String> {
        let mut sold = self.sold();
        let over = |machine: &Sold| machine.end.is_some_and(|(_, end)| now >= end);
        let gone: Vec<String> =
            sold.iter().filter(|(_, machine)| over(machine)).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| drop(sold.remove(name)));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cloud(description: &str) -> SimulatedCloud {
        let description = serde_json::from_str(description).unwrap();
        SimulatedCloud::new(description, 7, Timestamp::UNIX_EPOCH)
    }

    fn spot(zone: &str) -> OfferingKey {
        OfferingKey { instance_type: "c-4x".into(), zone: zone.into(), capacity_type: "spot".into() }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn capacity_is_shared_by_all_offerings_a_line_names() {
        let cloud = cloud(r#"{"capacity": [{"capacityType": "spot", "machines": 2}]}"#);
        assert!(cloud.buy(&spot("a"), "one", at(0)).is_ok());
        assert!(cloud.buy(&spot("b"), "two", at(0)).is_ok());
        assert!(cloud.buy(&spot("b"), "two", at(0)).is_ok(), "the same machine is not sold twice");
        assert_eq!(cloud.buy(&spot("a"), "three", at(0)).unwrap_err(), "all 2 machines are taken");
        cloud.give_back("one", at(1));
        assert!(cloud.buy(&spot("a"), "three", at(1)).is_ok());
    }

    #[test]
    fn an_outage_begins_and_ends() {
        let cloud = cloud(r#"{"outages": [{"zone": "a", "after": "10m", "lasting": "5m"}]}"#);
        assert!(cloud.buy(&spot("a"), "one", at(599)).is_ok());
        assert!(cloud.buy(&spot("a"), "two", at(600)).is_err());
        assert!(cloud.buy(&spot("b"), "three", at(600)).is_ok());
        assert!(cloud.buy(&spot("a"), "four", at(900)).is_ok());
    }

    #[test]
    fn prices_move_within_their_swing_and_by_their_clock() {
        let cloud = cloud(r#"{"prices": [{"capacityType": "spot", "swing": 20, "every": "10m"}]}"#);
        let prices: Vec<f64> = (0..50).map(|round| cloud.price(&spot("a"), 1.0, at(round * 600))).collect();
        assert!(prices.iter().all(|price| (0.8..=1.2).contains(price)));
        assert!(prices.windows(2).any(|pair| (pair[0] - pair[1]).abs() > 0.01), "they move");
        assert!(
            (cloud.price(&spot("a"), 1.0, at(599)) - prices[0]).abs() < f64::EPSILON,
            "not before their time"
        );
    }

    #[test]
    fn a_machine_is_warned_once_and_then_taken_back() {
        let cloud = cloud(r#"{"interruptions": [{"capacityType": "spot", "every": "1h", "notice": "2m"}]}"#);
        cloud.buy(&spot("a"), "one", at(0)).unwrap();
        let warned = (0..1_000_000).step_by(60).find(|second| !cloud.warned(at(*second)).is_empty()).unwrap();
        assert!(cloud.warned(at(warned)).is_empty(), "once is enough");
        assert!(cloud.taken_back(at(warned)).is_empty());
        assert_eq!(cloud.taken_back(at(warned + 180)), ["one"]);
        assert!(cloud.taken_back(at(warned + 180)).is_empty());
    }
}
