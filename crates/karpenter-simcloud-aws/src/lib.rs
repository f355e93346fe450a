//! AWS on loopback: simulated machines behind the wire protocols of EC2, SQS, SSM, IAM, EKS, STS, Pricing and S3.
//!
//! A [`Service`] answers requests, in process or over HTTP ([`Service::serve`]). It checks signatures, sells machines through a
//! [`Market`](karpenter_simcloud::Market), reads their boot scripts as the real images do, and tells a
//! [`Watcher`](karpenter_simcloud::Watcher) what became of them. It shares no code with our client, because it judges it.

mod answer;
mod boot;
mod control;
mod description;
mod ec2;
mod eks;
mod events;
mod faults;
mod happening;
mod iam;
mod images;
mod instances;
mod life;
mod network;
mod pricing;
mod records;
mod route;
mod s3;
mod serve;
mod service;
mod sqs;
mod ssm;
mod sts;
mod user_data;
mod wire;
mod world;

pub use description::{Description, LocalZone, Zone};
pub use ec2::{CapacityReservation, LaunchTemplate, PlacementGroup};
pub use faults::{Fault, FaultKind};
pub use happening::{Happening, NotThere};
pub use images::{Family, Image};
pub use instances::{CapacityType, Impairment, Instance, Interface, ScheduledEvent, Volume};
pub use network::{SecurityGroup, Subnet};
pub use records::Records;
pub use serve::Serving;
pub use service::{ConnectionReset, Service};
