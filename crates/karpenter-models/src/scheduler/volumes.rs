//! Claims, volumes and what nodes can attach, as the scheduler keeps them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use karpenter_quantity::Quantity;

use super::rules::NodeTerm;
use crate::selector::{Labels, Selector};
use karpenter_runtime::Key;

/// The annotation by which the scheduler tells provisioners where a claim's pod goes.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a claim whose binding is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const DEFAULT_MODE: &str = "Filesystem";
const ZONE_KEYS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// A claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) volume: Option<String>,
    pub(crate) is_bound: bool,
    pub(crate) is_lost: bool,
    pub(crate) is_deleting: bool,
    pub(crate) class: Option<String>,
    pub(crate) modes: Vec<String>,
    pub(crate) volume_mode: String,
    pub(crate) size: Quantity,
    pub(crate) selector: Option<Selector>,
    pub(crate) selected_node: Option<String>,
    /// The pod the claim was made for.
    pub(crate) owner: Option<String>,
}

impl Claim {
    fn read(claim: &core::PersistentVolumeClaim) -> Self {
        let annotation =
            |name: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(name)).cloned();
        let none = core::PersistentVolumeClaimSpec::default();
        let spec = claim.spec.as_ref().unwrap_or(&none);
        let volume = spec.volume_name.clone().filter(|name| !name.is_empty());
        let size = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()?.get("storage"));
        let owners = claim.metadata.owner_references.iter().flatten();
        Self {
            is_bound: volume.is_some() && annotation(BIND_COMPLETED).is_some(),
            is_lost: claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost"),
            is_deleting: claim.metadata.deletion_timestamp.is_some(),
            class: spec.storage_class_name.clone().filter(|name| !name.is_empty()),
            modes: spec.access_modes.clone().unwrap_or_default(),
            volume_mode: spec.volume_mode.clone().unwrap_or_else(|| DEFAULT_MODE.to_owned()),
            size: size.and_then(|size| size.0.parse().ok()).unwrap_or(Quantity::ZERO),
            selector: spec.selector.as_ref().map(|selector| Selector::new(Some(selector))),
            selected_node: annotation(SELECTED_NODE),
            owner: owners
                .filter(|owner| owner.controller == Some(true))
                .map(|owner| owner.uid.clone())
                .next(),
            volume,
        }
    }

    pub(crate) fn is_for_one_pod(&self) -> bool {
        self.modes.iter().any(|mode| mode == "ReadWriteOncePod")
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Alternatives of nodes that reach it; `None` is every node.
    terms: Option<Vec<NodeTerm>>,
    /// Zone labels with their values.
    zones: Vec<(String, BTreeSet<String>)>,
    class: Option<String>,
    modes: Vec<String>,
    mode: String,
    size: Quantity,
    labels: Labels,
    is_available: bool,
    /// The claim it is, or will be, bound to.
    claim: Option<(Key, Option<String>)>,
    /// The CSI driver and the volume's name there.
    driver: Option<(String, String)>,
}

impl Volume {
    fn read(volume: &core::PersistentVolume) -> Self {
        let none = core::PersistentVolumeSpec::default();
        let spec = volume.spec.as_ref().unwrap_or(&none);
        let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let labels = volume.metadata.labels.clone().unwrap_or_default();
        let zones = ZONE_KEYS.iter().filter_map(|key| {
            let values = labels.get(*key)?.split("__").map(str::to_owned).collect();
            Some(((*key).to_owned(), values))
        });
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let size = spec.capacity.as_ref().and_then(|capacity| capacity.get("storage"));
        let claim = spec.claim_ref.as_ref().map(|reference| {
            let key = Key::namespaced(
                reference.namespace.as_deref().unwrap_or_default(),
                reference.name.as_deref().unwrap_or_default(),
            );
            (key, reference.uid.clone())
        });
        Self {
            terms: required
                .map(|required| required.node_selector_terms.iter().filter_map(NodeTerm::read).collect()),
            zones: zones.collect(),
            class: spec.storage_class_name.clone().filter(|name| !name.is_empty()),
            modes: spec.access_modes.clone().unwrap_or_default(),
            mode: spec.volume_mode.clone().unwrap_or_else(|| DEFAULT_MODE.to_owned()),
            size: size.and_then(|size| size.0.parse().ok()).unwrap_or(Quantity::ZERO),
            is_available: phase == Some("Available"),
            driver: spec.csi.as_ref().map(|csi| (csi.driver.clone(), csi.volume_handle.clone())),
            labels,
            claim,
        }
    }

    pub(crate) fn driver(&self) -> Option<&(String, String)> {
        self.driver.as_ref()
    }

    pub(crate) fn is_reachable_from(&self, name: &str, labels: &Labels) -> bool {
        self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
    }

    /// Returns whether zone labels agree; nodes without any are in every zone.
    pub(crate) fn is_in_zone_of(&self, labels: &Labels) -> bool {
        if !ZONE_KEYS.iter().any(|key| labels.contains_key(*key)) {
            return true;
        }
        self.zones.iter().all(|(key, values)| {
            let value = labels.get(key).or_else(|| labels.get(present_name(key)));
            value.is_some_and(|value| values.contains(value))
        })
    }

    /// Returns whether the volume could become the claim's.
    fn suits(&self, key: &Key, claim: &Claim) -> bool {
        let is_free = match &self.claim {
            Some((held_by, _)) => held_by == key,
            None => self.is_available,
        };
        is_free
            && self.class == claim.class
            && self.mode == claim.volume_mode
            && self.size >= claim.size
            && claim.modes.iter().all(|mode| self.modes.contains(mode))
            && claim.selector.as_ref().is_none_or(|selector| selector.matches(&self.labels))
    }
}

fn present_name(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        other => other,
    }
}

/// A storage class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorageClass {
    pub(crate) waits: bool,
    pub(crate) provisioner: String,
    /// Alternatives, each a list of labels with the values allowed.
    topologies: Vec<Vec<(String, Vec<String>)>>,
}

impl StorageClass {
    fn read(class: &storage::StorageClass) -> Self {
        let terms = class.allowed_topologies.iter().flatten();
        Self {
            waits: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            provisioner: class.provisioner.clone(),
            topologies: terms
                .map(|term| {
                    let expressions = term.match_label_expressions.iter().flatten();
                    expressions
                        .map(|expression| (expression.key.clone(), expression.values.clone()))
                        .collect()
                })
                .collect(),
        }
    }

    pub(crate) fn provisions_for(&self, labels: &Labels) -> bool {
        if self.provisioner.is_empty() || self.provisioner == NO_PROVISIONER {
            return false;
        }
        self.topologies.is_empty()
            || self.topologies.iter().any(|term| {
                !term.is_empty()
                    && term
                        .iter()
                        .all(|(key, values)| labels.get(key).is_some_and(|value| values.contains(value)))
            })
    }
}

/// Everything known about storage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volumes {
    claims: BTreeMap<Key, Claim>,
    /// By name.
    existing: BTreeMap<String, Volume>,
    classes: BTreeMap<String, StorageClass>,
    /// How many volumes of a driver a node can attach, by node and driver.
    limits: BTreeMap<String, BTreeMap<String, i64>>,
    /// Volumes attached, by attachment: node, driver and volume.
    attachments: BTreeMap<String, (String, String, String)>,
    /// Placed pods by the claims they use.
    users: BTreeMap<Key, BTreeSet<u32>>,
}

impl Volumes {
    pub(crate) fn set_claim(&mut self, key: Key, claim: Option<&core::PersistentVolumeClaim>) -> bool {
        set(&mut self.claims, key, claim.map(Claim::read))
    }

    pub(crate) fn set_volume(&mut self, name: &str, volume: Option<&core::PersistentVolume>) -> bool {
        set(&mut self.existing, name.to_owned(), volume.map(Volume::read))
    }

    pub(crate) fn set_class(&mut self, name: &str, class: Option<&storage::StorageClass>) -> bool {
        set(&mut self.classes, name.to_owned(), class.map(StorageClass::read))
    }

    pub(crate) fn set_csi_node(&mut self, name: &str, node: Option<&storage::CSINode>) -> bool {
        let limits = node.map(|node| {
            let drivers = node.spec.drivers.iter();
            drivers
                .filter_map(|driver| {
                    let count = driver.allocatable.as_ref()?.count?;
                    Some((driver.name.clone(), i64::from(count)))
                })
                .collect()
        });
        set(&mut self.limits, name.to_owned(), limits)
    }

    pub(crate) fn set_attachment(
        &mut self,
        name: &str,
        attachment: Option<&storage::VolumeAttachment>,
    ) -> bool {
        let held = attachment.and_then(|attachment| {
            let volume = attachment.spec.source.persistent_volume_name.clone()?;
            Some((attachment.spec.node_name.clone(), attachment.spec.attacher.clone(), volume))
        });
        set(&mut self.attachments, name.to_owned(), held)
    }

    pub(crate) fn use_claim(&mut self, claim: Key, pod: u32) {
        self.users.entry(claim).or_default().insert(pod);
    }

    pub(crate) fn release_claim(&mut self, claim: &Key, pod: u32) {
        if let Some(users) = self.users.get_mut(claim) {
            users.remove(&pod);
            if users.is_empty() {
                self.users.remove(claim);
            }
        }
    }

    pub(crate) fn is_used_by_others(&self, claim: &Key, pod: Option<u32>) -> bool {
        self.users.get(claim).is_some_and(|users| users.iter().any(|user| Some(*user) != pod))
    }

    pub(crate) fn claim(&self, key: &Key) -> Option<&Claim> {
        self.claims.get(key)
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&Volume> {
        self.existing.get(name)
    }

    pub(crate) fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.get(name)
    }

    pub(crate) fn limits(&self, node: &str) -> Option<&BTreeMap<String, i64>> {
        self.limits.get(node)
    }

    /// Returns the driver and identity of every volume attached to a node.
    pub(crate) fn attached_to<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
        let here = self.attachments.values().filter(move |(at, _, _)| at == node);
        here.map(|(_, driver, volume)| {
            let handle = self.volume(volume).and_then(Volume::driver).map(|(_, handle)| handle.clone());
            (driver.clone(), handle.unwrap_or_else(|| volume.clone()))
        })
    }

    /// Returns the smallest volume that could become a claim's and that a node reaches.
    pub(crate) fn match_for(
        &self,
        key: &Key,
        claim: &Claim,
        name: &str,
        labels: &Labels,
        taken: &BTreeSet<String>,
    ) -> Option<&str> {
        let suiting = self.existing.iter().filter(|(volume_name, volume)| {
            !taken.contains(*volume_name)
                && volume.suits(key, claim)
                && volume.is_reachable_from(name, labels)
        });
        suiting.min_by_key(|(name, volume)| (volume.size, *name)).map(|(name, _)| name.as_str())
    }

    /// Returns the driver and identity of the volume a claim has or will get.
    pub(crate) fn identity(&self, key: &Key) -> Option<(String, String)> {
        let claim = self.claim(key)?;
        if let Some(volume) = &claim.volume {
            return self.volume(volume)?.driver().cloned();
        }
        let class = self.class(claim.class.as_deref()?)?;
        Some((class.provisioner.clone(), format!("claim {key}")))
    }
}

/// Sets or removes an entry; `true` if that changed anything.
fn set<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> bool {
    match value {
        Some(value) => match map.get(&key) {
            Some(known) if *known == value => false,
            _ => {
                map.insert(key, value);
                true
            }
        },
        None => map.remove(&key).is_some(),
    }
}
