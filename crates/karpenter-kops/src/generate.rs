//! From InstanceGroups to `EC2NodeClass`es and NodePools.

use std::collections::BTreeMap;

use crate::cloud::Answers;
use crate::complete::complete;
use crate::model::{InstanceGroup, Inventory};
use crate::node_class::node_class;
use crate::node_pool::node_pool;
use crate::objects::Pair;

/// The bootstrap scripts by the names of the groups.
pub type Scripts = BTreeMap<String, String>;

/// A group that passed validation and still has no objects.
#[derive(Debug, thiserror::Error)]
#[error("InstanceGroup {group}: {reason}")]
pub struct GenerateError {
    /// The group.
    pub group: String,
    /// What is missing.
    pub reason: String,
}

/// Writes the objects of every group that Karpenter manages, by name.
///
/// # Errors
///
/// The first group whose image, subnets, machine type or script is missing.
pub fn generate(
    inventory: &Inventory,
    answers: &Answers,
    scripts: &Scripts,
) -> Result<Vec<Pair>, GenerateError> {
    let pair = |group: &InstanceGroup| {
        let complete = complete(group, &inventory.cluster, answers)?;
        let script = scripts.get(&group.name).ok_or("there is no bootstrap script for it")?;
        Ok(Pair::new(&group.name, &node_class(&complete, script), &node_pool(&complete)))
    };
    let failed = |group: &InstanceGroup, reason: String| GenerateError { group: group.name.clone(), reason };
    inventory
        .karpenter_groups()
        .into_iter()
        .map(|group| pair(group).map_err(|reason| failed(group, reason)))
        .collect()
}
