//! From the words of a dialect to the model: what every dialect needs for that.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use karpenter_provider::NodeClassObject;
use karpenter_runtime::Kind;

use super::hash;
use super::kubelet::Kubelet;
use super::model::{
    Class, ClassKey, ClusterSettings, Dialect, DiskCategory, Login, ReservationPreference, SpotBid,
    SystemDisk, ZonePolicy,
};
use super::status::Status;

/// The disk categories there are, in the order in which they are tried where a class names none.
pub const CATEGORIES: [&str; 6] =
    ["cloud", "cloud_efficiency", "cloud_ssd", "cloud_essd", "cloud_auto", "cloud_essd_entry"];
/// A resource carries at most twenty tags, eight of which are ours.
const MOST_TAGS: usize = 12;
/// The cloud takes longer keys and values for a mistake.
const LONGEST_TAG: usize = 128;
/// What the cloud takes as user data before it is encoded.
const LONGEST_USER_DATA: usize = 32 * 1024;
const SMALLEST_DISK: u32 = 20;
const LARGEST_SYSTEM_DISK: u32 = 2048;
const LARGEST_DATA_DISK: u32 = 32_768;
const MOST_DATA_DISKS: usize = 16;

/// A class as it was read, and what is wrong with it that its schema cannot say.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// What it asks for.
    pub class: Class,
    /// Sentences that say what to change.
    pub mistakes: Vec<String>,
}

/// An object of one of the groups.
pub trait Found: Kind + PartialEq {
    /// Its group.
    const DIALECT: Dialect;

    /// Reads what it asks for, before anything is checked.
    fn class(&self) -> Draft;

    /// Its status.
    fn status(&self) -> Option<&Status>;

    /// Its status, to be changed.
    fn status_mut(&mut self) -> &mut Status;
}

/// Reads what an object asks for: hash and all checks included.
pub fn read<F: Found>(object: &F) -> Draft {
    let mut draft = object.class();
    check(&draft.class, &mut draft.mistakes);
    draft.class.hash = hash::of(&draft.class);
    draft
}

macro_rules! node_class_objects {
    ($($kind:ty),+) => {$(
        karpenter_runtime::kinds!($kind);

        impl NodeClassObject for $kind {
            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
            }
        }
    )+};
}

node_class_objects!(
    super::container_service::ECSNodeClass,
    super::handbook::ECSNodeClass,
    super::cloud_pilot::ECSNodeClass
);

/// A class of which nothing is known but its name.
pub(super) fn bare(dialect: Dialect, metadata: &ObjectMeta) -> Class {
    Class {
        key: ClassKey { dialect, name: metadata.name.as_deref().unwrap_or_default().into() },
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        hash: String::new(),
        v_switches: Vec::new(),
        security_groups: Vec::new(),
        images: Vec::new(),
        zone_policy: ZonePolicy::default(),
        resource_group: None,
        reservations: Vec::new(),
        reservation_preference: ReservationPreference::default(),
        launch_template: None,
        ram_role: None,
        login: Login::default(),
        metadata: None,
        system_disk: SystemDisk {
            categories: Vec::new(),
            size_gib: SMALLEST_DISK,
            performance_level: None,
            encrypted: false,
            kms_key: None,
            delete_with_instance: true,
        },
        data_disks: Vec::new(),
        format_data_disk: false,
        spot: SpotBid::default(),
        kubelet: Kubelet::default(),
        cluster: ClusterSettings::default(),
        user_data: None,
        tags: std::collections::BTreeMap::new(),
    }
}

/// Text that says something.
pub(super) fn text(field: Option<&String>) -> Option<String> {
    field.filter(|text| !text.is_empty()).cloned()
}

/// Reads a disk category.
pub(super) fn category(word: &str, field: &str, mistakes: &mut Vec<String>) -> DiskCategory {
    if !CATEGORIES.contains(&word) {
        mistakes.push(format!(
            "{field}: there is no disk category {word}; choose one of {}",
            CATEGORIES.join(", ")
        ));
    }
    Arc::from(word)
}

/// What schemas do not say, because an object that exists must stay readable, or because it is about several fields.
fn check(class: &Class, mistakes: &mut Vec<String>) {
    let system = &class.system_disk;
    if !(SMALLEST_DISK..=LARGEST_SYSTEM_DISK).contains(&system.size_gib) {
        mistakes.push(format!(
            "spec.systemDisk asks for {} GiB; a system disk has {SMALLEST_DISK} to {LARGEST_SYSTEM_DISK} GiB",
            system.size_gib
        ));
    }
    if !system.delete_with_instance {
        mistakes.push(
            "spec.systemDisk.deleteWithInstance is false, but ECS always deletes the system disk of a machine that is launched this way; \
             set it to true, and keep data on data disks or persistent volumes"
                .to_owned(),
        );
    }
    check_data_disks(class, mistakes);
    if system.kms_key.is_some() && !system.encrypted {
        mistakes.push(
            "spec.systemDisk names a key but is not encrypted; set encrypted to true or remove the key"
                .to_owned(),
        );
    }
    check_tags(class, mistakes);
    if class.user_data.as_ref().is_some_and(|script| script.len() > LONGEST_USER_DATA) {
        mistakes.push("spec.userData is longer than 32 KiB, the most that ECS takes; have the script fetch what it needs".to_owned());
    }
}

fn check_data_disks(class: &Class, mistakes: &mut Vec<String>) {
    if class.data_disks.len() > MOST_DATA_DISKS {
        mistakes.push(format!(
            "spec.dataDisks has more than {MOST_DATA_DISKS} disks, the most a machine can have"
        ));
    }
    for (index, disk) in class.data_disks.iter().enumerate() {
        if !(SMALLEST_DISK..=LARGEST_DATA_DISK).contains(&disk.size_gib) {
            mistakes.push(format!(
                "spec.dataDisks[{index}] asks for {} GiB; a data disk has {SMALLEST_DISK} to {LARGEST_DATA_DISK} GiB",
                disk.size_gib
            ));
        }
        if disk.kms_key.is_some() && !disk.encrypted {
            mistakes.push(format!(
                "spec.dataDisks[{index}] names a key but is not encrypted; set encrypted to true or remove the key"
            ));
        }
    }
}

fn check_tags(class: &Class, mistakes: &mut Vec<String>) {
    if class.tags.len() > MOST_TAGS {
        mistakes.push(format!(
            "spec.tags has {} tags; an ECS resource takes 20, and Karpenter needs 8 of them, so remove all but {MOST_TAGS}",
            class.tags.len()
        ));
    }
    for (key, value) in &class.tags {
        if key.chars().count() > LONGEST_TAG || value.chars().count() > LONGEST_TAG {
            mistakes
                .push(format!("spec.tags: key and value of {key} may have at most {LONGEST_TAG} characters"));
        }
    }
}
