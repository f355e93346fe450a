//! Voluntary disruption: has the core find nodes that can go, looks twice, and carries the moves out.
//!
//! A move is found, found again after a while (drift and repair excepted, which nothing makes unnecessary), and started: its nodes are
//! fenced, replacements are created, and when those are ready the old claims are deleted. If something goes wrong on
//! the way the fences come down again. What is under way is known to this process only; fences nobody knows of are taken down, so
//! a restart leaves at worst a replacement too many, which is found and consolidated like any other node.

mod command;
mod plan;
mod repairs;
mod rollouts;
mod sightings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::condition::nodeclaim::{CONSOLIDATABLE, DISRUPTION_REASON, INITIALIZED, REBOOTING};
use karpenter_api::options::{FeatureGate, FeatureGates};
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_core::disruption::{
    DisruptionCommand, DisruptionMethod, DisruptionPlan, DisruptionReason, Outlook, PoolCosts, RepairKind,
    RepairNeed, RolloutPause,
};
use karpenter_provider::RepairPolicies;
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, View, Wakes, Watches, Write};

use command::{Command, Progress, consolidation_type};
pub(crate) use plan::{MovePlanner, MoveReply, MoveRequest};
use repairs::{History, RebootDecision, tolerated_percents};
pub(crate) use repairs::{not_before, repairs_stopped, seen};
use rollouts::Rollouts;
use sightings::{Sightings, Verdict};

use crate::deletion_cost::is_kept;
use crate::events::{EventType, Events};
use crate::fence::unfenced;
use crate::metrics::Metrics;
use crate::nodeclaim::{condition, conditions};
use crate::observed::ObservedPod;
use crate::patches::difference;
use crate::provisioning::usable_pools;
use crate::state::{Shared, pool_of, provider_id};
use crate::static_capacity::static_pools_of;

/// How often the cluster is looked at while it changes.
const POLL: Duration = Duration::from_secs(10);
/// How often it is looked at although nothing changed: prices do.
const LOOK_ANYWAY: Duration = Duration::from_mins(5);
/// Nodes that become consolidatable within this time are looked at together.
const GATHER: Duration = Duration::from_secs(1);
/// A node this young is waited for by the pods it was made for.
const SETTLING: SignedDuration = SignedDuration::from_secs(20);
/// How often a command under way is looked at.
const WATCH_COMMAND: Duration = Duration::from_secs(1);
/// For how long a node is not told again why it stays.
const OUTLOOK_REPEATED: Duration = Duration::from_mins(15);
/// Nodes told per look; the rest hear it the next time.
const OUTLOOKS_TOLD: usize = 50;

/// Settings of voluntary disruption.
#[derive(Clone, Debug)]
pub struct DisruptionSettings {
    /// The methods, in the order in which they are asked.
    pub methods: Vec<DisruptionMethod>,
    /// Whether nothing is disrupted at all.
    pub switched_off: bool,
    /// Whether broken nodes are deleted at once, as before repair became a method of disruption.
    pub legacy_repair: bool,
}

impl Default for DisruptionSettings {
    fn default() -> Self {
        let methods = vec![
            DisruptionMethod::Repair,
            DisruptionMethod::Emptiness,
            DisruptionMethod::StaticDrift,
            DisruptionMethod::Drift,
            DisruptionMethod::MultiNodeConsolidation,
            DisruptionMethod::SingleNodeConsolidation,
        ];
        Self { methods, switched_off: false, legacy_repair: false }
    }
}

/// The controller of voluntary disruption.
pub(crate) struct Disruption {
    state: Shared,
    rules: LabelRules,
    solver: karpenter_core::SolverOptions,
    settings: DisruptionSettings,
    gates: FeatureGates,
    policies: Option<RepairPolicies>,
    history: History,
    /// Restarts that are not written down yet.
    reboots: Vec<RebootDecision>,
    reply: Option<MoveReply>,
    sightings: Sightings,
    commands: Vec<Command>,
    /// The state that was last looked at, and when to look again although nothing changed.
    looked: Option<(u64, Timestamp)>,
    next_look: Option<Timestamp>,
    /// When the next broken node is no longer tolerated.
    repair_due: Option<Timestamp>,
    /// When the pods of the next young node are no longer waited for.
    settled: Option<Timestamp>,
    rollouts: Rollouts,
    /// Nodes whose price was not known at the last look.
    unpriced: BTreeSet<Arc<str>>,
    events: Events,
    metrics: Metrics,
}

impl Disruption {
    pub(crate) fn new(
        state: Shared,
        rules: LabelRules,
        solver: karpenter_core::SolverOptions,
        settings: DisruptionSettings,
        (gates, policies): (FeatureGates, Option<RepairPolicies>),
        metrics: Metrics,
    ) -> Self {
        Self {
            state,
            rules,
            solver,
            settings,
            gates,
            policies,
            history: History::default(),
            reboots: Vec::new(),
            reply: None,
            sightings: Sightings::default(),
            commands: Vec::new(),
            looked: None,
            next_look: None,
            repair_due: None,
            settled: None,
            rollouts: Rollouts::default(),
            unpriced: BTreeSet::new(),
            events: Events::default(),
            metrics,
        }
    }

    /// Fences and reasons that no command accounts for, as after a restart.
    fn clean_up(&self, view: &View<'_>) -> Vec<Write> {
        let mut busy: BTreeSet<&str> = self.commands.iter().flat_map(Command::claims).collect();
        busy.extend(self.reboots.iter().map(RebootDecision::claim));
        let claims = view.caches.of::<NodeClaim>();
        let nodes = view.caches.of::<Node>();
        let state = self.state.lock();
        let mut writes = Vec::new();
        for (key, claim) in claims.iter() {
            let restarts = condition(claim, REBOOTING).is_some_and(|found| found.status == "True");
            if restarts || busy.contains(key.name()) || claim.metadata.deletion_timestamp.is_some() {
                continue;
            }
            if condition(claim, DISRUPTION_REASON).is_some() {
                let mut cleared = NodeClaim::clone(claim);
                conditions(&mut cleared, view.now).clear(DISRUPTION_REASON);
                writes.extend(difference(&**claim, &cleared));
            }
            for name in provider_id(claim).map(|id| state.nodes_of(id)).unwrap_or_default() {
                let node = nodes.get(&Key::cluster(&name));
                let staying = node.filter(|node| node.metadata.deletion_timestamp.is_none());
                writes.extend(staying.and_then(|node| difference(&**node, &unfenced(node)?)));
            }
        }
        writes
    }

    /// Brings commands further; returns what is to be written.
    fn advance(&mut self, view: &View<'_>) -> Vec<Write> {
        let mut writes: Vec<Write> = Vec::new();
        self.reboots.retain(|decision| {
            let write = decision.write(view);
            let unwritten = write.is_some();
            writes.extend(write);
            unwritten
        });
        let commands = std::mem::take(&mut self.commands);
        for mut command in commands {
            match command.advance(&self.metrics, &self.state, view) {
                Progress::Write(stage) => {
                    writes.extend(stage);
                    self.commands.push(command);
                }
                Progress::Wait => self.commands.push(command),
                Progress::Done => {
                    tracing::info!("{} is done", command.text());
                    command.rollouts().iter().for_each(|pool| self.rollouts.end(pool, true, view.now));
                }
                Progress::Failed(why) => {
                    command.rollouts().iter().for_each(|pool| self.rollouts.end(pool, false, view.now));
                    tracing::info!("{} is given up: {why}", command.text());
                    self.metrics.command_failed(&command.labels());
                    // Its nodes are open to pods for a while before anything else is done about them.
                    self.looked = Some((self.state.lock().version(), view.now));
                }
            }
        }
        let leaving = self.commands.iter().filter(|command| command.has_started()).flat_map(Command::nodes);
        let mut reserved: BTreeMap<String, u32> = BTreeMap::new();
        for pool in self.commands.iter().flat_map(Command::reserved) {
            *reserved.entry(pool.to_owned()).or_default() += 1;
        }
        let mut state = self.state.lock();
        state.set_leaving(leaving.map(Arc::from).collect());
        state.set_reserved(reserved);
        drop(state);
        writes
    }

    fn request(&mut self, view: &View<'_>) -> MoveRequest {
        let mut state = self.state.lock();
        self.looked = Some((state.version(), view.now));
        state.end_protections(view.now);
        let mut snapshot = state.snapshot();
        snapshot.pending.extend(state.reserve().pods().cloned());
        let mut pools = usable_pools(&mut snapshot, &self.rules, view.caches);
        let mut static_pools = Vec::new();
        if self.gates.is_on(FeatureGate::StaticCapacity) {
            for (pool, object) in static_pools_of(&state, &self.rules, view.caches) {
                static_pools.push(pool);
                pools.push(object);
            }
        }
        let known = snapshot.node_pools.iter().chain(static_pools.iter().map(|own| &own.pool));
        let rollouts = self.rollouts.allowed(known, &pools, &snapshot.nodes, view.now);
        let settling: Vec<_> = state.claims().filter_map(|claim| settling(claim, view.now)).collect();
        self.settled = settling.iter().map(|(_, until)| *until).min();
        let mut nominated: BTreeSet<Arc<str>> = settling.into_iter().map(|(node, _)| node).collect();
        nominated.extend(state.nominated());
        let (mut repairs, due) = match &self.policies {
            Some(policies) => repairs::repairs(policies, &state, &self.history, view.now),
            None => Default::default(),
        };
        repairs.tolerated_percent = tolerated_percents(state.pools());
        repairs.terminate_first = self.gates.is_on(FeatureGate::TerminateFirstRepair);
        self.repair_due = due;
        let kept = self.gates.is_on(FeatureGate::PodDeletionCostManagement).then(|| {
            let names = snapshot.nodes.iter().map(|node| node.name.clone());
            names.filter(|name| is_kept(&state, name)).collect()
        });
        let mut disrupting: BTreeSet<Arc<str>> =
            self.commands.iter().flat_map(Command::nodes).map(Arc::from).collect();
        disrupting.extend(self.reboots.iter().filter_map(RebootDecision::node).map(Arc::from));
        MoveRequest {
            snapshot,
            pools,
            options: karpenter_core::disruption::DisruptionOptions {
                solver: self.solver.clone(),
                methods: if self.settings.switched_off { Vec::new() } else { self.settings.methods.clone() },
                spot_to_spot: self.gates.is_on(FeatureGate::SpotToSpotConsolidation),
                static_pools,
                terminate_first_drift: self.gates.is_on(FeatureGate::TerminateFirstDrift),
                nominated,
                disrupting,
                repairs,
                rollouts,
                ..Default::default()
            },
            kept,
            now: view.now,
        }
    }

    /// Looks at a plan: makes the first move it names, unless that must prove good first.
    fn consider(&mut self, reply: MoveReply, view: &View<'_>) -> Outcome<MoveRequest> {
        let MoveReply { plan, pools, left_out, costs, deletion_costs } = reply;
        self.count(&plan, costs);
        if let Some(costs) = deletion_costs {
            self.state.lock().set_deletion_costs(costs);
        }
        for (pool, error) in left_out {
            tracing::debug!("nodes of NodePool {pool} are left alone: {error}");
        }
        let told = self.tell_outlooks(&plan.nodes, view);
        let opening = plan.nodes.iter().filter_map(|node| opens(&node.outlook, view.now)).min();
        let opening = opening.into_iter().chain(self.repair_due).chain(self.settled).min();
        self.next_look = opening.map(|at| at.max(view.now + POLL));
        let mut commands = plan.commands;
        commands.retain(|command| !self.overlaps(command) && self.may_launch(command, &pools, view.now));
        for method in self.sightings.note(&commands, view.now) {
            self.metrics.validation_failed(consolidation_type(method));
        }
        let mut commands = commands.into_iter();
        let Some(first) = commands.next() else {
            return Outcome::after(POLL).then_all(told);
        };
        match self.sightings.judge(first, |node| self.quiet_since(node), view.now) {
            Verdict::Wait(until) => {
                tracing::debug!("a move was found that will be made at {until} if it stays good");
                self.next_look = self.next_look.into_iter().chain([until]).min();
                return Outcome::after(POLL.min(self.wait(view.now))).then_all(told);
            }
            Verdict::Make(first) => {
                // Static drift goes together.
                let rest = commands.filter(|next| {
                    first.method == DisruptionMethod::StaticDrift && next.method == first.method
                });
                let rest: Vec<_> = rest.collect();
                for command in std::iter::once(*first).chain(rest) {
                    // Each alone may launch; whether it still may after the others is asked again.
                    if self.may_launch(&command, &pools, view.now) {
                        self.make(command, &pools, view);
                    }
                }
            }
        }
        // Without the nodes that go, more may be found.
        self.looked = None;
        Outcome::after(Duration::ZERO).then_all(told)
    }

    fn make(&mut self, command: DisruptionCommand, pools: &[Arc<NodePool>], view: &View<'_>) {
        self.sightings.forget(&command);
        match command.repair.as_ref().filter(|need| need.kind == RepairKind::Reboot) {
            Some(need) => self.begin_reboot(&command, need, view),
            None => self.begin_command(command, pools, view),
        }
    }

    /// Since when no pod came to a node or left it, as far as that is written down.
    fn quiet_since(&self, node: &str) -> Option<Timestamp> {
        let state = self.state.lock();
        let claim = state.claim_of(node)?;
        let event = claim.status.as_ref()?.last_pod_event_time.as_ref().map(|time| time.0);
        event.or_else(|| condition(claim, INITIALIZED).map(|ready| ready.last_transition_time.0))
    }

    /// How long until the next look is due.
    fn wait(&self, now: Timestamp) -> Duration {
        let Some((seen, at)) = self.looked else { return Duration::ZERO };
        let changed = seen != self.state.lock().version();
        let usual = at + if changed { POLL } else { LOOK_ANYWAY };
        let due = self.next_look.map_or(usual, |early| early.min(usual));
        Duration::try_from(due.duration_since(now)).unwrap_or_default()
    }

    /// Takes note of what a look found, and of what nodes cost.
    fn count(&mut self, plan: &DisruptionPlan, costs: PoolCosts) {
        self.metrics.eligible_nodes.replace(
            plan.eligible
                .iter()
                .map(|(reason, nodes)| ([("reason", format!("{reason:?}").to_lowercase())], *nodes as f64)),
        );
        let unpriced = costs.unknown;
        let costs = costs.per_hour.into_iter().map(|(pool, cost)| ([("nodepool", pool.to_string())], cost));
        self.metrics.nodepool_cost.replace(costs);
        for (_, pool) in unpriced.iter().filter(|(node, _)| !self.unpriced.contains(node)) {
            self.metrics.cost_errors.of(&[("nodepool", pool.to_string())]).inc();
        }
        self.unpriced = unpriced.into_iter().map(|(node, _)| node).collect();
        let state = self.state.lock();
        for found in &plan.nodes {
            let Outlook::NotWorthIt { score, .. } = found.outlook else { continue };
            let claim = state.claim_of(&found.node);
            let pool = claim.and_then(|claim| pool_of(&**claim));
            self.metrics.weighed("rejected", pool.map(|pool| (pool, score)).into_iter());
        }
    }

    fn overlaps(&self, command: &DisruptionCommand) -> bool {
        let busy: BTreeSet<&str> = self.commands.iter().flat_map(Command::nodes).collect();
        command.candidates.iter().any(|node| busy.contains(&**node))
    }

    /// Whether the pools of what comes in place of the nodes may launch so many now.
    fn may_launch(&self, command: &DisruptionCommand, pools: &[Arc<NodePool>], now: Timestamp) -> bool {
        let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
        let planned = command.replacements.iter().map(|claim| &*claim.node_pool);
        for pool in planned.chain(command.template_replacements.iter().map(|pool| &**pool)) {
            *wanted.entry(pool).or_default() += 1;
        }
        let mut state = self.state.lock();
        wanted.iter().all(|(name, count)| {
            let pool = pools.iter().find(|pool| pool.metadata.name.as_deref() == Some(*name));
            pool.is_none_or(|pool| state.launched().room(pool, now) >= *count)
        })
    }

    /// Decides on a restart; the next look writes it down.
    fn begin_reboot(&mut self, command: &DisruptionCommand, need: &RepairNeed, view: &View<'_>) {
        let claims: Vec<Arc<NodeClaim>> = {
            let state = self.state.lock();
            command.candidates.iter().filter_map(|node| state.claim_of(node).cloned()).collect()
        };
        for claim in claims {
            tracing::info!("rebooting the machine of NodeClaim {} for {}", Key::of(&*claim), need.cause);
            let labels = [
                ("decision", "reboot".to_owned()),
                ("reason", "unhealthy".to_owned()),
                ("consolidation_type", String::new()),
            ];
            self.metrics.command_started(&labels, pool_of(&*claim).into_iter(), std::iter::empty());
            self.metrics.disrupted(command.reason.into(), &claim, &self.state);
            self.metrics.repaired(need, &claim);
            self.reboots.push(RebootDecision::new(claim, need.clone(), &mut self.history, view.now));
        }
    }

    /// Begins a command; the next look at it writes.
    fn begin_command(&mut self, command: DisruptionCommand, pools: &[Arc<NodePool>], view: &View<'_>) {
        let claims: BTreeMap<String, Arc<NodeClaim>> = {
            let state = self.state.lock();
            let of_node = |node: &Arc<str>| Some((node.to_string(), state.claim_of(node)?.clone()));
            command.candidates.iter().filter_map(of_node).collect()
        };
        let command = Command::new(command, claims, (pools, &self.rules), view);
        tracing::info!("disrupting node(s): {}", command.text());
        command.note_start(&self.metrics);
        command.rollouts().iter().for_each(|pool| self.rollouts.begin(pool, view.now));
        let mut state = self.state.lock();
        for (name, _) in command.replacements() {
            let pool = pools.iter().find(|pool| pool.metadata.name.as_deref() == Some(name));
            pool.into_iter().for_each(|pool| state.launched().note(pool, view.now));
        }
        drop(state);
        self.commands.push(command);
    }

    fn tell_outlooks(
        &mut self,
        nodes: &[karpenter_core::disruption::NodeOutlook],
        view: &View<'_>,
    ) -> Vec<Write> {
        let mut writes = Vec::new();
        for found in nodes {
            let Some(reason) = event_reason(&found.outlook) else { continue };
            if writes.len() >= OUTLOOKS_TOLD {
                break;
            }
            let Some(node) = view.caches.of::<Node>().get(&Key::cluster(&found.node)) else { continue };
            let message = format!("{} {}", subject(reason), found.outlook);
            writes.extend(self.tell(&**node, reason, &message, view));
            let claim = self.state.lock().claim_of(&found.node).cloned();
            writes.extend(claim.as_ref().and_then(|claim| self.tell(&**claim, reason, &message, view)));
            if let Outlook::RepairsStopped { unhealthy, nodes } = found.outlook {
                let pool = claim.as_ref().and_then(|claim| pool_of(&**claim));
                let pool = pool.and_then(|pool| self.state.lock().pool(pool).cloned());
                let message = repairs_stopped(unhealthy, nodes);
                writes.extend(pool.and_then(|pool| self.tell(&*pool, reason, &message, view)));
            }
        }
        writes
    }

    fn tell<K: kube::Resource<DynamicType = ()>>(
        &mut self,
        object: &K,
        reason: &str,
        message: &str,
        view: &View<'_>,
    ) -> Option<Write> {
        let type_ = if reason == "NodeRepairBlocked" { EventType::Warning } else { EventType::Normal };
        self.events.tell_every(OUTLOOK_REPEATED, object, type_, reason, message, view.now, view.environment)
    }
}

impl Controller for Disruption {
    type Request = MoveRequest;
    type Reply = MoveReply;

    fn name(&self) -> &'static str {
        "disruption"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodePool>();
        watches.reads::<NodeClaim>();
        watches.reads::<Node>();
        watches.reads::<ObservedPod>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        // Commands wait for claims; everything else is looked at from time to time.
        let Some(claim) = change.of::<NodeClaim>() else { return };
        if !self.commands.is_empty() {
            wakes.wake(Key::everything());
        } else if !claim.old.is_some_and(is_consolidatable) && claim.new.is_some_and(is_consolidatable) {
            wakes.wake_after(Key::everything(), GATHER);
        }
    }

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<MoveRequest> {
        if let Some(reply) = self.reply.take() {
            return self.consider(reply, view);
        }
        let mut writes = self.clean_up(view);
        let under_way = self.commands.len();
        writes.extend(self.advance(view));
        writes.extend(self.rollouts.notes(view));
        // What is left of a command that has ended is cleaned up at once.
        if !writes.is_empty() || self.commands.len() < under_way {
            return Outcome::after(Duration::ZERO).then_all(writes);
        }
        let again = if self.commands.is_empty() { POLL } else { WATCH_COMMAND };
        let wait = self.wait(view.now);
        if !wait.is_zero() {
            return Outcome::after(again.min(wait));
        }
        Outcome::after(again).then(Effect::Request(self.request(view)))
    }

    fn hear(&mut self, _: &Key, reply: MoveReply, _: &View<'_>) {
        self.reply = Some(reply);
    }
}

/// The node of a claim whose pods are still on their way, and until when they are waited for.
fn settling(claim: &NodeClaim, now: Timestamp) -> Option<(Arc<str>, Timestamp)> {
    let ready = condition(claim, INITIALIZED).filter(|found| found.status == "True")?;
    let until = ready.last_transition_time.0 + SETTLING;
    let node = claim.status.as_ref()?.node_name.as_deref()?;
    (now < until).then(|| (Arc::from(node), until))
}

fn is_consolidatable(claim: &NodeClaim) -> bool {
    condition(claim, CONSOLIDATABLE).is_some_and(|found| found.status == "True")
}

/// When an outlook changes by itself.
fn opens(outlook: &Outlook, now: Timestamp) -> Option<Timestamp> {
    match outlook {
        // Nobody knows when the pods come that are expected.
        Outlook::Nominated => now.checked_add(SETTLING).ok(),
        Outlook::TooYoung { until }
        | Outlook::PodResidency { until, .. }
        | Outlook::RolloutPaused { pause: RolloutPause::BackingOff { until } } => Some(*until),
        Outlook::Budget { opens, .. } => *opens,
        Outlook::RolloutPaused { pause: RolloutPause::Stage { until } } => *until,
        _ => None,
    }
}

/// The event that tells people about an outlook, if it is worth one.
fn event_reason(outlook: &Outlook) -> Option<&'static str> {
    match outlook {
        Outlook::DoNotDisrupt
        | Outlook::PodDoNotDisrupt { .. }
        | Outlook::PodDisruptionBudget { .. }
        | Outlook::SeveralPodDisruptionBudgets { .. }
        | Outlook::AtNodeLimit
        | Outlook::ReservationsFull
        | Outlook::RolloutPaused { .. }
        | Outlook::Budget { reason: DisruptionReason::Drifted | DisruptionReason::Unhealthy, .. }
        | Outlook::DoNotRepair
        | Outlook::UnknownNodePool { .. } => Some("DisruptionBlocked"),
        Outlook::RepairsStopped { .. } => Some("NodeRepairBlocked"),
        Outlook::ConsolidationOff
        | Outlook::Budget { reason: DisruptionReason::Empty | DisruptionReason::Underutilized, .. }
        | Outlook::NotEmpty
        | Outlook::UnknownPrice { .. }
        | Outlook::HoldsBuffer
        | Outlook::NoPlace { .. }
        | Outlook::SeveralNewNodes { .. }
        | Outlook::NoCheaper { .. }
        | Outlook::MinValues
        | Outlook::SpotToSpotOff
        | Outlook::TooFewSpotTypes { .. }
        | Outlook::PodResidency { .. }
        | Outlook::SavingTooSmall { .. }
        | Outlook::NotWorthIt { .. } => Some("Unconsolidatable"),
        _ => None,
    }
}

/// How the sentence of such an event begins.
fn subject(reason: &str) -> &'static str {
    match reason {
        "DisruptionBlocked" => "Cannot disrupt: the node",
        "NodeRepairBlocked" => "Cannot repair: the node",
        _ => "Cannot consolidate: the node",
    }
}
