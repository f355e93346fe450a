//! Cluster events: where pods end up, whatever the order in which nodes and pods are heard of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::cluster::{
    Cluster, ClusterSnapshot, Event, Labels, Node, NodeLife, NodeStage, Pod, PodId, PodOwner, PodPhase,
    PodSpec,
};
use karpenter_quantity::ResourceList;
use proptest::prelude::*;

fn pod(uid: &str) -> Arc<Pod> {
    Arc::new(Pod {
        id: PodId { namespace: "default".into(), name: uid.into(), uid: uid.into() },
        labels: Arc::default(),
        spec: Arc::new(PodSpec::default()),
        created: Timestamp::UNIX_EPOCH,
        priority: 0,
        owner: PodOwner::Workload,
        phase: PodPhase::Pending,
        terminating: false,
        do_not_disrupt: false,
        disruption_cost: 0,
        volumes: Vec::new(),
    })
}

fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        node_pool: None,
        stage: NodeStage::Initialized,
        labels: Arc::default(),
        taints: Vec::new(),
        capacity: ResourceList::new(),
        allocatable: ResourceList::new(),
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        life: NodeLife::default(),
        volume_limits: BTreeMap::new(),
        pods: Vec::new(),
    }
}

fn seen(name: &str) -> Event {
    Event::Node(Box::new(node(name)))
}

fn lost(name: &str) -> Event {
    Event::NodeGone { name: name.into() }
}

fn pending(uid: &str) -> Event {
    Event::PodPending(pod(uid))
}

fn bound(uid: &str, node: &str) -> Event {
    Event::PodBound(pod(uid), node.into())
}

fn gone(uid: &str) -> Event {
    Event::PodGone { uid: uid.into() }
}

fn cluster(events: impl IntoIterator<Item = Event>) -> Cluster {
    let mut cluster = Cluster::default();
    for event in events {
        cluster.apply(event);
    }
    cluster
}

fn uids(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| pod.id.uid.to_string()).collect()
}

/// One line per node with its pods, and one for the pods that wait.
fn picture(cluster: &Cluster) -> Vec<String> {
    let snapshot = cluster.snapshot(&ClusterSnapshot::default());
    let nodes = snapshot.nodes.iter().map(|node| format!("{}: {}", node.name, uids(&node.pods).join(" ")));
    nodes.chain([format!("waiting: {}", uids(&snapshot.pending).join(" "))]).collect()
}

#[track_caller]
fn check(events: impl IntoIterator<Item = Event>, expected: &[&str]) {
    assert_eq!(picture(&cluster(events)), expected);
}

#[test]
fn a_pod_is_where_it_was_last_heard_of() {
    check([seen("n1"), pending("p"), bound("p", "n1")], &["n1: p", "waiting: "]);
    check([seen("n1"), seen("n2"), bound("p", "n1"), bound("p", "n2")], &["n1: ", "n2: p", "waiting: "]);
    check([seen("n1"), bound("p", "n1"), bound("p", "n1")], &["n1: p", "waiting: "]);
    check([seen("n1"), bound("p", "n1"), pending("p"), pending("p")], &["n1: ", "waiting: p"]);
}

#[test]
fn a_node_that_is_listed_again_keeps_its_pods_and_takes_the_rest_from_the_new_listing() {
    let changed = Node {
        labels: Arc::new(Labels::from([("a".into(), "b".into())])),
        pods: vec![pod("stale")],
        ..node("n1")
    };
    let cluster = cluster([seen("n1"), bound("p", "n1"), Event::Node(Box::new(changed))]);
    assert_eq!(picture(&cluster), ["n1: p", "waiting: "]);
    assert_eq!(cluster.snapshot(&ClusterSnapshot::default()).nodes[0].labels.len(), 1);
}

#[test]
fn pods_bound_before_their_node_is_seen_appear_with_it() {
    let early = [bound("p2", "n1"), bound("p1", "n1"), bound("p3", "n1"), gone("p3")];
    check(early.clone(), &["waiting: "]);
    check(early.into_iter().chain([seen("n1")]), &["n1: p1 p2", "waiting: "]);
    check([bound("p", "n1"), bound("p", "n2"), seen("n1"), seen("n2")], &["n1: ", "n2: p", "waiting: "]);
    check([bound("p", "n1"), pending("p"), seen("n1")], &["n1: ", "waiting: p"]);
}

#[test]
fn deleted_pods_and_nodes_are_gone() {
    check([seen("n1"), bound("p", "n1"), gone("p")], &["n1: ", "waiting: "]);
    check([pending("p"), gone("p"), gone("p"), gone("unknown")], &["waiting: "]);
    check([seen("n1"), seen("n2"), lost("n1"), lost("unknown")], &["n2: ", "waiting: "]);
}

#[test]
fn pods_of_a_lost_node_come_back_with_it_unless_they_went_elsewhere() {
    let before =
        [seen("n1"), seen("n2"), bound("p1", "n1"), bound("p2", "n1"), bound("p3", "n1"), lost("n1")];
    check(before.clone(), &["n2: ", "waiting: "]);
    let moved = before.into_iter().chain([gone("p1"), bound("p2", "n2"), seen("n1")]);
    check(moved, &["n1: p3", "n2: p2", "waiting: "]);
}

#[test]
fn a_snapshot_does_not_change_and_shares_what_did_not_change() {
    let mut cluster = cluster([seen("n1"), seen("n2"), bound("p1", "n1"), bound("p2", "n2"), pending("p3")]);
    let before = cluster.snapshot(&ClusterSnapshot::default());
    cluster.apply(bound("p4", "n1"));
    cluster.apply(gone("p1"));
    cluster.apply(lost("n2"));
    cluster.apply(seen("n2"));
    let after = cluster.snapshot(&ClusterSnapshot::default());
    assert_eq!(
        (uids(&before.nodes[0].pods), uids(&after.nodes[0].pods)),
        (vec!["p1".into()], vec!["p4".into()])
    );
    assert_eq!(uids(&after.nodes[1].pods), ["p2"]);
    assert!(Arc::ptr_eq(&before.nodes[1].pods[0], &after.nodes[1].pods[0]));
    assert!(Arc::ptr_eq(&before.pending[0], &after.pending[0]));
    cluster.apply(bound("p5", "n1"));
    assert!(Arc::ptr_eq(&after.nodes[1], &cluster.snapshot(&ClusterSnapshot::default()).nodes[1]));
}

#[test]
fn the_other_parts_of_a_snapshot_are_kept() {
    let base = ClusterSnapshot {
        namespaces: BTreeMap::from([("default".into(), Arc::default())]),
        pending: vec![pod("stale")],
        nodes: vec![Arc::new(node("stale"))],
        ..ClusterSnapshot::default()
    };
    let snapshot = cluster([seen("n1")]).snapshot(&base);
    assert_eq!((snapshot.namespaces.len(), snapshot.pending.len(), snapshot.nodes.len()), (1, 0, 1));
}

/// What is true after some events, kept in the simplest way: where each pod is (`None` is waiting), and which nodes are there.
#[derive(Default)]
struct Facts {
    pods: BTreeMap<String, Option<String>>,
    nodes: BTreeSet<String>,
}

impl Facts {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::PodPending(pod) => drop(self.pods.insert(pod.id.uid.to_string(), None)),
            Event::PodBound(pod, node) => {
                drop(self.pods.insert(pod.id.uid.to_string(), Some(node.to_string())));
            }
            Event::PodGone { uid } => drop(self.pods.remove(&**uid)),
            Event::Node(node) => drop(self.nodes.insert(node.name.to_string())),
            Event::NodeGone { name } => drop(self.nodes.remove(&**name)),
        }
    }

    fn picture(&self) -> Vec<String> {
        let at = |place: Option<&String>| {
            let pods = self.pods.iter().filter(|(_, at)| at.as_ref() == place);
            pods.map(|(uid, _)| uid.as_str()).collect::<Vec<_>>().join(" ")
        };
        let nodes = self.nodes.iter().map(|name| format!("{name}: {}", at(Some(name))));
        nodes.chain([format!("waiting: {}", at(None))]).collect()
    }

    /// Events that tell a new listener everything, one per fact.
    fn told_anew(&self) -> Vec<Event> {
        let nodes = self.nodes.iter().map(|name| seen(name));
        let pods = self.pods.iter().map(|(uid, place)| match place {
            Some(node) => bound(uid, node),
            None => pending(uid),
        });
        nodes.chain(pods).collect()
    }
}

fn event() -> impl Strategy<Value = Event> {
    let name = (0..4).prop_map(|number| format!("n{number}"));
    let uid = (0..8).prop_map(|number| format!("p{number}"));
    prop_oneof![
        2 => uid.clone().prop_map(|uid| pending(&uid)),
        6 => (uid.clone(), name.clone()).prop_map(|(uid, node)| bound(&uid, &node)),
        2 => uid.prop_map(|uid| gone(&uid)),
        3 => name.clone().prop_map(|name| seen(&name)),
        1 => name.prop_map(|name| lost(&name)),
    ]
}

proptest! {
    #![proptest_config(crate::repeatable(500))]

    #[test]
    fn the_picture_follows_from_the_facts_whatever_happened(
        events in prop::collection::vec(event(), 0..60), looks in prop::collection::vec(any::<bool>(), 60),
        order in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let (mut facts, mut cluster, mut held) = (Facts::default(), Cluster::default(), Vec::new());
        for (event, look) in events.into_iter().zip(looks) {
            facts.hear(&event);
            cluster.apply(event);
            if look {
                held.push(cluster.snapshot(&ClusterSnapshot::default()));
            }
        }
        prop_assert_eq!(picture(&cluster), facts.picture());
        let mut told = facts.told_anew();
        let mut order = order.into_iter().cycle();
        told.sort_by_cached_key(|_| order.next());
        let mut anew = Cluster::default();
        for event in told {
            anew.apply(event);
        }
        prop_assert_eq!(picture(&anew), facts.picture());
    }
}
