//! Classes and markets that tests start from.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use karpenter_aws_catalogue::{
    ClassSettings, ClassZone, ControllerSettings, Embedded, Family, Market, NodeShape, Prices, RegionTypes,
    Resolver, TypeFacts, node_shape,
};
use karpenter_core::catalog::{InstanceType, Offering};

pub(crate) const REGION: &str = "us-west-2";

pub(crate) fn words(words: &[&str]) -> Vec<Arc<str>> {
    words.iter().map(|word| Arc::from(*word)).collect()
}

pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<Arc<str>, Arc<str>> {
    pairs.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect()
}

pub(crate) fn types() -> Arc<RegionTypes> {
    static TYPES: OnceLock<Arc<RegionTypes>> = OnceLock::new();
    TYPES.get_or_init(|| Arc::new(RegionTypes::embedded(REGION).unwrap())).clone()
}

/// One type in one zone, with what a test says about it.
pub(crate) fn only(facts: TypeFacts) -> RegionTypes {
    let offering = (facts.name.clone(), Arc::from("us-west-2a"));
    RegionTypes::new(REGION, [Arc::new(facts)], [offering])
}

pub(crate) fn facts(name: &str) -> TypeFacts {
    (**Embedded::get().facts(name).unwrap()).clone()
}

pub(crate) fn al2023() -> Family {
    Family { ephemeral_device: Some("/dev/xvda".into()), runs_a1: false, ..Family::default() }
}

pub(crate) fn bottlerocket() -> Family {
    Family {
        ephemeral_device: Some("/dev/xvdb".into()),
        eni_limited_memory_overhead: false,
        pods_per_core: false,
        ..Family::default()
    }
}

pub(crate) fn windows2022() -> Family {
    Family {
        windows_build: Some("10.0.20348".into()),
        ephemeral_device: Some("/dev/sda1".into()),
        default_storage: "50Gi".parse().unwrap(),
        eni_limited_memory_overhead: false,
        eni_limited_pod_density: false,
        ..Family::default()
    }
}

pub(crate) fn zone(letter: &str, id: &str) -> ClassZone {
    ClassZone {
        name: format!("{REGION}{letter}").into(),
        id: Some(id.into()),
        subnets: words(&[&format!("subnet-{letter}1"), &format!("subnet-{letter}2")]),
    }
}

/// AL2023 with subnets in two of the four zones.
pub(crate) fn class() -> ClassSettings {
    ClassSettings {
        family: al2023(),
        zones: vec![zone("a", "usw2-az1"), zone("b", "usw2-az2")],
        ..ClassSettings::default()
    }
}

pub(crate) fn market() -> Market {
    static PRICES: OnceLock<Arc<Prices>> = OnceLock::new();
    Market { prices: PRICES.get_or_init(prices).clone(), ..Market::default() }
}

fn prices() -> Arc<Prices> {
    let region = Embedded::get().region(REGION).unwrap();
    let mut prices = Prices::embedded(region);
    let spot = region.spot_prices();
    prices.learn_spot(spot.map(|(name, zone, price)| (name.clone(), zone.name.clone(), price)));
    Arc::new(prices)
}

pub(crate) fn resolver() -> Resolver {
    Resolver::new(ControllerSettings::default(), None)
}

/// The types of a class in the usual market.
pub(crate) fn resolve(class: &ClassSettings, market: Market) -> Arc<[Arc<InstanceType>]> {
    resolver().resolve(&types(), class, &Arc::new(market))
}

pub(crate) fn find<'a>(types: &'a [Arc<InstanceType>], name: &str) -> &'a Arc<InstanceType> {
    types.iter().find(|found| &*found.name == name).unwrap_or_else(|| panic!("no {name}"))
}

pub(crate) fn offering<'a>(found: &'a InstanceType, zone: &str, capacity_type: &str) -> &'a Offering {
    let matches = |offering: &&Offering| {
        offering.zone().is_some_and(|name| name.ends_with(zone))
            && offering.capacity_type().is_some_and(|name| &**name == capacity_type)
    };
    found.offerings.iter().find(matches).unwrap_or_else(|| panic!("no {capacity_type} {zone}"))
}

pub(crate) fn shape(facts: TypeFacts, class: &ClassSettings) -> NodeShape {
    let name = facts.name.clone();
    let types = only(facts);
    node_shape(types.get(&name).unwrap(), class, ControllerSettings::default(), None)
}
