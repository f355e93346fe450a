//! Finalization: a deleted claim takes its nodes down first, then its machine, and goes last itself.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::annotations::TERMINATION_TIMESTAMP;
use karpenter_api::condition::nodeclaim::INSTANCE_TERMINATING;
use karpenter_runtime::{Effect, Key, Outcome, Write};

use super::{FINALIZER, conditions, is_registered};
use crate::cloud::CloudRequest;
use crate::patches::difference;

/// How often the provider is asked whether a machine has stopped.
const POLL: Duration = Duration::from_secs(5);

/// What the provider last said about stopping a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopping {
    /// Whether it is gone.
    pub(crate) gone: bool,
    /// When that was said.
    pub(crate) at: Timestamp,
}

impl Stopping {
    /// How long to wait before asking again; none if it is time.
    pub(crate) fn wait(self, now: Timestamp) -> Option<Duration> {
        POLL.checked_sub(Duration::try_from(now.duration_since(self.at)).unwrap_or_default())
            .filter(|wait| !wait.is_zero())
    }
}

/// The next step of taking a claim apart.
pub(super) fn step(
    claim: &Arc<NodeClaim>,
    nodes: &[Arc<Node>],
    stopping: Option<Stopping>,
    now: Timestamp,
) -> Outcome<CloudRequest> {
    if !claim.metadata.finalizers.iter().flatten().any(|found| found == FINALIZER) {
        return Outcome::done();
    }
    if let Some(write) = deadline(claim) {
        return Outcome::done().then(write);
    }
    if is_registered(claim) && !nodes.is_empty() {
        // Each node has its own finalizer, and vanishes when it is drained and its machine is gone.
        let leaving = nodes.iter().filter(|node| node.metadata.deletion_timestamp.is_none());
        return Outcome::done().then_all(leaving.map(|node| deletion(node)));
    }
    match stopping {
        Some(Stopping { gone: true, .. }) => {
            let mut new = NodeClaim::clone(claim);
            new.metadata.finalizers.get_or_insert_default().retain(|found| found != FINALIZER);
            // A node that joined and never registered has nobody else to remove it.
            Outcome::done()
                .then_all(nodes.iter().map(|node| deletion(node)))
                .then_all(difference(&**claim, &new))
        }
        Some(stopping) if let Some(wait) = stopping.wait(now) => Outcome::after(wait),
        _ => {
            let mut new = NodeClaim::clone(claim);
            conditions(&mut new, now).set_true(INSTANCE_TERMINATING);
            Outcome::done()
                .then_all(difference(&**claim, &new))
                .then(Effect::Request(CloudRequest::Terminate(Arc::clone(claim))))
        }
    }
}

fn deletion(node: &Node) -> Write {
    Write::delete::<Node>(&Key::of(node))
        .if_uid(node.metadata.uid.as_deref().unwrap_or_default())
        .tolerating(404)
}

/// Writes down by when the node must be drained, once.
fn deadline(claim: &NodeClaim) -> Option<Write> {
    let grace = claim.spec.termination_grace_period.as_ref()?.value();
    let deleted = claim.metadata.deletion_timestamp.as_ref()?.0;
    let mut new = claim.clone();
    let annotations = new.metadata.annotations.get_or_insert_default();
    if annotations.contains_key(TERMINATION_TIMESTAMP) {
        return None;
    }
    let deadline = deleted.saturating_add(grace).unwrap_or(Timestamp::MAX);
    annotations.insert(TERMINATION_TIMESTAMP.to_owned(), karpenter_environment::format_time(deadline));
    difference(claim, &new)
}
