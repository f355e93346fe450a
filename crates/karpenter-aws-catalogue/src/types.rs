//! The types of a region with everything that no class can change: facts, zones, labels.
//!
//! It is made once for each answer of EC2; every class builds on the same labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::labels::{ARCH, ARCH_AMD64, ARCH_ARM64, INSTANCE_TYPE, REGION, aws};
use karpenter_core::requirements::{RequirementSet, ValueSet};

use crate::embedded::Embedded;
use crate::facts::{TypeFacts, VpcLimits};

/// What a region sells.
#[derive(Debug)]
pub struct RegionTypes {
    region: Arc<str>,
    types: Vec<RegionType>,
}

/// One type in a region.
#[derive(Debug)]
pub struct RegionType {
    /// What EC2 says.
    pub facts: Arc<TypeFacts>,
    /// The zones that have it, by name.
    pub zones: Vec<Arc<str>>,
    /// What the VPC makes of it.
    pub(crate) vpc_limits: VpcLimits,
    /// Labels that do not depend on the class.
    pub(crate) labels: RequirementSet,
}

impl RegionTypes {
    /// Joins types with the zones that have them. Types that no zone has, or that Karpenter has no use for, are left out.
    pub fn new(
        region: &str,
        facts: impl IntoIterator<Item = Arc<TypeFacts>>,
        offerings: impl IntoIterator<Item = (Arc<str>, Arc<str>)>,
    ) -> Self {
        let mut zones: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
        for (instance_type, zone) in offerings {
            zones.entry(instance_type).or_default().push(zone);
        }
        let mut words = Words::default();
        let mut types: Vec<RegionType> = facts
            .into_iter()
            .filter(|facts| facts.is_wanted())
            .filter_map(|facts| {
                let mut zones: Vec<_> =
                    zones.remove(&facts.name)?.iter().map(|zone| words.word(zone)).collect();
                zones.sort();
                zones.dedup();
                let vpc_limits = Embedded::get().vpc_limits(&facts.name).unwrap_or_default();
                let labels = labels(&facts, region, &mut words);
                Some(RegionType { facts, zones, vpc_limits, labels })
            })
            .collect();
        types.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        Self { region: region.into(), types }
    }

    /// What the compiled-in catalogue says of a region.
    pub fn embedded(region: &str) -> Option<Self> {
        let embedded = Embedded::get();
        let offerings = embedded.region(region)?;
        let offerings = offerings.offerings().map(|(name, zone)| (name.clone(), zone.name.clone()));
        Some(Self::new(region, embedded.types().iter().cloned(), offerings))
    }

    /// The region's name.
    pub fn region(&self) -> &Arc<str> {
        &self.region
    }

    /// The types, by name.
    pub fn types(&self) -> &[RegionType] {
        &self.types
    }

    /// One type.
    pub fn get(&self, instance_type: &str) -> Option<&RegionType> {
        let found = self.types.binary_search_by(|one| (*one.facts.name).cmp(instance_type));
        found.ok().map(|index| &self.types[index])
    }
}

/// Keys and values of labels, each text once: a thousand types have a handful of them.
#[derive(Default)]
struct Words(BTreeMap<Arc<str>, Arc<str>>);

impl Words {
    fn word(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let word: Arc<str> = text.into();
        self.0.insert(word.clone(), word.clone());
        word
    }
}

/// The architecture as Kubernetes calls it.
pub(crate) fn architecture(facts: &TypeFacts) -> Option<&'static str> {
    facts.architectures.iter().find_map(|name| match &**name {
        "x86_64" => Some(ARCH_AMD64),
        "arm64" => Some(ARCH_ARM64),
        _ => None,
    })
}

/// Labels that do not depend on the class. One that a type does not have must not be asked for.
fn labels(facts: &TypeFacts, region: &str, words: &mut Words) -> RequirementSet {
    let mut labels = RequirementSet::default();
    let mut add = |key: &str, value: Option<String>| {
        let value = value.map(|value| words.word(&value));
        let values = value.map_or_else(ValueSet::does_not_exist, |value| ValueSet::only([value]));
        labels.add(words.word(key), &values);
    };
    add(INSTANCE_TYPE, Some(facts.name.to_string()));
    add(ARCH, architecture(facts).map(str::to_owned));
    add(REGION, Some(region.to_owned()));
    name_labels(facts, &mut add);
    machine_labels(facts, &mut add);
    accelerator_labels(facts, &mut add);
    let tenancies: Vec<_> = aws::TENANCIES.iter().map(|value| words.word(value)).collect();
    labels.add(words.word(aws::INSTANCE_TENANCY), &ValueSet::only(tenancies));
    labels
}

/// Takes a label and its value, if the type has one.
type Add<'a> = dyn FnMut(&str, Option<String>) + 'a;

/// What the name says: `c7gn.2xlarge`, `u-6tb1.metal`, `m7i-flex.large`.
fn name_labels(facts: &TypeFacts, add: &mut Add<'_>) {
    let (category, generation) = category_and_generation(&facts.name).unzip();
    let owned = |text: &str| Some(text.to_owned());
    add(aws::INSTANCE_CATEGORY, category.and_then(owned));
    add(aws::INSTANCE_GENERATION, generation.and_then(owned));
    let parts = facts.name.split_once('.').filter(|(_, size)| !size.contains('.'));
    add(aws::INSTANCE_FAMILY, parts.and_then(|(family, _)| owned(family)));
    add(aws::INSTANCE_SIZE, parts.and_then(|(_, size)| owned(size)));
    add(aws::INSTANCE_CAPABILITY_FLEX, Some(facts.family().contains("-flex").to_string()));
}

/// Leading letters, and the digits that follow, after a size in terabytes if there is one (`u-6tb1`).
fn category_and_generation(name: &str) -> Option<(&str, &str)> {
    let letters = name.bytes().take_while(u8::is_ascii_lowercase).count();
    let (category, mut rest) = name.split_at(letters);
    if let Some(size) = rest.strip_prefix('-') {
        let digits = size.bytes().take_while(u8::is_ascii_digit).count();
        rest = size[digits..].strip_prefix("tb").filter(|_| digits > 0)?;
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (letters > 0 && digits > 0 && rest.contains('.')).then(|| (category, &rest[..digits]))
}

fn machine_labels(facts: &TypeFacts, add: &mut Add<'_>) {
    add(aws::INSTANCE_CPU, Some(facts.vcpus.to_string()));
    add(aws::INSTANCE_CPU_MANUFACTURER, facts.cpu_manufacturer.as_deref().map(kebab));
    add(aws::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, facts.clock_mhz.map(|mhz| mhz.to_string()));
    add(aws::INSTANCE_MEMORY, Some(facts.memory_mib.to_string()));
    let optimized = &*facts.ebs.optimized_support == "default";
    let ebs = facts.ebs.max_bandwidth_mbps.filter(|_| optimized);
    add(aws::INSTANCE_EBS_BANDWIDTH, ebs.map(|mbps| mbps.to_string()));
    add(aws::INSTANCE_NETWORK_BANDWIDTH, bandwidth(facts).map(|mbps| mbps.to_string()));
    let nvme = facts.instance_store.as_ref().filter(|store| &*store.nvme_support != "unsupported");
    add(aws::INSTANCE_LOCAL_NVME, nvme.map(|store| store.total_gb.to_string()));
    add(aws::INSTANCE_HYPERVISOR, Some(facts.hypervisor.as_deref().unwrap_or_default().to_owned()));
    let encrypted = facts.network.encryption_in_transit;
    add(aws::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, Some(encrypted.to_string()));
}

/// From the table, and for types that are younger than it from the cards. Types EC2 is vague about (`Moderate`) have none.
fn bandwidth(facts: &TypeFacts) -> Option<u32> {
    let told = || {
        let known = facts.network.performance.ends_with("Gigabit");
        let total = facts.network.cards.iter().map(|card| card.baseline_mbps).sum();
        (known && total > 0).then_some(total)
    };
    Embedded::get().bandwidth_mbps(&facts.name).or_else(told)
}

/// Labels of GPUs and other accelerators, where there is exactly one kind.
fn accelerator_labels(facts: &TypeFacts, add: &mut Add<'_>) {
    let gpu = if let [gpu] = &*facts.gpus { Some(gpu) } else { None };
    add(aws::INSTANCE_GPU_NAME, gpu.map(|gpu| kebab(&gpu.name)));
    add(aws::INSTANCE_GPU_MANUFACTURER, gpu.map(|gpu| kebab(&gpu.manufacturer)));
    add(aws::INSTANCE_GPU_COUNT, gpu.map(|gpu| gpu.count.to_string()));
    add(aws::INSTANCE_GPU_MEMORY, gpu.map(|gpu| gpu.memory_mib.to_string()));
    let accelerator = match (&*facts.neuron_devices, &*facts.inference_accelerators) {
        ([device], _) => Some((kebab(&device.name), "aws".to_owned(), device.count)),
        ([], [one]) => Some((kebab(&one.name), kebab(&one.manufacturer), one.count)),
        _ => None,
    };
    let (name, manufacturer, count) = match accelerator {
        Some((name, manufacturer, count)) => (Some(name), Some(manufacturer), Some(count.to_string())),
        None => (None, None, None),
    };
    add(aws::INSTANCE_ACCELERATOR_NAME, name);
    add(aws::INSTANCE_ACCELERATOR_MANUFACTURER, manufacturer);
    add(aws::INSTANCE_ACCELERATOR_COUNT, count);
}

/// `RTX PRO 4500` as `rtx-pro-4500`.
fn kebab(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}
