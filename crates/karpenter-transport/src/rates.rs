//! Keeps calls within the rates an account is allowed, the urgent ones first.
//!
//! Every API has a bucket that fills at its rate. Who finds it empty waits; of those who wait, terminations go before launches and launches
//! before look-ups, each in the order they came. A machine that is to go costs money until it is gone, and pods wait for launches;
//! look-ups can wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How fast an API may be called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Calls per second in the long run.
    pub per_second: f64,
    /// Calls at once after a quiet time.
    pub burst: f64,
}

/// What a call is for; the greater goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// It looks something up.
    Describe,
    /// Pods wait for it.
    Launch,
    /// A machine costs money until it is done.
    Terminate,
}

/// Rates by API; calls of APIs without one are not held back. Clones share the buckets.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    buckets: Arc<BTreeMap<&'static str, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    rate: Rate,
    state: Mutex<State>,
    /// Wakes whoever waits, to see whether it is its turn.
    turn: Notify,
}

#[derive(Debug)]
struct State {
    tokens: f64,
    filled: Instant,
    /// Who waits, the most urgent last, then the one who came first.
    waiting: BTreeSet<(Urgency, std::cmp::Reverse<u64>)>,
    next: u64,
}

impl Rates {
    /// Full buckets. Calls that share a name share a bucket.
    pub fn new(rates: impl IntoIterator<Item = (&'static str, Rate)>) -> Self {
        let now = Instant::now();
        let bucket = |rate: Rate| Bucket {
            rate,
            state: Mutex::new(State { tokens: rate.burst, filled: now, waiting: BTreeSet::new(), next: 0 }),
            turn: Notify::new(),
        };
        Self { buckets: Arc::new(rates.into_iter().map(|(name, rate)| (name, bucket(rate))).collect()) }
    }

    /// Waits until a call of `api` is allowed, and takes its place.
    pub async fn take(&self, api: &str, urgency: Urgency) {
        if let Some(bucket) = self.buckets.get(api) {
            bucket.take(urgency).await;
        }
    }
}

impl Bucket {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self, urgency: Urgency) {
        let place = Place { bucket: self, key: self.lock().queue(urgency) };
        loop {
            // Registered before the look, so that no turn is missed.
            let turn = self.turn.notified();
            let wait = self.lock().try_take(place.key, self.rate);
            match wait {
                Ok(()) => return,
                Err(Some(wait)) => tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = turn => {}
                },
                Err(None) => turn.await,
            }
        }
    }
}

/// A place in the queue; whoever gives up waiting leaves it.
struct Place<'b> {
    bucket: &'b Bucket,
    key: (Urgency, std::cmp::Reverse<u64>),
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.bucket.lock().waiting.remove(&self.key);
        self.bucket.turn.notify_waiters();
    }
}

impl State {
    fn queue(&mut self, urgency: Urgency) -> (Urgency, std::cmp::Reverse<u64>) {
        let key = (urgency, std::cmp::Reverse(self.next));
        self.next += 1;
        self.waiting.insert(key);
        key
    }

    /// Takes a token, if it is the turn of `key`; else says how long the first in line has to wait, `None` to others.
    fn try_take(
        &mut self,
        key: (Urgency, std::cmp::Reverse<u64>),
        rate: Rate,
    ) -> Result<(), Option<Duration>> {
        let now = Instant::now();
        let gained = now.duration_since(self.filled).as_secs_f64() * rate.per_second;
        self.tokens = (self.tokens + gained).min(rate.burst.max(1.0));
        self.filled = now;
        if self.waiting.last() != Some(&key) {
            return Err(None);
        }
        if self.tokens < 1.0 {
            let missing = (1.0 - self.tokens) / rate.per_second;
            return Err(Some(Duration::from_secs_f64(missing.clamp(0.001, 60.0))));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Rate = Rate { per_second: 2.0, burst: 1.0 };

    #[tokio::test(start_paused = true)]
    async fn calls_are_spread_to_their_rate_after_a_burst() {
        let rates = Rates::new([("RunInstances", Rate { per_second: 2.0, burst: 5.0 })]);
        let start = Instant::now();
        for _ in 0..25 {
            rates.take("RunInstances", Urgency::Launch).await;
        }
        let elapsed = start.elapsed().as_secs_f64();
        assert!((9.9..10.2).contains(&elapsed), "5 at once, 20 at two per second: {elapsed}");
        rates.take("Unlimited", Urgency::Describe).await;
        assert!(start.elapsed().as_secs_f64() - elapsed < 0.001);
    }

    #[tokio::test(start_paused = true)]
    async fn the_urgent_overtake_those_who_wait() {
        let rates = Rates::new([("Api", SLOW)]);
        rates.take("Api", Urgency::Describe).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut calls = Vec::new();
        for (name, urgency) in [
            ("look-up", Urgency::Describe),
            ("launch", Urgency::Launch),
            ("second launch", Urgency::Launch),
            ("termination", Urgency::Terminate),
        ] {
            let (rates, order) = (rates.clone(), Arc::clone(&order));
            calls.push(tokio::spawn(async move {
                rates.take("Api", urgency).await;
                order.lock().unwrap().push(name);
            }));
            tokio::task::yield_now().await;
        }
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["termination", "launch", "second launch", "look-up"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_holds_nobody_up() {
        let rates = Rates::new([("Api", SLOW)]);
        rates.take("Api", Urgency::Describe).await;
        let impatient =
            tokio::time::timeout(Duration::from_millis(10), rates.take("Api", Urgency::Terminate));
        assert!(impatient.await.is_err());
        let start = Instant::now();
        rates.take("Api", Urgency::Describe).await;
        assert!(start.elapsed() < Duration::from_millis(600));
    }
}
