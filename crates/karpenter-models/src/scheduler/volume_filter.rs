//! Whether a pod's claims can be had on a node.

use std::collections::{BTreeMap, BTreeSet};

use super::class::ClaimUse;
use super::nodes::NodeState;
use super::reason::{Reason, Rejection};
use super::volumes::Volumes;
use karpenter_runtime::Key;

/// What a pod's claims ask of nodes, worked out once per attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeNeeds {
    /// Volumes that claims are bound to.
    bound: Vec<String>,
    /// Claims that get their volume when the pod's node is known.
    waiting: Vec<Key>,
    /// Drivers and identities of all volumes the node would attach.
    attached: Vec<(String, String)>,
    /// Whether a claim for one pod only is in use.
    is_taken: bool,
}

/// What becomes of a pod's claims once its node is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeChoice {
    /// Claims and the existing volumes chosen for them.
    pub bind: Vec<(Key, String)>,
    /// Claims that a provisioner makes a volume for.
    pub provision: Vec<Key>,
}

impl VolumeNeeds {
    /// Reads what claims ask for; an error is about the pod, whatever the node.
    pub(crate) fn read(
        volumes: &Volumes,
        pod_key: &Key,
        uid: &str,
        claims: &[ClaimUse],
        pod: Option<u32>,
    ) -> Result<Self, Reason> {
        let mut needs = Self::default();
        let namespace = pod_key.namespace().unwrap_or_default();
        for used in claims {
            let key = Key::namespaced(namespace, &used.name);
            check_claim(volumes, &key, used, pod_key, uid)?;
            needs.is_taken |= volumes.claim(&key).is_some_and(super::volumes::Claim::is_for_one_pod)
                && volumes.is_used_by_others(&key, pod);
        }
        for used in claims {
            let key = Key::namespaced(namespace, &used.name);
            let claim = volumes.claim(&key).expect("the claim was found a line ago");
            needs.attached.extend(volumes.identity(&key));
            let class = claim.class.as_deref().and_then(|name| volumes.class(name));
            match (&claim.volume, class) {
                (Some(volume), _) if claim.is_bound => needs.bound.push(volume.clone()),
                (None, Some(class)) if class.waits => needs.waiting.push(key),
                _ => {
                    return Err(Reason::Pod("pod has unbound immediate PersistentVolumeClaims".to_owned()));
                }
            }
        }
        Ok(needs)
    }

    /// Returns why a node cannot serve the claims.
    pub(crate) fn check(&self, volumes: &Volumes, node: &NodeState, others: &[Key]) -> Result<(), Rejection> {
        if self.is_taken {
            return Err(Rejection::because(Reason::ReadWriteOncePod));
        }
        if self.exceeds_limits(volumes, node, others) {
            return Err(Rejection::because(Reason::VolumeLimit));
        }
        self.choose(volumes, node).map_err(|reasons| Rejection { reasons, is_final: true })?;
        let out_of_zone = |name: &String| {
            volumes.volume(name).is_some_and(|volume| !volume.is_in_zone_of(&node.facts.labels))
        };
        if self.bound.iter().any(out_of_zone) {
            return Err(Rejection::because(Reason::VolumeZone));
        }
        Ok(())
    }

    /// Chooses volumes for the claims that wait for a node.
    pub(crate) fn choose(&self, volumes: &Volumes, node: &NodeState) -> Result<VolumeChoice, Vec<Reason>> {
        let mut reasons = Vec::new();
        let (name, labels) = (node.name.as_str(), &node.facts.labels);
        let bound = || self.bound.iter().map(|volume| volumes.volume(volume));
        if bound().flatten().any(|volume| !volume.is_reachable_from(name, labels)) {
            reasons.push(Reason::VolumeNodeAffinity);
        }
        let choice = self.choose_waiting(volumes, node);
        if choice.is_none() {
            reasons.push(Reason::NoVolume);
        }
        if bound().any(|volume| volume.is_none()) {
            reasons.push(Reason::VolumeMissing);
        }
        match choice {
            Some(choice) if reasons.is_empty() => Ok(choice),
            _ => Err(reasons),
        }
    }

    fn choose_waiting(&self, volumes: &Volumes, node: &NodeState) -> Option<VolumeChoice> {
        let mut choice = VolumeChoice::default();
        let mut taken = BTreeSet::new();
        let (name, labels) = (node.name.as_str(), &node.facts.labels);
        for key in &self.waiting {
            let claim = volumes.claim(key)?;
            match &claim.selected_node {
                Some(selected) if selected != name => return None,
                Some(_) => {}
                None => {
                    if let Some(volume) = volumes.match_for(key, claim, name, labels, &taken) {
                        taken.insert(volume.to_owned());
                        choice.bind.push((key.clone(), volume.to_owned()));
                        continue;
                    }
                }
            }
            let class = volumes.class(claim.class.as_deref()?)?;
            if !class.provisions_for(labels) {
                return None;
            }
            choice.provision.push(key.clone());
        }
        Some(choice)
    }

    fn exceeds_limits(&self, volumes: &Volumes, node: &NodeState, others: &[Key]) -> bool {
        let Some(limits) = volumes.limits(&node.name).filter(|limits| !limits.is_empty()) else {
            return false;
        };
        let mut there: BTreeSet<(String, String)> = volumes.attached_to(&node.name).collect();
        there.extend(others.iter().filter_map(|claim| volumes.identity(claim)));
        let new: BTreeSet<&(String, String)> =
            self.attached.iter().filter(|volume| !there.contains(*volume)).collect();
        let mut wanted: BTreeMap<&str, i64> = BTreeMap::new();
        for (driver, _) in &new {
            *wanted.entry(driver).or_default() += 1;
        }
        wanted.iter().any(|(driver, count)| {
            let held = there.iter().filter(|(held, _)| held == driver).count() as i64;
            limits.get(*driver).is_some_and(|limit| held + count > *limit)
        })
    }
}

fn check_claim(volumes: &Volumes, key: &Key, used: &ClaimUse, pod: &Key, uid: &str) -> Result<(), Reason> {
    let name = key.name();
    let fail = |text: String| Err(Reason::Pod(text));
    let Some(claim) = volumes.claim(key) else {
        return fail(if used.is_ephemeral {
            format!("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\"")
        } else {
            format!("persistentvolumeclaim \"{name}\" not found")
        });
    };
    if claim.is_lost {
        let volume = claim.volume.as_deref().unwrap_or_default();
        return fail(format!(
            "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
        ));
    }
    if claim.is_deleting {
        return fail(format!("persistentvolumeclaim \"{name}\" is being deleted"));
    }
    if used.is_ephemeral && claim.owner.as_deref() != Some(uid) {
        let namespace = key.namespace().unwrap_or_default();
        let pod = pod.name();
        let why =
            format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)");
        return fail(why);
    }
    Ok(())
}
