//! A value that its followers are told of when it changes, one after the other in the order in which they wait.
//!
//! `tokio::sync::watch` does the same but wakes followers in an order left to chance, which would make two runs of one
//! simulation differ.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    bell: Notify,
}

#[derive(Debug)]
struct State<T> {
    value: T,
    /// Counts changes.
    version: u64,
    /// Whether the sender is gone.
    closed: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value while somebody looks at it.
pub(super) struct Seen<'a, T>(MutexGuard<'a, State<T>>);

impl<T> Deref for Seen<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

/// The side that changes the value.
#[derive(Debug)]
pub(super) struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    pub(super) fn new(value: T) -> Self {
        let state = Mutex::new(State { value, version: 0, closed: false });
        Self { shared: Arc::new(Shared { state, bell: Notify::new() }) }
    }

    /// Changes the value and tells all followers.
    pub(super) fn send_modify(&self, change: impl FnOnce(&mut T)) {
        let mut state = self.shared.lock();
        change(&mut state.value);
        state.version += 1;
        drop(state);
        self.shared.bell.notify_waiters();
    }

    pub(super) fn borrow(&self) -> Seen<'_, T> {
        Seen(self.shared.lock())
    }

    /// Returns a follower that has seen the present value.
    pub(super) fn subscribe(&self) -> Receiver<T> {
        let seen = self.shared.lock().version;
        Receiver { shared: Arc::clone(&self.shared), seen }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.bell.notify_waiters();
    }
}

/// Nobody will change the value any more.
#[derive(Debug)]
pub(super) struct Closed;

/// The side that follows the value.
#[derive(Debug)]
pub(super) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T> Receiver<T> {
    pub(super) fn borrow(&self) -> Seen<'_, T> {
        Seen(self.shared.lock())
    }

    /// Looks at the value and counts it as seen.
    pub(super) fn borrow_and_update(&mut self) -> Seen<'_, T> {
        let state = self.shared.lock();
        self.seen = state.version;
        Seen(state)
    }

    /// Waits for a change that was not seen.
    pub(super) async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            let mut rung = std::pin::pin!(self.shared.bell.notified());
            // From here on no change is missed, whoever makes it before the wait.
            rung.as_mut().enable();
            {
                let state = self.shared.lock();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.closed {
                    return Err(Closed);
                }
            }
            rung.await;
        }
    }

    /// Waits until the value is as wanted and returns what it is then; others may have changed it once more.
    pub(super) async fn wait_for(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Result<Seen<'_, T>, Closed> {
        loop {
            let is_so = wanted(&self.borrow_and_update());
            if is_so {
                return Ok(self.borrow());
            }
            self.changed().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn followers_are_woken_in_the_order_in_which_they_wait() {
        let sender = Sender::new(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for number in 0..20 {
            let (mut receiver, order) = (sender.subscribe(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                receiver.changed().await.unwrap();
                order.lock().unwrap().push(number);
            }));
            tokio::task::yield_now().await;
        }
        sender.send_modify(|value| *value = 1);
        for one in waiting {
            one.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed_and_the_end_is_told() {
        let sender = Sender::new(0);
        let mut receiver = sender.subscribe();
        sender.send_modify(|value| *value = 5);
        assert!(receiver.changed().await.is_ok());
        assert_eq!(*receiver.wait_for(|value| *value == 5).await.unwrap(), 5);
        drop(sender);
        assert!(receiver.changed().await.is_err());
    }
}
