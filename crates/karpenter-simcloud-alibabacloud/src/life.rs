//! The life of machines: from their launch to their end, as time passes.

use jiff::{SignedDuration, Timestamp};
use karpenter_simcloud::{MachineEvent, Market};
use serde_json::json;

use crate::boot;
use crate::call::{after, seconds};
use crate::mns;
use crate::world::{Instance, Status, SystemEvent, World};

/// How often a market that takes machines back is asked.
const MARKET_INTERVAL: SignedDuration = SignedDuration::from_secs(2);

/// A machine that was just launched.
pub(crate) fn begin(world: &mut World, mut instance: Instance, now: Timestamp) {
    let id = instance.id.clone();
    instance.status = Status::Pending;
    world.instances.insert(id.clone(), instance);
    schedule(world, &id, after(now, world.times.pending));
}

/// Lets everything happen that is due, and returns when there is something to do again.
pub(crate) fn advance(world: &mut World, market: &dyn Market, now: Timestamp) -> Option<Timestamp> {
    if market.warns() {
        for id in market.warned(now) {
            warn(world, &id, now, false);
        }
        market.taken_back(now).iter().for_each(|id| release(world, market, id, now));
    }
    while let Some((time, id)) = world.agenda.first().cloned() {
        if time > now {
            break;
        }
        world.agenda.pop_first();
        step(world, market, &id, time);
    }
    let asks = (market.warns() && !world.instances.is_empty()).then(|| after(now, MARKET_INTERVAL));
    world.agenda.first().map(|(time, _)| *time).into_iter().chain(asks).min()
}

/// Tells a machine that it will be taken back; when, is the market's affair or, when `ours`, follows from the notice.
pub(crate) fn warn(world: &mut World, id: &str, now: Timestamp, ours: bool) -> bool {
    let release = after(now, world.times.notice);
    let Some(instance) = world.instances.get_mut(id) else { return false };
    if !instance.locks.insert("Recycling".to_owned()) {
        return true;
    }
    if ours {
        instance.released_at = Some(release);
        world.agenda.insert((release, id.to_owned()));
    } else {
        instance.released_at = Some(Timestamp::MAX);
    }
    let content = json!({"instanceId": id, "action": "delete"});
    notify(world, "Instance:PreemptibleInstanceInterruption", "WARN", id, &content, now);
    true
}

/// Begins to stop a machine, after which it is gone.
pub(crate) fn stop(world: &mut World, id: &str, now: Timestamp) {
    let gone = after(now, world.times.stopping);
    let Some(instance) = world.instances.get_mut(id) else { return };
    if instance.status == Status::Stopping {
        return;
    }
    instance.status = Status::Stopping;
    schedule(world, id, gone);
    state_change(world, id, "Stopping", now);
}

/// Takes a machine away at once, as if it had never been.
pub(crate) fn forget(world: &mut World, market: &dyn Market, id: &str, now: Timestamp) {
    market.give_back(id, now);
    remove(world, id);
}

fn schedule(world: &mut World, id: &str, time: Timestamp) {
    let Some(instance) = world.instances.get_mut(id) else { return };
    if let Some(before) = instance.next_step.replace(time) {
        world.agenda.remove(&(before, id.to_owned()));
    }
    world.agenda.insert((time, id.to_owned()));
}

fn step(world: &mut World, market: &dyn Market, id: &str, time: Timestamp) {
    let Some(instance) = world.instances.get_mut(id) else { return };
    if instance.released_at.is_some_and(|release| release <= time) {
        return release(world, market, id, time);
    }
    if instance.next_step.is_none_or(|next| next > time) {
        return;
    }
    instance.next_step = None;
    match instance.status {
        Status::Pending => {
            instance.status = Status::Starting;
            schedule(world, id, after(time, world.times.starting));
        }
        Status::Starting => {
            instance.status = Status::Running;
            schedule(world, id, after(time, world.times.booting));
            state_change(world, id, "Running", time);
        }
        Status::Running => join(world, id, time),
        Status::Stopping => release(world, market, id, time),
    }
}

/// The kubelet of a machine joins its cluster, or never does.
fn join(world: &mut World, id: &str, now: Timestamp) {
    let provider_id = world.provider_id(id);
    let event = match boot::boot(world, id, now) {
        Ok(boot) => {
            if let Some(instance) = world.instances.get_mut(id) {
                instance.node_name = Some(boot.node_name.clone());
            }
            MachineEvent::Booted(boot)
        }
        Err(why) => MachineEvent::Lost { provider_id, why },
    };
    world.outbox.push(event);
}

/// The end of a machine.
fn release(world: &mut World, market: &dyn Market, id: &str, now: Timestamp) {
    if !world.instances.contains_key(id) {
        return;
    }
    market.give_back(id, now);
    state_change(world, id, "Deleted", now);
    let node_name = boot::node_name(world, id);
    remove(world, id);
    world.outbox.push(MachineEvent::Gone { provider_id: world.provider_id(id), node_name });
}

/// Takes a machine out of the lists and gives its address back.
pub(crate) fn remove(world: &mut World, id: &str) {
    let Some(instance) = world.instances.remove(id) else { return };
    for time in [instance.next_step, instance.released_at].into_iter().flatten() {
        world.agenda.remove(&(time, id.to_owned()));
    }
    if let Some(vswitch) = world.vswitches.get_mut(&instance.vswitch) {
        vswitch.used.remove(&instance.address);
    }
}

fn state_change(world: &mut World, id: &str, state: &str, now: Timestamp) {
    let content = json!({"resourceId": id, "resourceType": "ALIYUN::ECS::Instance", "state": state});
    notify(world, "Instance:StateChange", "INFO", id, &content, now);
}

/// Writes an event of Cloud Monitor, and forgets those of more than a day ago.
fn notify(world: &mut World, name: &str, level: &str, id: &str, content: &serde_json::Value, now: Timestamp) {
    let day = SignedDuration::from_hours(24);
    let old = world.events.partition_point(|event| now.duration_since(event.time) > day);
    world.events.drain(..old);
    let event = SystemEvent {
        id: format!("{name}/{id}/{}", seconds(now)),
        name: name.to_owned(),
        level: level.to_owned(),
        status: "Normal".to_owned(),
        time: now,
        visible: after(now, world.times.event_delay),
        instance: id.to_owned(),
        content: content.to_string(),
    };
    mns::deliver(world, &event);
    world.events.push(event);
}
