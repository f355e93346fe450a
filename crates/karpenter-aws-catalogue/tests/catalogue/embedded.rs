//! The catalogue that is compiled in.

use karpenter_aws_catalogue::Embedded;

#[test]
fn it_knows_what_ec2_says_about_a_type() {
    let embedded = Embedded::get();
    assert_eq!(embedded.types().len(), 1395);
    assert_eq!(embedded.types().iter().filter(|facts| facts.is_wanted()).count(), 1386);
    let m5 = embedded.facts("m5.large").unwrap();
    assert_eq!((m5.vcpus, m5.cores, m5.threads_per_core, m5.memory_mib), (2, Some(1), Some(2), 8192));
    assert_eq!((m5.family(), m5.size()), ("m5", "large"));
    assert_eq!((m5.default_card_interfaces(), m5.network.ipv4_per_interface), (3, 10));
    assert_eq!(m5.ebs.max_bandwidth_mbps, Some(4750));
    assert_eq!(m5.clock_mhz, Some(3100));
    let p4d = embedded.facts("p4d.24xlarge").unwrap();
    assert_eq!((p4d.network.cards.len(), p4d.network.max_efa_interfaces), (4, Some(4)));
    assert_eq!((&*p4d.gpus[0].name, p4d.gpus[0].count, p4d.gpus[0].memory_mib), ("A100", 8, 40960));
    assert_eq!(p4d.instance_store.as_ref().unwrap().total_gb, 8000);
    assert!(embedded.facts("m5.lorge").is_none());
}

#[test]
fn it_knows_what_ec2_does_not_say() {
    let embedded = Embedded::get();
    assert_eq!(embedded.bandwidth_mbps("m5.large"), Some(750));
    assert_eq!(embedded.vpc_limits("m5.large").unwrap().branch_interfaces, 9);
    // Types that EC2 no longer lists by default are in the tables all the same.
    assert_eq!(embedded.bandwidth_mbps("p3.8xlarge"), Some(10_000));
    assert_eq!(embedded.vpc_limits("t3.micro").unwrap().branch_interfaces, 0);
}

#[test]
fn regions_differ_in_zones_types_and_prices() {
    let embedded = Embedded::get();
    let virginia = embedded.region("us-east-1").unwrap();
    let frankfurt = embedded.region("eu-central-1").unwrap();
    assert_eq!((virginia.zones().len(), frankfurt.zones().len()), (6, 3));
    assert_eq!(virginia.offerings().count(), 6436);
    assert_eq!(frankfurt.offerings().count(), 3413);
    assert_eq!(virginia.on_demand("m5.large"), Some(0.096));
    assert_eq!(frankfurt.on_demand("m5.large"), Some(0.115));
    assert!(frankfurt.sells("m5.large", "eu-central-1a"));
    assert!(!frankfurt.sells("m5.large", "us-east-1a"));
    assert!(embedded.region("mars-north-1").is_none());
    assert_eq!(&**embedded.region_or_fallback("mars-north-1").name(), "us-east-1");
}

#[test]
fn a_spot_machine_costs_less_than_one_on_demand_and_not_the_same_everywhere() {
    let region = Embedded::get().region("us-west-2").unwrap();
    let prices: Vec<f64> =
        region.zones().iter().filter_map(|zone| region.spot("m5.large", &zone.name)).collect();
    assert_eq!(prices.len(), 4);
    assert!(prices.iter().all(|price| (0.01..0.096).contains(price)), "{prices:?}");
    assert!(prices.iter().any(|price| (price - prices[0]).abs() > 1e-6), "{prices:?}");
    // Sold on demand only.
    assert_eq!(region.spot("mac1.metal", "us-west-2a"), None);
}

#[test]
fn every_type_that_is_offered_is_described_and_most_have_prices() {
    let embedded = Embedded::get();
    for name in embedded.regions() {
        let region = embedded.region(name).unwrap();
        for (instance_type, zone) in region.offerings() {
            assert!(embedded.facts(instance_type).is_some(), "{instance_type} in {}", zone.name);
            assert!(zone.name.starts_with(&**name), "{} in {name}", zone.name);
        }
        let sold: std::collections::BTreeSet<_> = region.offerings().map(|(name, _)| name).collect();
        let priced = sold.iter().filter(|name| region.on_demand(name).is_some()).count();
        assert!(priced * 100 >= sold.len() * 94, "{name}: {priced} of {}", sold.len());
    }
}
