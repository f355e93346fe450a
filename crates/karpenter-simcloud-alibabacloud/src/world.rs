//! What the simulated cloud holds. Everything is plain data that tests may look at and change.

mod clusters;
mod identities;
mod machines;
mod network;
mod queues;
mod stock;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karpenter_simcloud::MachineEvent;

pub(crate) use self::clusters::JoinToken;
pub use self::clusters::{Cluster, NodePool};
pub(crate) use self::identities::Nonces;
pub use self::identities::{AccessKey, OidcProvider, Role};
pub(crate) use self::machines::Remembered;
pub use self::machines::{Disk, Image, Instance, Maintenance, ProvisioningGroup, Status, SystemEvent};
pub use self::network::{SecurityGroup, Tags, VSwitch, Vpc};
pub use self::queues::{Queue, QueuedMessage};
pub use self::stock::{CapacityReservation, Market, Stock, StockRule};
use crate::faults::Faults;
use crate::record::Records;
use crate::settings::{Switches, Times};
use crate::types::{self, InstanceType};

/// Everything the cloud holds.
#[derive(Debug)]
pub struct World {
    /// The only region.
    pub region: String,
    /// The account's number.
    pub account: String,
    /// The region's zones.
    pub zones: Vec<String>,
    /// VPCs by id.
    pub vpcs: BTreeMap<String, Vpc>,
    /// vSwitches by id.
    pub vswitches: BTreeMap<String, VSwitch>,
    /// Security groups by id.
    pub security_groups: BTreeMap<String, SecurityGroup>,
    /// Images by id.
    pub images: BTreeMap<String, Image>,
    /// Instance types by name.
    pub types: BTreeMap<String, InstanceType>,
    /// What is not in stock.
    pub stock: Vec<StockRule>,
    /// Capacity that was paid for in advance, by id.
    pub reservations: BTreeMap<String, CapacityReservation>,
    /// Launch templates, by id.
    pub launch_templates: BTreeSet<String>,
    /// Machines by id.
    pub instances: BTreeMap<String, Instance>,
    /// Provisioning groups by id.
    pub groups: BTreeMap<String, ProvisioningGroup>,
    /// Clusters by id.
    pub clusters: BTreeMap<String, Cluster>,
    /// Roles by name.
    pub roles: BTreeMap<String, Role>,
    /// OIDC providers by ARN.
    pub oidc_providers: BTreeMap<String, OidcProvider>,
    /// Access keys by id.
    pub keys: BTreeMap<String, AccessKey>,
    /// Names of key pairs.
    pub key_pairs: BTreeSet<String>,
    /// Events of Cloud Monitor, the oldest first.
    pub events: Vec<SystemEvent>,
    /// Message queues by name.
    pub queues: BTreeMap<String, Queue>,
    /// Planned maintenance.
    pub maintenance: Vec<Maintenance>,
    /// The machine that the metadata service speaks for.
    pub metadata_instance: Option<String>,
    /// The role that the metadata service hands out credentials of.
    pub metadata_role: Option<String>,
    /// What goes wrong.
    pub faults: Faults,
    /// What was asked.
    pub records: Records,
    /// How long things take.
    pub times: Times,
    /// Where the real service leaves room.
    pub switches: Switches,
    /// What machines did that nobody was told yet.
    pub(crate) outbox: Vec<MachineEvent>,
    /// Machines that start, boot, stop or are taken back at a known time, by that time.
    pub(crate) agenda: BTreeSet<(Timestamp, String)>,
    pub(crate) remembered: BTreeMap<(String, String), Remembered>,
    pub(crate) nonces: Nonces,
    pub(crate) join_tokens: BTreeMap<String, JoinToken>,
    pub(crate) metadata_tokens: BTreeMap<String, Timestamp>,
}

impl World {
    /// An empty region of an account.
    pub fn empty(region: &str, zones: &[&str]) -> Self {
        Self {
            region: region.to_owned(),
            account: "1234567890123456".to_owned(),
            zones: zones.iter().map(|zone| format!("{region}-{zone}")).collect(),
            vpcs: BTreeMap::new(),
            vswitches: BTreeMap::new(),
            security_groups: BTreeMap::new(),
            images: BTreeMap::new(),
            types: types::table(),
            stock: Vec::new(),
            reservations: BTreeMap::new(),
            launch_templates: BTreeSet::new(),
            instances: BTreeMap::new(),
            groups: BTreeMap::new(),
            clusters: BTreeMap::new(),
            roles: BTreeMap::new(),
            oidc_providers: BTreeMap::new(),
            keys: BTreeMap::new(),
            key_pairs: BTreeSet::new(),
            events: Vec::new(),
            queues: BTreeMap::new(),
            maintenance: Vec::new(),
            metadata_instance: None,
            metadata_role: None,
            faults: Faults::default(),
            records: Records::default(),
            times: Times::default(),
            switches: Switches::default(),
            outbox: Vec::new(),
            agenda: BTreeSet::new(),
            remembered: BTreeMap::new(),
            nonces: Nonces::default(),
            join_tokens: BTreeMap::new(),
            metadata_tokens: BTreeMap::new(),
        }
    }

    /// The stock of an offering.
    pub fn stock_of(&self, found: &InstanceType, zone: &str, market: Market) -> Stock {
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let covers = |rule: &&StockRule| {
            is(&rule.instance_type, &found.id)
                && is(&rule.zone, zone)
                && rule.market.is_none_or(|wanted| wanted == market)
        };
        match self.stock.iter().rev().find(covers) {
            Some(rule) => rule.stock,
            None if self.sold_in(found, zone) => Stock::WithStock,
            None => Stock::NotSold,
        }
    }

    /// How many machines use a reservation.
    pub fn used_of(&self, reservation: &str) -> u32 {
        let uses = |found: &&Instance| found.private_pool.as_deref() == Some(reservation);
        self.instances.values().filter(uses).count() as u32
    }

    /// Old families are no longer sold in the newest zone, and GPUs stand in the first two.
    fn sold_in(&self, found: &InstanceType, zone: &str) -> bool {
        let Some(place) = self.zones.iter().position(|name| name == zone) else { return false };
        let newest = self.zones.len() > 1 && place + 1 == self.zones.len();
        let old = ["ecs.g5", "ecs.c5", "ecs.r5", "ecs.t5"].contains(&found.family.as_str());
        !(newest && old) && (found.gpus == 0 || place < 2)
    }

    /// The list price of spot machines in a zone: between a sixth and a half of the price on demand, by type and zone.
    pub fn spot_list_price(found: &InstanceType, zone: &str) -> f64 {
        let mut hash: u32 = 0x811c_9dc5;
        for byte in found.id.bytes().chain(zone.bytes()) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        let share = 0.17 + 0.33 * f64::from(hash >> 8) / f64::from(1u32 << 24);
        (found.price * share * 10_000.0).round() / 10_000.0
    }

    /// What a node of this machine is called by Kubernetes.
    pub fn provider_id(&self, instance: &str) -> String {
        format!("{}.{instance}", self.region)
    }
}
