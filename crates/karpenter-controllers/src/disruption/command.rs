//! One move under way: fence the nodes, create what comes in their place, wait until it is ready, delete the claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::condition::nodeclaim::{DISRUPTION_REASON, INITIALIZED};
use karpenter_api::labels::NODEPOOL;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_core::disruption::{DisruptionCommand, DisruptionMethod, DisruptionReason, TerminateFirst};
use karpenter_runtime::{Key, View, Write};

use crate::fence::fenced;
use crate::metrics::{Labels, Metrics};
use crate::nodeclaim::{condition, conditions, is_initialized, tighten};
use crate::patches::difference;
use crate::provisioning::{node_claim, template_claim};
use crate::state::{Shared, pool_of, provider_id};

/// How long replacements may take to get ready.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// How long a replacement has been ready before the nodes go that it replaces: whoever watches the cluster, schedulers above all,
/// should know it by then. Conditions have whole seconds, so this is two seconds at least.
const NOTICE: SignedDuration = SignedDuration::from_secs(3);

/// A move under way.
pub(super) struct Command {
    plan: DisruptionCommand,
    /// The claims that go, by the name of their node.
    claims: BTreeMap<String, Arc<NodeClaim>>,
    replacements: Vec<Replacement>,
    rollouts: Vec<String>,
    started: Timestamp,
}

/// A claim that comes in place of others.
struct Replacement {
    claim: NodeClaim,
    /// Whether it has been seen in the cluster; if it is not seen any more, it was given up.
    seen: bool,
}

/// What is to be done about a command.
pub(super) enum Progress {
    /// These writes, then look again.
    Write(Vec<Write>),
    /// Nothing yet.
    Wait,
    /// It is over.
    Done,
    /// It cannot be completed. The fences come down because nobody accounts for them any more.
    Failed(String),
}

impl Command {
    /// Prepares a move. Names are chosen now, so that creating a claim twice makes one claim.
    pub(super) fn new(
        plan: DisruptionCommand,
        claims: BTreeMap<String, Arc<NodeClaim>>,
        (pools, rules): (&[Arc<NodePool>], &LabelRules),
        view: &View<'_>,
    ) -> Self {
        let named = |pool: &str| {
            let object = pools.iter().find(|object| object.metadata.name.as_deref() == Some(pool))?;
            Some((object, format!("{pool}-{}", view.environment.suffix())))
        };
        let planned = plan.replacements.iter().filter_map(|claim| {
            let (pool, name) = named(&claim.node_pool)?;
            Some(node_claim(claim, pool, name))
        });
        let from_template = plan.template_replacements.iter().filter_map(|pool| {
            let (pool, name) = named(pool)?;
            Some(template_claim(pool, rules, name))
        });
        let claims_to_be = planned.chain(from_template);
        let replacements = claims_to_be.map(|claim| Replacement { claim, seen: false }).collect();
        let drifted = plan.reason == DisruptionReason::Drifted;
        let rollouts = claims.values().filter_map(|claim| pool_of(&**claim)).filter(|_| drifted);
        let rollouts = rollouts.map(str::to_owned).collect();
        Self { plan, claims, replacements, rollouts, started: view.now }
    }

    /// Names of the nodes that go.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.claims.keys().map(String::as_str)
    }

    /// Names of the claims that go.
    pub(super) fn claims(&self) -> impl Iterator<Item = &str> {
        self.claims.values().filter_map(|claim| claim.metadata.name.as_deref())
    }

    /// Whether everything that comes in place of its nodes is there, so that their pods have to move.
    pub(super) fn has_started(&self) -> bool {
        self.replacements.iter().all(|new| new.seen)
    }

    /// The static pools for which it has yet to create a claim, one entry for each.
    pub(super) fn reserved(&self) -> impl Iterator<Item = &str> {
        let missing = self.replacements.iter().filter(|new| !new.seen);
        let of_pool = |new: &Replacement| {
            let labels = new.claim.metadata.labels.as_ref()?;
            let own = labels.get(NODEPOOL)?;
            self.plan.template_replacements.iter().find(|pool| ***pool == **own)
        };
        missing.filter_map(of_pool).map(|pool| &**pool)
    }

    /// The pools of the claims that are created, and whether their `minValues` were relaxed.
    pub(super) fn replacements(&self) -> impl Iterator<Item = (&str, bool)> {
        let planned =
            self.plan.replacements.iter().map(|claim| (&*claim.node_pool, claim.min_values_relaxed));
        planned.chain(self.plan.template_replacements.iter().map(|pool| (&**pool, false)))
    }

    /// Its labels in metrics: decision, reason, type of consolidation.
    pub(super) fn labels(&self) -> Labels<3> {
        [
            ("decision", self.decision().to_owned()),
            ("reason", format!("{:?}", self.plan.reason).to_lowercase()),
            ("consolidation_type", consolidation_type(self.plan.method).to_owned()),
        ]
    }

    /// The pools whose roll-out it is a part of, one entry for each node.
    pub(super) fn rollouts(&self) -> &[String] {
        &self.rollouts
    }

    /// Takes note that it is begun.
    pub(super) fn note_start(&self, metrics: &Metrics) {
        let pools: BTreeSet<&str> = self.claims.values().filter_map(|claim| pool_of(&**claim)).collect();
        metrics.command_started(&self.labels(), pools.iter().copied(), self.replacements());
        metrics.weighed("approved", self.plan.scores.iter().map(|(pool, score)| (&**pool, *score)));
        let Some(why) = self.plan.terminate_first else { return };
        for pool in pools {
            let why = match why {
                TerminateFirst::NoReservedCapacity => "no-reserved-capacity",
                TerminateFirst::StaticAtLimit => "static-at-limit",
            };
            let [_, reason, _] = self.labels();
            let labels = [("nodepool", pool.to_owned()), reason, ("terminate_first_reason", why.to_owned())];
            metrics.terminate_first.of(&labels).inc();
        }
    }

    /// The move in a sentence's middle.
    pub(super) fn text(&self) -> String {
        let nodes: Vec<&str> = self.nodes().collect();
        let new: Vec<&str> =
            self.replacements.iter().filter_map(|new| new.claim.metadata.name.as_deref()).collect();
        let instead =
            if new.is_empty() { String::new() } else { format!(", replacing them by {}", new.join(", ")) };
        format!(
            "{:?}/{} of {} (saves {:.4} per hour){instead}",
            self.plan.reason,
            self.decision(),
            nodes.join(", "),
            self.plan.savings
        )
    }

    fn decision(&self) -> &'static str {
        match (self.awaited(), self.plan.terminate_first) {
            (_, Some(_)) => "terminate-first",
            (0, None) => "delete",
            _ => "replace",
        }
    }

    /// How many claims come in place of its nodes.
    fn awaited(&self) -> usize {
        self.plan.replacements.len() + self.plan.template_replacements.len()
    }

    /// What to do next.
    pub(super) fn advance(&mut self, metrics: &Metrics, state: &Shared, view: &View<'_>) -> Progress {
        let known = view.caches.of::<NodeClaim>();
        self.claims.retain(|_, claim| known.get(&Key::of(&**claim)).is_some_and(|now| same(now, claim)));
        if self.claims.is_empty() {
            return Progress::Done;
        }
        if self.replacements.len() < self.awaited() {
            return Progress::Failed("the NodePool of a replacement is gone".to_owned());
        }
        let fences = self.fences(state, view);
        let overdue = view.now.duration_since(self.started) > PATIENCE;
        if !fences.is_empty() {
            let why = || Progress::Failed("the node(s) could not be fenced in time".to_owned());
            return if overdue { why() } else { Progress::Write(fences) };
        }
        let ready = match self.readiness(view) {
            Ok(ready) => ready,
            Err(why) => return Progress::Failed(why),
        };
        if ready {
            return self.delete(metrics, state, view);
        }
        if overdue {
            return Progress::Failed("what was to replace the node(s) was not ready in time".to_owned());
        }
        let missing = self.replacements.iter().filter(|new| !new.seen);
        let creations: Vec<Write> = missing.map(|new| Write::create(&new.claim).tolerating(409)).collect();
        if creations.is_empty() { Progress::Wait } else { Progress::Write(creations) }
    }

    /// The fences and reasons that are still missing.
    fn fences(&self, state: &Shared, view: &View<'_>) -> Vec<Write> {
        let mut writes = Vec::new();
        for claim in self.claims.values() {
            let Some(claim) = view.caches.of::<NodeClaim>().get(&Key::of(&**claim)) else { continue };
            if claim.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let names = provider_id(claim).map(|id| state.lock().nodes_of(id)).unwrap_or_default();
            for name in names {
                let node = view.caches.of::<Node>().get(&Key::cluster(&name));
                writes.extend(node.and_then(|node| difference(&**node, &fenced(node))));
            }
            let mut marked = NodeClaim::clone(claim);
            let reason = format!("{:?}", self.plan.reason);
            conditions(&mut marked, view.now).set(DISRUPTION_REASON, "True", &reason, "");
            writes.extend(difference(&**claim, &marked));
        }
        writes
    }

    /// Whether all replacements are ready, and have been for a moment.
    fn readiness(&mut self, view: &View<'_>) -> Result<bool, String> {
        let mut all = true;
        for new in &mut self.replacements {
            match view.caches.of::<NodeClaim>().get(&Key::of(&new.claim)) {
                Some(claim) => {
                    new.seen = true;
                    let ready = condition(claim, INITIALIZED).filter(|_| is_initialized(claim));
                    let since = ready.map(|ready| view.now.duration_since(ready.last_transition_time.0));
                    all &= since.is_some_and(|since| since >= NOTICE);
                }
                None if new.seen => {
                    let name = new.claim.metadata.name.as_deref().unwrap_or_default();
                    return Err(format!("its replacement {name} could not be had"));
                }
                None => all = false,
            }
        }
        Ok(all)
    }

    /// Writes down by when a broken node must be drained, which starts now: its replacement is up.
    fn deadlines(&self, bound: SignedDuration, view: &View<'_>) -> Vec<Write> {
        let known = view.caches.of::<NodeClaim>();
        let current = self.claims.values().filter_map(|claim| known.get(&Key::of(&**claim)));
        let staying = current.filter(|claim| claim.metadata.deletion_timestamp.is_none());
        staying
            .filter_map(|claim| {
                let mut new = NodeClaim::clone(claim);
                tighten(&mut new, bound, view.now);
                difference(&**claim, &new)
            })
            .collect()
    }

    fn delete(&self, metrics: &Metrics, state: &Shared, view: &View<'_>) -> Progress {
        let known = view.caches.of::<NodeClaim>();
        let bound = self.plan.repair.as_ref().and_then(|repair| repair.bound);
        let deadlines: Vec<Write> =
            bound.map(|bound| self.deadlines(bound, view)).into_iter().flatten().collect();
        if !deadlines.is_empty() {
            return Progress::Write(deadlines);
        }
        let staying = |claim: &&Arc<NodeClaim>| {
            known.get(&Key::of(&***claim)).is_some_and(|now| now.metadata.deletion_timestamp.is_none())
        };
        let deletions: Vec<Write> = self
            .claims
            .values()
            .filter(staying)
            .map(|claim| {
                metrics.disrupted(self.plan.reason.into(), claim, state);
                if let Some(need) = &self.plan.repair {
                    metrics.repaired(need, claim);
                }
                let uid = claim.metadata.uid.as_deref().unwrap_or_default();
                Write::delete::<NodeClaim>(&Key::of(&**claim)).if_uid(uid).tolerating(404)
            })
            .collect();
        if deletions.is_empty() { Progress::Done } else { Progress::Write(deletions) }
    }
}

/// The method's name in metrics.
pub(super) fn consolidation_type(method: DisruptionMethod) -> &'static str {
    match method {
        DisruptionMethod::Emptiness => "empty",
        DisruptionMethod::MultiNodeConsolidation => "multi",
        DisruptionMethod::SingleNodeConsolidation => "single",
        DisruptionMethod::Drift | DisruptionMethod::StaticDrift | DisruptionMethod::Repair => "",
    }
}

fn same(a: &NodeClaim, b: &NodeClaim) -> bool {
    a.metadata.uid == b.metadata.uid
}
