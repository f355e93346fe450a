//! What can be bought, as a scrape shows it: read when it is asked for, so that nothing old is shown.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use karpenter_core::catalog::{InstanceType, RESERVED, SPOT};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::InstanceTypes;

/// Shows the types and offerings of all classes.
pub struct OfferingMetrics {
    sold: Box<dyn Fn() -> Vec<InstanceTypes> + Send + Sync>,
    reserves: bool,
}

impl OfferingMetrics {
    /// Shows what `sold` answers. Where the cloud `reserves` machines, every place has a series for that, if only to say that there are none.
    pub fn new(sold: impl Fn() -> Vec<InstanceTypes> + Send + Sync + 'static, reserves: bool) -> Self {
        Self { sold: Box::new(sold), reserves }
    }
}

impl fmt::Debug for OfferingMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OfferingMetrics").finish_non_exhaustive()
    }
}

type Type = Arc<str>;
/// Type, capacity type and zone.
type Place = (Arc<str>, Arc<str>, Arc<str>);

/// What there is.
#[derive(Default)]
struct Shown {
    cpu: BTreeMap<Type, f64>,
    memory: BTreeMap<Type, f64>,
    available: BTreeMap<Place, bool>,
    prices: BTreeMap<Place, f64>,
}

impl Shown {
    fn add(&mut self, instance_type: &InstanceType, reserves: bool) {
        let name = || Arc::clone(&instance_type.name);
        let units = |name| instance_type.capacity.get(name).ceil_milli() as f64 / 1000.0;
        self.cpu.insert(name(), units("cpu"));
        self.memory.insert(name(), units("memory"));
        for offering in &instance_type.offerings {
            let (Some(capacity_type), Some(zone)) = (offering.capacity_type(), offering.zone()) else {
                continue;
            };
            if reserves && **capacity_type != *RESERVED && **capacity_type != *SPOT {
                // Reservations come and go; a series that is absent looks like one that is not scraped.
                let own = (name(), Arc::from(RESERVED), Arc::clone(zone));
                self.available.entry(own.clone()).or_default();
                self.prices.entry(own).or_default();
            }
            let place = (name(), Arc::clone(capacity_type), Arc::clone(zone));
            *self.available.entry(place.clone()).or_default() |= offering.is_launchable();
            // What nobody knows the price of has none.
            if !offering.price.is_nan() {
                self.prices.insert(place, offering.price);
            }
        }
    }
}

impl Collector for OfferingMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut shown = Shown::default();
        for types in (self.sold)() {
            types.iter().for_each(|instance_type| shown.add(instance_type, self.reserves));
        }
        let of_type = |name: &Type| vec![("instance_type", name.to_string())];
        let of_place = |(name, capacity_type, zone): &Place| {
            vec![
                ("instance_type", name.to_string()),
                ("capacity_type", capacity_type.to_string()),
                ("zone", zone.to_string()),
            ]
        };
        let types = "karpenter_cloudprovider_instance_type";
        let offerings = "karpenter_cloudprovider_instance_type_offering";
        let cpu = shown.cpu.iter().map(|(name, value)| (of_type(name), *value));
        gauges(&mut encoder, &format!("{types}_cpu_cores"), "Virtual processors of a type", cpu)?;
        let memory = shown.memory.iter().map(|(name, value)| (of_type(name), *value));
        gauges(&mut encoder, &format!("{types}_memory_bytes"), "Memory of a type", memory)?;
        let available =
            shown.available.iter().map(|(place, value)| (of_place(place), f64::from(u8::from(*value))));
        let help = "Whether an offering is believed to be in stock";
        gauges(&mut encoder, &format!("{offerings}_available"), help, available)?;
        let prices = shown.prices.iter().map(|(place, value)| (of_place(place), *value));
        let help = "What an offering is believed to cost per hour";
        gauges(&mut encoder, &format!("{offerings}_price_estimate"), help, prices)
    }
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl Iterator<Item = (Vec<(&'static str, String)>, f64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
