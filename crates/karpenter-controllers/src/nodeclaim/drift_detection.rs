//! Watches launched claims for drift and says in each whether it has, and in which way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use karpenter_api::condition::nodeclaim::{DRIFTED, INSTANCE_TYPE_NOT_FOUND, LAUNCHED};
use karpenter_api::{LabelRules, NodeClaim, NodePool, labels};
use karpenter_provider::{CatalogError, InstanceTypes, Provider, ProviderError};
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches};
use tokio::time::Instant;

use super::{asks_otherwise, condition, conditions, drift, is_true, uid};
use crate::assortment::Assortment;
use crate::metrics::{self, Call, Metrics};
use crate::node_class::NodeClasses;
use crate::patches::difference;
use crate::state::Shared;

/// The name under which changes of NodeClasses wake this controller.
pub(crate) const NAME: &str = "nodeclaim.disruption";
/// How often the provider is asked about a claim.
const PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// A claim this young was chosen from a list that has not changed since.
const TYPE_TRUSTED: SignedDuration = SignedDuration::from_hours(1);
/// How long a claim's machine counts as sold after it was found in the list.
const TYPE_REMEMBERED: SignedDuration = SignedDuration::from_mins(30);

/// What the provider is asked about a claim.
pub(crate) struct DriftQuestion {
    claim: Arc<NodeClaim>,
    /// The pool, where it is to be checked what can be bought.
    pool: Option<Arc<NodePool>>,
}

impl Request for DriftQuestion {
    fn action(&self) -> Option<String> {
        None
    }
}

/// The answer.
pub(crate) struct DriftAnswer {
    provider: Result<Option<String>, ProviderError>,
    types: Option<Result<InstanceTypes, CatalogError>>,
}

/// What was last heard about a claim.
#[derive(Debug, Default)]
struct Heard {
    at: Option<Timestamp>,
    /// The generation of the NodeClass that the answer is about.
    class: Option<i64>,
    provider: Option<String>,
    unsold: bool,
    found_in_list: Option<Timestamp>,
}

/// The controller that finds drift.
pub(crate) struct DriftDetection {
    state: Shared,
    rules: LabelRules,
    node_classes: NodeClasses,
    heard: BTreeMap<String, Heard>,
}

impl DriftDetection {
    /// A controller that reads labels by `rules`.
    pub(crate) fn new(state: Shared, rules: LabelRules, node_classes: NodeClasses) -> Self {
        Self { state, rules, node_classes, heard: BTreeMap::new() }
    }

    /// What was heard of the claim, unless that was long ago or about another NodeClass.
    fn fresh(&self, claim: &NodeClaim, now: Timestamp) -> Option<&Heard> {
        let class = self.node_classes.generation(&claim.spec.node_class_ref);
        let heard = self.heard.get(uid(claim))?;
        let young = heard.at.is_some_and(|at| now.duration_since(at) < PERIOD);
        (young && heard.class == class).then_some(heard)
    }

    fn question(&self, claim: &Arc<NodeClaim>, pool: &Arc<NodePool>, now: Timestamp) -> DriftQuestion {
        let age = claim.metadata.creation_timestamp.as_ref().map(|created| now.duration_since(created.0));
        let found = self.heard.get(uid(claim)).and_then(|heard| heard.found_in_list);
        let remembered = found.is_some_and(|found| now.duration_since(found) < TYPE_REMEMBERED);
        let doubtful = age.is_some_and(|age| age > TYPE_TRUSTED) && !remembered;
        DriftQuestion { claim: Arc::clone(claim), pool: doubtful.then(|| Arc::clone(pool)) }
    }
}

impl Heard {
    fn reason(&self) -> Option<&str> {
        if self.unsold { Some(INSTANCE_TYPE_NOT_FOUND) } else { self.provider.as_deref() }
    }
}

impl Controller for DriftDetection {
    type Request = DriftQuestion;
    type Reply = DriftAnswer;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
        watches.reads::<NodePool>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<NodeClaim>() {
            if delta.new.is_none() {
                self.heard.remove(delta.old.map(uid).unwrap_or_default());
            }
            wakes.wake(change.key().clone());
        } else if change.of::<NodePool>().as_ref().is_some_and(asks_otherwise) {
            let state = self.state.lock();
            state.claims_of_pool(change.key().name()).for_each(|claim| wakes.wake(Key::of(&**claim)));
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<DriftQuestion> {
        let Some(claim) = view.caches.of::<NodeClaim>().get(key) else { return Outcome::done() };
        if claim.metadata.deletion_timestamp.is_some() {
            return Outcome::done();
        }
        let name = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
        // Without its pool nobody knows what the claim should be; what was said of it last stands.
        let Some(pool) = name.and_then(|name| self.state.lock().pool(name).cloned()) else {
            return Outcome::done();
        };
        let mut new = NodeClaim::clone(claim);
        if !condition(claim, LAUNCHED).is_some_and(is_true) {
            if condition(claim, DRIFTED).is_some() {
                conditions(&mut new, view.now).clear(DRIFTED);
            }
            return Outcome::done().then_all(difference(&**claim, &new));
        }
        let heard = self.fresh(claim, view.now);
        let seen = drift::seen(claim, &pool, &self.rules);
        if seen.is_none() && heard.is_none() {
            return Outcome::done().then(Effect::Request(self.question(claim, &pool, view.now)));
        }
        match seen.or_else(|| heard.and_then(Heard::reason)) {
            Some(reason) => conditions(&mut new, view.now).set(DRIFTED, "True", reason, reason),
            None => conditions(&mut new, view.now).clear(DRIFTED),
        }
        let again =
            heard.and_then(|heard| heard.at).map_or(PERIOD, |at| PERIOD - view.now.duration_since(at));
        let again = Duration::try_from(again).unwrap_or_default().max(Duration::from_secs(1));
        Outcome::after(again).then_all(difference(&**claim, &new))
    }

    fn hear(&mut self, key: &Key, answer: DriftAnswer, view: &View<'_>) {
        let Some(claim) = view.caches.of::<NodeClaim>().get(key) else { return };
        let heard = self.heard.entry(uid(claim).to_owned()).or_default();
        heard.at = Some(view.now);
        heard.class = self.node_classes.generation(&claim.spec.node_class_ref);
        match answer.provider {
            Ok(reason) => heard.provider = reason,
            Err(error) => tracing::warn!("whether NodeClaim {key} has drifted is not known: {error}"),
        }
        match answer.types {
            Some(Ok(types)) => {
                heard.unsold = !drift::is_sold(claim, &types, &self.rules);
                heard.found_in_list = (!heard.unsold).then_some(view.now);
            }
            Some(Err(error)) => {
                tracing::debug!("what can be bought for NodeClaim {key} is not known: {error}");
            }
            None => {}
        }
    }
}

/// Asks `provider`.
pub(crate) fn handler(
    (provider, assortment): (Arc<dyn Provider>, Assortment),
    metrics: Metrics,
) -> impl Fn(DriftQuestion) -> BoxFuture<'static, DriftAnswer> + Send + 'static {
    move |question| {
        let (provider, assortment, metrics) = (provider.clone(), assortment.clone(), metrics.clone());
        async move {
            let node_pool = question.claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
            let call = |method| Call {
                controller: NAME,
                method,
                provider: provider.name(),
                node_pool: node_pool.cloned().unwrap_or_default(),
            };
            let types = match question.pool {
                Some(pool) => Some(assortment.of(pool).await),
                None => None,
            };
            let asked = Instant::now();
            let drifted = provider.drift(question.claim.clone()).await;
            metrics.called(&call("IsDrifted"), asked.elapsed(), metrics::failure(&drifted));
            DriftAnswer { provider: drifted, types }
        }
        .boxed()
    }
}
