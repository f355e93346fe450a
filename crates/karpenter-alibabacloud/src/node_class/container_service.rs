//! `ECSNodeClass` of `karpenter.alibabacloud.com`, the Container Service provider's group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::conversion::{self, Draft, Found};
use super::kubelet::Kubelet;
use super::model::{
    Class, ClusterSettings, DataDisk, Dialect, ImageFilter, ImageTerm, Metadata, ReservationPreference,
    Selector, SpotBid, SystemDisk,
};
use super::status::Status;

karpenter_api::custom_resource! {
    /// How machines on ECS are found, built and configured.
    ECSNodeClass, list "ECSNodeClassList", group "karpenter.alibabacloud.com", version "v1alpha1",
    plural "ecsnodeclasses", scope ClusterResourceScope, spec Spec, status Status
}

const DEFAULT_CATEGORY: &str = "cloud_essd";
const DEFAULT_SIZE: u32 = 40;

/// What a class asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The ACK cluster; the controller's `CLUSTER_ID` where it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "clusterID")]
    pub cluster_id: Option<String>,
    /// The cluster's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// Where the cluster's API server is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_endpoint: Option<String>,
    /// Which vSwitches machines go to: those any term selects.
    #[serde(default)]
    pub v_switch_selector_terms: Vec<SelectorTerm>,
    /// Which security groups they belong to: those any term selects.
    #[serde(default)]
    pub security_group_selector_terms: Vec<SelectorTerm>,
    /// Which images they start from.
    #[serde(default)]
    pub image_selector_terms: Vec<ImageSelectorTerm>,
    /// Which capacity reservations may be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservation_selector_terms: Vec<SelectorTerm>,
    /// How they are used: `open`, `target` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_reservation_preference: Option<String>,
    /// A launch template for what the class does not say.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "launchTemplateID")]
    pub launch_template_id: Option<String>,
    /// The RAM role of machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The disk machines start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_disk: Option<SystemDiskSpec>,
    /// Further disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_disks: Vec<DataDiskSpec>,
    /// What is bid for spot machines: `SpotAsPriceGo` or `SpotWithPriceLimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot_strategy: Option<String>,
    /// The most that is paid per hour, with `SpotWithPriceLimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot_price_limit: Option<f64>,
    /// How the metadata of machines can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_options: Option<MetadataOptions>,
    /// The kubelet's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<Kubelet>,
    /// The user's script, run besides the one that joins the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Tags for everything created.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// Selects things of the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorTerm {
    /// By tags, all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// By id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// By name; security groups only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// By zone; vSwitches only.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "zoneID")]
    pub zone_id: Option<String>,
}

/// Selects images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSelectorTerm {
    /// By id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The newest of an ECS image family; wins over the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_family: Option<String>,
    /// By name, which may hold wildcards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// By who owns it: `system`, `self`, `others` or `marketplace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_owner_alias: Option<String>,
    /// By the account that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "imageOwnerID")]
    pub image_owner_id: Option<String>,
    /// By tags, all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// The disk machines start from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemDiskSpec {
    /// Its category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Its size in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// `PL0` to `PL3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance_level: Option<String>,
    /// Whether it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// The key it is encrypted with.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "kmsKeyID")]
    pub kms_key_id: Option<String>,
}

/// A further disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataDiskSpec {
    /// Its category.
    pub category: String,
    /// Its size in GiB.
    pub size: i32,
    /// The device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// `PL0` to `PL3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance_level: Option<String>,
    /// Whether it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// The key it is encrypted with.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "kmsKeyID")]
    pub kms_key_id: Option<String>,
    /// The snapshot it is filled from.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "snapshotID")]
    pub snapshot_id: Option<String>,
    /// Whether it goes with its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_with_instance: Option<bool>,
}

/// How the metadata of a machine can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOptions {
    /// Whether a token is needed: `required` or `optional`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_tokens: Option<String>,
    /// How many hops an answer may travel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_put_response_hop_limit: Option<i32>,
    /// Whether at all: `enabled` or `disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_endpoint: Option<String>,
}

impl Found for ECSNodeClass {
    const DIALECT: Dialect = Dialect::ContainerService;

    fn class(&self) -> Draft {
        let spec = &self.spec;
        let mut mistakes = Vec::new();
        let class = Class {
            v_switches: spec.v_switch_selector_terms.iter().map(selector).collect(),
            security_groups: spec.security_group_selector_terms.iter().map(selector).collect(),
            images: spec.image_selector_terms.iter().filter_map(image).collect(),
            reservations: spec.capacity_reservation_selector_terms.iter().map(selector).collect(),
            reservation_preference: match spec.capacity_reservation_preference.as_deref() {
                Some("target") => ReservationPreference::Target,
                Some("none") => ReservationPreference::None,
                _ => ReservationPreference::Open,
            },
            launch_template: conversion::text(spec.launch_template_id.as_ref()),
            ram_role: conversion::text(spec.role.as_ref()),
            metadata: spec.metadata_options.as_ref().map(metadata),
            system_disk: system_disk(spec.system_disk.as_ref(), &mut mistakes),
            data_disks: spec.data_disks.iter().map(|disk| data_disk(disk, &mut mistakes)).collect(),
            spot: spot(spec, &mut mistakes),
            kubelet: spec.kubelet.clone().unwrap_or_default(),
            cluster: ClusterSettings {
                id: conversion::text(spec.cluster_id.as_ref()),
                name: conversion::text(spec.cluster_name.as_ref()),
                endpoint: conversion::text(spec.cluster_endpoint.as_ref()),
            },
            user_data: conversion::text(spec.user_data.as_ref()),
            tags: spec.tags.clone(),
            ..conversion::bare(Self::DIALECT, &self.metadata)
        };
        Draft { class, mistakes }
    }

    fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Status {
        self.status.get_or_insert_default()
    }
}

fn selector(term: &SelectorTerm) -> Selector {
    Selector {
        id: conversion::text(term.id.as_ref()),
        name: conversion::text(term.name.as_ref()),
        zone: conversion::text(term.zone_id.as_ref()),
        tags: term.tags.clone(),
    }
}

fn image(term: &ImageSelectorTerm) -> Option<ImageTerm> {
    if let Some(family) = conversion::text(term.image_family.as_ref()) {
        return Some(ImageTerm::Family(family));
    }
    if let Some(id) = conversion::text(term.id.as_ref()) {
        return Some(ImageTerm::Id(id));
    }
    let filter = ImageFilter {
        name: conversion::text(term.name.as_ref()),
        owner_alias: conversion::text(term.image_owner_alias.as_ref()),
        owner_id: conversion::text(term.image_owner_id.as_ref()),
        tags: term.tags.clone(),
    };
    (filter != ImageFilter::default()).then_some(ImageTerm::Filter(filter))
}

fn metadata(options: &MetadataOptions) -> Metadata {
    Metadata {
        enabled: options.http_endpoint.as_deref() != Some("disabled"),
        token_required: options.http_tokens.as_deref() == Some("required"),
        hop_limit: options.http_put_response_hop_limit.unwrap_or(1),
    }
}

fn system_disk(spec: Option<&SystemDiskSpec>, mistakes: &mut Vec<String>) -> SystemDisk {
    let spec = spec.cloned().unwrap_or_default();
    let category = conversion::text(spec.category.as_ref()).unwrap_or_else(|| DEFAULT_CATEGORY.to_owned());
    SystemDisk {
        categories: vec![conversion::category(&category, "spec.systemDisk.category", mistakes)],
        size_gib: spec.size.and_then(|size| u32::try_from(size).ok()).unwrap_or(DEFAULT_SIZE),
        performance_level: conversion::text(spec.performance_level.as_ref()),
        encrypted: spec.encrypted.unwrap_or_default(),
        kms_key: conversion::text(spec.kms_key_id.as_ref()),
        delete_with_instance: true,
    }
}

fn data_disk(spec: &DataDiskSpec, mistakes: &mut Vec<String>) -> DataDisk {
    DataDisk {
        categories: vec![conversion::category(&spec.category, "spec.dataDisks[].category", mistakes)],
        size_gib: u32::try_from(spec.size).unwrap_or_default(),
        device: conversion::text(spec.device.as_ref()),
        performance_level: conversion::text(spec.performance_level.as_ref()),
        encrypted: spec.encrypted.unwrap_or_default(),
        kms_key: conversion::text(spec.kms_key_id.as_ref()),
        snapshot: conversion::text(spec.snapshot_id.as_ref()),
        delete_with_instance: spec.delete_with_instance.unwrap_or(true),
    }
}

fn spot(spec: &Spec, mistakes: &mut Vec<String>) -> SpotBid {
    match (spec.spot_strategy.as_deref(), spec.spot_price_limit) {
        (Some("SpotWithPriceLimit"), Some(limit)) if limit > 0.0 => SpotBid::Limit(limit),
        (Some("SpotWithPriceLimit"), _) => {
            mistakes.push(
                "spec.spotStrategy is SpotWithPriceLimit, but spec.spotPriceLimit names no price; set it to what a machine may cost per hour"
                    .to_owned(),
            );
            SpotBid::AsPriceGo
        }
        _ => SpotBid::AsPriceGo,
    }
}
