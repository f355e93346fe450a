//! The promises of voluntary disruption, restated over what a watch tells.
//!
//! Every event is judged by the cluster as it was just before, and as it was a little earlier: what changed in between could not yet be known to whoever
//! decided. What they did themselves is held against them at once.

use std::collections::VecDeque;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::budgets::allowed;
use crate::cluster::{Cluster, is_healthy, refuses, stays};
use crate::fields::{annotation, condition, is_active, is_leaving, label, name_of, owner, text, was_evicted};
use crate::history::Seen;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// No more nodes of a pool are disrupted at once than its budgets allow.
    Budget,
    /// A node annotated `karpenter.sh/do-not-disrupt` is not disrupted.
    NodeSaysNo,
    /// Nor is the node of a pod with this annotation, and the pod is not evicted.
    PodSaysNo,
    /// A node is not disrupted while a PodDisruptionBudget holds one of its pods, and no pod is evicted against one.
    PodDisruptionBudget,
    /// Pods are evicted, not deleted, while their node still has time.
    Eviction,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Timestamp,
    /// Which.
    pub rule: Rule,
    /// The object that the promise was about.
    pub object: String,
    /// What happened, in a sentence.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.at, self.what)
    }
}

/// Everything that was broken by these events, which are in order.
pub(crate) fn violations(seen: &[Seen], lag: SignedDuration) -> Vec<Violation> {
    let mut judge = Judge::default();
    let mut recent: VecDeque<&Seen> = VecDeque::new();
    let mut found = Vec::new();
    for event in seen {
        while let Some(old) = recent.pop_front_if(|old| old.at + lag <= event.at) {
            judge.earlier.take_in(old);
        }
        found.extend(judge.judge(event));
        judge.now.take_in(event);
        recent.push_back(event);
    }
    found
}

#[derive(Default)]
struct Judge {
    now: Cluster,
    earlier: Cluster,
}

/// What speaks against something, before it is said when it was done.
type Objection = (Rule, String, String);

impl Judge {
    fn judge(&self, event: &Seen) -> Vec<Violation> {
        let old = self.now.get(event.kind, &name_of(&event.object));
        let begins =
            |is_so: &dyn Fn(&Value) -> bool| !event.gone && is_so(&event.object) && !old.is_some_and(is_so);
        let objections = match event.kind {
            "NodeClaim" if begins(&|claim| condition(claim, "DisruptionReason").is_some()) => {
                self.against_disruption(&event.object, event.at)
            }
            "Pod" if begins(&is_leaving) => self.against_departure(&event.object, event.at),
            _ => Vec::new(),
        };
        let violation = |(rule, object, what)| Violation { at: event.at, rule, object, what };
        objections.into_iter().map(violation).collect()
    }

    /// A claim begins to be disrupted.
    fn against_disruption(&self, claim: &Value, at: Timestamp) -> Vec<Objection> {
        let reason = condition(claim, "DisruptionReason").unwrap_or_default();
        let mut found: Vec<Objection> = self.over_budget(claim, reason, at).into_iter().collect();
        let earlier = refusals(&self.earlier, claim, reason, at);
        let known = |(rule, object, _): &Objection| {
            earlier.iter().any(|(other_rule, other, _)| (other_rule, other) == (rule, object))
        };
        found.extend(refusals(&self.now, claim, reason, at).into_iter().filter(known));
        found
    }

    fn over_budget(&self, claim: &Value, reason: &str, at: Timestamp) -> Option<Objection> {
        let pool_name = label(claim, "karpenter.sh/nodepool")?;
        if !is_up(self.now.node_of(claim)?) {
            return None;
        }
        let mut disrupting = 1;
        for other in members(&self.now, pool_name).filter(|other| name_of(other) != name_of(claim)) {
            let node = text(&other["status"]["nodeName"]);
            let leaving = is_leaving(other)
                || condition(other, "DisruptionReason").is_some()
                || condition(other, "Rebooting").is_some();
            let broken = reason != "Unhealthy" && self.now.is_broken(node) && self.earlier.is_broken(node);
            disrupting += u64::from(leaving || broken);
        }
        let of = |cluster: &Cluster| {
            let nodes = members(cluster, pool_name).count() as u64;
            let pool = cluster.get("NodePool", pool_name)?;
            allowed(pool, reason, nodes, at).transpose().map(|allowed| (nodes, allowed))
        };
        let claim_name = name_of(claim);
        let (mut nodes, mut most) = (0, 0);
        for view in [of(&self.now)?, of(&self.earlier)?] {
            match view {
                (_, Err(unreadable)) => return Some((Rule::Budget, claim_name, unreadable)),
                (count, Ok(allowed)) => (nodes, most) = (nodes.max(count), most.max(allowed)),
            }
        }
        let what = format!(
            "{claim_name} is disrupted as {reason}: {disrupting} nodes of {pool_name} at once, {most} of {nodes} are allowed"
        );
        (disrupting > most).then_some((Rule::Budget, claim_name, what))
    }

    /// A pod begins to leave.
    fn against_departure(&self, pod: &Value, at: Timestamp) -> Vec<Objection> {
        let deadline = self
            .now
            .claim_under(pod)
            .is_some_and(|claim| annotation(claim, "karpenter.sh/nodeclaim-termination-timestamp").is_some());
        if !was_evicted(pod) {
            return self.around_eviction(pod).filter(|_| !deadline).into_iter().collect();
        }
        let name = name_of(pod);
        let known = self.earlier.get("Pod", &name);
        let mut found = Vec::new();
        if refuses(pod, at) && known.is_some_and(|pod| refuses(pod, at)) && !deadline {
            let what = format!("{name} was evicted although it says do-not-disrupt");
            found.push((Rule::PodSaysNo, name.clone(), what));
        }
        let before = self.now.get("Pod", &name);
        for budget in self.now.covering(pod).filter(|budget| !lets_the_unhealthy_go(budget, before)) {
            let budget_name = name_of(budget);
            let Some(known) = self.earlier.get("PodDisruptionBudget", &budget_name) else { continue };
            let wanted = self.now.desired_healthy(budget).min(self.earlier.desired_healthy(known));
            let counts = |other: &&Value| {
                let other_name = name_of(other);
                let healthy = is_healthy(other) || is_active(other) && self.earlier.is_healthy(&other_name);
                other_name != name && healthy && crate::budgets::selects(budget, other)
            };
            let left = self.now.of("Pod").filter(counts).count() as u64;
            if left < wanted {
                let what =
                    format!("{name} was evicted against {budget_name}: {left} are left, {wanted} must be");
                found.push((Rule::PodDisruptionBudget, name.clone(), what));
            }
        }
        found
    }

    /// A pod that its ReplicaSet still wants was deleted under a PodDisruptionBudget, on a node that is going away.
    fn around_eviction(&self, pod: &Value) -> Option<Objection> {
        let claim = self.now.claim_under(pod)?;
        let node = self.now.node_of(claim)?;
        let going = is_leaving(claim) || condition(claim, "DisruptionReason").is_some();
        let guarded = self.earlier.covering(pod).next()?;
        let (kind, _) = owner(pod)?;
        let workload =
            self.now.workload_of(pod).filter(|found| kind == "ReplicaSet" && !is_leaving(found))?;
        let peers = |other: &&Value| is_active(other) && owner(other) == owner(pod);
        let same_space = |other: &&Value| other["metadata"]["namespace"] == pod["metadata"]["namespace"];
        let active = self.now.of("Pod").filter(peers).filter(same_space).count() as u64;
        let wanted = workload["spec"]["replicas"].as_u64()?;
        let targeted = condition(pod, "DisruptionTarget").is_some();
        let ended = !self.now.get("Pod", &name_of(pod)).is_some_and(is_active);
        if !going || targeted || ended || is_leaving(node) && stays(pod) || active > wanted {
            return None;
        }
        let (name, budget) = (name_of(pod), name_of(guarded));
        let what = format!("{name} was deleted without being evicted, although {budget} speaks of it");
        Some((Rule::Eviction, name, what))
    }
}

/// Whether a PodDisruptionBudget does not hold this pod because it does no work.
fn lets_the_unhealthy_go(budget: &Value, pod: Option<&Value>) -> bool {
    let Some(pod) = pod else { return true };
    let always = text(&budget["spec"]["unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
    !is_active(pod) || text(&pod["status"]["phase"]) == "Pending" || always && !is_healthy(pod)
}

/// What speaks against disrupting a claim besides its pool's budgets.
fn refusals(cluster: &Cluster, claim: &Value, reason: &str, at: Timestamp) -> Vec<Objection> {
    let claim_name = name_of(claim);
    let bounded = !claim["spec"]["terminationGracePeriod"].is_null();
    let mut found = Vec::new();
    let Some(node) = cluster.node_of(claim).filter(|_| reason != "Unhealthy") else { return found };
    if annotation(node, "karpenter.sh/do-not-disrupt") == Some("true") {
        let what = format!("{claim_name} is disrupted although its node says do-not-disrupt");
        found.push((Rule::NodeSaysNo, claim_name.clone(), what));
    }
    if reason == "Drifted" && bounded {
        return found;
    }
    let node_name = name_of(node);
    let here = |pod: &&Value| is_active(pod) && text(&pod["spec"]["nodeName"]) == node_name;
    for pod in cluster.of("Pod").filter(here) {
        let pod_name = name_of(pod);
        if refuses(pod, at) {
            let what = format!("{claim_name} is disrupted although {pod_name} says do-not-disrupt");
            found.push((Rule::PodSaysNo, pod_name.clone(), what));
        }
        if stays(pod) {
            continue;
        }
        let tight = |budget: &&Value| {
            budget["status"]["disruptionsAllowed"].as_i64() == Some(0)
                && !lets_the_unhealthy_go(budget, Some(pod))
        };
        if let Some(budget) = cluster.covering(pod).find(tight) {
            let name = name_of(budget);
            let what = format!("{claim_name} is disrupted although {name} does not let {pod_name} go");
            found.push((Rule::PodDisruptionBudget, pod_name, what));
        }
    }
    found
}

/// The claims of a pool that its budgets count.
fn members<'c>(cluster: &'c Cluster, pool: &'c str) -> impl Iterator<Item = &'c Value> {
    cluster.of("NodeClaim").filter(move |claim| {
        let Some(node) = cluster.node_of(claim) else { return false };
        label(claim, "karpenter.sh/nodepool") == Some(pool)
            && (is_up(node) || condition(claim, "Rebooting").is_some())
            && condition(claim, "InstanceTerminating").is_none()
    })
}

fn is_up(node: &Value) -> bool {
    label(node, "karpenter.sh/initialized") == Some("true")
}
