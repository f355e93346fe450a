//! Deployments: replica sets that follow each other as the template changes.

mod new_set;
mod sizes;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::pod_template::controller_reference;
use crate::config::EventDetail;
use crate::event::{About, Happening, event};
use crate::json::status_patch;
use crate::selector::Selector;
use new_set::{DESIRED, MOST, REVISION, annotation, find_new, make, missing_annotations, revision};
use sizes::{Goal, SetSize, Sizes, Strategy, new_set_size, roll, scale};
use status::Picture;

pub(crate) use new_set::{template_hash, template_json};

const COMPONENT: &str = "deployment-controller";

/// Rolls deployments out.
pub struct Deployments {
    events: EventDetail,
    /// Sets by the uid of their deployment.
    sets: BTreeMap<String, BTreeSet<Key>>,
}

impl Deployments {
    /// Returns a controller that has made nothing.
    pub fn new(events: EventDetail) -> Self {
        Self { events, sets: BTreeMap::new() }
    }

    fn index(&mut self, key: &Key, set: &ReplicaSet, is_there: bool, wakes: &mut Wakes) {
        let Some(owner) = owner(set) else { return };
        wakes.wake(Key::namespaced(key.namespace().unwrap_or_default(), &owner.1));
        let sets = self.sets.entry(owner.0.clone()).or_default();
        if is_there {
            sets.insert(key.clone());
        } else {
            sets.remove(key);
            if sets.is_empty() {
                self.sets.remove(&owner.0);
            }
        }
    }

    /// Changes the sizes of sets and tells of it.
    fn resize(&self, rollout: &Rollout<'_>, sizes: &Sizes, view: &View<'_>) -> Outcome<Infallible> {
        let (mut writes, mut told) = (Vec::new(), Vec::new());
        for set in &rollout.all {
            let name = set.metadata.name.as_deref().unwrap_or_default();
            let held = size_of(set);
            let Some(size) = sizes.get(name) else { continue };
            let annotations = json!({
                DESIRED: rollout.goal.replicas.to_string(), MOST: rollout.goal.most().to_string(),
            });
            let patch = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": size}});
            let version = set.metadata.resource_version.as_deref().unwrap_or_default();
            writes.push(Write::merge_patch::<ReplicaSet>(&Key::of(*set), patch).if_version(version));
            let direction = if *size > held { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {name} from {held} to {size}");
            told.extend(self.tell(rollout.deployment, message, view));
        }
        Outcome::done().then_all(writes).then_all(told)
    }

    fn tell(&self, deployment: &Deployment, message: String, view: &View<'_>) -> Option<Write> {
        let happening = Happening::normal("ScalingReplicaSet", message);
        let about = About::object(deployment);
        self.events.tells(false).then(|| event(&about, &happening, COMPONENT, view))
    }

    /// Makes the set of a new template.
    fn make_new(&self, rollout: &Rollout<'_>, view: &View<'_>) -> Outcome<Infallible> {
        let newest = rollout.old.iter().map(|set| revision(set)).max().unwrap_or(0);
        let all: i32 = rollout.old.iter().map(|set| size_of(set)).sum();
        let size = new_set_size(&rollout.goal, 0, all);
        let set = make(rollout.deployment, size, rollout.goal.most(), newest + 1);
        let name = set.metadata.name.clone().unwrap_or_default();
        let told = (size > 0).then(|| {
            self.tell(rollout.deployment, format!("Scaled up replica set {name} from 0 to {size}"), view)
        });
        let status = rollout.status_write(Some(&name), view.now);
        Outcome::done()
            .then(Write::create(&set))
            .then_all(told.flatten())
            .then_all(rollout.revision_write((newest + 1).to_string().as_str()))
            .then_all(status)
    }

    /// Deletes empty sets beyond the history a deployment keeps.
    fn clean_up(rollout: &Rollout<'_>) -> Vec<Write> {
        let limit =
            rollout.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
        let limit = usize::try_from(limit).unwrap_or(0);
        let mut empty: Vec<&&ReplicaSet> = rollout
            .old
            .iter()
            .filter(|set| {
                let held = set.status.as_ref().map_or(0, |status| status.replicas);
                size_of(set) == 0 && held == 0 && set.metadata.deletion_timestamp.is_none()
            })
            .collect();
        empty.sort_by_key(|set| revision(set));
        let excess = rollout.old.len().saturating_sub(limit).min(empty.len());
        let doomed = empty[..excess].iter();
        doomed
            .map(|set| Write::delete::<ReplicaSet>(&Key::of(**set)).propagation("Background").tolerating(404))
            .collect()
    }
}

impl Controller for Deployments {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-deployments"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<Deployment>();
        watches.add::<ReplicaSet>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        let Some(delta) = change.of::<ReplicaSet>() else {
            wakes.wake(change.key().clone());
            return;
        };
        if let Some(old) = delta.old {
            self.index(change.key(), old, false, wakes);
        }
        if let Some(new) = delta.new {
            self.index(change.key(), new, true, wakes);
            if owner(new).is_none() {
                let labels = new.metadata.labels.clone().unwrap_or_default();
                for deployment in
                    caches.of::<Deployment>().in_namespace(change.key().namespace().unwrap_or_default())
                {
                    if selector(deployment).matches(&labels) {
                        wakes.wake(Key::of(&**deployment));
                    }
                }
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(deployment) = view.caches.of::<Deployment>().get(key) else { return Outcome::done() };
        let sets = view.caches.of::<ReplicaSet>();
        let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
        let owned =
            self.sets.get(uid).into_iter().flatten().filter_map(|key| sets.get(key)).map(|set| &**set);
        let rollout = Rollout::new(deployment, owned.collect());
        if deployment.metadata.deletion_timestamp.is_some() {
            return Outcome::done().then_all(rollout.status_write(None, view.now));
        }
        let adoptions = adoptions(deployment, view.caches);
        if !adoptions.is_empty() {
            return Outcome::done().then_all(adoptions);
        }
        self.roll_out(&rollout, view)
    }
}

impl Deployments {
    fn roll_out(&self, rollout: &Rollout<'_>, view: &View<'_>) -> Outcome<Infallible> {
        let deployment = rollout.deployment;
        let is_paused = deployment.spec.as_ref().and_then(|spec| spec.paused).unwrap_or(false);
        let sizes = rollout.sizes();
        if is_paused || rollout.was_scaled() {
            let sizes = scale(&rollout.goal, sizes.0.as_ref(), &sizes.1);
            let mut outcome = self.resize(rollout, &sizes, view);
            if sizes.is_empty() {
                outcome = outcome.then_all(rollout.desired_writes());
            }
            return outcome.then_all(rollout.status_write(None, view.now));
        }
        let Some(new) = rollout.new else {
            let is_cleared =
                rollout.goal.strategy != Strategy::Recreate || rollout.old.iter().all(|set| is_empty(set));
            if is_cleared {
                return self.make_new(rollout, view);
            }
            return self.clear_old(rollout, view);
        };
        let newest = rollout.old.iter().map(|set| revision(set)).max().unwrap_or(0);
        if let Some(annotations) = missing_annotations(deployment, new, newest) {
            let patch = json!({"metadata": {"annotations": annotations}});
            return Outcome::done().then(Write::merge_patch::<ReplicaSet>(&Key::of(new), patch));
        }
        let step = match (rollout.goal.strategy, &sizes.0) {
            (Strategy::Rolling { .. }, Some(new)) => roll(&rollout.goal, new, &sizes.1),
            _ if rollout.old.iter().all(|set| is_empty(set)) && size_of(new) != rollout.goal.replicas => {
                Sizes::from([(new.metadata.name.clone().unwrap_or_default(), rollout.goal.replicas)])
            }
            _ => rollout.emptied(),
        };
        let mut outcome = self.resize(rollout, &step, view);
        let picture = rollout.picture(None, view.now);
        if step.is_empty() && picture.is_complete() {
            outcome = outcome.then_all(Self::clean_up(rollout));
        }
        let revised = rollout.revision_write(annotation(new, REVISION).unwrap_or_default());
        outcome = outcome.then_all(revised).then_all(rollout.status_write(None, view.now));
        match picture.deadline() {
            Some(wait) => outcome.again(wait),
            None => outcome,
        }
    }

    fn clear_old(&self, rollout: &Rollout<'_>, view: &View<'_>) -> Outcome<Infallible> {
        self.resize(rollout, &rollout.emptied(), view).then_all(rollout.status_write(None, view.now))
    }
}

/// A deployment and its sets at a moment.
struct Rollout<'a> {
    deployment: &'a Deployment,
    goal: Goal,
    new: Option<&'a ReplicaSet>,
    old: Vec<&'a ReplicaSet>,
    all: Vec<&'a ReplicaSet>,
}

impl<'a> Rollout<'a> {
    fn new(deployment: &'a Deployment, all: Vec<&'a ReplicaSet>) -> Self {
        let new = find_new(deployment, &all);
        let is_new = |set: &ReplicaSet| new.is_some_and(|new| new.metadata.uid == set.metadata.uid);
        let old = all.iter().copied().filter(|set| !is_new(set)).collect();
        Self { deployment, goal: goal(deployment), new, old, all }
    }

    fn sizes(&self) -> (Option<SetSize>, Vec<SetSize>) {
        (self.new.map(set_size), self.old.iter().map(|set| set_size(set)).collect())
    }

    fn emptied(&self) -> Sizes {
        let filled = self.old.iter().filter(|set| size_of(set) != 0);
        filled.map(|set| (set.metadata.name.clone().unwrap_or_default(), 0)).collect()
    }

    /// Returns whether somebody changed the deployment's size since its sets were sized.
    fn was_scaled(&self) -> bool {
        let mut active = self.all.iter().filter(|set| size_of(set) > 0);
        active.any(|set| {
            let desired = annotation(set, DESIRED).and_then(|text| text.parse::<i32>().ok());
            desired.is_some_and(|desired| desired != self.goal.replicas)
        })
    }

    /// Notes the present size on sets that need no other change.
    fn desired_writes(&self) -> Vec<Write> {
        let wanted = self.goal.replicas.to_string();
        let stale =
            self.all.iter().filter(|set| size_of(set) > 0 && annotation(set, DESIRED) != Some(&wanted));
        stale
            .map(|set| {
                let annotations = json!({DESIRED: wanted, MOST: self.goal.most().to_string()});
                Write::merge_patch::<ReplicaSet>(
                    &Key::of(*set),
                    json!({"metadata": {"annotations": annotations}}),
                )
            })
            .collect()
    }

    fn picture<'b>(&'b self, makes_new: Option<&'b str>, now: Timestamp) -> Picture<'b> {
        Picture {
            deployment: self.deployment,
            goal: self.goal,
            new: self.new,
            all: self.all.clone(),
            makes_new,
            now,
        }
    }

    fn status_write(&self, makes_new: Option<&str>, now: Timestamp) -> Option<Write> {
        let wanted = self.picture(makes_new, now).status();
        let patch = status_patch(self.deployment.status.as_ref(), wanted, &["terminatingReplicas"])?;
        Some(Write::merge_patch::<Deployment>(&Key::of(self.deployment), patch).status().tolerating(404))
    }

    fn revision_write(&self, revision: &str) -> Option<Write> {
        let held = self.deployment.metadata.annotations.as_ref().and_then(|all| all.get(REVISION));
        if revision.is_empty() || held.is_some_and(|held| held == revision) {
            return None;
        }
        let patch: Value = json!({"metadata": {"annotations": {REVISION: revision}}});
        Some(Write::merge_patch::<Deployment>(&Key::of(self.deployment), patch).tolerating(404))
    }
}

fn owner(set: &ReplicaSet) -> Option<(String, String)> {
    let owners = set.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true) && owner.kind == "Deployment");
    controllers.next().map(|owner| (owner.uid.clone(), owner.name.clone()))
}

fn selector(deployment: &Deployment) -> Selector {
    Selector::new(deployment.spec.as_ref().map(|spec| &spec.selector))
}

/// Returns writes that take in matching sets nobody controls.
fn adoptions(deployment: &Deployment, caches: &Caches) -> Vec<Write> {
    let selector = selector(deployment);
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let free = caches.of::<ReplicaSet>().in_namespace(namespace).filter(|set| {
        let mut owners = set.metadata.owner_references.iter().flatten();
        !owners.any(|owner| owner.controller == Some(true)) && set.metadata.deletion_timestamp.is_none()
    });
    free.filter(|set| set.metadata.labels.as_ref().is_some_and(|labels| selector.matches(labels)))
        .map(|set| {
            let patch = json!({"metadata": {"ownerReferences": [controller_reference(deployment)]}});
            Write::strategic_patch::<ReplicaSet>(&Key::of(&**set), patch).tolerating(404)
        })
        .collect()
}

fn size_of(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Returns whether a set has no pods left, not even such as are going.
fn is_empty(set: &ReplicaSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    size_of(set) == 0
        && status.replicas == 0
        && status.terminating_replicas.unwrap_or(0) == 0
        && status.observed_generation >= set.metadata.generation
}

fn set_size(set: &ReplicaSet) -> SetSize {
    let status = set.status.as_ref();
    SetSize {
        name: set.metadata.name.clone().unwrap_or_default(),
        size: size_of(set),
        available: status.and_then(|status| status.available_replicas).unwrap_or(0),
        created: set.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        most_then: annotation(set, MOST).and_then(|text| text.parse().ok()),
    }
}

fn goal(deployment: &Deployment) -> Goal {
    let spec = deployment.spec.as_ref();
    let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let strategy = spec.and_then(|spec| spec.strategy.as_ref());
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
        return Goal { replicas, strategy: Strategy::Recreate };
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = resolve(rolling.and_then(|rolling| rolling.max_surge.as_ref()), replicas, Rounding::Up);
    let unavailable =
        resolve(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), replicas, Rounding::Down);
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    Goal { replicas, strategy: Strategy::Rolling { surge, unavailable } }
}

/// Which way a share of pods is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Up,
    Down,
}

/// Returns a number of pods given as such or as a percentage of `total`; nothing said is zero.
pub(super) fn resolve(value: Option<&IntOrString>, total: i32, rounding: Rounding) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let scaled = i64::from(total) * percent;
            let rounded = if rounding == Rounding::Up { (scaled + 99) / 100 } else { scaled / 100 };
            i32::try_from(rounded).unwrap_or(i32::MAX)
        }
    }
}
