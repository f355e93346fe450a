//! Subnets with their addresses, and security groups.

use std::collections::BTreeMap;

use crate::description::{Description, Zone};

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its id.
    pub id: String,
    /// Its network.
    pub vpc: String,
    /// Its zone.
    pub zone: Zone,
    /// The first two bytes of its addresses are the network's; this is the third, from which on it counts.
    pub(crate) third: u8,
    /// How many addresses it has.
    pub addresses: u32,
    /// How many of them are taken.
    pub taken: u32,
    /// Whether machines in it get public addresses.
    pub public: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl Subnet {
    /// How many addresses can be had.
    pub fn free(&self) -> u32 {
        self.addresses.saturating_sub(self.taken)
    }

    /// The address of the machine with this number.
    pub(crate) fn address(&self, number: u32) -> String {
        let number = 4 + number % self.addresses.max(1);
        let third = u32::from(self.third) + number / 256;
        format!("10.0.{}.{}", third % 256, number % 256)
    }
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its network.
    pub vpc: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// The account's networks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    pub(crate) vpc: String,
    pub(crate) zones: Vec<Zone>,
    pub(crate) subnets: BTreeMap<String, Subnet>,
    pub(crate) security_groups: BTreeMap<String, SecurityGroup>,
}

impl Network {
    /// The networks of a new account. Ids follow from names, so that they are the same on every run.
    pub(crate) fn new(description: &Description, zones: Vec<Zone>) -> Self {
        let vpc = id("vpc", &description.cluster_name);
        let mut network = Self { vpc: vpc.clone(), zones, ..Self::default() };
        let cluster = &description.cluster_name;
        for (index, zone) in network.zones.clone().into_iter().enumerate() {
            for public in [false, true] {
                let kind = if public { "public" } else { "private" };
                let name = format!("{}-{kind}-{}", description.account, zone.name);
                let mut tags = BTreeMap::from([
                    ("Name".to_owned(), name.clone()),
                    (format!("kubernetes.io/cluster/{cluster}"), "shared".to_owned()),
                ]);
                let role = if public { "kubernetes.io/role/elb" } else { "kubernetes.io/role/internal-elb" };
                tags.insert(role.to_owned(), "1".to_owned());
                if !public {
                    tags.insert("karpenter.sh/discovery".to_owned(), cluster.clone());
                }
                let subnet = Subnet {
                    id: id("subnet", &name),
                    vpc: vpc.clone(),
                    zone: zone.clone(),
                    third: (index as u8).wrapping_mul(32).wrapping_add(if public { 224 } else { 0 }),
                    addresses: description.subnet_addresses,
                    taken: 0,
                    public,
                    tags,
                };
                network.subnets.insert(subnet.id.clone(), subnet);
            }
        }
        let groups = [
            ("default", BTreeMap::new()),
            (
                "node",
                BTreeMap::from([
                    ("Name".to_owned(), format!("{cluster}-node")),
                    ("karpenter.sh/discovery".to_owned(), cluster.clone()),
                    (format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned()),
                ]),
            ),
        ];
        for (suffix, tags) in groups {
            let name = if suffix == "default" { suffix.to_owned() } else { format!("{cluster}-{suffix}") };
            let group =
                SecurityGroup { id: id("sg", &format!("{cluster}/{name}")), name, vpc: vpc.clone(), tags };
            network.security_groups.insert(group.id.clone(), group);
        }
        network
    }
}

/// An id that follows from a name.
pub(crate) fn id(prefix: &str, name: &str) -> String {
    format!("{prefix}-0{}", &crate::wire::signature::sha256(name.as_bytes())[..16])
}
