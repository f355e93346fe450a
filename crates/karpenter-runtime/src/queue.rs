//! Which key of which controller is looked at next: the one due first, and among those the one asked for first.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::key::Key;

/// A controller's number and a key.
pub(crate) type Item = (usize, Key);

/// Every item is waiting, busy or absent. A busy item that is woken waits again once it is finished.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<(Instant, u64), Item>,
    places: FxHashMap<Item, (Instant, u64)>,
    busy: FxHashMap<Item, Option<Instant>>,
    sequence: u64,
}

impl Queue {
    /// Asks for `item` at `due`, or sooner if it is already asked for sooner.
    pub(crate) fn wake(&mut self, item: Item, due: Instant) {
        if let Some(next) = self.busy.get_mut(&item) {
            *next = Some(next.map_or(due, |sooner| sooner.min(due)));
            return;
        }
        if let Some(place) = self.places.get(&item) {
            if place.0 <= due {
                return;
            }
            self.waiting.remove(place);
        }
        self.sequence += 1;
        let place = (due, self.sequence);
        self.waiting.insert(place, item.clone());
        self.places.insert(item, place);
    }

    /// Takes the next item that is due; it is busy until it is finished.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Item> {
        let entry = self.waiting.first_entry().filter(|entry| entry.key().0 <= now)?;
        let item = entry.remove();
        self.places.remove(&item);
        self.busy.insert(item.clone(), None);
        Some(item)
    }

    /// Ends the work on an item, which waits again if it was woken meanwhile or asks for it.
    pub(crate) fn finish(&mut self, item: Item, again: Option<Instant>) {
        let woken = self.busy.remove(&item).flatten();
        if let Some(due) = woken.into_iter().chain(again).min() {
            self.wake(item, due);
        }
    }

    /// When the next item is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// How many items are being worked on.
    pub(crate) fn busy(&self) -> usize {
        self.busy.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn item(name: &str) -> Item {
        (0, Key::cluster(name))
    }

    fn drain(queue: &mut Queue, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| queue.take(now)).map(|(_, key)| key.to_string()).collect()
    }

    #[test]
    fn the_earliest_comes_first_and_ties_keep_their_order() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.wake(item("late"), now + Duration::from_secs(2));
        queue.wake(item("b"), now);
        queue.wake(item("a"), now);
        assert_eq!(drain(&mut queue, now), ["b", "a"]);
        assert_eq!(queue.next_due(), Some(now + Duration::from_secs(2)));
    }

    #[test]
    fn an_item_waits_once_at_its_earliest_time() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.wake(item("a"), now + Duration::from_secs(5));
        queue.wake(item("a"), now);
        queue.wake(item("a"), now + Duration::from_secs(9));
        assert_eq!(drain(&mut queue, now + Duration::from_mins(1)), ["a"]);
    }

    #[test]
    fn a_busy_item_is_not_taken_twice_and_not_forgotten() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.wake(item("a"), now);
        assert_eq!(drain(&mut queue, now), ["a"]);
        queue.wake(item("a"), now);
        assert_eq!(drain(&mut queue, now), Vec::<String>::new());
        queue.finish(item("a"), Some(now + Duration::from_secs(30)));
        assert_eq!(drain(&mut queue, now), ["a"], "the wake while busy is due before the requeue");
        queue.finish(item("a"), None);
        assert_eq!(queue.next_due(), None);
    }
}
