//! The rights the provider uses, what each is for, and which of them are missing.
//!
//! The table is made from the operations the code calls, so the policy document cannot name an action that nobody calls, nor miss one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use karpenter_alibabacloud_client::{Error, Operation, cms, cs, ecs, mns, ram, sts, vpc};
use serde_json::{Value, json};

/// A right and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The action, as in a RAM policy.
    pub action: &'static str,
    /// Whether nothing works without it.
    pub is_required: bool,
    /// What is lost without it.
    pub cost: &'static str,
}

const fn required<O: Operation>(cost: &'static str) -> Right {
    Right { action: O::RAM_ACTION, is_required: true, cost }
}

const fn optional<O: Operation>(cost: &'static str) -> Right {
    Right { action: O::RAM_ACTION, is_required: false, cost }
}

/// Every right the provider uses.
pub const RIGHTS: &[Right] = &[
    required::<ecs::RunInstances>("no machine can be started"),
    required::<ecs::DescribeInstances>("machines cannot be found again"),
    required::<ecs::DeleteInstances>("machines cannot be ended"),
    required::<ecs::DescribeInstanceTypes>("it is not known what can be bought"),
    required::<ecs::DescribeSecurityGroups>("securityGroupSelectorTerms cannot be resolved"),
    required::<ecs::DescribeImages>("imageSelectorTerms cannot be resolved"),
    required::<vpc::DescribeVSwitches>("vSwitchSelectorTerms cannot be resolved"),
    required::<cs::DescribeClusterDetail>("the ACK cluster's network and version are not known"),
    required::<cs::DescribeClusterAttachScripts>("machines cannot join the ACK cluster"),
    optional::<ecs::CreateAutoProvisioningGroup>("machines are started one type at a time"),
    optional::<ecs::DescribeAvailableResource>(
        "stock is not known: spot is not used, and on-demand is tried on trust",
    ),
    optional::<ecs::DescribePrice>("on-demand prices are estimates"),
    optional::<ecs::DescribeSpotPriceHistory>("spot prices are estimates"),
    optional::<ecs::DescribeCapacityReservations>("capacityReservationSelectorTerms select nothing"),
    optional::<ecs::DescribeInstancesFullStatus>("planned maintenance is not seen before it begins"),
    optional::<ecs::ListTagResources>("clusters of more than 1,000 machines cannot be listed"),
    optional::<ecs::TagResources>("machines do not carry the name of their node"),
    optional::<ecs::RebootInstance>("nodes are replaced where a restart would do"),
    optional::<cs::DescribeClusterNodePools>("the container runtime is the attach script's"),
    optional::<cs::DescribeKubernetesVersionMetadata>(
        "image aliases such as AlibabaCloudLinux3 cannot be resolved",
    ),
    optional::<cs::GetClusterAddonInstance>("the settings of the network add-on are not known"),
    optional::<ram::GetRole>("the role of machines is not checked before the first launch"),
    optional::<cms::DescribeSystemEventAttribute>(
        "interruptions are known by the lock and the node's condition alone",
    ),
    optional::<mns::BatchReceiveMessage>("the interruption queue is not read"),
    // One page of the cloud's documentation names this right for several messages at a time, another the one above.
    Right {
        action: "mns:BatchReceiveMessage",
        is_required: false,
        cost: "the interruption queue is not read",
    },
    optional::<mns::DeleteMessage>("messages of the interruption queue come again and again"),
    optional::<sts::GetCallerIdentity>("the account of the interruption queue is not known"),
    Right { action: "ram:PassRole", is_required: false, cost: "machines cannot be given a RAM role" },
    Right {
        action: "ram:CreateServiceLinkedRole",
        is_required: false,
        cost: "the account's first auto-provisioning group is refused",
    },
];

/// The RAM policy that allows everything the provider does.
pub fn policy_document() -> Value {
    let mut services: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for right in RIGHTS {
        let service = right.action.split(':').next().unwrap_or_default();
        services.entry(service).or_default().push(right.action);
    }
    let statement = |mut actions: Vec<&'static str>| {
        actions.sort_unstable();
        json!({"Effect": "Allow", "Action": actions, "Resource": "*"})
    };
    json!({"Version": "1", "Statement": services.into_values().map(statement).collect::<Vec<_>>()})
}

/// What is lost with a policy that allows only `allowed`.
pub fn missing<'a>(allowed: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = &'static Right> + 'a {
    RIGHTS.iter().filter(move |right| !allowed(right.action))
}

/// Remembers which rights turned out to be missing. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    missing: Arc<Mutex<BTreeMap<String, Timestamp>>>,
}

impl Rights {
    /// Takes note of a refusal; `false` if the error is something else. Each right is complained about once.
    pub fn note(&self, error: &Error, now: Timestamp) -> bool {
        let Some(action) = &error.missing_action else { return false };
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if missing.insert(action.to_string(), now).is_none() {
            let cost = RIGHTS.iter().find(|right| right.action == &**action).map_or("", |right| right.cost);
            tracing::warn!("the RAM policy does not allow {action}, so {cost}: {error}");
        }
        true
    }

    /// Takes note of how a call of `O` ended; `true` if the policy refused it.
    pub fn hear<O: Operation, T>(&self, ended: &Result<T, Error>, now: Timestamp) -> bool {
        match ended {
            Ok(_) => {
                self.clear(O::RAM_ACTION);
                false
            }
            Err(error) => self.note(error, now),
        }
    }

    /// The call worked: what was missing is there now.
    pub fn clear(&self, action: &str) {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).remove(action);
    }

    /// The rights known to be missing, with what each costs.
    pub fn missing(&self) -> Vec<(String, &'static str)> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let cost =
            |action: &str| RIGHTS.iter().find(|right| right.action == action).map_or("", |right| right.cost);
        missing.keys().map(|action| (action.clone(), cost(action))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_right_stands_in_the_policy_once() {
        let document = policy_document();
        let statements = document["Statement"].as_array().unwrap();
        let actions: Vec<&str> = statements
            .iter()
            .flat_map(|statement| statement["Action"].as_array().unwrap())
            .map(|action| action.as_str().unwrap())
            .collect();
        let distinct: BTreeSet<&str> = actions.iter().copied().collect();
        assert_eq!(actions.len(), distinct.len());
        assert_eq!(distinct, RIGHTS.iter().map(|right| right.action).collect());
        assert!(distinct.contains("ecs:DescribeAvailableResource"));
        assert!(!distinct.contains("ecs:DescribeInstanceTypeResource"), "no such action is called");
    }

    #[test]
    fn with_the_handbooks_policy_nothing_that_on_demand_needs_is_missing() {
        let handbook = [
            "cs:DescribeClusterAttachScripts",
            "cs:GetClusterAddonInstance",
            "cs:DescribeClusterDetail",
            "ecs:RunInstances",
            "ecs:DescribeInstances",
            "ecs:DeleteInstances",
            "ecs:TagResources",
            "ecs:DescribeImages",
            "ecs:DescribeSecurityGroups",
            "ecs:DescribeCapacityReservations",
            "ecs:DescribePrice",
            "ecs:DescribeInstanceTypes",
            "ecs:DescribeZones",
            "vpc:DescribeVSwitches",
            "ram:GetRole",
        ];
        let lost: Vec<&Right> = missing(|action| handbook.contains(&action)).collect();
        assert!(lost.iter().all(|right| !right.is_required && !right.cost.is_empty()), "{lost:?}");
        assert!(lost.iter().any(|right| right.action == "ecs:DescribeAvailableResource"));
    }
}
