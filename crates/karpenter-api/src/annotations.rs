//! Names of annotations: those users set, and those the controller keeps its own notes in.

/// On a pod, node or NodeClaim: `true` blocks voluntary disruption. On a pod it may also be a Go duration,
/// counted from the pod's start, after which the protection ends.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// On a node or NodeClaim: `true` blocks every repair action.
pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
/// On a pod: what evicting it costs, as a 32-bit number; consolidation prefers cheap nodes.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
/// On a pod: the cost Kubernetes itself reads; used when [`DISRUPTION_COST`] is absent.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Hash of a NodePool's template, on the NodePool and on each NodeClaim made from it; see [`crate::hash`].
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the algorithm behind [`NODEPOOL_HASH`]; hashes of different versions are never compared.
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// RFC 3339 time by which a deleted NodeClaim's node must be drained.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Whether `minValues` had to be relaxed for a NodeClaim: `true` or `false`.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// Boot identifier of a node before its reboot was requested.
pub const REBOOT_PRE_BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
/// Go duration that bounds the drain before a reboot; absent means unbounded.
pub const REBOOT_TERMINATION_GRACE_PERIOD: &str = "karpenter.sh/reboot-termination-grace-period";
/// Sorted, comma-separated DRA drivers whose devices a NodeClaim's pods use; initialization waits for them.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// `true` on a NodeClaim for which a NodeOverlay changed a price.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// `true` on a NodeClaim for which a NodeOverlay changed a capacity.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";

/// `true` on the pods a CapacityBuffer stands for; such pods exist only inside the controller.
pub const BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
/// Name of the CapacityBuffer a fake pod stands for.
pub const BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
/// Namespace of the CapacityBuffer a fake pod stands for.
pub const BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";

/// On a NodePool, ours alone: `true` stops all voluntary disruption of its nodes.
pub const DISRUPTION_PAUSED: &str = "disruption.karpenter.sh/paused";
/// On a NodePool, ours alone: what consolidation must save at least, in percent of what the nodes cost (`10%`) or per hour (`0.05`).
pub const MINIMUM_SAVING: &str = "disruption.karpenter.sh/minimum-saving";
/// On a NodePool, ours alone: a Go duration for which a pod is not moved by consolidation after it was created.
pub const POD_RESIDENCY: &str = "disruption.karpenter.sh/pod-residency";
/// On a NodePool, ours alone: how much of the pool may be broken before repairs stop, in percent (`40%`).
pub const UNHEALTHY_TOLERATED: &str = "disruption.karpenter.sh/unhealthy-tolerated";
/// On a NodePool, ours alone: a Go duration; older nodes are replaced like drifted ones, within budgets.
pub const ROTATE_AFTER: &str = "disruption.karpenter.sh/rotate-after";
/// On a NodePool, ours alone: a Go duration over which [`ROTATE_AFTER`] is spread from node to node.
pub const ROTATION_JITTER: &str = "disruption.karpenter.sh/rotation-jitter";
/// On a NodePool, ours alone: a Go duration for which no drifted node is replaced after a replacement failed.
pub const DRIFT_BACKOFF: &str = "disruption.karpenter.sh/drift-backoff";
/// On a NodePool, ours alone: how many drifted nodes are replaced before all others.
pub const DRIFT_CANARY: &str = "disruption.karpenter.sh/drift-canary";
/// On a NodePool, ours alone: how many drifted nodes are replaced together after that (`5`, `10%`).
pub const DRIFT_WAVE: &str = "disruption.karpenter.sh/drift-wave";
/// On a NodePool, ours alone: a Go duration between one wave and the next.
pub const DRIFT_WAVE_PAUSE: &str = "disruption.karpenter.sh/drift-wave-pause";
/// On a NodePool, ours alone: after how many failures drifted nodes are no longer replaced.
pub const DRIFT_HALT_AFTER: &str = "disruption.karpenter.sh/drift-halt-after";
/// On a NodePool, the controller's own: how far the roll-out of its template is.
pub const DRIFT_PROGRESS: &str = "disruption.karpenter.sh/drift-progress";
/// On a NodePool, ours alone: how many nodes may be launched within a minute.
pub const LAUNCHES_PER_MINUTE: &str = "provisioning.karpenter.sh/launches-per-minute";

/// Every annotation of Karpenter's own domain.
pub const ALL: &[&str] = &[
    DISRUPTION_PAUSED,
    MINIMUM_SAVING,
    POD_RESIDENCY,
    UNHEALTHY_TOLERATED,
    ROTATE_AFTER,
    ROTATION_JITTER,
    DRIFT_BACKOFF,
    DRIFT_CANARY,
    DRIFT_WAVE,
    DRIFT_WAVE_PAUSE,
    DRIFT_HALT_AFTER,
    DRIFT_PROGRESS,
    LAUNCHES_PER_MINUTE,
    DO_NOT_DISRUPT,
    DO_NOT_REPAIR,
    DISRUPTION_COST,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    TERMINATION_TIMESTAMP,
    MIN_VALUES_RELAXED,
    REBOOT_PRE_BOOT_ID,
    REBOOT_TERMINATION_GRACE_PERIOD,
    REQUESTED_DRA_DRIVERS,
    PRICE_OVERLAY_APPLIED,
    CAPACITY_OVERLAY_APPLIED,
    BUFFER_FAKE_POD,
    BUFFER_NAME,
    BUFFER_NAMESPACE,
];
