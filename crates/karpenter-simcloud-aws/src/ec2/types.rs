//! What EC2 sells here: instance types, where they are offered, and what spot instances cost.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_aws_catalogue::{Embedded, TypeFacts};

use super::discovery::date;
use super::dry_run;
use super::filters::{Described, Filters};
use crate::answer::Outcome;
use crate::instances::{CapacityType, offering};
use crate::wire::page::page;
use crate::wire::refusal::Refusal;
use crate::wire::xml::Xml;
use crate::world::{Call, World};

/// The most types EC2 describes at once.
const TYPES_PAGE: usize = 100;
/// The most rows of other lists.
const ROWS_PAGE: usize = 1000;

static NO_TAGS: BTreeMap<String, String> = BTreeMap::new();

struct Sold<'a>(&'a TypeFacts);

impl Described for Sold<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        let facts = self.0;
        let all = |texts: &[std::sync::Arc<str>]| texts.iter().map(ToString::to_string).collect();
        Some(match filter {
            "instance-type" => vec![facts.name.to_string()],
            "supported-virtualization-type" => all(&facts.virtualization_types),
            "processor-info.supported-architecture" => all(&facts.architectures),
            "supported-usage-class" => all(&facts.usage_classes),
            "bare-metal" => vec![facts.bare_metal.to_string()],
            "current-generation" => vec![facts.current_generation.to_string()],
            "burstable-performance-supported" => vec![facts.burstable.to_string()],
            "hypervisor" => facts.hypervisor.iter().map(ToString::to_string).collect(),
            "vcpu-info.default-vcpus" => vec![facts.vcpus.to_string()],
            "memory-info.size-in-mib" => vec![facts.memory_mib.to_string()],
            "instance-storage-supported" => vec![facts.instance_store.is_some().to_string()],
            _ => return None,
        })
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &NO_TAGS
    }
}

pub(super) fn describe(world: &World, call: &Call<'_>) -> Outcome {
    let sales = world.sales();
    let sold = |facts: &&TypeFacts| sales.zones().iter().any(|zone| sales.sells(&facts.name, &zone.name));
    let wanted = call.form.texts("InstanceType");
    let types: Vec<Sold<'_>> = Embedded::get()
        .types()
        .iter()
        .map(|facts| &**facts)
        .filter(|facts| wanted.is_empty() || wanted.iter().any(|wanted| **wanted == *facts.name))
        .filter(sold)
        .map(Sold)
        .collect();
    if let Some(missing) = wanted.iter().find(|wanted| !types.iter().any(|sold| *sold.0.name == ***wanted)) {
        let message = format!("The following supplied instance types do not exist: [{missing}]");
        return Err(Refusal::new("InvalidInstanceType", message));
    }
    let found = Filters::read(call).select(&types)?;
    dry_run(call)?;
    let limit: Option<usize> = call.form.number("MaxResults");
    if limit.is_some_and(|limit| !(5..=TYPES_PAGE).contains(&limit)) {
        let message = "Value for parameter maxResults is invalid. Expecting a value between 5 and 100.";
        return Err(Refusal::new("InvalidParameterValue", message));
    }
    let limit = limit.unwrap_or(TYPES_PAGE);
    let page = page(found, |sold| sold.0.name.to_string(), Some(limit), call.form.text("NextToken"))?;
    let mut xml = Xml::new();
    xml.items("instanceTypeSet", page.items, |xml, sold| write(xml, sold.0));
    xml.maybe("nextToken", page.next);
    Ok(xml.into())
}

fn write(xml: &mut Xml, facts: &TypeFacts) {
    xml.leaf("instanceType", &facts.name)
        .leaf("currentGeneration", facts.current_generation)
        .leaf("freeTierEligible", false)
        .texts("supportedUsageClasses", &facts.usage_classes)
        .texts("supportedRootDeviceTypes", ["ebs"])
        .texts("supportedVirtualizationTypes", &facts.virtualization_types)
        .leaf("bareMetal", facts.bare_metal)
        .maybe("hypervisor", facts.hypervisor.as_ref());
    xml.node("processorInfo", |xml| {
        xml.texts("supportedArchitectures", &facts.architectures)
            .maybe("sustainedClockSpeedInGhz", facts.clock_mhz.map(|mhz| f64::from(mhz) / 1000.0));
        if !facts.processor_features.is_empty() {
            xml.texts("supportedFeatures", &facts.processor_features);
        }
        xml.maybe("manufacturer", facts.cpu_manufacturer.as_ref());
    });
    xml.node("vCpuInfo", |xml| {
        xml.leaf("defaultVCpus", facts.vcpus)
            .maybe("defaultCores", facts.cores)
            .maybe("defaultThreadsPerCore", facts.threads_per_core);
    });
    xml.node("memoryInfo", |xml| {
        xml.leaf("sizeInMiB", facts.memory_mib);
    });
    xml.leaf("instanceStorageSupported", facts.instance_store.is_some());
    if let Some(store) = &facts.instance_store {
        xml.node("instanceStorageInfo", |xml| {
            xml.leaf("totalSizeInGB", store.total_gb).leaf("nvmeSupport", &store.nvme_support);
        });
    }
    xml.node("ebsInfo", |xml| {
        xml.leaf("ebsOptimizedSupport", &facts.ebs.optimized_support).leaf("encryptionSupport", "supported");
        if let Some(bandwidth) = facts.ebs.max_bandwidth_mbps {
            xml.node("ebsOptimizedInfo", |xml| {
                xml.leaf("maximumBandwidthInMbps", bandwidth);
            });
        }
        xml.maybe("maximumEbsAttachments", facts.ebs.max_attachments)
            .maybe("attachmentLimitType", facts.ebs.attachment_limit_type.as_ref());
    });
    write_network(xml, facts);
    write_accelerators(xml, facts);
    xml.node("placementGroupInfo", |xml| {
        xml.texts("supportedStrategies", &facts.placement_strategies);
    });
    xml.leaf("burstablePerformanceSupported", facts.burstable)
        .leaf("nitroEnclavesSupport", if facts.nitro_enclaves { "supported" } else { "unsupported" });
}

fn write_network(xml: &mut Xml, facts: &TypeFacts) {
    let network = &facts.network;
    let gigabits = |megabits: u32| f64::from(megabits) / 1000.0;
    xml.node("networkInfo", |xml| {
        xml.leaf("networkPerformance", &network.performance)
            .leaf("maximumNetworkInterfaces", network.max_interfaces)
            .leaf("maximumNetworkCards", network.cards.len())
            .leaf("defaultNetworkCardIndex", network.default_card)
            .items("networkCards", &network.cards, |xml, card| {
                xml.leaf("networkCardIndex", card.index)
                    .leaf("networkPerformance", &network.performance)
                    .leaf("maximumNetworkInterfaces", card.max_interfaces)
                    .leaf("baselineBandwidthInGbps", gigabits(card.baseline_mbps))
                    .leaf("peakBandwidthInGbps", gigabits(card.peak_mbps));
            })
            .leaf("ipv4AddressesPerInterface", network.ipv4_per_interface)
            .leaf("ipv6AddressesPerInterface", network.ipv6_per_interface)
            .leaf("ipv6Supported", network.ipv6)
            .leaf("enaSupport", &network.ena_support)
            .leaf("efaSupported", network.max_efa_interfaces.is_some());
        if let Some(most) = network.max_efa_interfaces {
            xml.node("efaInfo", |xml| {
                xml.leaf("maximumEfaInterfaces", most);
            });
        }
        xml.leaf("encryptionInTransitSupported", network.encryption_in_transit);
    });
}

fn write_accelerators(xml: &mut Xml, facts: &TypeFacts) {
    let memory = |xml: &mut Xml, mib: u64| {
        xml.node("memoryInfo", |xml| {
            xml.leaf("sizeInMiB", mib);
        });
    };
    if !facts.gpus.is_empty() {
        xml.node("gpuInfo", |xml| {
            xml.items("gpus", &facts.gpus, |xml, gpu| {
                xml.leaf("name", &gpu.name).leaf("manufacturer", &gpu.manufacturer).leaf("count", gpu.count);
                memory(xml, gpu.memory_mib);
            });
            let total: u64 = facts.gpus.iter().map(|gpu| gpu.memory_mib * u64::from(gpu.count)).sum();
            xml.leaf("totalGpuMemoryInMiB", total);
        });
    }
    if !facts.inference_accelerators.is_empty() {
        xml.node("inferenceAcceleratorInfo", |xml| {
            xml.items("accelerators", &facts.inference_accelerators, |xml, device| {
                xml.leaf("count", device.count)
                    .leaf("name", &device.name)
                    .leaf("manufacturer", &device.manufacturer);
            });
        });
    }
    if !facts.neuron_devices.is_empty() {
        xml.node("neuronInfo", |xml| {
            xml.items("neuronDevices", &facts.neuron_devices, |xml, device| {
                xml.leaf("count", device.count).leaf("name", &device.name).node("coreInfo", |xml| {
                    xml.leaf("count", device.cores_per_device);
                });
                memory(xml, device.memory_mib);
            });
        });
    }
}

/// A type in a place.
struct Offered {
    instance_type: String,
    location: String,
}

impl Described for Offered {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "instance-type" => Some(vec![self.instance_type.clone()]),
            "location" => Some(vec![self.location.clone()]),
            _ => None,
        }
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &NO_TAGS
    }
}

pub(super) fn offerings(world: &World, call: &Call<'_>) -> Outcome {
    let kind = call.form.text("LocationType").unwrap_or("region");
    let offered = |instance_type: &str, zone_name: &str, zone_id: &str| Offered {
        instance_type: instance_type.to_owned(),
        location: match kind {
            "availability-zone" => zone_name.to_owned(),
            "availability-zone-id" => zone_id.to_owned(),
            _ => world.description.region.clone(),
        },
    };
    let sold = world.sales().offerings().map(|(name, zone)| offered(name, &zone.name, &zone.id));
    let local = world.description.local_zones.iter().flat_map(|local| {
        local.instance_types.iter().map(|name| offered(name, &local.zone.name, &local.zone.id))
    });
    let mut offered: Vec<Offered> = sold.chain(local).collect();
    let key = |offered: &Offered| format!("{}/{}", offered.instance_type, offered.location);
    offered.sort_by_key(key);
    offered.dedup_by_key(|offered| key(offered));
    let found = Filters::read(call).select(&offered)?;
    dry_run(call)?;
    let limit = call.form.number("MaxResults").unwrap_or(ROWS_PAGE);
    let page = page(found, |offered| key(offered), Some(limit), call.form.text("NextToken"))?;
    let mut xml = Xml::new();
    xml.items("instanceTypeOfferingSet", page.items, |xml, offered| {
        xml.leaf("instanceType", &offered.instance_type)
            .leaf("locationType", kind)
            .leaf("location", &offered.location);
    });
    xml.maybe("nextToken", page.next);
    Ok(xml.into())
}

/// A spot price.
struct Quoted {
    instance_type: String,
    zone: String,
    product: &'static str,
    price: f64,
}

impl Described for Quoted {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        Some(vec![match filter {
            "instance-type" => self.instance_type.clone(),
            "availability-zone" => self.zone.clone(),
            "product-description" => self.product.to_owned(),
            _ => return None,
        }])
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &NO_TAGS
    }
}

/// The prices in force; the past is not kept, so whatever time is asked for, these are the answer.
pub(super) fn spot_prices(world: &World, call: &Call<'_>) -> Outcome {
    let products = call.form.texts("ProductDescription");
    let types = call.form.texts("InstanceType");
    let zone = call.form.text("AvailabilityZone");
    let mut quoted = Vec::new();
    for (instance_type, place, list) in world.sales().spot_prices() {
        if !(types.is_empty() || types.iter().any(|wanted| **wanted == **instance_type)) {
            continue;
        }
        if zone.is_some_and(|zone| *zone != *place.name) {
            continue;
        }
        let key = offering(instance_type, &place.name, CapacityType::Spot);
        let price = world.market.price(&key, list, call.now);
        for product in ["Linux/UNIX", "Windows"] {
            // A product that was asked for may be followed by what network it is in.
            let asked = |wanted: &String| wanted.strip_suffix(" (Amazon VPC)").unwrap_or(wanted) == product;
            if products.is_empty() || products.iter().any(asked) {
                let (instance_type, zone) = (instance_type.to_string(), place.name.to_string());
                quoted.push(Quoted { instance_type, zone, product, price });
            }
        }
    }
    let key = |quoted: &Quoted| format!("{}/{}/{}", quoted.instance_type, quoted.zone, quoted.product);
    quoted.sort_by_key(key);
    let found = Filters::read(call).select(&quoted)?;
    dry_run(call)?;
    let limit = call.form.number("MaxResults").unwrap_or(ROWS_PAGE);
    let page = page(found, |quoted| key(quoted), Some(limit), call.form.text("NextToken"))?;
    let since = hour(call.now);
    let mut xml = Xml::new();
    xml.items("spotPriceHistorySet", page.items, |xml, quoted| {
        xml.leaf("instanceType", &quoted.instance_type)
            .leaf("productDescription", quoted.product)
            .leaf("spotPrice", format!("{:.6}", quoted.price))
            .leaf("timestamp", date(since))
            .leaf("availabilityZone", &quoted.zone);
    });
    xml.leaf("nextToken", page.next.unwrap_or_default());
    Ok(xml.into())
}

/// Prices are as of the full hour.
fn hour(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second().div_euclid(3600) * 3600).unwrap_or(now)
}
