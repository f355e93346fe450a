//! Machines with their images and disks, the groups that launched them, and what is told about them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Market, Tags};

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// Its family, or nothing.
    #[serde(default)]
    pub family: String,
    /// `Aliyun`, `Ubuntu` and so on.
    #[serde(default)]
    pub platform: String,
    /// `system`, `self`, `others` or `marketplace`.
    pub owner: String,
    /// Its size in GiB.
    pub size_gib: u32,
    /// When it was made.
    pub created: Timestamp,
    /// `Available` or `Deprecated`.
    pub status: String,
    /// How ACK calls this kind of image; nothing when ACK does not offer it.
    #[serde(default)]
    pub ack_type: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
}

/// A disk of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// Its id.
    pub id: String,
    /// `system` or `data`.
    pub kind: &'static str,
    /// `cloud_essd` and so on.
    pub category: String,
    /// Its size in GiB.
    pub size_gib: u32,
    /// `PL0` to `PL3`, for `cloud_essd`.
    pub performance_level: String,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// The key it is encrypted with.
    pub kms_key: String,
    /// Where it is seen in the machine.
    pub device: String,
    /// Whether it goes with the machine.
    pub delete_with_instance: bool,
}

/// What a machine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// It is being made.
    Pending,
    /// It is starting.
    Starting,
    /// It runs.
    Running,
    /// It is being stopped, and then is gone.
    Stopping,
}

impl Status {
    /// As the API writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Stopping => "Stopping",
        }
    }
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// Its type.
    pub instance_type: String,
    /// Its image.
    pub image: String,
    /// Its zone.
    pub zone: String,
    /// Its vSwitch.
    pub vswitch: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its security groups.
    pub security_groups: Vec<String>,
    /// How it is paid for.
    pub market: Market,
    /// `NoSpot`, `SpotAsPriceGo` or `SpotWithPriceLimit`.
    pub spot_strategy: String,
    /// The highest price, for `SpotWithPriceLimit`.
    pub spot_price_limit: f64,
    /// What it is doing.
    pub status: Status,
    /// When it was made.
    pub created: Timestamp,
    /// Its tags.
    pub tags: Tags,
    /// Its name.
    pub name: String,
    /// Its role, or nothing.
    pub role: String,
    /// Its key pair, or nothing.
    pub key_pair: String,
    /// Its resource group, or nothing.
    pub resource_group: String,
    /// Its user data as sent: Base64.
    pub user_data: String,
    /// `optional` or `required`.
    pub http_tokens: String,
    /// Its disks, the system disk first.
    pub disks: Vec<Disk>,
    /// Whether it must not be deleted.
    pub deletion_protection: bool,
    /// Why it is locked: `Recycling`, `financial`, `security`.
    pub locks: BTreeSet<String>,
    /// When it goes on to its next status, or, when running, when its kubelet joins.
    pub next_step: Option<Timestamp>,
    /// When it is taken back.
    pub released_at: Option<Timestamp>,
    /// The name its node has, once it has joined.
    pub node_name: Option<String>,
    /// The provisioning group that made it.
    pub group: Option<String>,
    /// The reservation it uses.
    pub private_pool: Option<String>,
}

/// An event of Cloud Monitor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemEvent {
    /// Its id.
    pub id: String,
    /// Such as `Instance:PreemptibleInstanceInterruption`.
    pub name: String,
    /// `INFO`, `WARN` or `CRITICAL`.
    pub level: String,
    /// `Normal`, `Scheduled` and so on.
    pub status: String,
    /// When it happened.
    pub time: Timestamp,
    /// From when on it can be read.
    pub visible: Timestamp,
    /// The machine it is about.
    pub instance: String,
    /// Its details as JSON text.
    pub content: String,
}

/// Maintenance that is planned for a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    /// The machine.
    pub instance: String,
    /// Such as `SystemMaintenance.Reboot`.
    pub event_type: String,
    /// Not before when.
    pub not_before: Timestamp,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// An auto-provisioning group that has done its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProvisioningGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its tags.
    pub tags: Tags,
    /// The machines it launched.
    pub instances: Vec<String>,
    /// When it was made.
    pub created: Timestamp,
}

/// A launch that is remembered by its client token.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) answer: serde_json::Value,
}
