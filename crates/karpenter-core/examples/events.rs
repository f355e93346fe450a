//! What one pod event costs in clusters of different sizes: `cargo run --release -p karpenter-core --example events`.
//!
//! Prints the time of one event when pods are deleted and bound to other nodes, with 10 pods on each node: alone, and while a
//! snapshot taken every hundred events is held, so that the nodes they touch have to be copied. Events are new objects, as they
//! are when they have just been read from a watch; making them is not counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use karpenter_core::cluster::{
    Cluster, ClusterSnapshot, Event, Labels, Node, NodeLife, NodeStage, Pod, PodId, PodOwner, PodPhase,
    PodSpec,
};
use karpenter_quantity::{Quantity, ResourceList};

const NODES: [usize; 4] = [100, 1_000, 5_000, 20_000];
const PODS_PER_NODE: usize = 10;
const EVENTS: usize = 400_000;
/// Events between two snapshots.
const BATCH: usize = 100;

#[derive(Clone, Copy, PartialEq)]
enum Snapshots {
    None,
    Held,
}

fn main() {
    println!("{:>7} {:>8} {:>10} {:>16}", "nodes", "pods", "ns/event", "with snapshots");
    for nodes in NODES {
        let mut field = Field::new(nodes);
        field.run(EVENTS / 4, Snapshots::None);
        let alone = field.run(EVENTS, Snapshots::None);
        let held = field.run(EVENTS / 100, Snapshots::Held);
        println!("{nodes:>7} {:>8} {alone:>10.0} {held:>16.0}", nodes * PODS_PER_NODE);
    }
}

/// A cluster and what is needed to disturb it.
struct Field {
    cluster: Cluster,
    nodes: usize,
    pods: usize,
    shared: Shared,
    /// State of a small generator: the same events on every run.
    random: u64,
}

impl Field {
    fn new(nodes: usize) -> Self {
        let shared = Shared::default();
        let pods = nodes * PODS_PER_NODE;
        let mut cluster = Cluster::default();
        for number in 0..nodes {
            cluster.apply(Event::Node(Box::new(node(number))));
        }
        for number in 0..pods {
            cluster.apply(Event::PodBound(shared.pod(number), node_name(number % nodes)));
        }
        Self { cluster, nodes, pods, shared, random: 1 }
    }

    /// Nanoseconds per event in the median batch, without the time snapshots take.
    fn run(&mut self, events: usize, snapshots: Snapshots) -> f64 {
        let mut held = ClusterSnapshot::default();
        let mut nanos = Vec::new();
        for _ in 0..events / BATCH {
            let batch = self.batch();
            let begin = Instant::now();
            for event in batch {
                self.cluster.apply(event);
            }
            nanos.push(begin.elapsed().as_nanos());
            if snapshots == Snapshots::Held {
                held = self.cluster.snapshot(&ClusterSnapshot::default());
            }
        }
        drop(held);
        nanos.sort_unstable();
        nanos[nanos.len() / 2] as f64 / BATCH as f64
    }

    /// Deletions and bindings in turn: each pod that goes comes back on another node.
    fn batch(&mut self) -> Vec<Event> {
        let mut events = Vec::with_capacity(BATCH);
        while events.len() < BATCH {
            let (number, node) = (self.below(self.pods), self.below(self.nodes));
            let pod = self.shared.pod(number);
            events.push(Event::PodGone { uid: (*pod.id.uid).into() });
            events.push(Event::PodBound(pod, node_name(node)));
        }
        events
    }

    /// A pseudo-random number below `bound` (xorshift).
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % bound
    }
}

/// What pods that look alike have in common.
#[derive(Default)]
struct Shared {
    namespace: Arc<str>,
    labels: Arc<Labels>,
    spec: Arc<PodSpec>,
}

impl Shared {
    fn pod(&self, number: usize) -> Arc<Pod> {
        // Leading digits vary, as in real UIDs.
        let scattered = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let uid = format!("{scattered:016x}-{number:08x}");
        Arc::new(Pod {
            id: PodId {
                namespace: self.namespace.clone(),
                name: format!("pod-{number}").into(),
                uid: uid.into(),
            },
            labels: self.labels.clone(),
            spec: self.spec.clone(),
            created: Timestamp::UNIX_EPOCH,
            priority: 0,
            owner: PodOwner::Workload,
            phase: PodPhase::Running,
            terminating: false,
            do_not_disrupt: false,
            disruption_cost: 0,
            volumes: Vec::new(),
        })
    }
}

fn node_name(number: usize) -> Arc<str> {
    format!("node-{number:05}.example.internal").into()
}

fn node(number: usize) -> Node {
    let name = node_name(number);
    let capacity: ResourceList =
        ["cpu", "memory", "pods", "ephemeral-storage"].map(|name| (name, Quantity::from_units(64))).into();
    Node {
        node_pool: Some("default".into()),
        stage: NodeStage::Initialized,
        labels: Arc::new(Labels::from([("kubernetes.io/hostname".into(), name.clone())])),
        name,
        taints: Vec::new(),
        allocatable: capacity.clone(),
        capacity,
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        life: NodeLife::default(),
        volume_limits: BTreeMap::new(),
        pods: Vec::new(),
    }
}
