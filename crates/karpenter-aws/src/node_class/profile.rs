//! Instance profiles that are made for a role: their names, paths and tags.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_client::iam::{IamTag, InstanceProfile};

use super::EC2NodeClass;

/// A new profile is in nobody's status yet: it is not garbage before this has passed.
const PROTECTION: SignedDuration = SignedDuration::from_hours(1);
/// The longest name IAM takes.
const LONGEST_NAME: usize = 128;

/// Where profiles belong: a cluster in a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) cluster: String,
    pub(super) region: String,
}

impl Home {
    /// The path of all profiles of the cluster.
    pub(super) fn path(&self) -> String {
        format!("/karpenter/{}/{}/", self.region, self.cluster)
    }

    /// The path of the profiles of a class.
    pub(super) fn class_path(&self, uid: &str) -> String {
        format!("{}{uid}/", self.path())
    }

    /// The name of a new profile; `unique` makes it another one each time.
    pub(super) fn name(&self, class: &str, unique: &str) -> String {
        format!("{}_{}", self.cluster, fnv1a(&[&self.region, class, unique]))
    }

    /// The name that upstream's older versions gave the one profile of a class: FNV-1, not FNV-1a, over region and name.
    pub(super) fn legacy_name(&self, class: &str) -> String {
        let bytes = self.region.bytes().chain(class.bytes());
        let hash = bytes.fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(byte));
        format!("{}_{hash}", self.cluster)
    }

    /// Whether a profile was made for the class with this uid, by us or by an older version.
    pub(super) fn owns(&self, profile: &InstanceProfile, uid: &str) -> bool {
        profile.path == self.class_path(uid)
            || profile.instance_profile_name.starts_with(&format!("{}_", self.cluster))
    }

    /// The tags of the profiles of a class.
    pub(super) fn tags(&self, class: &EC2NodeClass) -> Vec<IamTag> {
        let mut tags = class.spec.tags.clone();
        tags.insert(format!("kubernetes.io/cluster/{}", self.cluster), "owned".to_owned());
        tags.insert("eks:eks-cluster-name".to_owned(), self.cluster.clone());
        tags.insert(
            "karpenter.k8s.aws/ec2nodeclass".to_owned(),
            class.metadata.name.clone().unwrap_or_default(),
        );
        tags.insert("topology.kubernetes.io/region".to_owned(), self.region.clone());
        tags.into_iter().map(|(key, value)| IamTag { key, value }).collect()
    }
}

/// The name of a role without its path, as IAM wants it with profiles.
pub(super) fn role_name(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

/// Whether a profile is for this role.
pub(super) fn serves(profile: &InstanceProfile, role: &str) -> bool {
    profile.roles.iter().any(|known| known.role_name == role_name(role))
}

/// Whether IAM could have a profile of this name.
pub(super) fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(good)
}

/// Profiles that were made or replaced lately. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Protected {
    since: Arc<Mutex<BTreeMap<String, Timestamp>>>,
}

impl Protected {
    /// Keeps a profile from being collected for a while.
    pub(super) fn protect(&self, name: &str, now: Timestamp) {
        self.lock().insert(name.to_owned(), now);
    }

    /// Whether a profile must not be collected yet.
    pub(super) fn holds(&self, name: &str, now: Timestamp) -> bool {
        self.lock().get(name).is_some_and(|since| now.duration_since(*since) < PROTECTION)
    }

    /// Forgets what is no longer protected.
    pub(super) fn tidy(&self, now: Timestamp) {
        self.lock().retain(|_, since| now.duration_since(*since) < PROTECTION);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// FNV's first value and its factor, for 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a over texts, with a separator that none of them contains.
fn fnv1a(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}
