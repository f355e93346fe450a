//! Which disk categories a type starts from. Asking the cloud takes a call for each type; families follow a rule instead, and where the rule
//! errs the launch is refused and the offering is left alone.

use karpenter_alibabacloud_client::ecs;

use super::name;
use crate::node_class::{DiskCategory, SystemDisk};

/// From this generation on, only disks of the ESSD kinds are attached.
const ESSD_ONLY: u32 = 7;
/// Families of the cheapest machines, for which the entry kind is made.
const ENTRY_CATEGORIES: [&str; 2] = ["u", "e"];
const ENCRYPTABLE: [&str; 4] = ["cloud_essd", "cloud_auto", "cloud_ssd", "cloud_efficiency"];

/// The categories of a system disk that machines of the type can have, the preferred first.
pub fn system_disk_categories(described: &ecs::InstanceType, disk: &SystemDisk) -> Vec<DiskCategory> {
    let name = name::read(&described.instance_type_id, described.instance_type_family.as_deref());
    let generation = name.generation.and_then(|digits| digits.parse::<u32>().ok()).unwrap_or_default();
    let entry = ENTRY_CATEGORIES.contains(&name.category);
    let attachable = |category: &&DiskCategory| match &***category {
        "cloud_essd_entry" => entry,
        "cloud" => !entry && (1..6).contains(&generation),
        "cloud_efficiency" | "cloud_ssd" => generation < ESSD_ONLY,
        _ => true,
    };
    let encryptable = |category: &&DiskCategory| !disk.encrypted || ENCRYPTABLE.contains(&&***category);
    disk.categories.iter().filter(attachable).filter(encryptable).cloned().collect()
}
