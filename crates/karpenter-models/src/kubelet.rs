//! Kubelets: one model runs all nodes.
//!
//! [`NodeKubelet`] gets nodes ready and says now and then that they are alive; [`PodKubelet`] runs what is bound to them. A
//! machine joins the cluster by somebody creating its Node object; [`machine_node`] writes one down. What a node or a pod does
//! besides the usual is told by [annotations](crate::annotations).

mod addresses;
mod node;
mod node_status;
mod pod;
mod pod_life;
mod pod_status;

use k8s_openapi::api::core::v1::Node;

use crate::annotations::{KUBELET, STAGE};
use crate::config::RunNodes;

pub use node::NodeKubelet;
pub use node_status::{Machine, machine_node};
pub use pod::PodKubelet;

/// The annotation of nodes that kwok runs.
const KWOK: &str = "kwok.x-k8s.io/node";

/// How a node's kubelet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It works.
    Running,
    /// It works but says it is not ready.
    NotReady,
    /// It works and leaves the node's conditions to others.
    Silent,
    /// Nobody hears of it.
    Unreachable,
}

/// Returns how the kubelet of a node is; `None` if somebody else runs the node.
pub(crate) fn health(node: &Node, nodes: RunNodes) -> Option<Health> {
    let annotations = node.metadata.annotations.as_ref();
    let annotation = |name: &str| annotations.and_then(|all| all.get(name)).map(String::as_str);
    let running = if is_silent(node) { Health::Silent } else { Health::Running };
    match annotation(KUBELET) {
        Some("unreachable") => Some(Health::Unreachable),
        Some("not-ready") => Some(Health::NotReady),
        Some(_) => Some(running),
        None => (nodes == RunNodes::All || annotation(KWOK) == Some("fake")).then_some(running),
    }
}

fn is_silent(node: &Node) -> bool {
    let (label, value) = STAGE;
    node.metadata.labels.as_ref().and_then(|labels| labels.get(label)).is_some_and(|found| found == value)
}
