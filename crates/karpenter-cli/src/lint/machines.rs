//! The machines that objects are compared with, without asking any cloud.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use karpenter_api::Provider;
use karpenter_aws_catalogue::{
    ClassSettings, ClassZone, ControllerSettings, Embedded, Market, Prices, RegionTypes, Resolver,
};
use karpenter_core::catalog::InstanceType;
use karpenter_kwok::{generated_instance_types, read_instance_types};

/// The machines of `file`, or those a provider is known to have, in a region of AWS; and the labels they bring along. None if that is not known.
pub(crate) fn machines(
    file: Option<&Path>,
    provider: Option<Provider>,
    region: &str,
) -> anyhow::Result<(Vec<Arc<InstanceType>>, Vec<String>)> {
    match (file, provider) {
        (Some(path), _) => {
            let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            let (types, labels) = read_instance_types(&text)
                .with_context(|| format!("reading the instance types of {}", path.display()))?;
            Ok((shared(types), labels))
        }
        (None, Some(Provider::Kwok)) => Ok((shared(generated_instance_types()), Vec::new())),
        (None, Some(Provider::Aws)) => Ok((sold_by_aws(region), Vec::new())),
        (None, _) => Ok((Vec::new(), Vec::new())),
    }
}

fn shared(types: Vec<InstanceType>) -> Vec<Arc<InstanceType>> {
    types.into_iter().map(Arc::new).collect()
}

/// What EC2 sells in a region, as this program was told when it was built: for a class with subnets in every zone.
fn sold_by_aws(region: &str) -> Vec<Arc<InstanceType>> {
    let Some(types) = RegionTypes::embedded(region) else { return Vec::new() };
    let known = Embedded::get().region_or_fallback(region);
    let zones = known.zones().iter().map(|zone| ClassZone {
        name: zone.name.clone(),
        id: Some(zone.id.clone()),
        subnets: Vec::new(),
    });
    let class = ClassSettings { zones: zones.collect(), ..ClassSettings::default() };
    let mut prices = Prices::embedded(known);
    prices
        .learn_spot(known.spot_prices().map(|(name, zone, price)| (name.clone(), zone.name.clone(), price)));
    let market = Arc::new(Market { prices: Arc::new(prices), ..Market::default() });
    let mut resolver = Resolver::new(ControllerSettings::default(), None);
    resolver.resolve(&Arc::new(types), &class, &market).to_vec()
}
