//! Launching: the provider is asked once, its answer is remembered until it is written down, failures are tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::NodeClaim;
use karpenter_api::condition::nodeclaim::LAUNCHED;
use karpenter_provider::{LaunchError, Machine};
use karpenter_runtime::{View, Write};

use crate::events::{EventType, Events, shortened};

/// Waits between attempts: doubled each time.
const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_RETRY: SignedDuration = SignedDuration::from_mins(1);

/// What is known of launches that have not been written down yet.
#[derive(Debug, Default)]
pub(super) struct Launches {
    known: BTreeMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    result: Result<Machine, LaunchError>,
    failures: u32,
    retry: Timestamp,
}

/// What to do about a claim that is not launched.
pub(super) enum Next {
    /// Ask the provider.
    Ask,
    /// Write down the machine.
    Record(Machine),
    /// Delete the claim.
    GiveUp(LaunchError),
    /// Say what is wrong and try again later.
    Wait { reason: String, message: String },
}

impl Launches {
    pub(super) fn next(&self, uid: &str, now: Timestamp) -> Next {
        match self.known.get(uid) {
            None => Next::Ask,
            Some(Known { result: Ok(machine), .. }) => Next::Record(machine.clone()),
            Some(Known { result: Err(LaunchError::Failed { reason, message }), retry, .. }) => {
                if now >= *retry {
                    return Next::Ask;
                }
                Next::Wait { reason: reason.clone(), message: shortened(message) }
            }
            Some(Known { result: Err(error), .. }) => Next::GiveUp(error.clone()),
        }
    }

    pub(super) fn hear(&mut self, uid: &str, result: Result<Machine, LaunchError>, now: Timestamp) {
        let failures = self.known.get(uid).map_or(0, |known| known.failures) + u32::from(result.is_err());
        let doubled = FIRST_RETRY * 2i32.saturating_pow(failures.saturating_sub(1).min(10));
        let retry = now.saturating_add(doubled.min(LONGEST_RETRY)).unwrap_or(Timestamp::MAX);
        self.known.insert(uid.to_owned(), Known { result, failures, retry });
    }

    pub(super) fn forget(&mut self, uid: &str) {
        self.known.remove(uid);
    }

    /// How long until a failed launch is tried again.
    pub(super) fn next_attempt(&self, uid: &str, now: Timestamp) -> Option<Duration> {
        let known = self.known.get(uid).filter(|known| known.result.is_err())?;
        Duration::try_from(known.retry.duration_since(now)).ok()
    }
}

/// Writes the machine down on its claim. Labels the user set stay; annotations of the machine win.
pub(super) fn record(claim: &mut NodeClaim, machine: &Machine, now: Timestamp) {
    let labels = claim.metadata.labels.get_or_insert_default();
    for (key, value) in &machine.labels {
        labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    claim.metadata.annotations.get_or_insert_default().extend(machine.annotations.clone());
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id.clone_from(&machine.image_id);
    status.capacity = Some(machine.capacity.clone());
    status.allocatable = Some(machine.allocatable.clone());
    super::conditions(claim, now).set_true(LAUNCHED);
}

/// What people are told when a claim is given up because nothing can be had.
pub(super) fn refusal_event(
    events: &mut Events,
    claim: &NodeClaim,
    error: &LaunchError,
    view: &View<'_>,
) -> Option<Write> {
    let LaunchError::InsufficientCapacity(message) = error else { return None };
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let message = format!("NodeClaim {name} event: {message}");
    events.tell(claim, EventType::Warning, "InsufficientCapacityError", &message, view.now, view.environment)
}
