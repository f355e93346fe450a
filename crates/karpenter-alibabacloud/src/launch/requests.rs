//! The launch calls for candidates, field by field.
//!
//! Everything a class says is sent: role, metadata options, encryption, keys, performance levels, reservations. What the call for groups
//! cannot carry decides that no group is used.

use std::sync::Arc;

use karpenter_alibabacloud_client::ecs::{
    CreateAutoProvisioningGroup, DataDisk, DiskConfig, EncryptedSystemDisk, LaunchConfiguration,
    LaunchDataDisk, LaunchTemplateConfig, PrivatePoolOptions, RunInstances, SystemDisk, Tag,
};
use karpenter_api::labels::{CAPACITY_TYPE, CAPACITY_TYPE_RESERVED};
use ring::digest;

use super::candidates::Candidate;
use crate::node_class::{Class, Metadata, ReservationPreference, ResolvedClass, SpotBid};
use crate::ownership::MOST_TAGS;

/// A group takes no more candidates.
pub const MOST_IN_GROUP: usize = 20;

/// What all calls for a claim have in common.
#[derive(Clone, Debug)]
pub struct Common<'a> {
    /// The class.
    pub class: &'a ResolvedClass,
    /// The claim's name.
    pub claim: &'a str,
    /// The claim's uid.
    pub uid: &'a str,
    /// How many tokens of this claim were used up before.
    pub generation: u32,
    /// The machine's tags.
    pub tags: &'a [Tag],
    /// What it runs at its first start.
    pub user_data: Option<&'a str>,
}

impl Common<'_> {
    /// By this the cloud knows that two calls mean one machine: it follows from the claim and from what is asked for.
    pub fn token<'c>(&self, candidates: impl IntoIterator<Item = &'c Candidate>) -> String {
        let mut text = format!("{}/{}", self.uid, self.generation);
        for candidate in candidates {
            let key = &candidate.key;
            for part in [&key.instance_type, &key.zone, &key.capacity_type, &candidate.v_switch] {
                text.push('/');
                text.push_str(part);
            }
        }
        let hash = digest::digest(&digest::SHA256, text.as_bytes());
        let (high, low) = hash.as_ref().split_at(16);
        let half = |bytes: &[u8]| bytes.iter().fold(0_u128, |number, byte| (number << 8) | u128::from(*byte));
        format!("{:032x}{:032x}", half(high), half(low))
    }

    /// The call for one candidate.
    pub fn run_instances(&self, candidate: &Candidate) -> RunInstances {
        let Class { login, metadata, resource_group, system_disk, launch_template, .. } = &self.class.class;
        let (strategy, limit) = spot(&self.class.class, candidate.is_spot());
        let mut tags = self.tags.to_vec();
        if candidate.reservation.is_some() {
            // Nothing else tells it from a machine on demand that found room in an open reservation.
            tags.truncate(MOST_TAGS - 1);
            tags.push(Tag::new(CAPACITY_TYPE, CAPACITY_TYPE_RESERVED));
        }
        RunInstances {
            client_token: Some(self.token([candidate])),
            // What the class says goes before what the template says.
            launch_template_id: launch_template.clone(),
            amount: Some(1),
            instance_type: candidate.key.instance_type.to_string(),
            image_id: candidate.image.to_string(),
            v_switch_id: candidate.v_switch.to_string(),
            security_group_ids: self.security_groups(),
            instance_name: Some(self.claim.to_owned()),
            resource_group_id: resource_group.clone(),
            ram_role_name: self.class.resolved.ram_role.clone(),
            key_pair_name: login.key_pair.clone(),
            password: login.password.clone(),
            password_inherit: login.inherit_password.then_some(true),
            instance_charge_type: Some("PostPaid".to_owned()),
            spot_strategy: Some(strategy.to_owned()),
            spot_price_limit: limit,
            spot_interruption_behavior: candidate.is_spot().then(|| "Terminate".to_owned()),
            ipv6_address_count: self.is_dual_stack().then_some(1),
            system_disk: SystemDisk {
                category: Some(candidate.disk.to_string()),
                size: Some(self.system_disk_size(candidate)),
                performance_level: performance(system_disk.performance_level.as_ref(), &candidate.disk),
                encrypted: system_disk.encrypted.then_some(true),
                kms_key_id: system_disk.kms_key.clone().filter(|_| system_disk.encrypted),
            },
            data_disks: self.data_disks(candidate),
            http_endpoint: metadata.map(|metadata| word(metadata.enabled, "enabled", "disabled")),
            http_tokens: metadata.map(|metadata| word(metadata.token_required, "required", "optional")),
            http_put_response_hop_limit: metadata
                .map(|Metadata { hop_limit, .. }| hop_limit.max(1).unsigned_abs()),
            private_pool_options: self.private_pool(candidate),
            user_data: self.user_data.map(str::to_owned),
            tags,
            ..RunInstances::default()
        }
    }

    /// The call for several candidates of one architecture, one way to buy and one category of system disk.
    pub fn group(&self, candidates: &[Candidate], group_tags: Vec<Tag>) -> CreateAutoProvisioningGroup {
        let first = candidates.first();
        let is_spot = first.is_some_and(Candidate::is_spot);
        let Class { login, resource_group, system_disk, .. } = &self.class.class;
        let (_, limit) = spot(&self.class.class, is_spot);
        let target = |wanted: bool| Some(if wanted { "1" } else { "0" }.to_owned());
        let configuration = |(index, candidate): (usize, &Candidate)| LaunchTemplateConfig {
            instance_type: candidate.key.instance_type.to_string(),
            v_switch_id: candidate.v_switch.to_string(),
            weighted_capacity: 1.0,
            max_price: limit,
            priority: (!is_spot).then_some(u32::try_from(index).unwrap_or(u32::MAX)),
            image_id: None,
        };
        let size = candidates.iter().map(|candidate| self.system_disk_size(candidate)).max();
        CreateAutoProvisioningGroup {
            client_token: Some(self.token(candidates)),
            auto_provisioning_group_type: "instant".to_owned(),
            total_target_capacity: "1".to_owned(),
            spot_target_capacity: target(is_spot),
            pay_as_you_go_target_capacity: target(!is_spot),
            spot_allocation_strategy: Some("lowest-price".to_owned()),
            // Ours is the order of price with zones balanced where the class says so; the group keeps to it.
            pay_as_you_go_allocation_strategy: Some("prioritized".to_owned()),
            excess_capacity_termination_policy: Some("termination".to_owned()),
            resource_group_id: resource_group.clone(),
            configurations: candidates.iter().take(MOST_IN_GROUP).enumerate().map(configuration).collect(),
            launch_configuration: LaunchConfiguration {
                image_id: first.map(|candidate| candidate.image.to_string()),
                user_data: self.user_data.map(str::to_owned),
                instance_name: Some(self.claim.to_owned()),
                resource_group_id: resource_group.clone(),
                ram_role_name: self.class.resolved.ram_role.clone(),
                key_pair_name: login.key_pair.clone(),
                password: login.password.clone(),
                password_inherit: login.inherit_password.then_some(true),
                security_group_ids: self.security_groups(),
                system_disk_size: size,
                system_disk_performance_level: first
                    .and_then(|first| performance(system_disk.performance_level.as_ref(), &first.disk)),
                system_disk: system_disk.encrypted.then(|| EncryptedSystemDisk {
                    encrypted: Some(true),
                    kms_key_id: system_disk.kms_key.clone(),
                }),
                data_disks: first
                    .map(|first| self.data_disks(first))
                    .into_iter()
                    .flatten()
                    .map(for_group)
                    .collect(),
                tags: self.tags.to_vec(),
                ..LaunchConfiguration::default()
            },
            system_disk_categories: first
                .map(|first| DiskConfig { disk_category: first.disk.to_string() })
                .into_iter()
                .collect(),
            tags: group_tags,
            ..CreateAutoProvisioningGroup::default()
        }
    }

    /// Whether the call for groups can carry everything the class says.
    pub fn group_serves(&self) -> bool {
        let class = &self.class.class;
        class.metadata.is_none()
            && class.launch_template.is_none()
            && class.reservation_preference == ReservationPreference::Open
            && !self.is_dual_stack()
    }

    fn security_groups(&self) -> Vec<String> {
        self.class.resolved.security_groups.iter().map(|group| group.id.to_string()).collect()
    }

    fn is_dual_stack(&self) -> bool {
        self.class.resolved.cluster.as_ref().is_some_and(|cluster| cluster.dual_stack)
    }

    /// No disk is smaller than the image it starts from.
    fn system_disk_size(&self, candidate: &Candidate) -> u32 {
        let image = self.class.resolved.image(candidate.architecture).and_then(|image| image.size_gib);
        self.class.class.system_disk.size_gib.max(image.unwrap_or(0))
    }

    /// What a type takes as its system disk it takes as further disks too, if the class allows it for them.
    fn data_disks(&self, candidate: &Candidate) -> Vec<DataDisk> {
        let disks = self.class.class.data_disks.iter();
        disks
            .map(|disk| {
                let category =
                    disk.categories.iter().find(|one| **one == candidate.disk).or(disk.categories.first());
                let level = category.and_then(|name| performance(disk.performance_level.as_ref(), name));
                DataDisk {
                    performance_level: level,
                    category: category.map(ToString::to_string),
                    size: Some(disk.size_gib),
                    device: disk.device.clone(),
                    encrypted: disk.encrypted.then_some(true),
                    kms_key_id: disk.kms_key.clone().filter(|_| disk.encrypted),
                    snapshot_id: disk.snapshot.clone(),
                    delete_with_instance: Some(disk.delete_with_instance),
                }
            })
            .collect()
    }

    /// Which reservation the machine uses. A class that uses only selected ones uses them for machines on demand too, where one has room.
    fn private_pool(&self, candidate: &Candidate) -> Option<PrivatePoolOptions> {
        let criteria = |word: &str, id: Option<&Arc<str>>| {
            let id = id.map(ToString::to_string);
            Some(PrivatePoolOptions { id, match_criteria: Some(word.to_owned()) })
        };
        let named = |id| criteria("Target", Some(id));
        if let Some(id) = &candidate.reservation {
            return named(id);
        }
        match self.class.class.reservation_preference {
            _ if candidate.is_spot() => None,
            ReservationPreference::Open => None,
            ReservationPreference::None => criteria("None", None),
            ReservationPreference::Target => {
                let key = &candidate.key;
                let found = self.class.resolved.reservation(&key.instance_type, &key.zone);
                found.map_or_else(|| criteria("None", None), |found| named(&found.id))
            }
        }
    }
}

fn spot(class: &Class, is_spot: bool) -> (&'static str, Option<f64>) {
    match (is_spot, class.spot) {
        (false, _) => ("NoSpot", None),
        (true, SpotBid::AsPriceGo) => ("SpotAsPriceGo", None),
        (true, SpotBid::Limit(price)) => ("SpotWithPriceLimit", Some((price * 1000.0).round() / 1000.0)),
    }
}

/// Only this category has performance levels.
fn performance(level: Option<&String>, category: &str) -> Option<String> {
    level.filter(|_| category == "cloud_essd").cloned()
}

fn word(yes: bool, one: &str, other: &str) -> String {
    if yes { one } else { other }.to_owned()
}

fn for_group(disk: DataDisk) -> LaunchDataDisk {
    LaunchDataDisk {
        category: disk.category,
        size: disk.size,
        device: disk.device,
        performance_level: disk.performance_level,
        encrypted: disk.encrypted,
        kms_key_id: disk.kms_key_id,
        snapshot_id: disk.snapshot_id,
        delete_with_instance: disk.delete_with_instance,
    }
}
