//! Whether a NodePool's nodes have been joining the cluster lately.

use std::collections::VecDeque;

/// How many results are remembered.
const REMEMBERED: usize = 4;
/// This many failures among them are too many.
const TOO_MANY: usize = 2;

/// The latest results of registrations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registrations(VecDeque<bool>);

impl Registrations {
    /// Adds a result.
    pub(crate) fn note(&mut self, went_well: bool) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(went_well);
    }

    /// Forgets everything: the pool, or its NodeClass, is not what it was.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Starts from what the pool's condition says, as after a restart.
    pub(crate) fn recall(&mut self, was_healthy: bool) {
        if self.0.is_empty() {
            let known = if was_healthy { 1 } else { TOO_MANY };
            self.0.extend(std::iter::repeat_n(was_healthy, known));
        }
    }

    /// Whether nodes join; unknown before the first result.
    pub(crate) fn are_healthy(&self) -> Option<bool> {
        let failures = self.0.iter().filter(|went_well| !**went_well).count();
        (!self.0.is_empty()).then_some(failures < TOO_MANY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_among_the_last_four_are_too_many() {
        let mut results = Registrations::default();
        assert_eq!(results.are_healthy(), None);
        results.note(false);
        assert_eq!(results.are_healthy(), Some(true), "one may fail");
        results.note(false);
        assert_eq!(results.are_healthy(), Some(false));
        for _ in 0..3 {
            results.note(true);
        }
        assert_eq!(results.are_healthy(), Some(true), "old failures are forgotten");
        results.forget();
        assert_eq!(results.are_healthy(), None);
    }

    #[test]
    fn what_was_known_before_a_restart_counts() {
        let mut results = Registrations::default();
        results.recall(false);
        results.note(true);
        assert_eq!(results.are_healthy(), Some(false));
    }
}
