//! Which conditions of nodes are a reason to repair them: those of the kubelet and of EKS's node monitoring agent.

use std::time::Duration;

use karpenter_provider::{RepairAction, RepairPolicy};

/// The policies: condition, status, and how long it is tolerated.
pub(crate) fn policies() -> Vec<RepairPolicy> {
    let (ten, thirty) = (Duration::from_mins(10), Duration::from_mins(30));
    let rows: [(&'static str, &'static str, Duration); 7] = [
        ("Ready", "False", thirty),
        ("Ready", "Unknown", thirty),
        ("AcceleratedHardwareReady", "False", ten),
        ("StorageReady", "False", thirty),
        ("NetworkingReady", "False", thirty),
        ("KernelReady", "False", thirty),
        ("ContainerRuntimeReady", "False", thirty),
    ];
    let rows = rows.into_iter().enumerate();
    rows.map(|(index, (condition, status, toleration))| RepairPolicy {
        condition,
        status,
        // Exactly one policy covers what the others do not.
        reason: (index > 0).then_some(".*"),
        toleration,
        grace_period: None,
        priority: 0,
        action: RepairAction::ReplaceNode,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use karpenter_provider::RepairPolicies;

    #[test]
    fn the_policies_are_sound() {
        assert!(RepairPolicies::new(super::policies()).is_ok());
    }
}
