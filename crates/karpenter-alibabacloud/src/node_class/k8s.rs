//! What an `ECSNodeClass` can say in `karpenter.k8s.alibabacloud` and, with a few more words, in `karpenter.k8s.alibabacloud.com`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_quantity::Quantity;
use serde::{Deserialize, Serialize};

use super::conversion::{self, CATEGORIES, Draft};
use super::kubelet::Kubelet;
use super::model::{
    Class, DataDisk, Dialect, DiskCategory, ImageAlias, ImageTerm, Login, Selector, SystemDisk, ZonePolicy,
};

/// ACK's images need 40 GiB where nobody says how large the disk is.
const DEFAULT_SIZE: u32 = 40;
const DEFAULT_DATA_SIZE: u32 = 20;
const GIB: i64 = 1 << 30;

/// What a class asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Which vSwitches machines go to: those any term selects.
    #[serde(default)]
    pub v_switch_selector_terms: Vec<SelectorTerm>,
    /// How a zone is chosen: `balanced` or `cheapest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v_switch_selection_policy: Option<String>,
    /// Which security groups they belong to: those any term selects.
    #[serde(default)]
    pub security_group_selector_terms: Vec<SelectorTerm>,
    /// Which images they start from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_selector_terms: Vec<ImageSelectorTerm>,
    /// The family of images, where no term says more. Handbook only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<String>,
    /// The RAM role of machines. Handbook only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_role_name: Option<String>,
    /// The resource group of everything created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_group_id: Option<String>,
    /// The disk machines start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_disk: Option<SystemDiskSpec>,
    /// Further disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_disks: Vec<DataDiskSpec>,
    /// The categories of further disks, the preferred first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_disk_categories: Vec<String>,
    /// Whether further disks are formatted and mounted when a machine joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_data_disk: Option<bool>,
    /// The password of root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Whether the image's password is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_inherit: Option<bool>,
    /// A key pair for logging in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_pair_name: Option<String>,
    /// The kubelet's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_configuration: Option<Kubelet>,
    /// The user's script, run besides the one that joins the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Tags for everything created.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// Selects vSwitches or security groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorTerm {
    /// By tags, all of them; values may hold wildcards.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// By id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// By the group's own name; security groups only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Selects images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSelectorTerm {
    /// By family, as in `ContainerOS` or `AlibabaCloudLinux3@latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// By id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The disk machines start from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemDiskSpec {
    /// The categories that will do, the preferred first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// The one category that will do. Handbook only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Its size, as in `100Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<String>,
    /// Its size in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// `PL0` to `PL3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance_level: Option<String>,
    /// Whether it is encrypted. Handbook only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// Whether it goes with its machine. Handbook only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_with_instance: Option<bool>,
}

/// A further disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataDiskSpec {
    /// Its size, as in `100Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<String>,
    /// The device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Reads what a class of either group asks for.
pub(super) fn class(dialect: Dialect, metadata: &ObjectMeta, spec: &Spec) -> Draft {
    let mut mistakes = Vec::new();
    let class = Class {
        v_switches: spec.v_switch_selector_terms.iter().map(selector).collect(),
        security_groups: spec.security_group_selector_terms.iter().map(selector).collect(),
        images: images(spec, &mut mistakes),
        zone_policy: match spec.v_switch_selection_policy.as_deref() {
            Some("balanced") => ZonePolicy::Balanced,
            _ => ZonePolicy::Cheapest,
        },
        resource_group: conversion::text(spec.resource_group_id.as_ref()),
        ram_role: conversion::text(spec.ram_role_name.as_ref()),
        login: Login {
            password: conversion::text(spec.password.as_ref()),
            inherit_password: spec.password_inherit.unwrap_or_default(),
            key_pair: conversion::text(spec.key_pair_name.as_ref()),
        },
        system_disk: system_disk(spec.system_disk.as_ref(), &mut mistakes),
        data_disks: data_disks(spec, &mut mistakes),
        format_data_disk: spec.format_data_disk.unwrap_or_default(),
        kubelet: spec.kubelet_configuration.clone().unwrap_or_default(),
        user_data: conversion::text(spec.user_data.as_ref()),
        tags: spec.tags.clone(),
        ..conversion::bare(dialect, metadata)
    };
    Draft { class, mistakes }
}

fn selector(term: &SelectorTerm) -> Selector {
    Selector {
        id: conversion::text(term.id.as_ref()),
        name: conversion::text(term.name.as_ref()),
        zone: None,
        tags: term.tags.clone(),
    }
}

/// The terms, or else the family, or else Alibaba Cloud Linux.
fn images(spec: &Spec, mistakes: &mut Vec<String>) -> Vec<ImageTerm> {
    if spec.image_selector_terms.is_empty() {
        let family = match spec.ami_family.as_deref() {
            Some("ContainerOS") => ImageAlias::ContainerOS,
            _ => ImageAlias::AlibabaCloudLinux3,
        };
        return vec![ImageTerm::Alias { family, version: None }];
    }
    spec.image_selector_terms.iter().filter_map(|term| image(term, mistakes)).collect()
}

fn image(term: &ImageSelectorTerm, mistakes: &mut Vec<String>) -> Option<ImageTerm> {
    if let Some(id) = conversion::text(term.id.as_ref()) {
        return Some(ImageTerm::Id(id));
    }
    let alias = conversion::text(term.alias.as_ref())?;
    let (name, version) = alias.split_once('@').unwrap_or((&alias, "latest"));
    let Some(family) = ImageAlias::of_name(name) else {
        mistakes.push(format!(
            "spec.imageSelectorTerms: there is no image family {name}; choose AlibabaCloudLinux3 or ContainerOS"
        ));
        return None;
    };
    let version = (version != "latest").then(|| version.to_owned());
    Some(ImageTerm::Alias { family, version })
}

fn system_disk(spec: Option<&SystemDiskSpec>, mistakes: &mut Vec<String>) -> SystemDisk {
    let spec = spec.cloned().unwrap_or_default();
    let size = spec.size.and_then(|size| u32::try_from(size).ok());
    let volume = spec.volume_size.as_deref().map(|text| gib(text, "spec.systemDisk.volumeSize", mistakes));
    let named = conversion::text(spec.category.as_ref()).into_iter().collect();
    let words = if spec.category.is_some() { named } else { spec.categories };
    SystemDisk {
        categories: categories(&words, "spec.systemDisk.categories", &CATEGORIES, mistakes),
        size_gib: volume.or(size).unwrap_or(DEFAULT_SIZE),
        performance_level: conversion::text(spec.performance_level.as_ref()),
        encrypted: spec.encrypted.unwrap_or_default(),
        kms_key: None,
        delete_with_instance: spec.delete_with_instance.unwrap_or(true),
    }
}

/// Further disks share their categories; where none are said, those of the system disk will do.
fn data_disks(spec: &Spec, mistakes: &mut Vec<String>) -> Vec<DataDisk> {
    if spec.data_disks.is_empty() {
        return Vec::new();
    }
    let categories = categories(&spec.data_disk_categories, "spec.dataDiskCategories", &CATEGORIES, mistakes);
    let disk = |disk: &DataDiskSpec| DataDisk {
        categories: categories.clone(),
        size_gib: disk
            .volume_size
            .as_deref()
            .map_or(DEFAULT_DATA_SIZE, |text| gib(text, "spec.dataDisks[].volumeSize", mistakes)),
        device: conversion::text(disk.device.as_ref()),
        performance_level: None,
        encrypted: false,
        kms_key: None,
        snapshot: None,
        delete_with_instance: true,
    };
    spec.data_disks.iter().map(disk).collect()
}

fn categories(
    words: &[String],
    field: &str,
    default: &[&str],
    mistakes: &mut Vec<String>,
) -> Vec<DiskCategory> {
    if words.is_empty() {
        return default.iter().map(|word| Arc::from(*word)).collect();
    }
    words.iter().map(|word| conversion::category(word, field, mistakes)).collect()
}

/// Whole GiB of a quantity, rounded down as ECS counts.
fn gib(text: &str, field: &str, mistakes: &mut Vec<String>) -> u32 {
    let bytes = text.parse::<Quantity>().map(Quantity::ceil_units);
    bytes.ok().and_then(|bytes| u32::try_from(bytes / GIB).ok()).unwrap_or_else(|| {
        mistakes.push(format!("{field}: {text} is no size; write it as in 100Gi"));
        DEFAULT_SIZE
    })
}
