//! The instance types there are when nobody gives a list: upstream's, by upstream's rule.

use std::sync::Arc;

use karpenter_api::labels::{
    ARCH, ARCH_AMD64, ARCH_ARM64, CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT, INSTANCE_TYPE,
    OS, ZONE, kwok,
};
use karpenter_core::catalog::{InstanceType, Offering, Overlaid};
use karpenter_core::requirements::{RequirementSet, ValueSet};
use karpenter_quantity::{Quantity, ResourceList};

const CPUS: [i64; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
/// Gibibytes of memory per processor, and the letter that stands for it in the name.
const SHAPES: [(i64, char); 3] = [(2, 'c'), (4, 's'), (8, 'm')];
const SYSTEMS: [&str; 2] = ["linux", "windows"];
const ARCHITECTURES: [&str; 2] = [ARCH_AMD64, ARCH_ARM64];
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
/// What a spot machine costs of its list price.
const SPOT_SHARE: f64 = 0.7;
const PODS_MOST: i64 = 1024;

/// Returns the 144 generated instance types.
pub fn generated() -> Vec<InstanceType> {
    let places = places();
    let mut types = Vec::new();
    for cpu in CPUS {
        for shape in SHAPES {
            for system in SYSTEMS {
                for architecture in ARCHITECTURES {
                    types.push(generate(cpu, shape, (system, architecture), &places));
                }
            }
        }
    }
    types
}

/// A zone and capacity type that every instance type is offered in, and what it costs there of the list price.
type Place = (Arc<RequirementSet>, f64);

fn places() -> Vec<Place> {
    let of = |zone, capacity_type| {
        let mut requirements = RequirementSet::default();
        requirements.add(ZONE.into(), &ValueSet::only([zone]));
        requirements.add(CAPACITY_TYPE.into(), &ValueSet::only([capacity_type]));
        Arc::new(requirements)
    };
    [(CAPACITY_TYPE_SPOT, SPOT_SHARE), (CAPACITY_TYPE_ON_DEMAND, 1.0)]
        .into_iter()
        .flat_map(|(capacity_type, share)| ZONES.map(|zone| (of(zone, capacity_type), share)))
        .collect()
}

fn generate(
    cpu: i64,
    (factor, letter): (i64, char),
    (system, architecture): (&str, &str),
    places: &[Place],
) -> InstanceType {
    let memory = cpu * factor;
    let capacity = [
        ("cpu", cpu.to_string()),
        ("memory", format!("{memory}Gi")),
        ("pods", (cpu * 16).min(PODS_MOST).to_string()),
        ("ephemeral-storage", "20Gi".to_owned()),
    ];
    let price = 0.025 * cpu as f64 + 0.001 * (memory << 30) as f64 / 1e9;
    let offerings = places.iter().map(|(place, share)| offering(place, price * share)).collect();
    let description = Description {
        name: format!("{letter}-{cpu}x-{architecture}-{system}"),
        architecture: architecture.to_owned(),
        systems: vec![system.to_owned()],
        capacity: capacity
            .into_iter()
            .map(|(name, text)| (name, text.parse().expect("generated quantities are well formed")))
            .collect(),
        offerings,
    };
    describe(description)
}

fn offering(place: &Arc<RequirementSet>, price: f64) -> Offering {
    Offering {
        requirements: Arc::clone(place),
        price,
        available: true,
        reservation: None,
        capacity_override: None,
        overhead_override: None,
    }
}

/// What is said about an instance type; the rest follows.
pub(crate) struct Description {
    pub(crate) name: String,
    pub(crate) architecture: String,
    pub(crate) systems: Vec<String>,
    pub(crate) capacity: ResourceList,
    pub(crate) offerings: Vec<Offering>,
}

/// An instance type with all its labels.
pub(crate) fn describe(description: Description) -> InstanceType {
    let Description { name, architecture, systems, capacity, offerings } = description;
    let quantity = |name: &str| capacity.get(name).to_string();
    let cpu = quantity("cpu");
    let mut requirements = RequirementSet::default();
    let mut label = |key: &str, values: Vec<Arc<str>>| requirements.add(key.into(), &ValueSet::only(values));
    label(INSTANCE_TYPE, vec![name.as_str().into()]);
    label(ARCH, vec![architecture.as_str().into()]);
    label(OS, systems.iter().map(|system| system.as_str().into()).collect());
    label(ZONE, distinct(&offerings, Offering::zone));
    label(CAPACITY_TYPE, distinct(&offerings, Offering::capacity_type));
    label(kwok::INSTANCE_SIZE, vec![size(&name, &cpu).into()]);
    label(kwok::INSTANCE_FAMILY, vec![family(&name).into()]);
    label(kwok::INSTANCE_CPU, vec![cpu.as_str().into()]);
    label(kwok::INSTANCE_MEMORY, vec![quantity("memory").into()]);
    let overhead = [("cpu", "100m"), ("memory", "10Mi")];
    InstanceType {
        name: name.into(),
        requirements,
        offerings,
        capacity,
        overhead: overhead
            .into_iter()
            .map(|(name, text)| (name, text.parse::<Quantity>().expect("a constant")))
            .collect(),
        volume_limits: std::collections::BTreeMap::new(),
        overlaid: Overlaid::default(),
    }
}

fn distinct(offerings: &[Offering], pick: fn(&Offering) -> Option<&Arc<str>>) -> Vec<Arc<str>> {
    let mut values: Vec<Arc<str>> = offerings.iter().filter_map(pick).cloned().collect();
    values.sort();
    values.dedup();
    values
}

/// The size where the name is `family.size` with a size that AWS uses, else the number of processors.
fn size<'a>(name: &'a str, cpu: &'a str) -> &'a str {
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_size = |text: &str| {
        let multiple = text
            .strip_suffix("xlarge")
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        multiple || matches!(text, "nano" | "micro" | "small" | "medium" | "large" | "metal")
    };
    match name.split_once('.') {
        Some((family, size)) if word(family) && is_size(size) => size,
        _ => cpu,
    }
}

/// What stands before the first dot or dash, else the first letter.
fn family(name: &str) -> &str {
    match name.find(['.', '-']) {
        Some(end) => &name[..end],
        None => name.char_indices().nth(1).map_or(name, |(end, _)| &name[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_catalogue_is_upstreams() {
        let types = generated();
        assert_eq!(types.len(), 144);
        assert_eq!(types.iter().map(|found| found.offerings.len()).sum::<usize>(), 1152);
        let smallest = types.iter().find(|found| &*found.name == "c-1x-amd64-linux").unwrap();
        let price = |wanted: &str| {
            let offering = smallest
                .offerings
                .iter()
                .find(|offering| offering.capacity_type().is_some_and(|found| &**found == wanted));
            offering.unwrap().price
        };
        assert!((price("on-demand") - 0.027_147_483_648).abs() < 1e-15);
        assert!((price("spot") - 0.019_003_238_553_6).abs() < 1e-15);
        assert_eq!(smallest.allocatable().get("cpu").to_string(), "900m");
    }

    #[test]
    fn sizes_and_families_follow_the_names_of_the_clouds() {
        for (name, expected) in [
            ("m5.large", ("large", "m5")),
            ("m5.12xlarge", ("12xlarge", "m5")),
            ("ecs.g7.large", ("4", "ecs")),
            ("c-4x-amd64-linux", ("4", "c")),
            ("n2-standard-4", ("4", "n2")),
            ("Standard", ("4", "S")),
        ] {
            assert_eq!((size(name, "4"), family(name)), expected, "{name}");
        }
    }
}
