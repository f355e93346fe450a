//! Plays the nodes of simulated machines: one that has booted joins the cluster, one that is gone leaves it.
//!
//! The first is what a kubelet does, the second what a cloud's own controller does in every cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use karpenter_models::kubelet::{Machine, machine_node};
use karpenter_simcloud::{Boot, MachineEvent, Watcher};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use tokio::sync::mpsc;

/// How often a machine tries to join or to leave, and how long it waits after the first try.
const ATTEMPTS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Is told what happens to machines, and passes it on to [`NodePlayer::play`].
#[derive(Clone, Debug)]
pub struct Machines(mpsc::UnboundedSender<MachineEvent>);

impl Watcher for Machines {
    fn happened(&self, event: MachineEvent) {
        // Nobody listens any more only when the cluster ends.
        let _ = self.0.send(event);
    }
}

/// Lets nodes join and leave.
#[derive(Debug)]
pub struct NodePlayer {
    events: mpsc::UnboundedReceiver<MachineEvent>,
}

impl NodePlayer {
    /// A player, and whom to tell what happens to machines.
    pub fn new() -> (Machines, Self) {
        let (sender, events) = mpsc::unbounded_channel();
        (Machines(sender), Self { events })
    }

    /// Plays until nobody is left to tell it anything.
    pub async fn play(mut self, client: Client) {
        let nodes: Api<Node> = Api::all(client);
        while let Some(event) = self.events.recv().await {
            match event {
                MachineEvent::Booted(boot) => join(&nodes, &machine_node(&machine(boot))).await,
                MachineEvent::Gone { node_name, .. } => leave(&nodes, &node_name).await,
                MachineEvent::Lost { provider_id, why } => {
                    tracing::warn!("machine {provider_id} does not join the cluster: {why}");
                }
            }
        }
    }
}

/// What a machine's kubelet registers.
fn machine(boot: Boot) -> Machine {
    let taint = |taint: karpenter_simcloud::Taint| Taint {
        key: taint.key,
        value: Some(taint.value).filter(|value| !value.is_empty()),
        effect: taint.effect,
        ..Taint::default()
    };
    Machine {
        name: boot.node_name,
        provider_id: Some(boot.provider_id),
        labels: boot.labels,
        taints: boot.taints.into_iter().map(taint).collect(),
        capacity: boot.capacity.into_iter().collect(),
        allocatable: boot.allocatable.into_iter().collect(),
    }
}

async fn join(nodes: &Api<Node>, node: &Node) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    patiently(&format!("node {name} cannot join the cluster"), 409, || async {
        nodes.create(&PostParams::default(), node).await.map(drop)
    })
    .await;
}

async fn leave(nodes: &Api<Node>, name: &str) {
    patiently(&format!("node {name} cannot leave the cluster"), 404, || async {
        nodes.delete(name, &DeleteParams::background()).await.map(drop)
    })
    .await;
}

/// Tries until it works; `done` is the status that says it is no longer necessary.
async fn patiently<F>(what: &str, done: u16, attempt: impl Fn() -> F)
where
    F: Future<Output = kube::Result<()>>,
{
    for number in 0..ATTEMPTS {
        match attempt().await {
            Ok(()) => return,
            Err(kube::Error::Api(status)) if status.code == done => return,
            Err(error) if number + 1 == ATTEMPTS => tracing::error!("{what}: {error}"),
            Err(_) => tokio::time::sleep(FIRST_PAUSE * 2u32.pow(number)).await,
        }
    }
}
