//! The fences around a node that is about to go, or to be restarted: taints that keep new pods away.

use k8s_openapi::api::core::v1::Node;
use karpenter_api::taints;

/// The node, closed to new pods.
pub(crate) fn fenced(node: &Node) -> Node {
    let mut node = node.clone();
    let list = node.spec.get_or_insert_default().taints.get_or_insert_default();
    if !list.iter().any(|taint| taint.key == taints::DISRUPTED && taint.effect == taints::NO_SCHEDULE) {
        list.retain(|taint| taint.key != taints::DISRUPTED);
        list.push(taints::disrupted());
    }
    node
}

/// The node without its fence; none if it has none.
pub(crate) fn unfenced(node: &Node) -> Option<Node> {
    let carried = node.spec.as_ref()?.taints.as_ref()?;
    if !carried.iter().any(|taint| taint.key == taints::DISRUPTED) {
        return None;
    }
    let mut node = node.clone();
    let spec = node.spec.as_mut()?;
    spec.taints.as_mut()?.retain(|taint| taint.key != taints::DISRUPTED);
    spec.taints.take_if(|taints| taints.is_empty());
    Some(node)
}

/// The node, closed to new pods until it has been restarted.
pub(crate) fn rebooting(node: &Node) -> Node {
    let mut node = node.clone();
    let list = node.spec.get_or_insert_default().taints.get_or_insert_default();
    if !list.iter().any(|taint| taint.key == taints::REBOOTING) {
        list.push(taints::rebooting());
    }
    node
}

/// The node without the fence of a restart.
pub(crate) fn unfenced_of_reboot(node: &Node) -> Node {
    let mut node = node.clone();
    if let Some(spec) = &mut node.spec
        && let Some(carried) = &mut spec.taints
    {
        carried.retain(|taint| taint.key != taints::REBOOTING);
        spec.taints.take_if(|carried| carried.is_empty());
    }
    node
}
