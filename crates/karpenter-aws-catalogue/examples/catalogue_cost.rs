//! Prints what the catalogue costs in time and memory: every type there is, at the prices of us-east-1, for twenty classes, and a moving
//! market. Each line is a step, its milliseconds and the MiB that stay in use, between tabs.
//!
//! `cargo xtask bench aws-catalogue` runs it. Memory is read from Linux's `/proc`.

use std::sync::Arc;
use std::time::Instant;

use karpenter_aws_catalogue::{
    ClassSettings, ClassZone, ControllerSettings, Embedded, Family, Kubelet, Market, MaxPods, Prices,
    Refused, RefusedOffering, RegionTypes, Resolver,
};
use karpenter_core::catalog::InstanceType;

const CLASSES: u32 = 20;
const REGION: &str = "us-east-1";

fn main() {
    let embedded = measured("decode the types", Embedded::get);
    let region = measured("decode the region", || embedded.region_or_fallback(REGION));
    let market = measured("take its prices", || {
        let mut prices = Prices::embedded(region);
        let spot = region.spot_prices();
        prices.learn_spot(spot.map(|(name, zone, price)| (name.clone(), zone.name.clone(), price)));
        Arc::new(Market { prices: Arc::new(prices), ..Market::default() })
    });
    let types = measured("label the types", || {
        // The few that the region does not sell are put into its first zone, where they have no price.
        let sold = region.offerings().map(|(name, zone)| (name.clone(), zone.name.clone()));
        let first = region.zones()[0].name.clone();
        let all = embedded.types().iter();
        let rest = all.filter(|facts| !region.offerings().any(|(name, _)| *name == facts.name));
        let rest = rest.map(|facts| (facts.name.clone(), first.clone()));
        Arc::new(RegionTypes::new(REGION, embedded.types().iter().cloned(), sold.chain(rest)))
    });
    let zones = region.zones().iter().map(|zone| ClassZone {
        name: zone.name.clone(),
        id: Some(zone.id.clone()),
        subnets: Vec::new(),
    });
    let class =
        ClassSettings { zones: zones.collect(), family: Family::default(), ..ClassSettings::default() };
    let mut resolver = Resolver::new(ControllerSettings::default(), None);
    let mut resolve = |classes: &[ClassSettings], market: &Arc<Market>| -> Vec<Arc<[Arc<InstanceType>]>> {
        classes.iter().map(|class| resolver.resolve(&types, class, market)).collect()
    };
    let equal = vec![class.clone(); CLASSES as usize];
    let different: Vec<_> = (0..CLASSES).map(|number| with_max_pods(&class, 50 + number)).collect();

    let all = measured("20 equal classes", || resolve(&equal, &market));
    let offerings: usize = all[0].iter().map(|one| one.offerings.len()).sum();
    eprintln!("{} types, {offerings} offerings", all[0].len());
    let kept = measured("20 different classes", || resolve(&different, &market));
    let again = measured("20 different classes again", || resolve(&different, &market));
    let refusal = Arc::new(Market { refused: Arc::new(refused()), ..(*market).clone() });
    let after = measured("one offering is refused", || resolve(&different, &refusal));
    let objects: usize = kept.iter().map(|one| one.len()).sum();
    eprintln!("{} of {objects} objects are new", changed(&again, &after));
    let mut prices = (*market.prices).clone();
    prices.learn_on_demand(region.on_demand_prices().map(|(name, price)| (name.clone(), price * 1.1)));
    let dearer = Arc::new(Market { prices: Arc::new(prices), ..Market::default() });
    let after = measured("every price changes", || resolve(&different, &dearer));
    eprintln!("{} objects are new", changed(&again, &after));
}

fn with_max_pods(class: &ClassSettings, pods: u32) -> ClassSettings {
    let kubelet = Kubelet { max_pods: Some(MaxPods::Fixed(pods)), ..Kubelet::default() };
    ClassSettings { kubelet, ..class.clone() }
}

fn refused() -> Refused {
    let offering = RefusedOffering {
        instance_type: "m5.large".into(),
        zone: format!("{REGION}a").into(),
        capacity_type: "spot".into(),
        group: None,
        partition: None,
    };
    Refused { offerings: [offering].into(), ..Refused::default() }
}

fn changed(before: &[Arc<[Arc<InstanceType>]>], after: &[Arc<[Arc<InstanceType>]>]) -> usize {
    let pairs = before.iter().zip(after).flat_map(|(before, after)| before.iter().zip(&**after));
    pairs.filter(|(before, after)| !Arc::ptr_eq(before, after)).count()
}

/// Does something and prints how long it took and how much memory stayed in use.
fn measured<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let before = resident_kib();
    let start = Instant::now();
    let result = work();
    let elapsed = start.elapsed();
    let grown = resident_kib() - before;
    println!("{what}\t{:.2}\t{:.1}", elapsed.as_secs_f64() * 1e3, grown as f64 / 1024.0);
    result
}

/// Memory of the process, zero where there is no `/proc`.
fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
