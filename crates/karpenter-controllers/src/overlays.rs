//! NodeOverlays: which of them are in force, and what is wrong with the others.
//!
//! All of them are looked at together, against everything that all pools are sold: whether two conflict shows only where both apply. What is in
//! force is put into the shared state, from where plans take it, and told the provider, which chooses among the machines of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use karpenter_api::condition::nodeoverlay::{CONFLICT, DEPENDENTS, RUNTIME_VALIDATION, VALIDATION_SUCCEEDED};
use karpenter_api::validation::validate_nodeoverlay;
use karpenter_api::{LabelRules, NodeOverlay, NodePool};
use karpenter_core::catalog::{Catalog, apply_overlays};
use karpenter_kube::node_pool::node_pool;
use karpenter_kube::overlay::node_overlay;
use karpenter_provider::{Overlays, Provider};
use karpenter_runtime::{
    Caches, Change, Controller, Delta, Effect, Key, Outcome, Request, View, Wakes, Watches,
};

use kube::Resource;

use crate::conditions::Conditions;
use crate::node_class::{NodeClasses, Readinesses};
use crate::patches::difference;
use crate::provisioning::Computing;
use crate::state::Shared;

/// The name under which changes of NodeClasses wake this controller.
pub(crate) const NAME: &str = "nodeoverlay.controller";
/// What is sold changes: how often overlays are held against it anew.
const PERIOD: SignedDuration = SignedDuration::from_hours(6);
/// How soon it is asked again what is sold, where the provider does not know yet.
const UNKNOWN_PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// Overlays to be held against what pools are sold.
pub(crate) struct Question {
    overlays: Vec<Arc<NodeOverlay>>,
    pools: Vec<Arc<NodePool>>,
    rules: LabelRules,
}

impl Request for Question {
    fn action(&self) -> Option<String> {
        None
    }
}

/// What is in force, and why the others are not.
pub(crate) struct Answer {
    in_force: Overlays,
    troubles: BTreeMap<Key, Trouble>,
    /// Whether what is sold was known for every pool.
    complete: bool,
}

/// Why an overlay is not in force: the reason of the condition, and a sentence.
type Trouble = (&'static str, String);

/// The controller of NodeOverlays.
pub(crate) struct NodeOverlays {
    state: Shared,
    rules: LabelRules,
    provider: Arc<dyn Provider>,
    node_classes: NodeClasses,
    /// The NodeClasses as they were at the last question.
    classes_then: Readinesses,
    /// Whether something has changed since the last question.
    stale: bool,
    /// When it is to be asked again although nothing changed.
    due: Option<Timestamp>,
    troubles: Option<BTreeMap<Key, Trouble>>,
}

impl NodeOverlays {
    /// A controller that puts what is in force into `state` and tells `provider`.
    pub(crate) fn new(
        state: Shared,
        rules: LabelRules,
        provider: Arc<dyn Provider>,
        node_classes: NodeClasses,
    ) -> Self {
        let classes_then = Readinesses::new();
        Self { state, rules, provider, node_classes, classes_then, stale: true, due: None, troubles: None }
    }

    fn question(&self, caches: &Caches) -> Question {
        let leaves = |overlay: &&Arc<NodeOverlay>| overlay.metadata.deletion_timestamp.is_some();
        let overlays = caches.of::<NodeOverlay>().iter().map(|(_, overlay)| overlay);
        Question {
            overlays: overlays.filter(|overlay| !leaves(overlay)).map(Arc::clone).collect(),
            pools: caches.of::<NodePool>().iter().map(|(_, pool)| Arc::clone(pool)).collect(),
            rules: self.rules.clone(),
        }
    }
}

impl Controller for NodeOverlays {
    type Request = Question;
    type Reply = Answer;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self, watches: &mut Watches) {
        // Without its definition there are none.
        watches.add_if_served::<NodeOverlay>();
        watches.reads::<NodePool>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        let overlay = change.of::<NodeOverlay>();
        let overlay_changed = overlay.as_ref().is_some_and(has_changed);
        let pool_changed = change.of::<NodePool>().as_ref().is_some_and(has_changed);
        self.stale |= overlay_changed || pool_changed;
        // An overlay that only its status changed of may need another.
        if overlay.is_some() || pool_changed {
            wakes.wake(Key::everything());
        }
    }

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<Question> {
        let classes = self.node_classes.readinesses();
        if self.stale || self.classes_then != classes || self.due.is_none_or(|due| due <= view.now) {
            self.stale = false;
            self.classes_then = classes;
            self.due = Some(view.now + PERIOD);
            return Outcome::done().then(Effect::Request(self.question(view.caches)));
        }
        let overlays = view.caches.of::<NodeOverlay>();
        let statuses = self.troubles.iter().flat_map(|troubles| {
            let told = |(key, overlay): (&Key, &Arc<NodeOverlay>)| {
                difference(&**overlay, &judged(overlay, troubles.get(key), view.now))
            };
            overlays.iter().filter_map(told).collect::<Vec<_>>()
        });
        let again = self.due.map_or(PERIOD, |due| due.duration_since(view.now));
        Outcome::after(again.try_into().unwrap_or_default()).then_all(statuses)
    }

    fn hear(&mut self, _: &Key, answer: Answer, view: &View<'_>) {
        self.due = Some(view.now + if answer.complete { PERIOD } else { UNKNOWN_PERIOD });
        self.troubles = Some(answer.troubles);
        self.provider.heed_overlays(answer.in_force.clone());
        self.state.lock().set_overlays(answer.in_force);
    }
}

/// Whether an object has come, gone, or asks for something else.
fn has_changed<K: Resource>(delta: &Delta<'_, K>) -> bool {
    match (delta.old, delta.new) {
        (Some(old), Some(new)) => old.meta().generation != new.meta().generation,
        _ => true,
    }
}

/// The overlay with its conditions.
fn judged(overlay: &NodeOverlay, trouble: Option<&Trouble>, now: Timestamp) -> NodeOverlay {
    let mut new = overlay.clone();
    let list = new.status.get_or_insert_default().conditions.get_or_insert_default();
    let mut conditions = Conditions::new(list, DEPENDENTS, overlay.metadata.generation, now);
    match trouble {
        Some((reason, message)) => conditions.set_false(VALIDATION_SUCCEEDED, reason, message),
        None => conditions.set_true(VALIDATION_SUCCEEDED),
    }
    new
}

/// Asks `provider` what pools are sold, and holds overlays against that.
pub(crate) fn handler(
    provider: Arc<dyn Provider>,
    computing: Computing,
) -> impl Fn(Question) -> BoxFuture<'static, Answer> + Send + 'static {
    move |question| {
        let provider = provider.clone();
        async move {
            let mut catalog = Catalog::default();
            let mut complete = true;
            for pool in &question.pools {
                let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
                match provider.instance_types(Arc::clone(pool)).await {
                    Ok(types) => drop(catalog.by_pool.insert(name, types)),
                    Err(error) => {
                        complete = false;
                        tracing::debug!("NodeOverlays are not held against NodePool {name} yet: {error}");
                    }
                }
            }
            computing.run(move || answer(&question, &catalog, complete)).await
        }
        .boxed()
    }
}

fn answer(question: &Question, catalog: &Catalog, complete: bool) -> Answer {
    let mut troubles = BTreeMap::new();
    let mut sound = Vec::new();
    for overlay in &question.overlays {
        match read(overlay, &question.rules) {
            Ok(overlay) => sound.push(overlay),
            Err(message) => drop(troubles.insert(Key::of(&**overlay), (RUNTIME_VALIDATION, message))),
        }
    }
    // A pool that cannot be read gets no nodes, whatever they cost.
    let pools: Vec<_> = question
        .pools
        .iter()
        .filter_map(|pool| node_pool(pool, &question.rules).ok())
        .map(Arc::new)
        .collect();
    let (_, conflicts) = apply_overlays(catalog, &pools, &sound);
    for conflict in conflicts {
        sound.retain(|overlay| overlay.name != conflict.overlay);
        troubles.insert(Key::cluster(&conflict.overlay), (CONFLICT, conflict.to_string()));
    }
    Answer { in_force: Overlays::new(sound, pools), troubles, complete }
}

fn read(overlay: &NodeOverlay, rules: &LabelRules) -> Result<karpenter_core::catalog::NodeOverlay, String> {
    let findings = validate_nodeoverlay(overlay, rules);
    if !findings.is_valid() {
        return Err(findings.message());
    }
    node_overlay(overlay, rules).map_err(|error| error.to_string())
}
