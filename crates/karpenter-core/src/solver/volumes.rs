//! Persistent volumes of a pod: whether they are usable at all, where they can be attached, and who attaches them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::HOSTNAME;
use crate::cluster::{BindingMode, ClaimPhase, ClusterSnapshot, Pod, StorageClass, VolumeClaim, VolumeRef};
use crate::plan::Ignored;
use crate::requirements::RequirementSet;

/// More combinations of alternatives than this are not tried; volumes with several alternatives each are rare.
const ALTERNATIVES_MAX: usize = 64;

/// A volume a node attaches: its driver and the claim that stands for it.
pub(crate) type Attachment = (Arc<str>, (Arc<str>, Arc<str>));

/// What the claim behind a reference says, or what its template will say.
fn claim_of(pod: &Pod, reference: &VolumeRef, snapshot: &ClusterSnapshot) -> Result<VolumeClaim, Ignored> {
    let key = (pod.id.namespace.clone(), reference.claim.clone());
    match snapshot.volume_claims.get(&key) {
        Some(claim) => Ok(claim.clone()),
        None if reference.ephemeral => Ok(VolumeClaim {
            namespace: key.0,
            name: key.1,
            storage_class: reference.ephemeral_class.clone(),
            ..VolumeClaim::default()
        }),
        None => Err(Ignored(format!("persistentvolumeclaim {}/{} does not exist: create it", key.0, key.1))),
    }
}

/// Checks that every volume of the pod can be attached to some node.
pub(crate) fn validate(pod: &Pod, snapshot: &ClusterSnapshot) -> Result<(), Ignored> {
    pod.volumes.iter().try_for_each(|reference| {
        let claim = claim_of(pod, reference, snapshot)?;
        let refuse = |why: String| {
            Err(Ignored(format!("persistentvolumeclaim {}/{} {why}", claim.namespace, claim.name)))
        };
        if claim.deleting {
            return refuse("is being deleted".to_owned());
        }
        if claim.phase == ClaimPhase::Lost {
            return refuse("has lost its volume".to_owned());
        }
        match &claim.volume {
            Some(name) => match snapshot.volumes.get(name) {
                None => refuse(format!("names persistentvolume {name}, which does not exist")),
                Some(volume) if volume.deleting => {
                    refuse(format!("names persistentvolume {name}, which is being deleted"))
                }
                Some(_) if !claim.bind_completed => {
                    refuse(format!("is not yet bound to persistentvolume {name}"))
                }
                Some(_) => Ok(()),
            },
            None => match class_of(&claim, snapshot) {
                Err(why) => refuse(why),
                Ok(class) if class.binding == BindingMode::Immediate => refuse(format!(
                    "is unbound and storageclass {} binds immediately: wait for its volume",
                    class.name
                )),
                Ok(_) => Ok(()),
            },
        }
    })
}

fn class_of<'a>(claim: &VolumeClaim, snapshot: &'a ClusterSnapshot) -> Result<&'a StorageClass, String> {
    match claim.storage_class.as_ref().filter(|name| !name.is_empty()) {
        None => Err("is unbound and names no storageclass".to_owned()),
        Some(name) => snapshot
            .storage_classes
            .get(name)
            .ok_or_else(|| format!("names storageclass {name}, which does not exist")),
    }
}

/// The alternatives a node must satisfy one of so that all volumes of the pod can be attached; empty when any node will do.
pub(crate) fn alternatives(pod: &Pod, snapshot: &ClusterSnapshot) -> Vec<RequirementSet> {
    let mut combined: Vec<RequirementSet> = Vec::new();
    for reference in &pod.volumes {
        let Ok(claim) = claim_of(pod, reference, snapshot) else { continue };
        let terms = terms_of(&claim, snapshot);
        if terms.is_empty() {
            continue;
        }
        if combined.is_empty() {
            combined = terms;
            continue;
        }
        let all: Vec<RequirementSet> = combined
            .iter()
            .flat_map(|set| terms.iter().map(|term| set.intersect(term)))
            .take(ALTERNATIVES_MAX)
            .collect();
        let possible: Vec<_> = all.iter().filter(|set| set.contradiction().is_none()).cloned().collect();
        combined = if possible.is_empty() { all } else { possible };
    }
    combined
}

fn terms_of(claim: &VolumeClaim, snapshot: &ClusterSnapshot) -> Vec<RequirementSet> {
    match claim.volume.as_ref().and_then(|name| snapshot.volumes.get(name)) {
        Some(volume) => volume
            .node_terms
            .iter()
            .map(|term| {
                term.iter()
                    .filter(|requirement| !volume.host_bound || &*requirement.key != HOSTNAME)
                    .collect()
            })
            .collect(),
        None => class_of(claim, snapshot)
            .map(|class| class.topologies.iter().map(|term| term.iter().collect()).collect())
            .unwrap_or_default(),
    }
}

/// The volumes a node attaches for the pod, per CSI driver.
pub(crate) fn attachments(pod: &Pod, snapshot: &ClusterSnapshot) -> BTreeSet<Attachment> {
    let attach = |reference: &VolumeRef| {
        let claim = claim_of(pod, reference, snapshot).ok()?;
        let volume = claim.volume.as_ref().and_then(|name| snapshot.volumes.get(name));
        let driver = match volume {
            Some(volume) => volume.driver.clone()?,
            None => class_of(&claim, snapshot).ok()?.provisioner.clone(),
        };
        Some((driver, (claim.namespace, claim.name)))
    };
    pod.volumes.iter().filter_map(attach).collect()
}
