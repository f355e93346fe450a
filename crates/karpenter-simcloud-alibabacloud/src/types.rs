//! The instance types that the simulated ECS sells: a table of our own.
//!
//! Sizes follow the rule of the families (large = 2 vCPU, xlarge = 4, Nxlarge = 4N). **Prices, network interfaces and bandwidths are
//! approximate**: they come from the formulas below, are of the right order and rank types as the real ones do, and nobody should pay
//! by them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is known of an instance type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceType {
    /// Its name, such as `ecs.g7.large`.
    pub id: String,
    /// Its family, such as `ecs.g7`; without the variant that some names carry.
    pub family: String,
    /// `EnterpriseLevel`, `EntryLevel` or `CreditEntryLevel`.
    pub level: String,
    /// What the family is for.
    pub category: String,
    /// `X86` or `ARM`.
    pub architecture: String,
    /// vCPUs.
    pub cpus: u32,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// The processor.
    pub processor: String,
    /// Its clock in GHz.
    pub clock: f64,
    /// How many GPUs.
    pub gpus: u32,
    /// Which GPU, or nothing.
    pub gpu: String,
    /// Memory of each GPU in GiB.
    pub gpu_memory_gib: f64,
    /// Network interfaces.
    pub enis: u32,
    /// IPv4 addresses of each.
    pub eni_addresses: u32,
    /// Interfaces including members of trunks.
    pub enis_total: u32,
    /// Whether interfaces can be trunks.
    pub trunk: bool,
    /// Bandwidth in kbit/s.
    pub bandwidth: u64,
    /// Local disks.
    pub local_disks: u32,
    /// Size of each in GiB.
    pub local_disk_gib: u32,
    /// The categories its disks can have.
    pub disk_categories: Vec<String>,
    /// List price per hour in CNY, approximate.
    pub price: f64,
}

/// One family, from which its types are made.
struct Family {
    name: &'static str,
    /// Parts of the type name behind the family, with GiB of memory per vCPU.
    variants: &'static [(&'static str, f64)],
    sizes: &'static [&'static str],
    arm: bool,
    /// Price relative to what cores and memory cost in the seventh generation.
    factor: f64,
    clock: f64,
    processor: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Enterprise,
    Entry,
    Burstable,
    BareMetal,
    Local { disks: u32, gib: u32 },
}

const SIZES: &[&str] =
    &["large", "xlarge", "2xlarge", "3xlarge", "4xlarge", "6xlarge", "8xlarge", "16xlarge", "32xlarge"];
const OLDER: &[&str] =
    &["large", "xlarge", "2xlarge", "3xlarge", "4xlarge", "6xlarge", "8xlarge", "16xlarge"];
const ARM_SIZES: &[&str] =
    &["small", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge", "32xlarge"];
const SMALL: &[&str] = &["large", "xlarge", "2xlarge", "4xlarge"];
const METAL: &[&str] = &["32xlarge"];

const SKYLAKE: &str = "Intel Xeon(Skylake) Platinum 8163";
const CASCADE: &str = "Intel Xeon(Cascade Lake) Platinum 8269CY";
const ICE: &str = "Intel Xeon(Ice Lake) Platinum 8369B";
const SAPPHIRE: &str = "Intel Xeon(Sapphire Rapids) Platinum 8475B";
const MILAN: &str = "AMD EPYC(Milan) 7T83";
const GENOA: &str = "AMD EPYC(Genoa) 9T24";
const ALTRA: &str = "Ampere(R) Altra(R)";
const YITIAN: &str = "Alibaba Yitian 710";

const fn enterprise(
    name: &'static str,
    ratio: &'static [(&'static str, f64)],
    factor: f64,
    clock: f64,
    processor: &'static str,
) -> Family {
    Family {
        name,
        variants: ratio,
        sizes: SIZES,
        arm: false,
        factor,
        clock,
        processor,
        kind: Kind::Enterprise,
    }
}

const fn older(mut family: Family) -> Family {
    family.sizes = OLDER;
    family
}

const fn arm(mut family: Family) -> Family {
    family.sizes = ARM_SIZES;
    family.arm = true;
    family
}

const fn metal(mut family: Family) -> Family {
    family.sizes = METAL;
    family.kind = Kind::BareMetal;
    family
}

const C: &[(&str, f64)] = &[("", 2.0)];
const G: &[(&str, f64)] = &[("", 4.0)];
const R: &[(&str, f64)] = &[("", 8.0)];

const FAMILIES: &[Family] = &[
    older(enterprise("g5", G, 0.96, 2.5, SKYLAKE)),
    older(enterprise("c5", C, 0.96, 2.5, SKYLAKE)),
    older(enterprise("r5", R, 0.96, 2.5, SKYLAKE)),
    older(enterprise("g6", G, 0.95, 2.5, CASCADE)),
    older(enterprise("c6", C, 0.95, 2.5, CASCADE)),
    older(enterprise("r6", R, 0.95, 2.5, CASCADE)),
    older(enterprise("g6e", G, 1.08, 2.5, CASCADE)),
    older(enterprise("c6e", C, 1.08, 2.5, CASCADE)),
    older(enterprise("r6e", R, 1.08, 2.5, CASCADE)),
    enterprise("g7", G, 1.0, 2.7, ICE),
    enterprise("c7", C, 1.0, 2.7, ICE),
    enterprise("r7", R, 1.0, 2.7, ICE),
    enterprise("g7a", G, 0.9, 2.55, MILAN),
    enterprise("c7a", C, 0.9, 2.55, MILAN),
    enterprise("r7a", R, 0.9, 2.55, MILAN),
    enterprise("g8i", G, 1.06, 2.7, SAPPHIRE),
    enterprise("c8i", C, 1.06, 2.7, SAPPHIRE),
    enterprise("r8i", R, 1.06, 2.7, SAPPHIRE),
    enterprise("g8a", G, 0.94, 2.7, GENOA),
    enterprise("c8a", C, 0.94, 2.7, GENOA),
    enterprise("r8a", R, 0.94, 2.7, GENOA),
    enterprise("hfg7", G, 1.18, 3.3, "Intel Xeon(Cooper Lake) Platinum 8369HC"),
    enterprise("hfc7", C, 1.18, 3.3, "Intel Xeon(Cooper Lake) Platinum 8369HC"),
    enterprise("hfr7", R, 1.18, 3.3, "Intel Xeon(Cooper Lake) Platinum 8369HC"),
    arm(enterprise("g6r", G, 0.78, 2.8, ALTRA)),
    arm(enterprise("c6r", C, 0.78, 2.8, ALTRA)),
    arm(enterprise("g8y", G, 0.82, 2.75, YITIAN)),
    arm(enterprise("c8y", C, 0.82, 2.75, YITIAN)),
    arm(enterprise("r8y", R, 0.82, 2.75, YITIAN)),
    metal(enterprise("ebmg6", G, 1.0, 2.5, CASCADE)),
    metal(enterprise("ebmc6", C, 1.0, 2.5, CASCADE)),
    metal(enterprise("ebmr6", R, 1.0, 2.5, CASCADE)),
    metal(enterprise("ebmg7", G, 1.05, 2.7, ICE)),
    metal(enterprise("ebmc7", C, 1.05, 2.7, ICE)),
    metal(enterprise("ebmr7", R, 1.05, 2.7, ICE)),
    Family {
        name: "u1",
        variants: &[("-c1m1", 1.0), ("-c1m2", 2.0), ("-c1m4", 4.0), ("-c1m8", 8.0)],
        sizes: &["large", "xlarge", "2xlarge", "4xlarge", "8xlarge"],
        arm: false,
        factor: 0.75,
        clock: 2.5,
        processor: "Intel(R) Xeon(R) Platinum",
        kind: Kind::Enterprise,
    },
    Family {
        name: "e",
        variants: &[("-c1m1", 1.0), ("-c1m2", 2.0), ("-c1m4", 4.0)],
        sizes: &["large", "xlarge", "2xlarge"],
        arm: false,
        factor: 0.5,
        clock: 2.5,
        processor: "Intel(R) Xeon(R) Platinum",
        kind: Kind::Entry,
    },
    Family {
        name: "t5",
        variants: &[("-c1m1", 1.0), ("-c1m2", 2.0), ("-c1m4", 4.0)],
        sizes: SMALL,
        arm: false,
        factor: 0.62,
        clock: 2.5,
        processor: SKYLAKE,
        kind: Kind::Burstable,
    },
    Family {
        name: "t6",
        variants: &[("-c1m1", 1.0), ("-c1m2", 2.0), ("-c1m4", 4.0)],
        sizes: SMALL,
        arm: false,
        factor: 0.6,
        clock: 2.5,
        processor: CASCADE,
        kind: Kind::Burstable,
    },
    Family {
        name: "i3",
        variants: &[("", 8.0)],
        sizes: &["xlarge", "2xlarge", "4xlarge", "8xlarge"],
        arm: false,
        factor: 1.35,
        clock: 2.5,
        processor: CASCADE,
        kind: Kind::Local { disks: 1, gib: 894 },
    },
    Family {
        name: "i4",
        variants: &[("", 8.0)],
        sizes: &["large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"],
        arm: false,
        factor: 1.4,
        clock: 2.7,
        processor: ICE,
        kind: Kind::Local { disks: 1, gib: 959 },
    },
];

/// A type with GPUs: name, family, vCPUs, memory, GPUs, GPU, GiB of each, processor.
type Accelerated = (&'static str, &'static str, u32, f64, u32, &'static str, f64, &'static str);

const ACCELERATED: &[Accelerated] = &[
    ("gn6i-c4g1.xlarge", "gn6i", 4, 15.0, 1, "NVIDIA T4", 16.0, SKYLAKE),
    ("gn6i-c8g1.2xlarge", "gn6i", 8, 31.0, 1, "NVIDIA T4", 16.0, SKYLAKE),
    ("gn6i-c16g1.4xlarge", "gn6i", 16, 62.0, 1, "NVIDIA T4", 16.0, SKYLAKE),
    ("gn6i-c24g1.6xlarge", "gn6i", 24, 93.0, 1, "NVIDIA T4", 16.0, SKYLAKE),
    ("gn6i-c24g1.12xlarge", "gn6i", 48, 186.0, 2, "NVIDIA T4", 16.0, SKYLAKE),
    ("gn6i-c24g1.24xlarge", "gn6i", 96, 372.0, 4, "NVIDIA T4", 16.0, SKYLAKE),
    ("gn6v-c8g1.2xlarge", "gn6v", 8, 32.0, 1, "NVIDIA V100", 16.0, SKYLAKE),
    ("gn6v-c8g1.8xlarge", "gn6v", 32, 128.0, 4, "NVIDIA V100", 16.0, SKYLAKE),
    ("gn6v-c8g1.16xlarge", "gn6v", 64, 256.0, 8, "NVIDIA V100", 16.0, SKYLAKE),
    ("gn6v-c10g1.20xlarge", "gn6v", 82, 336.0, 8, "NVIDIA V100", 16.0, SKYLAKE),
    ("gn6e-c12g1.3xlarge", "gn6e", 12, 92.0, 1, "NVIDIA V100", 32.0, SKYLAKE),
    ("gn6e-c12g1.12xlarge", "gn6e", 48, 368.0, 4, "NVIDIA V100", 32.0, SKYLAKE),
    ("gn6e-c12g1.24xlarge", "gn6e", 96, 736.0, 8, "NVIDIA V100", 32.0, SKYLAKE),
    ("gn7i-c8g1.2xlarge", "gn7i", 8, 30.0, 1, "NVIDIA A10", 24.0, ICE),
    ("gn7i-c16g1.4xlarge", "gn7i", 16, 60.0, 1, "NVIDIA A10", 24.0, ICE),
    ("gn7i-c32g1.8xlarge", "gn7i", 32, 188.0, 1, "NVIDIA A10", 24.0, ICE),
    ("gn7i-c32g1.16xlarge", "gn7i", 64, 376.0, 2, "NVIDIA A10", 24.0, ICE),
    ("gn7i-c32g1.32xlarge", "gn7i", 128, 752.0, 4, "NVIDIA A10", 24.0, ICE),
    ("gn7e-c16g1.4xlarge", "gn7e", 16, 125.0, 1, "NVIDIA A100", 80.0, ICE),
    ("gn7e-c16g1.16xlarge", "gn7e", 64, 500.0, 4, "NVIDIA A100", 80.0, ICE),
    ("gn7e-c16g1.32xlarge", "gn7e", 128, 1000.0, 8, "NVIDIA A100", 80.0, ICE),
    ("gn7-c12g1.3xlarge", "gn7", 12, 94.0, 1, "NVIDIA A100", 40.0, CASCADE),
    ("gn7-c13g1.26xlarge", "gn7", 104, 760.0, 8, "NVIDIA A100", 40.0, CASCADE),
    ("ebmgn7e.32xlarge", "ebmgn7e", 128, 1024.0, 8, "NVIDIA A100", 80.0, ICE),
    ("ebmgn7i.32xlarge", "ebmgn7i", 128, 768.0, 4, "NVIDIA A10", 24.0, ICE),
];

/// CNY per vCPU and hour in the seventh generation, roughly.
const PER_CPU: f64 = 0.17;
/// CNY per GiB of memory and hour, roughly.
const PER_GIB: f64 = 0.0225;
/// CNY per GiB of GPU memory and hour, roughly.
const PER_GPU_GIB: f64 = 0.36;

/// All types by name.
pub fn table() -> BTreeMap<String, InstanceType> {
    let plain = FAMILIES.iter().flat_map(family_types);
    plain.chain(ACCELERATED.iter().map(accelerated)).map(|found| (found.id.clone(), found)).collect()
}

fn family_types(family: &Family) -> impl Iterator<Item = InstanceType> + '_ {
    let types = move |(variant, ratio): &(&'static str, f64)| {
        let (variant, ratio) = (*variant, *ratio);
        family.sizes.iter().map(move |size| plain_type(family, variant, ratio, size))
    };
    family.variants.iter().flat_map(types)
}

fn plain_type(family: &Family, variant: &str, ratio: f64, size: &str) -> InstanceType {
    let cpus = vcpus(size);
    let memory_gib = f64::from(cpus) * ratio;
    let (enis, eni_addresses) = interfaces(family, cpus);
    let generation = generation(family.name);
    let (local_disks, local_disk_gib) = match family.kind {
        Kind::Local { disks, gib } => (disks * (cpus / 4).max(1), gib),
        _ => (0, 0),
    };
    let trunk = generation >= 6 && matches!(family.kind, Kind::Enterprise | Kind::BareMetal);
    InstanceType {
        id: format!("ecs.{}{variant}.{size}", family.name),
        family: format!("ecs.{}", family.name),
        level: level(family.kind).to_owned(),
        category: category(family.kind, ratio).to_owned(),
        architecture: if family.arm { "ARM" } else { "X86" }.to_owned(),
        cpus,
        memory_gib,
        processor: family.processor.to_owned(),
        clock: family.clock,
        gpus: 0,
        gpu: String::new(),
        gpu_memory_gib: 0.0,
        enis,
        eni_addresses,
        enis_total: if trunk { enis + 5 * cpus.min(32) / 2 } else { enis },
        trunk,
        bandwidth: u64::from(cpus.clamp(2, 64)) * 500_000,
        local_disks,
        local_disk_gib,
        disk_categories: disk_categories(family.name, generation),
        price: rounded(family.factor * (f64::from(cpus) * PER_CPU + memory_gib * PER_GIB)),
    }
}

fn accelerated(found: &Accelerated) -> InstanceType {
    let (name, family, cpus, memory_gib, gpus, gpu, gpu_memory_gib, processor) = *found;
    let generation = generation(family);
    let bare = family.starts_with("ebm");
    let (enis, eni_addresses) = newer_interfaces(cpus);
    let hardware = f64::from(cpus) * PER_CPU + memory_gib * PER_GIB;
    InstanceType {
        id: format!("ecs.{name}"),
        family: format!("ecs.{family}"),
        level: "EnterpriseLevel".to_owned(),
        category: if bare { "ECS Bare Metal" } else { "Compute-optimized with GPU" }.to_owned(),
        architecture: "X86".to_owned(),
        cpus,
        memory_gib,
        processor: processor.to_owned(),
        clock: 2.7,
        gpus,
        gpu: gpu.to_owned(),
        gpu_memory_gib,
        enis,
        eni_addresses,
        enis_total: enis,
        trunk: false,
        bandwidth: u64::from(cpus.clamp(2, 64)) * 500_000,
        local_disks: 0,
        local_disk_gib: 0,
        disk_categories: disk_categories(family, generation),
        price: rounded(hardware + f64::from(gpus) * gpu_memory_gib * PER_GPU_GIB),
    }
}

/// vCPUs of a size.
fn vcpus(size: &str) -> u32 {
    match size {
        "small" => 1,
        "large" => 2,
        "xlarge" => 4,
        _ => size.trim_end_matches("xlarge").parse().map_or(2, |times: u32| 4 * times),
    }
}

fn generation(family: &str) -> u32 {
    let digits: String =
        family.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1)
}

fn level(kind: Kind) -> &'static str {
    match kind {
        Kind::Burstable => "CreditEntryLevel",
        Kind::Entry => "EntryLevel",
        _ => "EnterpriseLevel",
    }
}

fn category(kind: Kind, ratio: f64) -> &'static str {
    match kind {
        Kind::BareMetal => "ECS Bare Metal",
        Kind::Local { .. } => "Local SSDs",
        Kind::Burstable | Kind::Entry => "Shared",
        Kind::Enterprise if ratio <= 2.0 => "Compute-optimized",
        Kind::Enterprise if ratio <= 4.0 => "General-purpose",
        Kind::Enterprise => "Memory-optimized",
    }
}

/// Interfaces and addresses of each, roughly.
fn interfaces(family: &Family, cpus: u32) -> (u32, u32) {
    match family.kind {
        Kind::Burstable | Kind::Entry => (2, if cpus <= 2 { 2 } else { 6 }),
        Kind::BareMetal => (32, 10),
        _ if generation(family.name) >= 7 => newer_interfaces(cpus),
        _ => match cpus {
            0..=2 => (2, 6),
            3..=4 => (3, 10),
            5..=8 => (4, 10),
            9..=16 => (8, 20),
            _ => (8, 30),
        },
    }
}

fn newer_interfaces(cpus: u32) -> (u32, u32) {
    match cpus {
        0..=2 => (3, 6),
        3..=8 => (4, 15),
        9..=64 => (8, 30),
        _ => (15, 30),
    }
}

/// Newer families take only ESSD kinds.
fn disk_categories(family: &str, generation: u32) -> Vec<String> {
    let categories: &[&str] = match (family, generation) {
        ("u1" | "e", _) => &["cloud_essd", "cloud_auto", "cloud_essd_entry"],
        (_, 7..) => &["cloud_essd", "cloud_auto"],
        _ => &["cloud_efficiency", "cloud_ssd", "cloud_essd"],
    };
    categories.iter().map(|category| (*category).to_owned()).collect()
}

fn rounded(price: f64) -> f64 {
    (price * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_least_three_hundred_types() {
        assert!(table().len() >= 300, "{}", table().len());
    }

    #[test]
    fn sizes_follow_the_rule_of_the_families() {
        let table = table();
        let of = |name: &str| (table[name].cpus, table[name].memory_gib);
        assert_eq!(of("ecs.g7.large"), (2, 8.0));
        assert_eq!(of("ecs.c7.xlarge"), (4, 8.0));
        assert_eq!(of("ecs.r7.2xlarge"), (8, 64.0));
        assert_eq!(of("ecs.g8i.32xlarge"), (128, 512.0));
        assert_eq!(of("ecs.t6-c1m4.large"), (2, 8.0));
        assert_eq!(of("ecs.c8y.small"), (1, 2.0));
        assert_eq!(table["ecs.t6-c1m4.large"].family, "ecs.t6");
        assert_eq!(table["ecs.gn7i-c8g1.2xlarge"].family, "ecs.gn7i");
    }

    #[test]
    fn prices_grow_with_the_size_and_arm_is_cheaper() {
        let table = table();
        let price = |name: &str| table[name].price;
        assert!((price("ecs.g7.xlarge") / price("ecs.g7.large") - 2.0).abs() < 0.01);
        assert!(price("ecs.g8y.large") < price("ecs.g8i.large"));
        assert!(price("ecs.t6-c1m2.large") < price("ecs.c7.large"));
        assert!(table.values().all(|found| found.price > 0.0));
    }
}
