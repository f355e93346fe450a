//! The status of a deployment: pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::sizes::Goal;

const AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// What a status is made from.
pub(super) struct Picture<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) goal: Goal,
    pub(super) new: Option<&'a ReplicaSet>,
    pub(super) all: Vec<&'a ReplicaSet>,
    /// Whether the new set is being made right now.
    pub(super) makes_new: Option<&'a str>,
    pub(super) now: Timestamp,
}

/// Counts over all sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    total: i32,
    updated: i32,
    ready: i32,
    available: i32,
    unavailable: i32,
    terminating: i32,
}

impl Picture<'_> {
    /// Returns the status as it should be.
    pub(super) fn status(&self) -> Value {
        let counts = self.counts();
        let collisions = self.deployment.status.as_ref().and_then(|status| status.collision_count);
        json!({
            "observedGeneration": self.deployment.metadata.generation,
            "replicas": counts.total,
            "updatedReplicas": counts.updated,
            "readyReplicas": counts.ready,
            "availableReplicas": counts.available,
            "unavailableReplicas": counts.unavailable,
            "terminatingReplicas": counts.terminating,
            "collisionCount": collisions,
            "conditions": self.conditions(counts),
        })
    }

    /// Returns whether every pod is of the new set and available.
    pub(super) fn is_complete(&self) -> bool {
        let (counts, wanted) = (self.counts(), self.goal.replicas);
        counts.updated == wanted && counts.total == wanted && counts.available == wanted
    }

    /// Returns when the rollout counts as failed unless it moves on.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let seconds = self.progress_seconds()?;
        let progressing = self.held("Progressing")?;
        let reason = progressing.reason.as_deref();
        if reason == Some(AVAILABLE) || reason == Some(TIMED_OUT) {
            return None;
        }
        let since = progressing.last_update_time.as_ref()?.0;
        let left = SignedDuration::from_secs(seconds) - self.now.duration_since(since);
        // A moment later, so that the deadline has passed when it is looked at.
        Duration::try_from(left.max(SignedDuration::ZERO) + SignedDuration::from_secs(1)).ok()
    }

    fn counts(&self) -> Counts {
        let status = |set: &&ReplicaSet| set.status.clone().unwrap_or_default();
        let mut counts = Counts::default();
        for held in self.all.iter().map(status) {
            counts.total += held.replicas;
            counts.ready += held.ready_replicas.unwrap_or(0);
            counts.available += held.available_replicas.unwrap_or(0);
            counts.terminating += held.terminating_replicas.unwrap_or(0);
        }
        counts.updated = self.new.as_ref().map(status).map_or(0, |held| held.replicas);
        let asked: i32 =
            self.all.iter().map(|set| set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)).sum();
        counts.unavailable = (asked - counts.available).max(0);
        counts
    }

    fn conditions(&self, counts: Counts) -> Vec<DeploymentCondition> {
        let mut conditions = Vec::new();
        let wanted = if counts.available >= self.goal.fewest() {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.".to_owned())
        } else {
            (
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.".to_owned(),
            )
        };
        conditions.push(self.condition("Available", wanted, false));
        if self.progress_seconds().is_some() {
            conditions.extend(self.progressing(counts));
        }
        let failures = self.new.iter().chain(&self.all).filter_map(|set| {
            let mut held = set.status.iter().flat_map(|status| status.conditions.iter().flatten());
            held.find(|condition| condition.type_ == "ReplicaFailure")
        });
        if let Some(failure) = failures.into_iter().next() {
            let message = failure.message.clone().unwrap_or_default();
            conditions.push(self.condition("ReplicaFailure", ("True", "FailedCreate", message), false));
        }
        conditions
    }

    fn progressing(&self, counts: Counts) -> Option<DeploymentCondition> {
        let held = self.held("Progressing");
        let name = self.new.and_then(|set| set.metadata.name.as_deref()).or(self.makes_new);
        let subject = match name {
            Some(name) => format!("ReplicaSet \"{name}\""),
            None => {
                format!("Deployment \"{}\"", self.deployment.metadata.name.as_deref().unwrap_or_default())
            }
        };
        if let Some(name) = self.makes_new {
            let message = format!("Created new replica set \"{name}\"");
            return Some(self.condition("Progressing", ("True", "NewReplicaSetCreated", message), true));
        }
        let reason = held.and_then(|held| held.reason.as_deref());
        if reason == Some(AVAILABLE) && counts.total == counts.updated {
            return held.cloned();
        }
        if self.is_complete() {
            let message = format!("{subject} has successfully progressed.");
            return Some(self.condition("Progressing", ("True", AVAILABLE, message), true));
        }
        if self.has_moved(counts) {
            let message = format!("{subject} is progressing.");
            return Some(self.condition("Progressing", ("True", "ReplicaSetUpdated", message), true));
        }
        if self.is_late(held) {
            let message = format!("{subject} has timed out progressing.");
            return Some(self.condition("Progressing", ("False", TIMED_OUT, message), false));
        }
        match (held, name) {
            (None, Some(name)) => {
                let message = format!("Found new replica set \"{name}\"");
                Some(self.condition("Progressing", ("True", "FoundNewReplicaSet", message), true))
            }
            (held, _) => held.cloned(),
        }
    }

    fn has_moved(&self, counts: Counts) -> bool {
        let held = self.deployment.status.clone().unwrap_or_default();
        let number = |value: Option<i32>| value.unwrap_or(0);
        let old_before = number(held.replicas) - number(held.updated_replicas);
        counts.updated > number(held.updated_replicas)
            || counts.total - counts.updated < old_before
            || counts.ready > number(held.ready_replicas)
            || counts.available > number(held.available_replicas)
    }

    fn is_late(&self, held: Option<&DeploymentCondition>) -> bool {
        let (Some(held), Some(seconds)) = (held, self.progress_seconds()) else { return false };
        match held.reason.as_deref() {
            Some(AVAILABLE) => false,
            Some(TIMED_OUT) => true,
            _ => held
                .last_update_time
                .as_ref()
                .is_some_and(|since| self.now.duration_since(since.0) > SignedDuration::from_secs(seconds)),
        }
    }

    /// Returns the deadline for progress; the largest number stands for none.
    fn progress_seconds(&self) -> Option<i64> {
        let seconds = self.deployment.spec.as_ref()?.progress_deadline_seconds?;
        (seconds != i32::MAX).then_some(i64::from(seconds))
    }

    fn held(&self, type_: &str) -> Option<&DeploymentCondition> {
        let mut conditions =
            self.deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.find(|condition| condition.type_ == type_)
    }

    /// Returns a condition that keeps its times as far as nothing changed; `renewed` ones count as news every time.
    fn condition(&self, type_: &str, wanted: (&str, &str, String), renewed: bool) -> DeploymentCondition {
        let (status, reason, message) = wanted;
        let held = self.held(type_).filter(|held| held.status == status);
        let same = held.filter(|held| held.reason.as_deref() == Some(reason));
        if let Some(same) =
            same.filter(|same| !renewed || same.message.as_deref() == Some(&message) && reason == AVAILABLE)
        {
            return same.clone();
        }
        let since = held.and_then(|held| held.last_transition_time.clone());
        // Kubernetes keeps whole seconds, and a condition must read back as it was written.
        let now = Time(Timestamp::from_second(self.now.as_second()).unwrap_or(self.now));
        DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_update_time: Some(now.clone()),
            last_transition_time: Some(since.unwrap_or(now)),
        }
    }
}
