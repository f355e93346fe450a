//! Which pods make room for a more important one.
//!
//! On every node that might help, all less important pods are taken off; if the pod then fits, as many as possible stay
//! after all: first those whose disruption budget would be violated, then the others, the important ones first. The node whose
//! victims hurt least is chosen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::attempt::Attempt;
use super::cluster::Cluster;
use super::reason::Reason;
use crate::selector::Selector;
use karpenter_runtime::Key;

/// At least so many nodes that could help are compared, if there are so many.
const CANDIDATES_MIN: usize = 100;

/// A disruption budget as far as preemption looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    namespace: String,
    selector: Selector,
    allowed: i32,
    /// Pods whose disruption is counted already.
    disrupted: BTreeSet<String>,
}

impl Budget {
    pub(crate) fn read(budget: &PodDisruptionBudget) -> Self {
        let status = budget.status.as_ref();
        Self {
            namespace: budget.metadata.namespace.clone().unwrap_or_default(),
            selector: Selector::new(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref())),
            allowed: status.and_then(|status| status.disruptions_allowed).unwrap_or(0),
            disrupted: status
                .and_then(|status| status.disrupted_pods.as_ref())
                .map(|pods| pods.keys().cloned().collect())
                .unwrap_or_default(),
        }
    }
}

/// A node and the pods that must leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    pub(crate) node: u32,
    pub(crate) victims: Vec<u32>,
}

/// A node that would take the pod once its victims are gone.
struct Candidate {
    preemption: Preemption,
    violations: usize,
}

/// Chooses victims for a pod among `nodes`, or says in the scheduler's words why none help.
pub(crate) fn preempt(
    cluster: &mut Cluster,
    attempt: &Attempt,
    nodes: &[u32],
    budgets: &BTreeMap<Key, Budget>,
) -> Result<Preemption, String> {
    let enough = (nodes.len() / 10).max(CANDIDATES_MIN);
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        if candidates.len() >= enough {
            break;
        }
        match victims_on(cluster, attempt, *node, budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(reasons) => {
                for reason in reasons {
                    *refusals.entry(reason).or_default() += 1;
                }
            }
        }
    }
    let best = candidates.into_iter().min_by_key(|candidate| harm(cluster, candidate));
    best.map(|candidate| candidate.preemption).ok_or_else(|| {
        let all = cluster.node_count();
        if nodes.len() < all {
            let useless = "Preemption is not helpful for scheduling".to_owned();
            *refusals.entry(useless).or_default() += all - nodes.len();
        }
        let mut parts: Vec<String> =
            refusals.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        format!("0/{all} nodes are available: {}.", parts.join(", "))
    })
}

/// Finds the fewest and least important pods whose leaving lets the pod in.
fn victims_on(
    cluster: &mut Cluster,
    attempt: &Attempt,
    node: u32,
    budgets: &BTreeMap<Key, Budget>,
) -> Result<Candidate, Vec<String>> {
    let priority = cluster.classes.key(attempt.class).priority;
    let pods = cluster.nodes.get(node).pods.iter().copied();
    let mut lesser: Vec<u32> = pods.filter(|id| priority_of(cluster, *id) < priority).collect();
    if lesser.is_empty() {
        return Err(vec!["No preemption victims found for incoming pod".to_owned()]);
    }
    lesser.sort_by_key(|id| importance(cluster, *id));
    for id in &lesser {
        cluster.take_off(*id);
    }
    let verdict = fits_now(cluster, attempt, node);
    if let Err(reasons) = verdict {
        for id in &lesser {
            cluster.put_on(*id, node);
        }
        return Err(reasons.iter().map(ToString::to_string).collect());
    }
    let (violating, others) = split_by_budgets(cluster, &lesser, budgets);
    let mut victims = Vec::new();
    let mut violations = 0;
    for (id, violates) in violating.iter().map(|id| (*id, true)).chain(others.iter().map(|id| (*id, false))) {
        cluster.put_on(id, node);
        if fits_now(cluster, attempt, node).is_err() {
            cluster.take_off(id);
            violations += usize::from(violates);
            victims.push(id);
        }
    }
    for id in &victims {
        cluster.put_on(*id, node);
    }
    victims.sort_by_key(|id| importance(cluster, *id));
    Ok(Candidate { preemption: Preemption { node, victims }, violations })
}

/// Counts change while pods are lifted off, so what follows from counts is worked out anew.
fn fits_now(cluster: &Cluster, attempt: &Attempt, node: u32) -> Result<(), Vec<Reason>> {
    let refreshed = attempt.refreshed(cluster).map_err(|reason| vec![reason])?;
    refreshed.check(cluster, node).map_err(|rejection| rejection.reasons)
}

fn priority_of(cluster: &Cluster, id: u32) -> i32 {
    cluster.classes.key(cluster.pod(id).class).priority
}

/// Sorts more important pods first: higher priority, then running for longer.
fn importance(cluster: &Cluster, id: u32) -> (Reverse<i32>, Timestamp, Key) {
    let pod = cluster.pod(id);
    (Reverse(priority_of(cluster, id)), pod.started.unwrap_or(Timestamp::MAX), pod.key.clone())
}

/// Splits pods into those whose budget has nothing left for them and the others.
fn split_by_budgets(
    cluster: &Cluster,
    pods: &[u32],
    budgets: &BTreeMap<Key, Budget>,
) -> (Vec<u32>, Vec<u32>) {
    let mut left: Vec<(&Budget, i32)> = budgets.values().map(|budget| (budget, budget.allowed)).collect();
    pods.iter().partition(|id| {
        let pod = cluster.pod(**id);
        let labels = cluster.labels_of(**id);
        let mut violates = false;
        for (budget, allowed) in &mut left {
            let concerns = Some(budget.namespace.as_str()) == pod.key.namespace()
                && !budget.disrupted.contains(pod.key.name())
                && budget.selector.matches(&labels);
            if concerns {
                *allowed -= 1;
                violates |= *allowed < 0;
            }
        }
        violates
    })
}

/// Compares candidates; the least harm comes first.
fn harm(cluster: &Cluster, candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<Timestamp>) {
    let victims = &candidate.preemption.victims;
    let priorities = || victims.iter().map(|id| priority_of(cluster, *id));
    let highest = priorities().max().unwrap_or(i32::MIN);
    // Lifting every priority above zero makes more victims worse, however unimportant they are.
    let sum = priorities().map(|priority| i64::from(priority) - i64::from(i32::MIN)).sum();
    let most_important = victims.iter().filter(|id| priority_of(cluster, **id) == highest);
    let earliest = most_important.map(|id| cluster.pod(*id).started.unwrap_or(Timestamp::MAX)).min();
    (candidate.violations, highest, sum, victims.len(), Reverse(earliest.unwrap_or(Timestamp::MAX)))
}
