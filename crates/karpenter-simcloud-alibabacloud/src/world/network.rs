//! VPCs, vSwitches and security groups.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Tags of a resource.
pub type Tags = BTreeMap<String, String>;

/// A virtual private cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vpc {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its addresses.
    pub cidr: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
}

/// A subnet in one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VSwitch {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its VPC.
    pub vpc: String,
    /// Its zone.
    pub zone: String,
    /// Its addresses.
    pub cidr: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
    /// Addresses that others have taken.
    #[serde(default)]
    pub taken_by_others: u32,
    /// Addresses of our machines.
    #[serde(default)]
    pub used: BTreeSet<Ipv4Addr>,
}

impl VSwitch {
    /// How many addresses are free.
    pub fn free(&self) -> u32 {
        self.size().saturating_sub(4 + self.taken_by_others + self.used.len() as u32)
    }

    /// Takes a free address.
    pub(crate) fn take(&mut self) -> Option<Ipv4Addr> {
        if self.free() == 0 {
            return None;
        }
        let base = u32::from(self.base()?);
        // The first address and the last three are the cloud's own.
        let own = base + 1..base + self.size().saturating_sub(3);
        let next = self.used.last().map_or(own.start, |last| u32::from(*last) + 1);
        let unused = |number: &u32| own.contains(number) && !self.used.contains(&Ipv4Addr::from(*number));
        let found = std::iter::once(next).chain(own.clone()).find(unused).map(Ipv4Addr::from)?;
        self.used.insert(found);
        Some(found)
    }

    fn base(&self) -> Option<Ipv4Addr> {
        self.cidr.split('/').next()?.parse().ok()
    }

    fn size(&self) -> u32 {
        let bits: u32 = self.cidr.split('/').nth(1).and_then(|bits| bits.parse().ok()).unwrap_or(24);
        1u32.checked_shl(32 - bits.clamp(1, 32)).unwrap_or(1)
    }
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its VPC.
    pub vpc: String,
    /// `normal` or `enterprise`.
    #[serde(default)]
    pub kind: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
}
