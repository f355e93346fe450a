//! What was found for an EC2NodeClass, as launches need it: more than its status says, and never older than the last look.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use karpenter_aws_bootstrap::AmiFamily;

use super::{Ami, EC2NodeClass, SecurityGroup};

/// An EC2NodeClass with what its selectors found.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedClass {
    /// The class, as it was when its selectors were followed.
    pub class: Arc<EC2NodeClass>,
    /// Its image family, by the field or by the alias.
    pub family: AmiFamily,
    /// What `karpenter.k8s.aws/ec2nodeclass-hash` is to be.
    pub hash: String,
    /// Where machines can go: most free addresses first.
    pub subnets: Vec<ResolvedSubnet>,
    /// The security groups, by id.
    pub security_groups: Vec<SecurityGroup>,
    /// The images, newest first; a type gets the first that fits.
    pub amis: Vec<Ami>,
    /// The instance profile.
    pub instance_profile: Option<String>,
    /// Capacity paid for beforehand, by id.
    pub reservations: Vec<ResolvedReservation>,
    /// The placement group, if one is selected.
    pub placement_group: Option<ResolvedPlacementGroup>,
    /// The addresses of the cluster's services; AL2023 needs it.
    pub service_cidr: Option<String>,
}

/// A subnet machines can go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedSubnet {
    /// Its id.
    pub id: String,
    /// The name of its zone.
    pub zone: String,
    /// The id of its zone.
    pub zone_id: Option<String>,
    /// Addresses that were free when it was looked at.
    pub free_addresses: u32,
}

/// A capacity reservation machines can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedReservation {
    /// Its id.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// The type it holds.
    pub instance_type: String,
    /// Who owns it.
    pub owner_id: String,
    /// `open` or `targeted`.
    pub instance_match_criteria: String,
    /// `default` or `capacity-block`.
    pub reservation_type: String,
    /// Whether it may be taken back.
    pub interruptible: bool,
    /// When it ends.
    pub end_time: Option<Timestamp>,
    /// Whether it is a block that ends within minutes, so that nothing is launched into it.
    pub expiring: bool,
    /// Machines it still had room for when it was looked at.
    pub available: u32,
}

/// A placement group machines go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedPlacementGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// How many partitions it has, if it has any.
    pub partition_count: Option<u32>,
}

/// The resolved classes of a process: the node class controller writes, launches read.
#[derive(Clone, Debug, Default)]
pub struct ResolvedClasses {
    known: Arc<RwLock<BTreeMap<String, Arc<ResolvedClass>>>>,
}

impl ResolvedClasses {
    /// The class of this name; `None` until it has been resolved.
    pub fn get(&self, name: &str) -> Option<Arc<ResolvedClass>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Every class, by name.
    pub fn all(&self) -> Vec<Arc<ResolvedClass>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Takes note of what was found.
    pub fn put(&self, name: &str, class: Arc<ResolvedClass>) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), class);
    }

    /// Forgets a class.
    pub fn remove(&self, name: &str) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}
