//! What a type costs until the cloud has said so: an estimate in yuan per hour, good enough to tell small from large.

use karpenter_alibabacloud_client::ecs;

use crate::node_class::Architecture;

const PER_CORE: f64 = 0.175;
const PER_GIB: f64 = 0.0216;
const PER_GPU: f64 = 6.0;
const ARM: f64 = 0.8;
/// What a spot machine costs of its list price where nobody says.
pub(super) const SPOT_SHARE: f64 = 0.3;

/// Fitted to the list prices of general families in one region.
pub(super) fn estimate(described: &ecs::InstanceType, architecture: Architecture) -> f64 {
    let base = f64::from(described.cpu_core_count) * PER_CORE + described.memory_size.max(0.0) * PER_GIB;
    let base = if architecture == Architecture::Arm64 { base * ARM } else { base };
    base + f64::from(described.gpu_amount.unwrap_or_default()) * PER_GPU
}
