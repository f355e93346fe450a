//! Instances: what each is, and which state it is in at which time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_aws_catalogue::TypeFacts;
use karpenter_provider::OfferingKey;

use crate::description::Zone;
use crate::images::Image;
use crate::wire::form::Form;

/// Who pays how for an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapacityType {
    /// Until it is terminated.
    OnDemand,
    /// Until it is taken back.
    Spot,
    /// From a capacity reservation.
    Reserved,
}

impl CapacityType {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved",
        }
    }
}

/// A network interface of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its id.
    pub id: String,
    /// `interface`, `efa` or `efa-only`.
    pub kind: String,
    /// Which card it is on.
    pub card: u32,
    /// Which place on the card it has.
    pub device: u32,
    /// Its security groups.
    pub groups: Vec<String>,
    /// Whether it has a public address.
    pub public: bool,
    /// How many prefixes of IPv4 addresses it has.
    pub ipv4_prefixes: u32,
}

/// A volume of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its id.
    pub id: String,
    /// The device it is attached as.
    pub device: String,
    /// Its size in GiB.
    pub gib: u64,
    /// Its type, say `gp3`.
    pub kind: String,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// With which key.
    pub kms_key: Option<String>,
    /// Operations per second.
    pub iops: Option<u32>,
    /// MiB per second.
    pub throughput: Option<u32>,
    /// Whether it goes with the instance.
    pub delete_on_termination: bool,
}

/// Something that is planned for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledEvent {
    /// Say `instance-retirement`.
    pub code: String,
    /// When at the earliest.
    pub not_before: Timestamp,
}

/// What checks say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Impairment {
    /// Since when the instance's own check fails.
    pub instance: Option<Timestamp>,
    /// Since when the check of the system below it fails.
    pub system: Option<Timestamp>,
}

/// How an instance ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) shutting_down: Timestamp,
    pub(crate) terminated: Timestamp,
    pub(crate) reason: &'static str,
}

/// An instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// Instances launched together.
    pub reservation: String,
    /// The fleet that launched it.
    pub fleet: Option<String>,
    /// What it is.
    pub facts: Arc<TypeFacts>,
    /// What it runs.
    pub image: Image,
    /// Where it is.
    pub subnet: String,
    /// The zone of its subnet.
    pub zone: Zone,
    /// Its private address.
    pub address: String,
    /// Its private name.
    pub dns_name: String,
    /// Who pays how.
    pub capacity_type: CapacityType,
    /// The request behind a spot instance.
    pub spot_request: Option<String>,
    /// `spot`, `capacity-block`, `interruptible-capacity-reservation`.
    pub lifecycle: Option<String>,
    /// The reservation it counts against.
    pub capacity_reservation: Option<String>,
    /// The name of its instance profile.
    pub instance_profile: Option<String>,
    /// Its boot script, decoded.
    pub user_data: Vec<u8>,
    /// Its network interfaces.
    pub interfaces: Vec<Interface>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// Its placement group, by id.
    pub placement_group: Option<String>,
    /// Its partition of the placement group.
    pub partition: Option<u32>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Tags of its volumes.
    pub volume_tags: BTreeMap<String, String>,
    /// Tags of its network interfaces.
    pub interface_tags: BTreeMap<String, String>,
    /// Tags of its spot request.
    pub spot_request_tags: BTreeMap<String, String>,
    /// When it was launched.
    pub launched: Timestamp,
    /// What checks say.
    pub impairment: Impairment,
    /// What is planned for it.
    pub events: Vec<ScheduledEvent>,
    /// The launch template's data, or what a launch said itself.
    pub(crate) data: Arc<Form>,
    /// The price per hour it was sold for.
    pub price: Option<f64>,
    pub(crate) client_token: Option<String>,
    pub(crate) running: Timestamp,
    pub(crate) stopped: Option<Timestamp>,
    pub(crate) end: Option<End>,
    /// Whether its kubelet has joined, which whoever plays nodes was told.
    pub(crate) joined: bool,
}

/// The states of instances with their codes.
const STATES: [(&str, u8); 6] = [
    ("pending", 0),
    ("running", 16),
    ("shutting-down", 32),
    ("terminated", 48),
    ("stopping", 64),
    ("stopped", 80),
];

/// The code of a state.
pub(crate) fn state_code(state: &str) -> u8 {
    STATES.iter().find(|(name, _)| *name == state).map_or(0, |(_, code)| *code)
}

impl Instance {
    /// Its identity as nodes carry it.
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone.name, self.id)
    }

    /// Its state at a time; `None` before its launch.
    pub fn state(&self, at: Timestamp) -> Option<&'static str> {
        if at < self.launched {
            return None;
        }
        Some(match &self.end {
            Some(end) if at >= end.terminated => "terminated",
            Some(end) if at >= end.shutting_down => "shutting-down",
            _ if self.stopped.is_some_and(|stopped| at >= stopped) => "stopped",
            _ if at >= self.running => "running",
            _ => "pending",
        })
    }

    /// Whether it has not been ended.
    pub fn is_alive(&self) -> bool {
        self.end.is_none()
    }

    /// Its security groups.
    pub fn security_groups(&self) -> &[String] {
        self.interfaces.first().map_or(&[], |interface| &interface.groups)
    }

    /// What the launch said at `path`, in the names of launch templates: `MetadataOptions.HttpTokens`.
    pub fn setting(&self, path: &str) -> Option<&str> {
        self.data.text(path)
    }
}

pub(crate) fn offering(instance_type: &str, zone: &str, capacity_type: CapacityType) -> OfferingKey {
    OfferingKey {
        instance_type: instance_type.into(),
        zone: zone.into(),
        capacity_type: capacity_type.word().into(),
    }
}
