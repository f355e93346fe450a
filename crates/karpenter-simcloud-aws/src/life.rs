//! How instances live: pending, running, joined, warned, shutting down, terminated, forgotten.
//!
//! What is due when is kept as an agenda, so that the same launches live the same lives however often time is looked at.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_simcloud::MachineEvent;

use crate::boot;
use crate::events;
use crate::instances::{CapacityType, End, Instance};
use crate::world::World;

/// How long before its end a spot instance is warned.
pub(crate) const NOTICE: SignedDuration = SignedDuration::from_mins(2);
/// How often a market that takes machines back is asked.
const MARKET_PACE: SignedDuration = SignedDuration::from_secs(1);

/// Something that happens to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Running,
    Joins,
    TakenBack,
    Terminated,
    Forgotten,
}

/// What happens when; equal times keep the order in which they were planned.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    items: BTreeMap<(Timestamp, u64), (Due, String)>,
    planned: u64,
    /// Whether something was planned that comes before all else.
    pub(crate) sooner: bool,
}

impl Agenda {
    pub(crate) fn add(&mut self, at: Timestamp, due: Due, instance: &str) {
        self.planned += 1;
        self.sooner |= self.first().is_none_or(|first| at < first);
        self.items.insert((at, self.planned), (due, instance.to_owned()));
    }

    /// When the first item is due.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.items.first_key_value().map(|((at, _), _)| *at)
    }

    fn take(&mut self, now: Timestamp) -> Option<(Timestamp, Due, String)> {
        self.first().filter(|at| *at <= now)?;
        self.items.pop_first().map(|((at, _), (due, instance))| (at, due, instance))
    }
}

impl World {
    /// Lets everything happen that is due.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        while let Some((at, due, id)) = self.agenda.take(now) {
            self.happen(at, due, &id);
        }
        if self.market.warns() {
            for id in self.market.warned(now) {
                self.warn(&id, now);
            }
            for id in self.market.taken_back(now) {
                self.end(&id, now, "Server.SpotInstanceTermination");
            }
        }
    }

    /// When something is due next.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let watched = self.market.warns() && self.instances.values().any(Instance::is_alive);
        let asked = watched.then(|| now.saturating_add(MARKET_PACE).unwrap_or(Timestamp::MAX));
        [self.agenda.first(), asked].into_iter().flatten().min()
    }

    fn happen(&mut self, at: Timestamp, due: Due, id: &str) {
        let Some(instance) = self.instances.get(id) else { return };
        let alive = instance.is_alive();
        match due {
            Due::Running if alive => self.tell_state(id, "running", at),
            Due::Joins if alive => self.joins(id),
            Due::TakenBack if alive => {
                let spot = instance.capacity_type == CapacityType::Spot;
                let reason =
                    if spot { "Server.SpotInstanceTermination" } else { "Server.InstanceTerminated" };
                self.end(id, at, reason);
            }
            Due::Terminated => self.terminated(id, at),
            Due::Forgotten => drop(self.instances.remove(id)),
            _ => {}
        }
    }

    /// A new instance begins its life.
    pub(crate) fn begin(&mut self, instance: Instance) {
        let description = &self.description;
        let boots = instance.launched.saturating_add(description.boot_time).unwrap_or(Timestamp::MAX);
        self.agenda.add(instance.running, Due::Running, &instance.id);
        self.agenda.add(boots.max(instance.running), Due::Joins, &instance.id);
        if let Some(subnet) = self.network.subnets.get_mut(&instance.subnet) {
            subnet.taken += 1;
        }
        let (id, launched) = (instance.id.clone(), instance.launched);
        self.instances.insert(id.clone(), instance);
        self.tell_state(&id, "pending", launched);
    }

    fn joins(&mut self, id: &str) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        let event = match boot::boot(instance, &self.description) {
            Ok(boot) => {
                instance.joined = true;
                MachineEvent::Booted(boot)
            }
            Err(why) => MachineEvent::Lost { provider_id: instance.provider_id(), why },
        };
        self.outbox.push(event);
    }

    /// Warns an instance that it will be taken back.
    pub(crate) fn warn(&mut self, id: &str, now: Timestamp) {
        if self.instances.get(id).is_some_and(Instance::is_alive) {
            let message = events::spot_interruption(self, id, now);
            self.publish(&message, now);
        }
    }

    /// Shuts an instance down; one that is being ended stays as it is.
    pub(crate) fn end(&mut self, id: &str, now: Timestamp, reason: &'static str) {
        let Some(instance) = self.instances.get_mut(id).filter(|instance| instance.is_alive()) else {
            return;
        };
        let terminated = now.saturating_add(self.description.stop_time).unwrap_or(Timestamp::MAX);
        instance.end = Some(End { shutting_down: now, terminated, reason });
        self.agenda.add(terminated, Due::Terminated, id);
        self.market.give_back(id, now);
        self.tell_state(id, "shutting-down", now);
    }

    fn terminated(&mut self, id: &str, at: Timestamp) {
        let Some(instance) = self.instances.get(id) else { return };
        let (provider_id, node_name) = (instance.provider_id(), instance.dns_name.clone());
        if let Some(subnet) = self.network.subnets.get_mut(&instance.subnet) {
            subnet.taken = subnet.taken.saturating_sub(1);
        }
        // One that was stopped is gone already.
        if instance.stopped.is_none() {
            self.outbox.push(MachineEvent::Gone { provider_id, node_name });
        }
        self.tell_state(id, "terminated", at);
        let forgotten = at.saturating_add(self.description.forget_time).unwrap_or(Timestamp::MAX);
        self.agenda.add(forgotten, Due::Forgotten, id);
    }

    /// Leaves a message about an instance's state.
    pub(crate) fn tell_state(&mut self, id: &str, state: &str, at: Timestamp) {
        let message = events::state_change(self, id, state, at);
        self.publish(&message, at);
    }
}
