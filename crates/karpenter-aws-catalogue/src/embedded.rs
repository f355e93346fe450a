//! The catalogue that is compiled in: what EC2 sold on the day it was derived, and at what price.
//!
//! It serves the simulated EC2, prices until EC2 has answered, and what EC2 says nowhere (bandwidth, branch interfaces). `data/README.md`
//! says where it comes from, `cargo xtask aws-catalogue` derives it anew. Types are decoded on first use, and each region on its own first
//! use; both are kept.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::{Arc, OnceLock};

use flate2::bufread::GzDecoder;
use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::facts::{TypeFacts, VpcLimits};

static DATA: &[u8] = include_bytes!("../data/catalogue.gz");
static EMBEDDED: OnceLock<Embedded> = OnceLock::new();

/// The region whose prices stand in for a region nobody knows.
pub const FALLBACK_REGION: &str = "us-east-1";

/// Everything EC2 sold on the day the data was derived. Start at [`Embedded::get`].
#[derive(Debug)]
pub struct Embedded {
    types: Vec<Arc<TypeFacts>>,
    bandwidth_mbps: FxHashMap<Arc<str>, u32>,
    vpc_limits: FxHashMap<Arc<str>, VpcLimits>,
    regions: BTreeMap<Arc<str>, OnceLock<Arc<Region>>>,
}

/// The first line of the data.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    types: Vec<TypeFacts>,
    bandwidth_mbps: FxHashMap<Arc<str>, u32>,
    vpc_limits: FxHashMap<Arc<str>, VpcLimits>,
    regions: Vec<Arc<str>>,
}

impl Embedded {
    /// The one catalogue of the process, decoded on first use.
    ///
    /// # Panics
    ///
    /// If the embedded data is not what our own task writes, which the tests see.
    pub fn get() -> &'static Self {
        EMBEDDED.get_or_init(|| {
            let mut lines = BufReader::new(GzDecoder::new(DATA)).lines();
            let line = lines.next().expect("the embedded catalogue has a first line");
            let line = line.expect("the embedded catalogue can be decompressed");
            let Head { types, bandwidth_mbps, vpc_limits, regions } =
                serde_json::from_str(&line).expect("the embedded catalogue was written by our own task");
            let mut types: Vec<_> = types.into_iter().map(Arc::new).collect();
            types.sort_by(|a, b| a.name.cmp(&b.name));
            let regions = regions.into_iter().map(|name| (name, OnceLock::new())).collect();
            Self { types, bandwidth_mbps, vpc_limits, regions }
        })
    }

    /// All types, by name.
    pub fn types(&self) -> &[Arc<TypeFacts>] {
        &self.types
    }

    /// One type.
    pub fn facts(&self, instance_type: &str) -> Option<&Arc<TypeFacts>> {
        let found = self.types.binary_search_by(|facts| (*facts.name).cmp(instance_type));
        found.ok().map(|index| &self.types[index])
    }

    /// Network bandwidth that can be relied upon, in Mbit/s.
    pub fn bandwidth_mbps(&self, instance_type: &str) -> Option<u32> {
        self.bandwidth_mbps.get(instance_type).copied()
    }

    /// What the VPC makes of a type.
    pub fn vpc_limits(&self, instance_type: &str) -> Option<VpcLimits> {
        self.vpc_limits.get(instance_type).copied()
    }

    /// The regions there is anything about, by name.
    pub fn regions(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.regions.keys()
    }

    /// One region, decoded on first use.
    pub fn region(&self, name: &str) -> Option<&Arc<Region>> {
        self.regions.get(name).map(|region| region.get_or_init(|| Arc::new(self.read(name))))
    }

    /// The region, or for one that nobody knows the one whose prices stand in.
    ///
    /// # Panics
    ///
    /// If the embedded data lacks that one, which the tests see.
    pub fn region_or_fallback(&self, name: &str) -> &Arc<Region> {
        let found = self.region(name).or_else(|| self.region(FALLBACK_REGION));
        found.expect("the embedded catalogue has the fallback region")
    }

    /// Reads lines up to the region's. Lines start with the name of their region, so that others need not be parsed.
    fn read(&self, name: &str) -> Region {
        let prefix = format!("{name} ");
        let lines = BufReader::new(GzDecoder::new(DATA)).lines().skip(1);
        let line = lines.map_while(Result::ok).find(|line| line.starts_with(&prefix));
        let line = line.expect("every region that is listed has its line");
        let written = serde_json::from_str(&line[prefix.len()..]).expect("our own task wrote the line");
        Region::new(name.into(), written, self)
    }
}

/// A zone of a region.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// `us-east-1a`.
    pub name: Arc<str>,
    /// The same place in every account: `use1-az4`.
    pub id: Arc<str>,
}

/// What one region sells: which types in which zones, and at what price.
#[derive(Debug)]
pub struct Region {
    name: Arc<str>,
    zones: Vec<Zone>,
    /// By name of the type.
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    instance_type: Arc<str>,
    /// In dollars (yuan in China) per hour.
    on_demand: Option<f64>,
    /// One per zone of the region: what a spot machine costs of the on-demand price, in thousandths, where the zone has the type.
    zones: Box<[Option<u16>]>,
}

/// A region as it is written: columns, because these are compressed best.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    zones: Vec<Zone>,
    types: Vec<Arc<str>>,
    /// Zero where no price is known.
    on_demand: Vec<f64>,
    /// Type by type, zone by zone: `null` where the zone does not have the type, zero where it has no spot price.
    spot_per_mille: Vec<Option<u16>>,
}

impl Region {
    fn new(name: Arc<str>, written: Written, embedded: &Embedded) -> Self {
        let width = written.zones.len();
        let row = |(index, (instance_type, on_demand)): (usize, (Arc<str>, f64))| Row {
            // The same text for the same type everywhere.
            instance_type: embedded.facts(&instance_type).map_or(instance_type, |facts| facts.name.clone()),
            on_demand: (on_demand > 0.0).then_some(on_demand),
            zones: written.spot_per_mille[index * width..(index + 1) * width].into(),
        };
        let rows = written.types.into_iter().zip(written.on_demand).enumerate().map(row).collect();
        Self { name, zones: written.zones, rows }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its zones, by name. Regions of which only prices are known have none.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Which types are sold where, by type and zone.
    pub fn offerings(&self) -> impl Iterator<Item = (&Arc<str>, &Zone)> {
        self.rows.iter().flat_map(|row| {
            let zones = self.zones.iter().zip(&row.zones);
            zones.filter(|(_, spot)| spot.is_some()).map(|(zone, _)| (&row.instance_type, zone))
        })
    }

    /// Whether a zone, by name, has a type.
    pub fn sells(&self, instance_type: &str, zone: &str) -> bool {
        self.spot_per_mille(instance_type, zone).is_some()
    }

    /// The on-demand price per hour.
    pub fn on_demand(&self, instance_type: &str) -> Option<f64> {
        self.row(instance_type)?.on_demand
    }

    /// The spot price per hour in a zone, by the zone's name.
    pub fn spot(&self, instance_type: &str, zone: &str) -> Option<f64> {
        let per_mille = self.spot_per_mille(instance_type, zone)?;
        spot(self.on_demand(instance_type)?, per_mille)
    }

    /// All on-demand prices, by type.
    pub fn on_demand_prices(&self) -> impl Iterator<Item = (&Arc<str>, f64)> {
        self.rows.iter().filter_map(|row| Some((&row.instance_type, row.on_demand?)))
    }

    /// All spot prices, by type and zone.
    pub fn spot_prices(&self) -> impl Iterator<Item = (&Arc<str>, &Zone, f64)> {
        self.rows.iter().flat_map(|row| {
            let zones = self.zones.iter().zip(&row.zones);
            zones.filter_map(|(zone, per_mille)| {
                Some((&row.instance_type, zone, spot(row.on_demand?, (*per_mille)?)?))
            })
        })
    }

    fn row(&self, instance_type: &str) -> Option<&Row> {
        let found = self.rows.binary_search_by(|row| (*row.instance_type).cmp(instance_type));
        found.ok().map(|index| &self.rows[index])
    }

    fn spot_per_mille(&self, instance_type: &str, zone: &str) -> Option<u16> {
        let position = self.zones.iter().position(|found| &*found.name == zone)?;
        self.row(instance_type)?.zones[position]
    }
}

/// A spot price in the steps EC2 quotes: ten-thousandths.
fn spot(on_demand: f64, per_mille: u16) -> Option<f64> {
    (per_mille > 0).then(|| (on_demand * f64::from(per_mille) * 10.0).round().max(1.0) / 10_000.0)
}
