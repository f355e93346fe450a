//! One model behind three kinds: what an ECSNodeClass asks for, and what was found in the cloud for it.
//!
//! Everything after conversion reads this model alone, so a launch does not know in which dialect its class was written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use karpenter_api::labels::alibabacloud::{GROUP, GROUP_ACS, GROUP_COM};
use karpenter_api::nodepool::NodeClassReference;
use karpenter_provider::NodeClassKind;

use super::kubelet::Kubelet;

/// The kind, the same in every group.
pub const KIND: &str = "ECSNodeClass";

/// The API groups an ECSNodeClass can be of, the default first.
pub const NODE_CLASSES: &[NodeClassKind] =
    &[kind_of(Dialect::ContainerService), kind_of(Dialect::Handbook), kind_of(Dialect::CloudPilot)];

const fn kind_of(dialect: Dialect) -> NodeClassKind {
    NodeClassKind { group: dialect.group(), version: "v1alpha1", kind: KIND, plural: "ecsnodeclasses" }
}

/// Whose words a class is written in: each API group has its own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// `karpenter.alibabacloud.com`, the Container Service provider's group.
    ContainerService,
    /// `karpenter.k8s.alibabacloud.com`, as platform handbooks write it.
    Handbook,
    /// `karpenter.k8s.alibabacloud`, CloudPilot's group.
    CloudPilot,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 3] = [Self::ContainerService, Self::Handbook, Self::CloudPilot];

    /// The API group.
    pub const fn group(self) -> &'static str {
        match self {
            Self::ContainerService => GROUP_ACS,
            Self::Handbook => GROUP_COM,
            Self::CloudPilot => GROUP,
        }
    }

    /// The dialect of an API group.
    pub fn of_group(group: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.group() == group)
    }

    /// Keeps a class until nothing launched with it is left.
    pub fn finalizer(self) -> String {
        format!("{}/termination", self.group())
    }

    /// The annotation that holds a class's hash, on the class and on its NodeClaims.
    pub fn hash_annotation(self) -> String {
        format!("{}/ecsnodeclass-hash", self.group())
    }

    /// The annotation that says how the hash was made.
    pub fn hash_version_annotation(self) -> String {
        format!("{}/ecsnodeclass-hash-version", self.group())
    }

    /// The label of claims and nodes, and the tag of machines, that name their class.
    pub fn class_label(self) -> String {
        kind_of(self).label()
    }
}

/// Which class: the same name in two groups is two classes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassKey {
    /// The group.
    pub dialect: Dialect,
    /// The name.
    pub name: Arc<str>,
}

impl ClassKey {
    /// Reads a `nodeClassRef`; none if it names another kind or group.
    pub fn of(reference: &NodeClassReference) -> Option<Self> {
        let dialect = Dialect::of_group(&reference.group)?;
        (reference.kind == KIND).then(|| Self { dialect, name: reference.name.as_str().into() })
    }
}

impl fmt::Display for ClassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KIND} {} of {}", self.name, self.dialect.group())
    }
}

/// What a class asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Which class it is.
    pub key: ClassKey,
    /// The object's uid.
    pub uid: String,
    /// How often its specification has changed.
    pub generation: i64,
    /// By which a NodeClaim knows that the class has changed.
    pub hash: String,
    /// Which vSwitches machines go to: those any term selects.
    pub v_switches: Vec<Selector>,
    /// Which security groups they belong to: those any term selects.
    pub security_groups: Vec<Selector>,
    /// Which images they start from.
    pub images: Vec<ImageTerm>,
    /// How a zone is chosen.
    pub zone_policy: ZonePolicy,
    /// The resource group of everything created.
    pub resource_group: Option<String>,
    /// Which capacity reservations may be used.
    pub reservations: Vec<Selector>,
    /// How they are used.
    pub reservation_preference: ReservationPreference,
    /// The launch template whose settings apply where the class says nothing.
    pub launch_template: Option<String>,
    /// The RAM role of machines.
    pub ram_role: Option<String>,
    /// Who can log in.
    pub login: Login,
    /// How the metadata of machines can be reached; the cloud's default where it is not said.
    pub metadata: Option<Metadata>,
    /// The disk machines start from.
    pub system_disk: SystemDisk,
    /// Further disks.
    pub data_disks: Vec<DataDisk>,
    /// Whether data disks are formatted and mounted when a machine joins.
    pub format_data_disk: bool,
    /// What is bid for spot machines.
    pub spot: SpotBid,
    /// The kubelet's settings.
    pub kubelet: Kubelet,
    /// The cluster machines join, as far as the class says.
    pub cluster: ClusterSettings,
    /// The user's script.
    pub user_data: Option<String>,
    /// Tags for everything created.
    pub tags: BTreeMap<String, String>,
}

/// Selects things of the cloud that match everything it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    /// The id.
    pub id: Option<String>,
    /// The name; a security group's own name, which is not its `Name` tag.
    pub name: Option<String>,
    /// The zone.
    pub zone: Option<String>,
    /// Tags that must all be there. Values may hold `*` and `?`.
    pub tags: BTreeMap<String, String>,
}

/// Selects images.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageTerm {
    /// One image.
    Id(String),
    /// The newest image of a family of ACK's for each architecture.
    Alias {
        /// The family.
        family: ImageAlias,
        /// Text that the image's id or name must hold; any where there is none.
        version: Option<String>,
    },
    /// The newest image of an ECS image family, such as `acs:alibaba_cloud_linux_3_2104_lts_x64`.
    Family(String),
    /// The newest image of each architecture that matches everything said.
    Filter(ImageFilter),
}

/// A family of images that ACK publishes for its Kubernetes versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageAlias {
    /// Alibaba Cloud Linux 3.
    AlibabaCloudLinux3,
    /// ContainerOS.
    ContainerOS,
}

impl ImageAlias {
    /// Its name in classes.
    pub fn name(self) -> &'static str {
        match self {
            Self::AlibabaCloudLinux3 => "AlibabaCloudLinux3",
            Self::ContainerOS => "ContainerOS",
        }
    }

    /// The family with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::AlibabaCloudLinux3, Self::ContainerOS].into_iter().find(|family| family.name() == name)
    }
}

/// Conditions on an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageFilter {
    /// The name, which may hold wildcards.
    pub name: Option<String>,
    /// Who owns it: `system`, `self`, `others` or `marketplace`.
    pub owner_alias: Option<String>,
    /// The account that owns it.
    pub owner_id: Option<String>,
    /// Tags that must all be there.
    pub tags: BTreeMap<String, String>,
}

/// How a zone is chosen among those that would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZonePolicy {
    /// Where the machine is cheapest.
    #[default]
    Cheapest,
    /// Where the pool has fewest machines.
    Balanced,
}

/// How capacity reservations are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReservationPreference {
    /// Open reservations are used where they fit.
    #[default]
    Open,
    /// Only the selected reservations are used.
    Target,
    /// None is used.
    None,
}

/// Who can log in to machines.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The password of root.
    pub password: Option<String>,
    /// Whether the image's password is kept.
    pub inherit_password: bool,
    /// A key pair.
    pub key_pair: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("password", &self.password.as_ref().map(|_| "(not shown)"))
            .field("inherit_password", &self.inherit_password)
            .field("key_pair", &self.key_pair)
            .finish()
    }
}

/// How the metadata of a machine can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Whether at all.
    pub enabled: bool,
    /// Whether a token is needed.
    pub token_required: bool,
    /// How many hops an answer may travel.
    pub hop_limit: i32,
}

/// A disk category, as ECS spells it: `cloud_essd` and so on.
pub type DiskCategory = Arc<str>;

/// The disk machines start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemDisk {
    /// The categories that will do, the preferred first.
    pub categories: Vec<DiskCategory>,
    /// Its size.
    pub size_gib: u32,
    /// `PL0` to `PL3`; means something for `cloud_essd` only.
    pub performance_level: Option<String>,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// The key it is encrypted with; the service's own where there is none.
    pub kms_key: Option<String>,
    /// Whether it goes with its machine. The launch calls know no other way.
    pub delete_with_instance: bool,
}

/// A further disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDisk {
    /// The categories that will do, the preferred first.
    pub categories: Vec<DiskCategory>,
    /// Its size.
    pub size_gib: u32,
    /// The device.
    pub device: Option<String>,
    /// `PL0` to `PL3`; means something for `cloud_essd` only.
    pub performance_level: Option<String>,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// The key it is encrypted with.
    pub kms_key: Option<String>,
    /// What it is filled from.
    pub snapshot: Option<String>,
    /// Whether it goes with its machine.
    pub delete_with_instance: bool,
}

/// What is bid for a spot machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SpotBid {
    /// Whatever it costs, up to the list price.
    #[default]
    AsPriceGo,
    /// At most this much per hour.
    Limit(f64),
}

/// The cluster machines join, as far as a class says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The ACK cluster's id. The controller's `CLUSTER_ID` is filled in where the class has none.
    pub id: Option<String>,
    /// The cluster's name.
    pub name: Option<String>,
    /// Where its API server is.
    pub endpoint: Option<String>,
}

/// A processor architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl Architecture {
    /// Its value in `kubernetes.io/arch`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Its name in images.
    pub fn ecs_name(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "arm64",
        }
    }

    /// Reads any spelling the cloud uses: images say `x86_64` and `arm64`, instance types `X86` and `ARM`.
    pub fn parse(text: &str) -> Option<Self> {
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        if is("x86_64") || is("x86") || is("amd64") {
            Some(Self::Amd64)
        } else if is("arm64") || is("arm") || is("aarch64") {
            Some(Self::Arm64)
        } else {
            None
        }
    }
}

/// A vSwitch that was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VSwitch {
    /// Its id.
    pub id: Arc<str>,
    /// Its zone.
    pub zone: Arc<str>,
    /// Its VPC.
    pub vpc: String,
    /// Addresses that were free when it was looked at.
    pub free_addresses: u64,
}

/// A security group that was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// Its id.
    pub id: Arc<str>,
    /// Its name.
    pub name: Option<String>,
    /// Its VPC.
    pub vpc: String,
}

/// An image that was selected: at most one for each architecture and term is used, the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its id.
    pub id: Arc<str>,
    /// Its name.
    pub name: Option<String>,
    /// The machines it runs on.
    pub architecture: Architecture,
    /// The smallest system disk it fits on, where the cloud says.
    pub size_gib: Option<u32>,
}

/// How pods get addresses, which says how many a node carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Terway gives pods addresses of the node's network interfaces.
    Terway,
    /// Terway gives each pod an interface of its own.
    TerwayExclusive,
    /// Flannel gives each node a block of addresses with this many.
    Flannel {
        /// 2 to the power of 32 less the mask's length.
        addresses: u32,
    },
    /// Not known: Kubernetes' own default applies.
    Other,
}

/// What is known of an ACK cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its id.
    pub id: Arc<str>,
    /// Its Kubernetes version, as in `1.33.3-aliyun.1`.
    pub version: String,
    /// Its VPC.
    pub vpc: Option<String>,
    /// How pods get addresses.
    pub network: Network,
    /// Whether pods have IPv6 addresses too.
    pub dual_stack: bool,
}

/// A capacity reservation that was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its id.
    pub id: Arc<str>,
    /// The type it is for.
    pub instance_type: Arc<str>,
    /// Its zone.
    pub zone: Arc<str>,
    /// Machines left when the cloud last said so.
    pub remaining: u32,
}

/// What was found in the cloud for a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The vSwitches, those with most free addresses first.
    pub v_switches: Vec<VSwitch>,
    /// The security groups, by id.
    pub security_groups: Vec<SecurityGroup>,
    /// The images; the first that fits a machine's architecture is used.
    pub images: Vec<Image>,
    /// The ACK cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// The RAM role, if the class names one and it can be used.
    pub ram_role: Option<String>,
    /// The capacity reservations.
    pub reservations: Vec<Reservation>,
}

impl Resolved {
    /// A reservation for a type in a zone, with machines left.
    pub fn reservation(&self, instance_type: &str, zone: &str) -> Option<&Reservation> {
        let fits = |one: &&Reservation| *one.instance_type == *instance_type && *one.zone == *zone;
        self.reservations.iter().filter(fits).find(|one| one.remaining > 0)
    }

    /// The image for machines of an architecture.
    pub fn image(&self, architecture: Architecture) -> Option<&Image> {
        self.images.iter().find(|image| image.architecture == architecture)
    }

    /// Every zone that has a vSwitch, in alphabetical order.
    pub fn zones(&self) -> Vec<Arc<str>> {
        let mut zones: Vec<Arc<str>> = self.v_switches.iter().map(|v_switch| v_switch.zone.clone()).collect();
        zones.sort();
        zones.dedup();
        zones
    }
}

/// A class and what was found for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedClass {
    /// What it asks for; an empty cluster id is filled in.
    pub class: Class,
    /// What was found.
    pub resolved: Resolved,
    /// Why nothing can be launched with it, in the words of its condition; `None` if it can.
    pub not_ready: Option<String>,
}

/// The classes of the cluster as their controller last saw them; launches, catalogue and drift read them here. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    known: Arc<RwLock<BTreeMap<ClassKey, Arc<ResolvedClass>>>>,
}

impl Classes {
    /// The class a NodePool or NodeClaim refers to, group included.
    pub fn get(&self, reference: &NodeClassReference) -> Option<Arc<ResolvedClass>> {
        self.by_key(&ClassKey::of(reference)?)
    }

    /// The class with this key.
    pub fn by_key(&self, key: &ClassKey) -> Option<Arc<ResolvedClass>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Every class.
    pub fn all(&self) -> Vec<Arc<ResolvedClass>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Takes in what was found about a class.
    pub fn put(&self, class: ResolvedClass) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(class.class.key.clone(), Arc::new(class));
    }

    /// Forgets a class.
    pub fn remove(&self, key: &ClassKey) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
