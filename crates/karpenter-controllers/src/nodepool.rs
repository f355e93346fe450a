//! NodePools: are they valid, is their NodeClass ready, how much do they use; and the hash by which claims see that they changed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use karpenter_api::condition::AWAITING_RECONCILIATION;
use karpenter_api::condition::nodepool::{
    DEPENDENTS, NODE_CLASS_NOT_FOUND, NODE_CLASS_READINESS_UNKNOWN, NODE_CLASS_READY, NODE_CLASS_TERMINATING,
    NODE_REGISTRATION_HEALTHY, REGISTRATION_FAILED, VALIDATION_FAILED, VALIDATION_SUCCEEDED,
};
use karpenter_api::validation::validate_nodepool;
use karpenter_api::{LabelRules, NodeClaim, NodePool, hash};
use karpenter_kube::knobs::mistakes;
use karpenter_provider::NodeClassKind;
use karpenter_quantity::ResourceList;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};

use crate::conditions::Conditions;
use crate::events::{EventType, Events};
use crate::node_class::{NodeClasses, Readiness};
use crate::patches::difference;
use crate::state::{Shared, pool_of, provider_id};

/// The name under which NodeClass changes wake this controller.
pub(crate) const NAME: &str = "nodepool";
/// How long changes of nodes are collected before the counts are written.
const COUNT_AFTER: Duration = Duration::from_secs(5);
/// For how long a mistake in an annotation is not told again.
const MISTAKE_REPEATED: Duration = Duration::from_mins(15);

/// Resources that a pool's status tells even if there is nothing of them, as upstream's does.
const ALWAYS_TOLD: [&str; 4] = ["cpu", "memory", "pods", "ephemeral-storage"];

/// The controller of NodePools.
pub(crate) struct NodePools {
    state: Shared,
    rules: LabelRules,
    classes: &'static [NodeClassKind],
    node_classes: NodeClasses,
    events: Events,
}

impl NodePools {
    /// A controller of the pools whose NodeClass is one of `classes`.
    pub(crate) fn new(
        state: Shared,
        rules: LabelRules,
        classes: &'static [NodeClassKind],
        node_classes: NodeClasses,
    ) -> Self {
        Self { state, rules, classes, node_classes, events: Events::default() }
    }

    /// The pool with its hash, conditions and counts up to date.
    fn updated(&self, pool: &NodePool, view: &View<'_>) -> NodePool {
        let mut new = pool.clone();
        let annotations = new.metadata.annotations.get_or_insert_default();
        annotations.insert(NODEPOOL_HASH.to_owned(), hash::nodepool_hash(pool));
        annotations.insert(NODEPOOL_HASH_VERSION.to_owned(), hash::NODEPOOL_HASH_VERSION.to_owned());
        let (resources, nodes) = self.usage(pool);
        let status = new.status.get_or_insert_default();
        status.resources = Some(resources);
        status.nodes = Some(nodes);
        let generation = pool.metadata.generation;
        let mut conditions =
            Conditions::new(status.conditions.get_or_insert_default(), DEPENDENTS, generation, view.now);
        conditions.begin();
        let findings = validate_nodepool(pool, &self.rules);
        if findings.is_valid() {
            conditions.set_true(VALIDATION_SUCCEEDED);
        } else {
            conditions.set_false(VALIDATION_SUCCEEDED, VALIDATION_FAILED, &findings.message());
        }
        self.note_node_class(pool, &mut conditions);
        let class_generation = self.node_classes.generation(&pool.spec.template.spec.node_class_ref);
        self.note_registrations(pool, class_generation, &mut conditions);
        status.node_class_observed_generation = class_generation.or(status.node_class_observed_generation);
        new
    }

    /// Says whether nodes have been joining. What is known is forgotten when the pool or its NodeClass changes.
    fn note_registrations(
        &self,
        pool: &NodePool,
        class_generation: Option<i64>,
        conditions: &mut Conditions<'_>,
    ) {
        let mut state = self.state.lock();
        let known = state.registrations(pool.metadata.name.as_deref().unwrap_or_default());
        let seen = pool.status.as_ref().and_then(|status| status.node_class_observed_generation);
        let condition = conditions.get(NODE_REGISTRATION_HEALTHY);
        let changed = condition.is_none_or(|found| found.observed_generation != pool.metadata.generation)
            || class_generation.is_some_and(|generation| seen.is_some_and(|seen| seen != generation));
        if changed {
            known.forget();
            conditions.clear(NODE_REGISTRATION_HEALTHY);
            let message = "object is awaiting reconciliation";
            conditions.set_unknown(NODE_REGISTRATION_HEALTHY, AWAITING_RECONCILIATION, message);
            return;
        }
        match condition.map(|found| found.status.as_str()) {
            Some("True") => known.recall(true),
            Some("False") => known.recall(false),
            _ => {}
        }
        match known.are_healthy() {
            Some(true) => conditions.set_true(NODE_REGISTRATION_HEALTHY),
            Some(false) => conditions.set_false(
                NODE_REGISTRATION_HEALTHY,
                REGISTRATION_FAILED,
                "Nodes of this NodePool do not join the cluster; see the events of its NodeClaims",
            ),
            None => {}
        }
    }

    fn note_node_class(&self, pool: &NodePool, conditions: &mut Conditions<'_>) {
        let class = &pool.spec.template.spec.node_class_ref;
        match self.node_classes.readiness(class) {
            Readiness::Missing => {
                conditions.set_false(
                    NODE_CLASS_READY,
                    NODE_CLASS_NOT_FOUND,
                    "NodeClass not found on cluster",
                );
            }
            Readiness::Terminating => {
                conditions.set_false(NODE_CLASS_READY, NODE_CLASS_TERMINATING, "NodeClass is terminating");
            }
            Readiness::Unknown => {
                conditions.set_false(
                    NODE_CLASS_READY,
                    NODE_CLASS_READINESS_UNKNOWN,
                    "Node Class Readiness Unknown",
                );
            }
            Readiness::NotReady { reason, message } => {
                conditions.set_false(NODE_CLASS_READY, &reason, &message);
            }
            Readiness::Ready => conditions.set_true(NODE_CLASS_READY),
        }
    }

    /// What the pool's nodes and launched claims have together, and how many they are.
    fn usage(&self, pool: &NodePool) -> (BTreeMap<String, Quantity>, i64) {
        let state = self.state.lock();
        let name = pool.metadata.name.as_deref();
        let of_pool = |claim: &&std::sync::Arc<NodeClaim>| pool_of(&***claim) == name;
        let mut total = ResourceList::default();
        let mut count = 0;
        for claim in state.claims().filter(of_pool).filter(|claim| provider_id(claim).is_some()) {
            let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
            total.merge_add(&karpenter_kube::resources::resource_list(capacity).unwrap_or_default());
            count += 1;
        }
        let always = ALWAYS_TOLD.iter().map(|name| ((*name).to_owned(), Quantity("0".to_owned())));
        let mut written: BTreeMap<String, Quantity> = always.collect();
        written.extend(total.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))));
        written.insert("nodes".to_owned(), Quantity(count.to_string()));
        (written, count)
    }

    fn is_ours(&self, pool: &NodePool) -> bool {
        let class = &pool.spec.template.spec.node_class_ref;
        self.classes.iter().any(|known| known.group == class.group && known.kind == class.kind)
    }

    /// Claims stamped under another version of the hash are stamped anew, as long as nothing says that they have drifted.
    fn restamped<'a>(pool: &'a NodePool, caches: &'a Caches) -> impl Iterator<Item = Write> + 'a {
        let name = pool.metadata.name.as_deref();
        let claims = caches
            .of::<NodeClaim>()
            .iter()
            .map(|(_, claim)| claim)
            .filter(move |claim| pool_of(&***claim) == name);
        let stamp = |metadata: &ObjectMeta| {
            metadata.annotations.as_ref().and_then(|all| all.get(NODEPOOL_HASH_VERSION)).cloned()
        };
        // A claim that was never stamped is left alone, unless its pool is just changing versions.
        let migrating = stamp(&pool.metadata).is_some_and(|version| version != hash::NODEPOOL_HASH_VERSION);
        claims.filter_map(move |claim| {
            let stale = match stamp(&claim.metadata) {
                Some(version) => version != hash::NODEPOOL_HASH_VERSION,
                None => migrating,
            };
            if !stale {
                return None;
            }
            let mut new = NodeClaim::clone(claim);
            let annotations = new.metadata.annotations.get_or_insert_default();
            annotations.insert(NODEPOOL_HASH_VERSION.to_owned(), hash::NODEPOOL_HASH_VERSION.to_owned());
            if crate::nodeclaim::condition(claim, karpenter_api::condition::nodeclaim::DRIFTED).is_none() {
                annotations.insert(NODEPOOL_HASH.to_owned(), hash::nodepool_hash(pool));
            }
            difference(&**claim, &new)
        })
    }
}

impl Controller for NodePools {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodePool>();
        watches.reads::<NodeClaim>();
        watches.reads::<Node>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if change.of::<NodePool>().is_some() {
            wakes.wake(change.key().clone());
        } else if let Some(delta) = change.of::<NodeClaim>() {
            let pool = pool_of(delta.latest());
            pool.into_iter().for_each(|pool| wakes.wake_after(Key::cluster(pool), COUNT_AFTER));
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(pool) = view.caches.of::<NodePool>().get(key) else { return Outcome::done() };
        if !self.is_ours(pool) || pool.metadata.deletion_timestamp.is_some() {
            return Outcome::done();
        }
        let restamped: Vec<Write> = Self::restamped(pool, view.caches).collect();
        let mistakes: Vec<Write> = mistakes(pool)
            .iter()
            .filter_map(|mistake| {
                let (reason, time) = ("InvalidAnnotation", (view.now, view.environment));
                let warning = EventType::Warning;
                self.events.tell_every(MISTAKE_REPEATED, &**pool, warning, reason, mistake, time.0, time.1)
            })
            .collect();
        let update = difference(&**pool, &self.updated(pool, view));
        Outcome::done().then_all(restamped).then_all(update).then_all(mistakes)
    }
}
