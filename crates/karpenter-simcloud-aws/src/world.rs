//! Everything the account holds, and how it changes as time passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use jiff::{SignedDuration, Timestamp};
use karpenter_aws_catalogue::Embedded;
use karpenter_environment::Environment;
use karpenter_simcloud::{MachineEvent, Market};
use serde_json::Value;

use crate::description::{Description, Zone};
use crate::ec2::{CapacityReservation, Fleets, LaunchTemplate, PlacementGroup};
use crate::faults::Faults;
use crate::iam::Identities;
use crate::images::Images;
use crate::instances::Instance;
use crate::life::Agenda;
use crate::network::Network;
use crate::records::Records;
use crate::route::form_text;
use crate::s3::Bucket;
use crate::sqs::{EVENT_RETENTION, Queue};
use crate::wire::form::Form;
use crate::wire::signature::{Keys, hex};

/// The account.
pub(crate) struct World {
    pub(crate) description: Description,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) market: Arc<dyn Market>,
    pub(crate) keys: BTreeMap<String, Keys>,
    pub(crate) network: Network,
    pub(crate) images: Images,
    pub(crate) identities: Identities,
    pub(crate) templates: BTreeMap<String, LaunchTemplate>,
    pub(crate) instances: BTreeMap<String, Instance>,
    pub(crate) reservations: BTreeMap<String, CapacityReservation>,
    pub(crate) placement_groups: BTreeMap<String, PlacementGroup>,
    /// What client tokens of fleets were answered.
    pub(crate) fleets: Fleets,
    pub(crate) queues: BTreeMap<String, Queue>,
    pub(crate) buckets: BTreeMap<String, Bucket>,
    pub(crate) agenda: Agenda,
    /// How many instances there have ever been.
    pub(crate) launched: u32,
    /// Messages that were sent and no waiting reader was told of.
    pub(crate) sent: u32,
    /// Zones, by id, that traffic is moved away from, and until when.
    pub(crate) zonal_shifts: BTreeMap<String, Timestamp>,
    pub(crate) faults: Faults,
    pub(crate) records: Records,
    /// What happened and nobody was told yet.
    pub(crate) outbox: Vec<MachineEvent>,
}

/// One request, read.
pub(crate) struct Call<'a> {
    pub(crate) operation: &'a str,
    pub(crate) request: &'a Request<Bytes>,
    /// The parameters of a query protocol.
    pub(crate) form: Form,
    /// The body of a JSON protocol.
    pub(crate) json: Value,
    pub(crate) now: Timestamp,
    /// The time as of which things are described: in the past where reads are stale.
    pub(crate) seen: Timestamp,
    /// Who calls.
    pub(crate) caller: String,
}

impl<'a> Call<'a> {
    pub(crate) fn read(
        request: &'a Request<Bytes>,
        operation: &'a str,
        caller: String,
        now: Timestamp,
        seen: Timestamp,
    ) -> Self {
        Self {
            operation,
            request,
            form: Form::read(&form_text(request)),
            json: serde_json::from_slice(request.body()).unwrap_or(Value::Null),
            now,
            seen,
            caller,
        }
    }
}

impl World {
    pub(crate) fn new(
        description: Description,
        market: Arc<dyn Market>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let caller = description.arn("iam", "user/simulated");
        let keys = |secret: &String| Keys { secret: secret.clone(), session: None, arn: caller.clone() };
        Self {
            keys: description.access_keys.iter().map(|(id, secret)| (id.clone(), keys(secret))).collect(),
            network: Network::new(&description, zones(&description)),
            images: Images::published(),
            identities: Identities::new(&description, environment.now()),
            templates: BTreeMap::new(),
            instances: BTreeMap::new(),
            reservations: BTreeMap::new(),
            placement_groups: BTreeMap::new(),
            fleets: Fleets::new(),
            queues: [(description.cluster_name.clone(), Queue::new(EVENT_RETENTION))].into(),
            buckets: BTreeMap::new(),
            agenda: Agenda::default(),
            launched: 0,
            sent: 0,
            zonal_shifts: BTreeMap::new(),
            faults: Faults::default(),
            records: Records::default(),
            outbox: Vec::new(),
            description,
            market,
            environment,
        }
    }

    /// A new id such as `i-0123456789abcdef0`.
    pub(crate) fn id(&self, prefix: &str) -> String {
        format!("{prefix}-0{}", &hex(&self.environment.entropy())[..16])
    }

    /// Random upper-case letters and digits, as in access keys and unique ids.
    pub(crate) fn letters(&self, prefix: &str, length: usize) -> String {
        let bytes = [self.environment.entropy(), self.environment.entropy()].concat();
        let letters =
            bytes.iter().map(|byte| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[usize::from(byte % 32)]));
        prefix.chars().chain(letters).take(length).collect()
    }

    /// The time as of which things are described now.
    pub(crate) fn seen(&self, now: Timestamp, stale: SignedDuration) -> Timestamp {
        now.saturating_sub(self.description.settle_time.max(stale)).unwrap_or(now)
    }
}

fn zones(description: &Description) -> Vec<Zone> {
    let region = Embedded::get().region_or_fallback(&description.region);
    let zone =
        |zone: &karpenter_aws_catalogue::Zone| Zone { name: zone.name.to_string(), id: zone.id.to_string() };
    let local = description.local_zones.iter().map(|local| local.zone.clone());
    region.zones().iter().map(zone).chain(local).collect()
}
