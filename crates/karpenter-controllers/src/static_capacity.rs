//! NodePools with a fixed number of nodes: claims are made from the template until there are enough, and given up when there are too many.
//!
//! Pods play no part in how many nodes there are, only in which of them goes first. Nodes that a command is about to replace are still
//! counted as there, so a replacement never causes another one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::condition::nodeclaim::DISRUPTION_REASON;
use karpenter_api::nodepool::NODES_RESOURCE;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_core::cluster::Node;
use karpenter_core::disruption::{StaticPool, scale_down_order};
use karpenter_kube::node_pool::node_pool;
use karpenter_kube::resources::quantity;
use karpenter_provider::NodeClassKind;
use karpenter_runtime::{Caches, Change, Controller, Delta, Key, Outcome, View, Wakes, Watches, Write};

use crate::metrics::Metrics;
use crate::nodeclaim::condition;
use crate::provisioning::{is_ready, template_claim};
use crate::state::{Shared, State, pool_of, provider_id};

/// How often a pool that has what it should is looked at.
const SETTLED: Duration = Duration::from_mins(1);
/// How often a pool is looked at that its limit keeps from growing.
const LIMITED: Duration = Duration::from_secs(30);

/// The controller of static pools.
pub(crate) struct StaticCapacity {
    state: Shared,
    rules: LabelRules,
    classes: &'static [NodeClassKind],
    metrics: Metrics,
}

/// The claims of a static pool, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    active: u32,
    /// About to leave once their replacement is up.
    pending: u32,
    deleting: u32,
    /// About to be created by a command.
    reserved: u32,
}

impl Counts {
    fn of(state: &State, pool: &str) -> Self {
        let mut counts = Self { reserved: state.reserved(pool), ..Self::default() };
        for claim in state.claims_of_pool(pool) {
            match standing(claim) {
                Standing::Active => counts.active += 1,
                Standing::Pending => counts.pending += 1,
                Standing::Deleting => counts.deleting += 1,
            }
        }
        counts
    }

    /// How many more claims `limit` allows.
    fn room(self, limit: Option<u32>) -> u32 {
        let taken = self.active + self.pending + self.deleting + self.reserved;
        limit.map_or(u32::MAX, |limit| limit.saturating_sub(taken))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Active,
    Pending,
    Deleting,
}

fn standing(claim: &NodeClaim) -> Standing {
    if claim.metadata.deletion_timestamp.is_some() {
        Standing::Deleting
    } else if condition(claim, DISRUPTION_REASON).is_some_and(|found| found.status == "True") {
        Standing::Pending
    } else {
        Standing::Active
    }
}

/// How many nodes a pool should have, if that is fixed.
fn replicas(pool: &NodePool) -> Option<u32> {
    pool.spec.replicas.map(|replicas| u32::try_from(replicas).unwrap_or_default())
}

/// How many nodes a pool may have at most.
fn limit(pool: &NodePool) -> Option<u32> {
    let written = pool.spec.limits.as_ref()?.get(NODES_RESOURCE)?;
    // A limit that cannot be read allows nothing more; validation says so on the pool.
    let units = quantity(written).map_or(0, |limit| limit.as_nano() / 1_000_000_000);
    Some(u32::try_from(units).unwrap_or(u32::MAX))
}

/// The static pools for voluntary disruption, with their objects.
pub(crate) fn static_pools_of(
    state: &State,
    rules: &LabelRules,
    caches: &Caches,
) -> Vec<(StaticPool, Arc<NodePool>)> {
    let pools = caches.of::<NodePool>();
    let counted = pools.iter().filter_map(|(key, pool)| {
        let replicas = replicas(pool).filter(|_| pool.metadata.deletion_timestamp.is_none())?;
        let converted = node_pool(pool, rules)
            .map_err(|error| tracing::warn!("NodePool {key} is left out: {error}"))
            .ok()?;
        let counts = Counts::of(state, key.name());
        let found = StaticPool {
            pool: Arc::new(converted),
            replicas,
            active: counts.active,
            pending: counts.pending,
            room: counts.room(limit(pool)),
        };
        Some((found, Arc::clone(pool)))
    });
    counted.collect()
}

impl StaticCapacity {
    /// A controller of the static pools whose NodeClass is one of `classes`.
    pub(crate) fn new(
        state: Shared,
        rules: LabelRules,
        classes: &'static [NodeClassKind],
        metrics: Metrics,
    ) -> Self {
        Self { state, rules, classes, metrics }
    }

    fn is_ours(&self, pool: &NodePool) -> bool {
        let class = &pool.spec.template.spec.node_class_ref;
        self.classes.iter().any(|known| known.group == class.group && known.kind == class.kind)
    }

    fn grow(&self, pool: &NodePool, missing: u32, view: &View<'_>) -> Outcome<Infallible> {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let counts = Counts::of(&self.state.lock(), name);
        let launches = self.state.lock().launched().room(pool, view.now);
        let count = missing.min(counts.room(limit(pool))).min(u32::try_from(launches).unwrap_or(u32::MAX));
        if count == 0 {
            return Outcome::after(LIMITED);
        }
        tracing::info!("creating {count} NodeClaim(s) for static NodePool {name}");
        let creations: Vec<Write> = (0..count)
            .map(|_| {
                self.state.lock().launched().note(pool, view.now);
                let claim = format!("{name}-{}", view.environment.suffix());
                Write::create(&template_claim(pool, &self.rules, claim))
            })
            .collect();
        let labels = [
            ("reason", "provisioned".to_owned()),
            ("nodepool", name.to_owned()),
            ("min_values_relaxed", "false".to_owned()),
        ];
        self.metrics.nodeclaims_created.of(&labels).inc_by(u64::from(count));
        Outcome::after(if count < missing { LIMITED } else { SETTLED }).then_all(creations)
    }

    /// Deletes claims: first those that are not machines yet, then the nodes that are missed least.
    fn shrink(&self, name: &str, excess: u32, view: &View<'_>) -> Outcome<Infallible> {
        let state = self.state.lock();
        let active: Vec<&Arc<NodeClaim>> =
            state.claims_of_pool(name).filter(|claim| standing(claim) == Standing::Active).collect();
        let snapshot = state.snapshot();
        let of_pool = |node: &&Arc<Node>| node.node_pool.as_deref() == Some(name);
        let nodes: Vec<&Arc<Node>> = snapshot.nodes.iter().filter(of_pool).collect();
        let claim_behind = |node: Arc<str>| {
            let of_node = state.claim_of(&node).cloned();
            of_node.or_else(|| {
                active
                    .iter()
                    .find(|claim| claim.metadata.name.as_deref() == Some(&*node))
                    .map(|claim| Arc::clone(claim))
            })
        };
        let unlaunched =
            active.iter().filter(|claim| provider_id(claim).is_none()).map(|claim| Arc::clone(claim));
        let launched = scale_down_order(&nodes, view.now).into_iter().filter_map(claim_behind);
        let victims = unlaunched.chain(launched).filter(|claim| standing(claim) == Standing::Active);
        let deletions: Vec<Write> = victims
            .take(excess as usize)
            .map(|claim| {
                tracing::info!(
                    "NodeClaim {} is deleted: static NodePool {name} has too many",
                    Key::of(&*claim)
                );
                let uid = claim.metadata.uid.as_deref().unwrap_or_default();
                Write::delete::<NodeClaim>(&Key::of(&*claim)).if_uid(uid).tolerating(404)
            })
            .collect();
        Outcome::after(SETTLED).then_all(deletions)
    }
}

impl Controller for StaticCapacity {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "static"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodePool>();
        watches.reads::<NodeClaim>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<NodePool>() {
            if delta.latest().spec.replicas.is_some() {
                wakes.wake(change.key().clone());
            }
        } else if let Some(Delta { old: Some(old), new }) = change.of::<NodeClaim>()
            && new.map(standing) != Some(standing(old))
            && let Some(pool) = pool_of(old)
        {
            wakes.wake(Key::cluster(pool));
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(pool) = view.caches.of::<NodePool>().get(key) else { return Outcome::done() };
        let Some(replicas) = replicas(pool) else { return Outcome::done() };
        if !self.is_ours(pool) || pool.metadata.deletion_timestamp.is_some() {
            return Outcome::done();
        }
        let counts = Counts::of(&self.state.lock(), key.name());
        if counts.active > replicas {
            return self.shrink(key.name(), counts.active - replicas, view);
        }
        let missing = replicas.saturating_sub(counts.active + counts.pending);
        if missing == 0 || !is_ready(pool) {
            return Outcome::after(SETTLED);
        }
        self.grow(pool, missing, view)
    }
}
