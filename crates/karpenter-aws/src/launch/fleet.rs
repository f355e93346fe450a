//! The fleet that is asked for one machine, and what EC2's answer means.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_aws_client::ec2::{
    CreateFleet, CreateFleetAnswer, FleetError, FleetLaunchTemplate, FleetLaunchTemplateConfig,
    FleetOverride, Instance, OnDemandOptions, OverrideUsed, ReservedCapacityOptions, SpotOptions,
    TagSpecification, TargetCapacitySpecification,
};

use super::candidates::{Candidate, Purchase};
use super::template::tags;
use crate::instances::machine;
use crate::node_class::ResolvedSubnet;

/// What is asked for.
pub(crate) struct Order<'a> {
    /// Makes a request that is repeated the same fleet.
    pub(crate) token: String,
    pub(crate) purchase: Purchase,
    /// Whether a NodeOverlay set a price, so that prices and not EC2 decide what comes first.
    pub(crate) priced_by_overlay: bool,
    pub(crate) context: Option<String>,
    /// Launch templates by name, each with what may be launched from it.
    pub(crate) configs: Vec<(String, Vec<FleetOverride>)>,
    /// Tags of everything that is created.
    pub(crate) tags: &'a BTreeMap<String, String>,
    /// Further tags of the instance.
    pub(crate) instance_tags: &'a BTreeMap<String, String>,
}

/// The request for one machine.
pub(crate) fn request(order: Order<'_>) -> CreateFleet {
    let Order { token, purchase, priced_by_overlay, context, configs, .. } = order;
    let (target, spot, on_demand) = match purchase {
        Purchase::Spot => {
            let strategy =
                if priced_by_overlay { "capacity-optimized-prioritized" } else { "price-capacity-optimized" };
            ("spot", Some(strategy), None)
        }
        Purchase::OnDemand | Purchase::Reserved => {
            let strategy = if priced_by_overlay { "prioritized" } else { "lowest-price" };
            ("on-demand", None, Some(strategy))
        }
        Purchase::Interruptible => ("reserved-capacity", None, None),
        Purchase::CapacityBlock => ("capacity-block", None, None),
    };
    let mut instance_tags = order.tags.clone();
    instance_tags.extend(order.instance_tags.clone());
    let tagged = |kind: &str, with: &BTreeMap<String, String>| TagSpecification {
        resource_type: kind.to_owned(),
        tags: tags(with),
    };
    CreateFleet {
        client_token: Some(token),
        dry_run: None,
        fleet_type: Some("instant".to_owned()),
        context,
        launch_template_configs: configs.into_iter().map(config).collect(),
        target_capacity_specification: TargetCapacitySpecification {
            total_target_capacity: 1,
            default_target_capacity_type: Some(target.to_owned()),
        },
        spot_options: spot.map(|strategy| SpotOptions { allocation_strategy: Some(strategy.to_owned()) }),
        on_demand_options: on_demand
            .map(|strategy| OnDemandOptions { allocation_strategy: Some(strategy.to_owned()) }),
        reserved_capacity_options: (purchase == Purchase::Interruptible).then(|| ReservedCapacityOptions {
            reservation_types: vec!["interruptible-capacity-reservation".to_owned()],
        }),
        tag_specifications: vec![
            tagged("instance", &instance_tags),
            tagged("volume", order.tags),
            tagged("fleet", order.tags),
        ],
    }
}

fn config((name, overrides): (String, Vec<FleetOverride>)) -> FleetLaunchTemplateConfig {
    FleetLaunchTemplateConfig {
        launch_template_specification: FleetLaunchTemplate {
            launch_template_id: None,
            launch_template_name: Some(name),
            version: Some("$Latest".to_owned()),
        },
        overrides,
    }
}

/// What may be launched: each type in each zone that has an offering and a subnet, once.
pub(crate) fn overrides<'a>(
    candidates: impl IntoIterator<Item = &'a Candidate>,
    subnets: &BTreeMap<Arc<str>, &ResolvedSubnet>,
    image_id: &str,
) -> Vec<FleetOverride> {
    let mut overrides = Vec::new();
    for candidate in candidates {
        // Of several offerings in a zone (partitions, reservations) the cheapest names the price.
        let mut prices: BTreeMap<&Arc<str>, f64> = BTreeMap::new();
        for offering in &candidate.offerings {
            let Some(zone) = offering.zone() else { continue };
            let price = prices.entry(zone).or_insert(f64::INFINITY);
            *price = price.min(offering.price);
        }
        for (zone, price) in prices {
            let Some(subnet) = subnets.get(zone) else { continue };
            overrides.push(FleetOverride {
                instance_type: Some(candidate.instance_type.name.to_string()),
                subnet_id: Some(subnet.id.clone()),
                availability_zone: Some(zone.to_string()),
                image_id: Some(image_id.to_owned()),
                priority: Some(price),
            });
        }
    }
    overrides
}

/// A machine that was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launched {
    pub(crate) instance_id: String,
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) subnet_id: Option<String>,
    pub(crate) image_id: Option<String>,
}

impl Launched {
    /// A machine that was launched before.
    pub(crate) fn of(instance: &Instance) -> Self {
        Self {
            instance_id: instance.instance_id.clone(),
            instance_type: instance.instance_type.clone().unwrap_or_default(),
            zone: machine::zone(instance).to_owned(),
            subnet_id: instance.subnet_id.clone(),
            image_id: instance.image_id.clone(),
        }
    }
}

/// Why one of the overrides was not launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) instance_type: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) subnet_id: Option<String>,
}

/// What came of a fleet. Some overrides may be refused although another was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) launched: Option<Launched>,
    pub(crate) refusals: Vec<Refusal>,
}

/// Reads the answer. `zone_of` knows the zones of the subnets that were asked for, for EC2 may answer with the subnet alone.
pub(crate) fn read(answer: &CreateFleetAnswer, zone_of: impl Fn(&str) -> Option<String>) -> Outcome {
    let zone = |used: &OverrideUsed| {
        used.availability_zone.clone().or_else(|| used.subnet_id.as_deref().and_then(&zone_of))
    };
    let launched = answer.instances.iter().find_map(|group| {
        let used = group
            .launch_template_and_overrides
            .as_ref()
            .and_then(|used| used.overrides.clone())
            .unwrap_or_default();
        Some(Launched {
            instance_id: group.instance_ids.first()?.clone(),
            instance_type: used
                .instance_type
                .clone()
                .or_else(|| group.instance_type.clone())
                .unwrap_or_default(),
            zone: zone(&used).unwrap_or_default(),
            subnet_id: used.subnet_id,
            image_id: used.image_id,
        })
    });
    let refusal = |error: &FleetError| {
        let used = error
            .launch_template_and_overrides
            .as_ref()
            .and_then(|used| used.overrides.clone())
            .unwrap_or_default();
        Refusal {
            code: error.error_code.clone(),
            message: error.error_message.clone(),
            zone: zone(&used),
            instance_type: used.instance_type,
            subnet_id: used.subnet_id,
        }
    };
    Outcome { launched, refusals: answer.errors.iter().map(refusal).collect() }
}

#[cfg(test)]
mod tests {
    use karpenter_aws_client::ec2::{FleetInstances, LaunchTemplateAndOverrides};

    use super::*;

    fn asked(purchase: Purchase, priced_by_overlay: bool) -> CreateFleet {
        let tags = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let instance_tags = BTreeMap::from([("karpenter.sh/nodeclaim".to_owned(), "c".to_owned())]);
        request(Order {
            token: "uid".into(),
            purchase,
            priced_by_overlay,
            context: Some("ctx".into()),
            configs: vec![("t".into(), vec![FleetOverride::default()])],
            tags: &tags,
            instance_tags: &instance_tags,
        })
    }

    #[test]
    fn each_way_to_buy_has_its_target_and_strategy() {
        let cases = [
            (Purchase::Spot, false, "spot", Some("price-capacity-optimized"), None),
            (Purchase::Spot, true, "spot", Some("capacity-optimized-prioritized"), None),
            (Purchase::OnDemand, false, "on-demand", None, Some("lowest-price")),
            (Purchase::OnDemand, true, "on-demand", None, Some("prioritized")),
            (Purchase::Reserved, false, "on-demand", None, Some("lowest-price")),
            (Purchase::Interruptible, false, "reserved-capacity", None, None),
            (Purchase::CapacityBlock, false, "capacity-block", None, None),
        ];
        for (purchase, overlay, target, spot, on_demand) in cases {
            let fleet = asked(purchase, overlay);
            let capacity = &fleet.target_capacity_specification;
            assert_eq!(capacity.default_target_capacity_type.as_deref(), Some(target));
            assert_eq!(capacity.total_target_capacity, 1);
            assert_eq!(fleet.spot_options.and_then(|options| options.allocation_strategy).as_deref(), spot);
            assert_eq!(
                fleet.on_demand_options.and_then(|options| options.allocation_strategy).as_deref(),
                on_demand
            );
            assert_eq!(fleet.reserved_capacity_options.is_some(), purchase == Purchase::Interruptible);
        }
    }

    #[test]
    fn a_fleet_is_instant_and_carries_token_context_and_tags() {
        let fleet = asked(Purchase::OnDemand, false);
        assert_eq!(fleet.fleet_type.as_deref(), Some("instant"));
        assert_eq!((fleet.client_token.as_deref(), fleet.context.as_deref()), (Some("uid"), Some("ctx")));
        let config = &fleet.launch_template_configs[0].launch_template_specification;
        assert_eq!(
            (config.launch_template_name.as_deref(), config.version.as_deref()),
            (Some("t"), Some("$Latest"))
        );
        let kinds: Vec<_> = fleet
            .tag_specifications
            .iter()
            .map(|tags| (tags.resource_type.as_str(), tags.tags.len()))
            .collect();
        assert_eq!(kinds, [("instance", 2), ("volume", 1), ("fleet", 1)]);
    }

    #[test]
    fn an_answer_tells_what_was_launched_and_what_was_refused() {
        let used = |instance_type: &str, zone: Option<&str>| {
            Some(LaunchTemplateAndOverrides {
                overrides: Some(OverrideUsed {
                    instance_type: Some(instance_type.into()),
                    subnet_id: Some("subnet-1".into()),
                    availability_zone: zone.map(str::to_owned),
                    image_id: Some("ami-1".into()),
                }),
                ..LaunchTemplateAndOverrides::default()
            })
        };
        let answer = CreateFleetAnswer {
            fleet_id: Some("fleet-1".into()),
            instances: vec![FleetInstances {
                instance_ids: vec!["i-1".into()],
                launch_template_and_overrides: used("m5.large", None),
                ..FleetInstances::default()
            }],
            errors: vec![FleetError {
                error_code: "InsufficientInstanceCapacity".into(),
                error_message: "none".into(),
                launch_template_and_overrides: used("c5.large", Some("us-west-2b")),
                ..FleetError::default()
            }],
        };
        let outcome = read(&answer, |subnet| (subnet == "subnet-1").then(|| "us-west-2a".to_owned()));
        let launched = outcome.launched.unwrap();
        assert_eq!((launched.instance_id.as_str(), launched.zone.as_str()), ("i-1", "us-west-2a"));
        assert_eq!(launched.instance_type, "m5.large");
        assert_eq!(outcome.refusals[0].zone.as_deref(), Some("us-west-2b"));
        assert_eq!(
            read(&CreateFleetAnswer::default(), |_| None),
            Outcome { launched: None, refusals: vec![] }
        );
    }
}
