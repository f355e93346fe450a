//! What can be bought where, at what price, and what a changing market changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_aws_catalogue::{
    CapacityReservation, ClassSettings, Embedded, Market, PlacementGroup, Prices, Refused, RefusedOffering,
};
use karpenter_core::catalog::InstanceType;

use crate::support::{REGION, class, find, market, offering, resolve, resolver, types, words};

fn refused(name: &str, zone: &str, capacity_type: &str) -> RefusedOffering {
    RefusedOffering {
        instance_type: name.into(),
        zone: zone.into(),
        capacity_type: capacity_type.into(),
        group: None,
        partition: None,
    }
}

fn refusing(offerings: impl IntoIterator<Item = RefusedOffering>) -> Market {
    let refused = Refused { offerings: offerings.into_iter().collect(), ..Refused::default() };
    Market { refused: Arc::new(refused), ..market() }
}

fn available(found: &InstanceType) -> Vec<String> {
    let open = found.offerings.iter().filter(|offering| offering.is_launchable());
    open.map(|offering| format!("{} {}", &offering.zone().unwrap()[9..], offering.capacity_type().unwrap()))
        .collect()
}

fn reservation(id: &str) -> CapacityReservation {
    CapacityReservation {
        id: id.into(),
        instance_type: "m5.large".into(),
        zone: "us-west-2a".into(),
        reservation_type: "default".into(),
        interruptible: false,
        expiring: false,
    }
}

fn reserved(remaining: u32) -> Arc<BTreeMap<Arc<str>, u32>> {
    Arc::new([(Arc::from("cr-1"), remaining)].into())
}

#[test]
fn a_type_is_sold_in_every_zone_and_available_where_the_class_has_subnets() {
    let types = resolve(&class(), market());
    let m5 = find(&types, "m5.large");
    assert_eq!(m5.offerings.len(), 8);
    assert_eq!(available(m5), ["a on-demand", "a spot", "b on-demand", "b spot"]);
    let region = Embedded::get().region(REGION).unwrap();
    assert_eq!(offering(m5, "2a", "on-demand").price.to_bits(), 0.096_f64.to_bits());
    let spot = region.spot("m5.large", "us-west-2a").unwrap();
    assert_eq!(offering(m5, "2a", "spot").price.to_bits(), spot.to_bits());
}

#[test]
fn without_a_price_nothing_is_sold() {
    let without = Market { prices: Arc::default(), ..market() };
    let types = resolve(&class(), without);
    assert!(available(find(&types, "m5.large")).is_empty());
    let types = resolve(&class(), market());
    let unpriced = types.iter().filter(|found| found.offerings.iter().all(|offering| offering.price == 0.0));
    assert!(unpriced.count() > 10, "the newest types have no price yet");
}

#[test]
fn until_spot_prices_are_known_a_spot_machine_costs_the_on_demand_price() {
    let mut prices = Prices::embedded(Embedded::get().region(REGION).unwrap());
    let types = resolve(&class(), Market { prices: Arc::new(prices.clone()), ..market() });
    assert_eq!(offering(find(&types, "m5.large"), "2a", "spot").price.to_bits(), 0.096_f64.to_bits());
    prices.learn_spot([("m5.large".into(), "us-west-2a".into(), 0.04)]);
    let types = resolve(&class(), Market { prices: Arc::new(prices), ..market() });
    let m5 = find(&types, "m5.large");
    assert_eq!(available(m5), ["a on-demand", "a spot", "b on-demand"]);
    assert_eq!(offering(m5, "2a", "spot").price.to_bits(), 0.04_f64.to_bits());
}

#[test]
fn an_operators_price_stands_in_where_ec2_says_none() {
    let mut prices = Prices::default();
    prices.learn_on_demand([("m5.large".into(), 0.1)]);
    prices.learn_spot([("m5.large".into(), "us-west-2a".into(), 0.05)]);
    prices.stand_in([("m5.large".into(), 7.0), ("m5.xlarge".into(), 8.0)]);
    let types = resolve(&class(), Market { prices: Arc::new(prices.clone()), ..market() });
    let m5 = find(&types, "m5.large");
    let price = |found, zone, kind| offering(found, zone, kind).price;
    let known = [price(m5, "2a", "on-demand"), price(m5, "2a", "spot"), price(m5, "2b", "spot")];
    assert_eq!(known.map(f64::to_bits), [0.1, 0.05, 7.0].map(f64::to_bits));
    assert_eq!(available(find(&types, "m5.xlarge")).len(), 4);
    prices.stand_in([]);
    assert_eq!(prices.on_demand("m5.xlarge"), None);
}

#[test]
fn prices_that_are_asked_for_replace_older_ones_and_leave_the_rest() {
    let mut prices = (*market().prices).clone();
    let before = prices.spot("m5.large", "us-west-2b");
    prices.learn_on_demand([("m5.large".into(), 0.5), ("m5.xlarge".into(), 0.0)]);
    prices.learn_spot([("m5.large".into(), "us-west-2a".into(), 0.25)]);
    assert_eq!(prices.on_demand("m5.large"), Some(0.5));
    assert_eq!(prices.on_demand("m5.xlarge"), Some(0.192));
    assert_eq!(prices.spot("m5.large", "us-west-2a"), Some(0.25));
    assert_eq!(prices.spot("m5.large", "us-west-2b"), before);
}

#[test]
fn a_refused_offering_is_left_alone_and_no_other() {
    let types = resolve(&class(), refusing([refused("m5.large", "us-west-2a", "spot")]));
    assert_eq!(available(find(&types, "m5.large")), ["a on-demand", "b on-demand", "b spot"]);
    assert_eq!(available(find(&types, "m5.xlarge")).len(), 4);
    let all = Refused { capacity_types: BTreeSet::from(["spot".into()]), ..Refused::default() };
    let types = resolve(&class(), Market { refused: Arc::new(all), ..market() });
    assert_eq!(available(find(&types, "m5.xlarge")), ["a on-demand", "b on-demand"]);
}

#[test]
fn a_zone_is_closed_when_all_its_subnets_are_out_of_addresses_or_traffic_leaves_it() {
    let without = |subnets: &[&str]| {
        let refused = Refused { subnets: words(subnets).into_iter().collect(), ..Refused::default() };
        let types = resolve(&class(), Market { refused: Arc::new(refused), ..market() });
        available(find(&types, "m5.large")).len()
    };
    assert_eq!(without(&["subnet-a1"]), 4);
    assert_eq!(without(&["subnet-a1", "subnet-a2"]), 2);
    let shifted = Arc::new(BTreeSet::from([Arc::from("us-west-2b")]));
    let types = resolve(&class(), Market { shifted_zones: shifted, ..market() });
    assert_eq!(available(find(&types, "m5.large")), ["a on-demand", "a spot"]);
}

#[test]
fn a_reservation_is_sold_while_something_is_left_in_it() {
    let class = ClassSettings { reservations: vec![reservation("cr-1")], ..class() };
    let with = |class: &ClassSettings, remaining| {
        let types = resolve(class, Market { reserved: reserved(remaining), ..market() });
        let found = find(&types, "m5.large").clone();
        assert_eq!(found.offerings.len(), 9);
        let offering = found.offerings.last().unwrap().clone();
        assert_eq!(&*offering.reservation.as_ref().unwrap().id, "cr-1");
        assert!((offering.price - 0.096e-7).abs() < 1e-15, "{}", offering.price);
        offering.available
    };
    assert!(with(&class, 3));
    assert!(!with(&class, 0));
    let expiring = CapacityReservation { expiring: true, ..reservation("cr-1") };
    assert!(!with(&ClassSettings { reservations: vec![expiring], ..class.clone() }, 3));
    let elsewhere = CapacityReservation { zone: "us-west-2d".into(), ..reservation("cr-1") };
    assert!(!with(&ClassSettings { reservations: vec![elsewhere], ..class }, 3));
}

#[test]
fn every_partition_is_an_offering_and_is_refused_alone_or_with_its_group() {
    let group = PlacementGroup { id: "pg-1".into(), strategy: "partition".into(), partitions: 3 };
    let class = ClassSettings { placement_group: Some(group), ..class() };
    let count = |market: Market| {
        let types = resolve(&class, market);
        let found = find(&types, "m5.large");
        assert_eq!(found.offerings.len(), 24);
        available(found).len()
    };
    let here = refused("m5.large", "us-west-2a", "spot");
    let in_group = RefusedOffering { group: Some("pg-1".into()), ..here.clone() };
    let in_partition = RefusedOffering { partition: Some("2".into()), ..in_group.clone() };
    let elsewhere = RefusedOffering { group: Some("pg-2".into()), ..here.clone() };
    assert_eq!(count(market()), 12);
    assert_eq!(count(refusing([here])), 9);
    assert_eq!(count(refusing([in_group])), 9);
    assert_eq!(count(refusing([in_partition])), 11);
    assert_eq!(count(refusing([elsewhere])), 12);
}

#[test]
fn memory_that_nodes_turned_out_to_have_replaces_the_estimate() {
    let class = ClassSettings { images: "ami-1".into(), ..class() };
    let with = |images: &str| {
        let memory = [((Arc::from("m5.large"), Arc::from(images)), "7500Mi".parse().unwrap())];
        let types = resolve(&class, Market { memory: Arc::new(memory.into()), ..market() });
        find(&types, "m5.large").capacity.get("memory").to_string()
    };
    assert_eq!(with("ami-1"), "7500Mi");
    assert_eq!(with("ami-2"), "7577Mi");
}

#[test]
fn memory_that_is_no_longer_known_is_estimated_again() {
    let (mut resolver, types) = (resolver(), types());
    let class = ClassSettings { images: "ami-1".into(), ..class() };
    let mut memory = |known: &[(&str, &str)]| {
        let known =
            known.iter().map(|(name, text)| ((Arc::from(*name), "ami-1".into()), text.parse().unwrap()));
        let market = Arc::new(Market { memory: Arc::new(known.collect()), ..market() });
        let types = resolver.resolve(&types, &class, &market);
        ["m5.large", "t3.micro"].map(|name| find(&types, name).capacity.get("memory").to_string())
    };
    assert_eq!(memory(&[("m5.large", "7500Mi"), ("t3.micro", "900Mi")]), ["7500Mi", "900Mi"]);
    assert_eq!(memory(&[("m5.large", "7400Mi"), ("t3.micro", "900Mi")]), ["7400Mi", "900Mi"]);
    assert_eq!(memory(&[("m5.large", "7400Mi")]), ["7400Mi", "947Mi"]);
}

#[test]
fn when_the_market_moves_only_what_moved_is_new() {
    let (mut resolver, types, class) = (resolver(), types(), class());
    let quiet = Arc::new(market());
    let before = resolver.resolve(&types, &class, &quiet);
    assert!(Arc::ptr_eq(&before, &resolver.resolve(&types, &class, &quiet)));
    // The same things said again.
    assert!(Arc::ptr_eq(&before, &resolver.resolve(&types, &class, &Arc::new(market()))));
    let refusal = Arc::new(refusing([refused("m5.large", "us-west-2a", "spot")]));
    let after = resolver.resolve(&types, &class, &refusal);
    let new: Vec<_> = before.iter().zip(&*after).filter(|(a, b)| !Arc::ptr_eq(a, b)).collect();
    assert_eq!(new.iter().map(|(_, now)| &*now.name).collect::<Vec<_>>(), ["m5.large"]);
    let mut prices = (*quiet.prices).clone();
    prices.learn_on_demand([("c6g.xlarge".into(), 9.0)]);
    let dearer = Arc::new(Market { prices: Arc::new(prices), ..(*quiet).clone() });
    let after = resolver.resolve(&types, &class, &dearer);
    let new: Vec<_> = before.iter().zip(&*after).filter(|(a, b)| !Arc::ptr_eq(a, b)).collect();
    // The refusal is over, which is news as well.
    assert_eq!(new.iter().map(|(_, now)| &*now.name).collect::<Vec<_>>(), ["c6g.xlarge", "m5.large"]);
}

#[test]
fn a_refreshed_class_is_what_a_fresh_one_would_be() {
    let (mut resolver, types, class) = (resolver(), types(), class());
    let memory = [((Arc::from("m5.large"), class.images.clone()), "7500Mi".parse().unwrap())];
    let moved = Arc::new(Market {
        memory: Arc::new(memory.into()),
        ..refusing([
            refused("m5.large", "us-west-2a", "spot"),
            refused("t3.micro", "us-west-2b", "on-demand"),
        ])
    });
    resolver.resolve(&types, &class, &Arc::new(market()));
    let refreshed = resolver.resolve(&types, &class, &moved);
    let fresh = crate::support::resolver().resolve(&types, &class, &moved);
    assert_eq!(format!("{refreshed:?}"), format!("{fresh:?}"));
}

#[test]
fn classes_with_equal_settings_share_their_types() {
    let (mut resolver, types, market) = (resolver(), types(), Arc::new(market()));
    let first = resolver.resolve(&types, &class(), &market);
    let second = resolver.resolve(&types, &class(), &market);
    assert!(Arc::ptr_eq(&first, &second));
    resolver.forget_unused();
    assert!(Arc::ptr_eq(&first, &resolver.resolve(&types, &class(), &market)));
    resolver.forget_unused();
    resolver.forget_unused();
    assert!(!Arc::ptr_eq(&first, &resolver.resolve(&types, &class(), &market)));
}

#[test]
fn images_and_subnets_set_classes_apart_only_when_they_matter() {
    let (mut resolver, types, quiet) = (resolver(), types(), market());
    let mut other = ClassSettings { images: "ami-2".into(), ..class() };
    other.zones.iter_mut().for_each(|zone| zone.subnets = words(&["subnet-x"]));
    let one = ClassSettings { images: "ami-1".into(), ..class() };
    let mut both = |market: &Market| {
        let market = Arc::new(market.clone());
        (resolver.resolve(&types, &one, &market), resolver.resolve(&types, &other, &market))
    };
    let (first, second) = both(&quiet);
    assert!(Arc::ptr_eq(&first, &second));
    let dry = Refused { subnets: words(&["subnet-x"]).into_iter().collect(), ..Refused::default() };
    let (first, second) = both(&Market { refused: Arc::new(dry), ..quiet.clone() });
    assert_eq!(available(find(&first, "m5.large")).len(), 4);
    assert!(available(find(&second, "m5.large")).is_empty());
    let memory = [((Arc::from("m5.large"), Arc::from("ami-2")), "7Gi".parse().unwrap())];
    let (first, second) = both(&Market { memory: Arc::new(memory.into()), ..quiet.clone() });
    let memory = |types: &[Arc<InstanceType>]| find(types, "m5.large").capacity.get("memory").to_string();
    assert_eq!((memory(&first), memory(&second)), ("7577Mi".into(), "7Gi".into()));
    let (first, second) = both(&quiet);
    assert_eq!((memory(&first), memory(&second)), ("7577Mi".into(), "7577Mi".into()));
}
