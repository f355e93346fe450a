//! The status of disruption budgets: how many pods there are, how many must be, how many may go.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::deployment::{Rounding, resolve};
use crate::event::time;
use crate::json::status_patch;
use crate::pod::{PodFacts, watch_pods};
use crate::selector::Selector;

/// An eviction whose pod is not seen going after this long did not happen.
const EVICTION_MAX: SignedDuration = SignedDuration::from_mins(2);

/// Keeps the status of disruption budgets.
#[derive(Default)]
pub struct DisruptionBudgets {
    budgets: BTreeMap<Key, Members>,
}

/// The pods a budget covers.
#[derive(Debug)]
struct Members {
    selector: Selector,
    pods: BTreeSet<Key>,
}

impl DisruptionBudgets {
    /// Returns a controller that knows no budget.
    pub fn new() -> Self {
        Self::default()
    }

    fn observe_budget(&mut self, key: &Key, budget: Option<&PodDisruptionBudget>, caches: &Caches) {
        let Some(budget) = budget else {
            self.budgets.remove(key);
            return;
        };
        let selector = Selector::new(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()));
        if self.budgets.get(key).is_some_and(|members| members.selector == selector) {
            return;
        }
        let pods = caches.of::<PodFacts>().in_namespace(key.namespace().unwrap_or_default());
        let pods = pods.filter(|pod| selector.matches(&pod.labels())).map(|pod| Key::of(&**pod)).collect();
        self.budgets.insert(key.clone(), Members { selector, pods });
    }

    fn observe_pod(&mut self, key: &Key, pod: Option<&PodFacts>, wakes: &mut Wakes) {
        let namespace = key.namespace().unwrap_or_default();
        let budgets = self.budgets.range_mut(Key::namespaced(namespace, "")..);
        for (budget, members) in budgets.take_while(|(budget, _)| budget.namespace() == key.namespace()) {
            let is_member = pod.is_some_and(|pod| members.selector.matches(&pod.labels()));
            let was_member =
                if is_member { !members.pods.insert(key.clone()) } else { members.pods.remove(key) };
            if is_member || was_member {
                wakes.wake(budget.clone());
            }
        }
    }
}

impl Controller for DisruptionBudgets {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-disruption-budgets"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<PodDisruptionBudget>();
        watches.add::<Deployment>();
        watches.add::<ReplicaSet>();
        watches.add::<StatefulSet>();
        watch_pods(watches);
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<PodDisruptionBudget>() {
            self.observe_budget(change.key(), delta.new, caches);
            wakes.wake(change.key().clone());
        } else if let Some(delta) = change.of::<PodFacts>() {
            if !delta.old.zip(delta.new).is_some_and(|(old, new)| is_same(old, new)) {
                self.observe_pod(change.key(), delta.new, wakes);
            }
        } else if is_resized(change) {
            let namespace = change.key().namespace();
            let budgets = self.budgets.keys().filter(|key| key.namespace() == namespace);
            budgets.for_each(|key| wakes.wake(key.clone()));
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(budget) = view.caches.of::<PodDisruptionBudget>().get(key) else { return Outcome::done() };
        let Some(members) = self.budgets.get(key) else { return Outcome::done() };
        let cache = view.caches.of::<PodFacts>();
        let pods: Vec<&PodFacts> =
            members.pods.iter().filter_map(|key| cache.get(key)).map(|pod| &**pod).collect();
        let (disrupted, next) = still_disrupted(budget, &pods, view.now);
        let expected = expected(budget, &pods, view.caches);
        let wanted = status(budget, &pods, &disrupted, expected, view.now);
        let kept = ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"];
        let version = budget.metadata.resource_version.as_deref().unwrap_or_default();
        let patch = status_patch(budget.status.as_ref(), wanted, &kept)
            .map(|patch| Write::merge_patch::<PodDisruptionBudget>(key, patch).status().if_version(version));
        let outcome = Outcome::done().then_all(patch);
        match next {
            Some(wait) => outcome.again(wait),
            None => outcome,
        }
    }
}

/// Returns whether nothing changed that budgets look at.
fn is_same(old: &PodFacts, new: &PodFacts) -> bool {
    std::sync::Arc::ptr_eq(&old.template, &new.template)
        && old.demand.own_labels == new.demand.own_labels
        && old.is_ready() == new.is_ready()
        && old.is_terminating() == new.is_terminating()
        && old.phase == new.phase
}

fn is_resized(change: &Change) -> bool {
    if let Some(delta) = change.of::<Deployment>() {
        let size = |object: &Deployment| object.spec.as_ref().and_then(|spec| spec.replicas);
        return delta.old.map(size) != delta.new.map(size);
    }
    if let Some(delta) = change.of::<ReplicaSet>() {
        let size = |object: &ReplicaSet| object.spec.as_ref().and_then(|spec| spec.replicas);
        return delta.old.map(size) != delta.new.map(size);
    }
    let size = |object: &StatefulSet| object.spec.as_ref().and_then(|spec| spec.replicas);
    change.of::<StatefulSet>().is_some_and(|delta| delta.old.map(size) != delta.new.map(size))
}

/// Returns evictions not yet seen, and when the next of them is given up.
fn still_disrupted(
    budget: &PodDisruptionBudget,
    pods: &[&PodFacts],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Duration>) {
    let noted = budget.status.as_ref().and_then(|status| status.disrupted_pods.clone()).unwrap_or_default();
    let mut next: Option<SignedDuration> = None;
    let mut left = BTreeMap::new();
    for (name, since) in noted {
        let is_here = pods.iter().any(|pod| pod.name() == name && !pod.is_terminating());
        let wait = EVICTION_MAX - now.duration_since(since.0);
        if is_here && wait.is_positive() {
            next = Some(next.map_or(wait, |sooner| sooner.min(wait)));
            left.insert(name, since);
        }
    }
    (left, next.and_then(|wait| Duration::try_from(wait).ok()))
}

/// Returns how many pods there should be and how many of them must be healthy.
fn expected(budget: &PodDisruptionBudget, pods: &[&PodFacts], caches: &Caches) -> (i32, i32) {
    let spec = budget.spec.as_ref();
    let count = i32::try_from(pods.len()).unwrap_or(i32::MAX);
    if let Some(most) = spec.and_then(|spec| spec.max_unavailable.as_ref()) {
        let total = total_scale(pods, caches);
        return (total, (total - resolve(Some(most), total, Rounding::Up)).max(0));
    }
    match spec.and_then(|spec| spec.min_available.as_ref()) {
        Some(IntOrString::Int(least)) => (count, *least),
        Some(share) => {
            let total = total_scale(pods, caches);
            (total, resolve(Some(share), total, Rounding::Up))
        }
        None => (count, 0),
    }
}

/// Returns the sizes of all controllers of the pods together; pods without a size to ask for count for themselves.
fn total_scale(pods: &[&PodFacts], caches: &Caches) -> i32 {
    let mut sizes: BTreeMap<String, i32> = BTreeMap::new();
    let mut alone = 0;
    for pod in pods {
        match scale_of(pod, caches) {
            Some((uid, size)) => {
                sizes.insert(uid, size);
            }
            None => alone += 1,
        }
    }
    sizes.values().sum::<i32>() + alone
}

fn scale_of(pod: &PodFacts, caches: &Caches) -> Option<(String, i32)> {
    let owner = pod.template.owner.as_ref()?;
    let key = Key::namespaced(pod.namespace(), &owner.name);
    match owner.kind.as_str() {
        "StatefulSet" => {
            let set = caches.of::<StatefulSet>().get(&key)?;
            Some((owner.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1)))
        }
        "ReplicaSet" => {
            let set = caches.of::<ReplicaSet>().get(&key)?;
            let mut owners = set.metadata.owner_references.iter().flatten();
            let above = owners.find(|owner| owner.controller == Some(true) && owner.kind == "Deployment");
            if let Some(above) = above {
                let key = Key::namespaced(pod.namespace(), &above.name);
                let deployment = caches.of::<Deployment>().get(&key)?;
                return Some((above.uid.clone(), deployment.spec.as_ref()?.replicas.unwrap_or(1)));
            }
            Some((owner.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1)))
        }
        _ => None,
    }
}

fn status(
    budget: &PodDisruptionBudget,
    pods: &[&PodFacts],
    disrupted: &BTreeMap<String, Time>,
    (expected, desired): (i32, i32),
    now: Timestamp,
) -> Value {
    let healthy = pods
        .iter()
        .filter(|pod| !pod.is_terminating() && pod.is_ready() && !disrupted.contains_key(pod.name()));
    let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let (status, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let held = budget.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let held = held.into_iter().find(|held| held.type_ == "DisruptionAllowed" && held.status == status);
    let since = held.map_or_else(|| time(now), |held| json!(held.last_transition_time));
    json!({
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": budget.metadata.generation,
        "disruptedPods": if disrupted.is_empty() { Value::Null } else { json!(disrupted) },
        "conditions": [{
            "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
            "lastTransitionTime": since, "observedGeneration": budget.metadata.generation,
        }],
    })
}
