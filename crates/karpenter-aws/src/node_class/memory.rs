//! What is known about one EC2NodeClass between looks: answers, how old they are, and when to ask again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_client::Error;

use super::Ami;
use super::question::{ImagesError, TrialResult};
use super::status::{ResolvedPlacementGroup, ResolvedReservation, ResolvedSubnet};
use super::{SecurityGroup, selectors};

const FIRST_RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_mins(1);

/// An answer, and the question it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Slot<T, E> {
    /// What was asked last, and when.
    asked: Option<(String, Timestamp)>,
    value: Option<(String, T)>,
    error: Option<E>,
    failures: u32,
}

impl<T, E> Default for Slot<T, E> {
    fn default() -> Self {
        Self { asked: None, value: None, error: None, failures: 0 }
    }
}

impl<T, E> Slot<T, E> {
    /// The answer to `question`, however old.
    pub(super) fn value(&self, question: &str) -> Option<&T> {
        self.value.as_ref().filter(|(known, _)| known == question).map(|(_, value)| value)
    }

    /// What went wrong when `question` was asked last.
    pub(super) fn error(&self, question: &str) -> Option<&E> {
        let asked = self.asked.as_ref().is_some_and(|(known, _)| known == question);
        self.error.as_ref().filter(|_| asked)
    }

    /// How long the answer to `question` is good for; `None` if it must be asked now.
    pub(super) fn good_for(&self, question: &str, period: Duration, now: Timestamp) -> Option<Duration> {
        let period = if self.error.is_some() {
            let doubled = 2u32.saturating_pow(self.failures.saturating_sub(1));
            FIRST_RETRY.saturating_mul(doubled).min(LONGEST_RETRY)
        } else {
            period
        };
        self.left_of(period, question, now)
    }

    /// What is left of `period` since `question` was asked; `None` if nothing is, or if it was not.
    fn left_of(&self, period: Duration, question: &str, now: Timestamp) -> Option<Duration> {
        let (_, at) = self.asked.as_ref().filter(|(known, _)| known == question)?;
        let due = at.saturating_add(SignedDuration::try_from(period).ok()?).ok()?;
        Duration::try_from(due.duration_since(now)).ok().filter(|left| !left.is_zero())
    }

    /// Notes that `question` is asked.
    pub(super) fn ask(&mut self, question: &str, now: Timestamp) {
        self.asked = Some((question.to_owned(), now));
    }

    /// Notes what came back for the question asked last.
    pub(super) fn hear(&mut self, answer: Result<T, E>) {
        let Some((question, _)) = &self.asked else { return };
        match answer {
            Ok(value) => {
                self.value = Some((question.clone(), value));
                self.error = None;
                self.failures = 0;
            }
            Err(error) => {
                self.error = Some(error);
                self.failures = self.failures.saturating_add(1);
            }
        }
    }
}

/// What is known about a class.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// The object it is about: another one of the same name starts anew.
    pub(super) uid: String,
    pub(super) subnets: Slot<Vec<ResolvedSubnet>, Error>,
    pub(super) security_groups: Slot<Vec<SecurityGroup>, Error>,
    pub(super) images: Slot<Vec<Ami>, ImagesError>,
    pub(super) reservations: Slot<Vec<ResolvedReservation>, Error>,
    pub(super) placement_group: Slot<Option<ResolvedPlacementGroup>, Error>,
    pub(super) profile: Slot<Option<String>, Error>,
    pub(super) trial: Slot<TrialResult, String>,
    pub(super) clean_up: Slot<(), Error>,
    /// The profile made last, which the status may not show yet.
    pub(super) made_profile: Option<String>,
}

/// How long answers are good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Periods {
    pub(super) subnets: Duration,
    pub(super) images: Duration,
}

pub(super) const MINUTE: Duration = Duration::from_mins(1);
const RARELY: Duration = Duration::from_mins(5);
/// Profiles are changed by us alone.
const PROFILE: Duration = Duration::from_mins(15);
/// For how long a tried launch stands for others.
const TRIAL: Duration = Duration::from_mins(30);

impl Memory {
    pub(super) fn subnets_good_for(
        &self,
        question: &str,
        periods: Periods,
        now: Timestamp,
    ) -> Option<Duration> {
        self.subnets.good_for(question, periods.subnets, now)
    }

    pub(super) fn security_groups_good_for(&self, question: &str, now: Timestamp) -> Option<Duration> {
        let found = self.security_groups.value(question).is_some_and(|found| !found.is_empty());
        self.security_groups.good_for(question, if found { RARELY } else { MINUTE }, now)
    }

    pub(super) fn images_good_for(
        &self,
        question: &str,
        periods: Periods,
        now: Timestamp,
    ) -> Option<Duration> {
        if matches!(self.images.error(question), Some(ImagesError::Alias(_))) {
            // Only another class or another cluster version changes that, and both are another question.
            return Some(Duration::MAX);
        }
        let found = self.images.value(question).is_some_and(|found| !found.is_empty());
        self.images.good_for(question, if found { periods.images.max(RARELY) } else { MINUTE }, now)
    }

    pub(super) fn reservations_good_for(&self, question: &str, now: Timestamp) -> Option<Duration> {
        let good = self.reservations.good_for(question, MINUTE, now)?;
        let found = self.reservations.value(question).map(Vec::as_slice).unwrap_or_default();
        let change = selectors::next_change(found, now);
        let change = change.and_then(|change| Duration::try_from(change.duration_since(now)).ok());
        Some(change.map_or(good, |change| good.min(change)))
    }

    pub(super) fn placement_group_good_for(&self, question: &str, now: Timestamp) -> Option<Duration> {
        let found = self.placement_group.value(question).is_some_and(Option::is_some);
        self.placement_group.good_for(question, if found { RARELY } else { MINUTE }, now)
    }

    pub(super) fn profile_good_for(&self, question: &str, now: Timestamp) -> Option<Duration> {
        let missing_role = self.profile.error(question).is_some_and(Error::is_not_found);
        if missing_role {
            // Every attempt makes a profile and deletes it again.
            return self.profile.left_of(MINUTE, question, now);
        }
        self.profile.good_for(question, PROFILE, now)
    }

    pub(super) fn trial_good_for(&self, question: &str, now: Timestamp) -> Option<Duration> {
        let fleeting =
            matches!(self.trial.value(question), Some(TrialResult::Refused { lasting: false, .. }));
        self.trial.good_for(question, if fleeting { MINUTE } else { TRIAL }, now)
    }
}
