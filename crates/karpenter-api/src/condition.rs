//! Names of status conditions and of the reasons they give, by kind.

/// The root condition of every kind: true when all the conditions it rests on are true.
pub const READY: &str = "Ready";
/// Reason of a condition that nobody has looked at yet.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Reason of `Ready` when something it rests on is false.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Reason of `Ready` while something it rests on is unknown.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

/// Conditions of a NodePool.
pub mod nodepool {
    /// The checks beyond CEL passed; part of `Ready`.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// The NodeClass exists and is ready; part of `Ready`.
    pub const NODE_CLASS_READY: &str = "NodeClassReady";
    /// Recent nodes of the pool launched and registered; informational.
    pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";
    /// Nothing was found that keeps the pool from working as meant; informational, and ours alone. The reason is the code of the worst finding.
    pub const LINT_PASSED: &str = "LintPassed";
    /// The conditions `Ready` rests on.
    pub const DEPENDENTS: &[&str] = &[VALIDATION_SUCCEEDED, NODE_CLASS_READY];

    /// Reason of `ValidationSucceeded` false; the message lists the errors.
    pub const VALIDATION_FAILED: &str = "NodePoolValidationFailed";
    /// Reason of `NodeClassReady` false: there is no such NodeClass.
    pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
    /// Reason of `NodeClassReady` false: the NodeClass is being deleted.
    pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
    /// Reason of `NodeClassReady` false: the NodeClass does not say whether it is ready.
    pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
    /// Reason of `NodeRegistrationHealthy` false: nodes launch but do not register.
    pub const REGISTRATION_FAILED: &str = "RegistrationFailed";
}

/// Conditions of a NodeClaim.
pub mod nodeclaim {
    /// The machine was requested successfully; part of `Ready`.
    pub const LAUNCHED: &str = "Launched";
    /// The node joined the cluster; part of `Ready`.
    pub const REGISTERED: &str = "Registered";
    /// The node is ready for pods; part of `Ready`.
    pub const INITIALIZED: &str = "Initialized";
    /// The conditions `Ready` rests on.
    pub const DEPENDENTS: &[&str] = &[LAUNCHED, REGISTERED, INITIALIZED];

    /// Consolidation may consider the node; true or absent.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// The node no longer matches what its pool asks for; true or absent.
    pub const DRIFTED: &str = "Drifted";
    /// The node has the resources its instance type promises.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// Why the node is being disrupted; the reason names the method.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";
    /// Pods have left the node.
    pub const DRAINED: &str = "Drained";
    /// Volumes have left the node.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// The machine is being terminated.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
    /// The node is being rebooted.
    pub const REBOOTING: &str = "Rebooting";

    /// Reason of `Launched` unknown: the provider returned an error.
    pub const LAUNCH_FAILED: &str = "LaunchFailed";
    /// Reason of `Registered` and `Initialized` unknown: no node has the machine's identity.
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    /// Reason of `Registered` false: several nodes claim the same machine.
    pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
    /// Reason of `Registered` unknown: provider hooks have not finished.
    pub const REGISTRATION_HOOK_PENDING: &str = "RegistrationHookPending";
    /// Reason of `Initialized` unknown: the node is not ready.
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    /// Reason of `Initialized` unknown: startup taints are still there.
    pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
    /// Reason of `Initialized` unknown: taints of young nodes are still there.
    pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
    /// Reason of `Initialized` unknown: a requested resource is missing on the node.
    pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
    /// Reason of `Initialized` unknown: a DRA driver has not published its devices.
    pub const DRA_DRIVER_POOLS_NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
    /// Reason of `Drifted`: the pool's template changed.
    pub const NODEPOOL_DRIFTED: &str = "NodePoolDrifted";
    /// Reason of `Drifted`: the node's labels no longer meet the pool's requirements.
    pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
    /// Reason of `Drifted`: the instance type or its offering is gone.
    pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";
    /// Reason of `ConsistentStateFound` false.
    pub const CONSISTENCY_CHECK_FAILED: &str = "ConsistencyCheckFailed";
    /// Reason of `Drained` unknown: pods are still leaving.
    pub const DRAINING: &str = "Draining";
    /// Reason of `VolumesDetached` unknown: volumes are still attached.
    pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
    /// Reason of `VolumesDetached` false: the grace period ended first.
    pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";
    /// Reason of `Rebooting` true: decided, pods are leaving.
    pub const REBOOT_REQUESTED: &str = "RebootRequested";
    /// Reason of `Rebooting` true: the provider was asked, the new boot is awaited.
    pub const REBOOT_ISSUED: &str = "RebootIssued";
    /// Reason of `Rebooting` false: the node is back.
    pub const REBOOT_SUCCEEDED: &str = "RebootSucceeded";
    /// Reason of `Rebooting` false: the node did not come back.
    pub const REBOOT_FAILED: &str = "RebootFailed";
    /// Reason of `Initialized` unknown while the node reboots.
    pub const REASON_REBOOTING: &str = "Rebooting";
}

/// Conditions of a NodeOverlay.
pub mod nodeoverlay {
    /// The overlay is valid and conflicts with no other; `Ready` rests on it.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// The conditions `Ready` rests on.
    pub const DEPENDENTS: &[&str] = &[VALIDATION_SUCCEEDED];
    /// Reason of `ValidationSucceeded` false: the overlay itself is wrong.
    pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
    /// Reason of `ValidationSucceeded` false: another overlay of the same weight says otherwise.
    pub const CONFLICT: &str = "Conflict";
}

/// Conditions of a CapacityBuffer.
pub mod capacitybuffer {
    /// The pod template and the number of chunks are known.
    pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
    /// Whether the buffer fits into the cluster as it is.
    pub const PROVISIONING: &str = "Provisioning";
    /// Quotas bound the buffer; reserved, never set.
    pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";

    /// Reason of `ReadyForProvisioning` true.
    pub const RESOLVED: &str = "Resolved";
    /// Reason of `ReadyForProvisioning` false: the workload does not exist.
    pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
    /// Reason of `ReadyForProvisioning` false: the PodTemplate does not exist.
    pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
    /// Reason of `ReadyForProvisioning` false: the buffer cannot be understood.
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    /// Reason of `Provisioning` true: no new node is needed.
    pub const FITS_EXISTING_CAPACITY: &str = "FitsExistingCapacity";
    /// Reason of `Provisioning` false: new nodes are needed.
    pub const REQUIRES_NEW_CAPACITY: &str = "RequiresNewCapacity";
    /// Reason of `Provisioning` false: `ReadyForProvisioning` is not true.
    pub const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
    /// Reason of `Provisioning` false: the buffer asks for no chunk.
    pub const BUFFER_EMPTY: &str = "BufferEmpty";
}
