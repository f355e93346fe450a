//! Counts claims, nodes and machines that ever were, from what a watch told: nothing is missed between two looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_environment::{Environment, SystemEnvironment};
use karpenter_observer::Observer;
use kube::Client;
use serde_json::Value;

/// Who counts. It shares nothing with the controllers but the API.
pub(super) struct Census {
    observer: Observer,
}

/// What was counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Claims that ever were.
    pub(super) claims: usize,
    /// Nodes that ever were.
    pub(super) nodes: usize,
    /// Machines that ever were: distinct provider ids of nodes.
    pub(super) machines: usize,
    /// Claims that are.
    pub(super) claims_now: usize,
    /// Nodes that are.
    pub(super) nodes_now: usize,
    /// Machines that belong to more than one claim or node, or nodes without a claim.
    pub(super) odd: Vec<String>,
}

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claims, nodes, machines, claims_now, nodes_now, odd } = self;
        write!(
            formatter,
            "{claims} claims, {nodes} nodes and {machines} machines ever; {claims_now} claims and {nodes_now} nodes now; {} odd",
            odd.len()
        )
    }
}

impl Census {
    pub(super) fn begin(client: &Client) -> Self {
        let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
        Self { observer: Observer::begin(client, &environment, SignedDuration::ZERO) }
    }

    /// The first claim told after `moment`, and when that was.
    pub(super) fn first_claim_after(&self, moment: Timestamp) -> Option<Timestamp> {
        let mut known = BTreeSet::new();
        for seen in self.observer.history().seen() {
            let first = seen.kind == "NodeClaim" && known.insert(text(&seen.object, "/metadata/uid"));
            if first && seen.at > moment {
                return Some(seen.at);
            }
        }
        None
    }

    pub(super) fn count(&self) -> Count {
        let mut alive: BTreeMap<(&str, String), Arc<Value>> = BTreeMap::new();
        let mut ever: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for seen in self.observer.history().seen() {
            let uid = text(&seen.object, "/metadata/uid");
            if seen.kind == "Node" {
                ever.entry("machine").or_default().insert(text(&seen.object, "/spec/providerID"));
            }
            ever.entry(seen.kind).or_default().insert(uid.clone());
            if seen.gone {
                alive.remove(&(seen.kind, uid));
            } else {
                alive.insert((seen.kind, uid), seen.object);
            }
        }
        let of = |kind: &str| ever.get(kind).map_or(0, BTreeSet::len);
        let ids = |kind: &str, path: &str| -> Vec<String> {
            let objects = alive.iter().filter(|((found, _), _)| *found == kind);
            objects.map(|(_, object)| text(object, path)).filter(|id| !id.is_empty()).collect()
        };
        let (claimed, joined) = (ids("NodeClaim", "/status/providerID"), ids("Node", "/spec/providerID"));
        let mut odd: Vec<String> = doubles(&claimed).chain(doubles(&joined)).collect();
        odd.extend(joined.iter().filter(|id| !claimed.contains(id)).map(|id| format!("{id} has no claim")));
        let now = |kind: &str| alive.keys().filter(|(found, _)| *found == kind).count();
        Count {
            claims: of("NodeClaim"),
            nodes: of("Node"),
            machines: of("machine"),
            claims_now: now("NodeClaim"),
            nodes_now: now("Node"),
            odd,
        }
    }
}

fn text(object: &Value, path: &str) -> String {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn doubles(ids: &[String]) -> impl Iterator<Item = String> {
    let mut known = BTreeSet::new();
    let twice: Vec<String> = ids.iter().filter(|id| !known.insert(*id)).cloned().collect();
    twice.into_iter().map(|id| format!("{id} is there twice"))
}
