//! Alibaba Cloud on loopback: simulated machines behind the wire protocols of ECS, VPC, CS, STS, RAM, Cloud Monitor and Simple
//! Message Queue.
//!
//! A [`Service`] answers signed requests, over HTTP with [`Service::serve`] or in process with [`Service::answer`]. What the cloud holds is a
//! [`World`]: plain data that tests look at and change with [`Service::change`], faults and switches among it. Machines are bought from a
//! [`karpenter_simcloud::Market`], and what becomes of them is told to a [`karpenter_simcloud::Watcher`]: the node of a machine is what its
//! decoded user data says.
//!
//! Prices are approximate and of our own making; see [`InstanceType`].

mod boot;
mod call;
mod cms;
mod control;
mod cs;
mod ecs;
mod faults;
mod life;
mod metadata;
mod mns;
mod paging;
mod permissions;
mod ram;
mod record;
mod serve;
mod service;
mod settings;
mod setup;
mod shell;
mod signature;
mod sts;
mod types;
mod user_data;
mod vpc;
mod wire;
mod world;

pub use faults::{Fault, FaultRule, Faults, Trouble};
pub use permissions::{Actions, Policy, Statement};
pub use record::{Count, Recorded, Records};
pub use serve::Server;
pub use service::{ConnectionReset, Service};
pub use settings::{Switches, Times};
pub use setup::{ACCESS_KEY, ACCESS_SECRET, AUDIENCE, CONTROLLER_ROLE, SECURITY_GROUP, VPC, WORKER_ROLE};
pub use types::{InstanceType, table};
pub use world::{
    AccessKey, CapacityReservation, Cluster, Disk, Image, Instance, Maintenance, Market, NodePool,
    OidcProvider, ProvisioningGroup, Queue, QueuedMessage, Role, SecurityGroup, Status, Stock, StockRule,
    SystemEvent, Tags, VSwitch, Vpc, World,
};
