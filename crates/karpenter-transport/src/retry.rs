//! When a failed call is tried again.
//!
//! Attempts are few, pauses double and are drawn from zero to their bound, and a budget shared by all calls of a client stops
//! retries while nearly everything fails. Time and chance come from outside.

use std::sync::Mutex;
use std::time::Duration;

use karpenter_environment::Environment;

/// How often and how patiently a call is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// The bound of the first pause; each further one doubles.
    pub first_pause: Duration,
    /// No pause is longer.
    pub longest_pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 3, first_pause: Duration::from_secs(1), longest_pause: Duration::from_secs(20) }
    }
}

impl RetryPolicy {
    /// One attempt: for dry runs, whose errors are the answer.
    pub fn once() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// The longest pause after failed attempt number `attempt`, counted from one.
    fn bound(&self, attempt: u32) -> Duration {
        let doubled = self.first_pause.saturating_mul(1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX));
        doubled.min(self.longest_pause)
    }

    /// The pause after failed attempt number `attempt`: any moment up to its bound, so that clients spread.
    pub fn pause(&self, attempt: u32, environment: &dyn Environment) -> Duration {
        let bound = u64::try_from(self.bound(attempt).as_millis()).unwrap_or(u64::MAX - 1);
        Duration::from_millis(environment.below(bound + 1))
    }
}

const BUDGET: u32 = 500;
const COST: u32 = 5;
const REFUND_FOR_SUCCESS: u32 = 1;

/// How many retries are left before successes must earn new ones.
#[derive(Debug)]
pub struct RetryBudget(Mutex<u32>);

impl Default for RetryBudget {
    fn default() -> Self {
        Self(Mutex::new(BUDGET))
    }
}

impl RetryBudget {
    /// Takes the price of one retry; `false` when there is not enough left.
    pub fn take(&self) -> bool {
        let mut left = self.lock();
        let enough = *left >= COST;
        if enough {
            *left -= COST;
        }
        enough
    }

    /// A call succeeded: after a retry its price comes back, otherwise a little is earned.
    pub fn refund(&self, after_retry: bool) {
        let mut left = self.lock();
        *left = (*left + if after_retry { COST } else { REFUND_FOR_SUCCESS }).min(BUDGET);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, u32> {
        self.0.lock().expect("no code panics while holding the budget")
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_environment::SeededEnvironment;

    use super::*;

    #[test]
    fn pauses_double_up_to_their_limit_and_are_spread() {
        let policy = RetryPolicy::default();
        let bounds: Vec<u64> = (1..=7).map(|attempt| policy.bound(attempt).as_secs()).collect();
        assert_eq!(bounds, [1, 2, 4, 8, 16, 20, 20]);
        assert_eq!(policy.bound(60), Duration::from_secs(20));
        let environment = SeededEnvironment::new(3, Timestamp::UNIX_EPOCH);
        let drawn: Vec<Duration> = (0..100).map(|_| policy.pause(2, &environment)).collect();
        assert!(drawn.iter().all(|pause| *pause <= Duration::from_secs(2)));
        assert!(drawn.iter().any(|pause| *pause < Duration::from_millis(500)));
        assert!(drawn.iter().any(|pause| *pause > Duration::from_millis(1500)));
    }

    #[test]
    fn a_spent_budget_stops_retries_until_calls_succeed() {
        let budget = RetryBudget::default();
        assert_eq!((0..1000).filter(|_| budget.take()).count(), 100);
        budget.refund(true);
        assert!(budget.take());
        assert!(!budget.take());
        (0..5).for_each(|_| budget.refund(false));
        assert!(budget.take());
    }
}
