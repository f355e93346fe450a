//! Pods waiting for a node, in lines by class.
//!
//! Pods of one class fare alike, so the first that finds no place blocks its line until something changes that could help.
//! Among lines the more important comes first, then the one whose first pod waits longest. Pods with needs of their own
//! (volumes, a node by name, a node others are leaving) are parked alone and block nobody.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Lines up to this long hear at once that the reason for waiting has changed; longer ones keep the first reason.
const RETOLD_AT_ONCE_MAX: usize = 100;

#[derive(Clone, Debug, Default)]
struct Line {
    priority: i32,
    waiting: BTreeMap<u64, u32>,
    block: Option<Block>,
    /// What waiting pods heard last.
    said: Option<Arc<str>>,
    /// Waiting pods that have not heard why.
    untold: BTreeSet<u64>,
    /// Where the line stands among the ready ones.
    listed: Option<(Reverse<i32>, u64, u32)>,
}

/// Why a line stands still.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) message: Arc<str>,
    /// The cluster's revision when the line was blocked.
    pub(crate) revision: u64,
}

#[derive(Clone, Debug)]
struct Place {
    class: u32,
    priority: i32,
    number: u64,
    is_parked: bool,
}

/// All waiting pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    lines: BTreeMap<u32, Line>,
    ready: BTreeSet<(Reverse<i32>, u64, u32)>,
    places: FxHashMap<u32, Place>,
    parked: BTreeSet<u32>,
    next_number: u64,
}

impl Queue {
    /// Lines a pod up, or moves it to the line of its class now; it keeps its number.
    pub(crate) fn push(&mut self, pod: u32, class: u32, priority: i32) {
        let number = match self.places.get(&pod) {
            Some(place) if place.class == class => return,
            Some(place) => place.number,
            None => {
                self.next_number += 1;
                self.next_number
            }
        };
        self.remove(pod);
        self.places.insert(pod, Place { class, priority, number, is_parked: false });
        self.line_up(pod, class, priority, number);
    }

    /// Returns the pod to try next; it stays in line.
    pub(crate) fn next(&self) -> Option<u32> {
        let (_, number, class) = self.ready.first()?;
        self.lines.get(class)?.waiting.get(number).copied()
    }

    /// Takes a pod out of the queue.
    pub(crate) fn remove(&mut self, pod: u32) {
        let Some(place) = self.places.remove(&pod) else { return };
        self.parked.remove(&pod);
        self.leave_line(&place);
    }

    /// Lets a pod wait alone.
    pub(crate) fn park(&mut self, pod: u32) {
        let Some(place) = self.places.get_mut(&pod) else { return };
        place.is_parked = true;
        let place = place.clone();
        self.parked.insert(pod);
        self.leave_line(&place);
    }

    /// Lines a parked pod up again.
    pub(crate) fn unpark(&mut self, pod: u32) {
        let Some(place) = self.places.get_mut(&pod).filter(|place| place.is_parked) else { return };
        place.is_parked = false;
        let (class, priority, number) = (place.class, place.priority, place.number);
        self.parked.remove(&pod);
        self.line_up(pod, class, priority, number);
    }

    pub(crate) fn parked(&self) -> impl Iterator<Item = u32> + '_ {
        self.parked.iter().copied()
    }

    /// Stops a line.
    pub(crate) fn block(&mut self, class: u32, message: &str, revision: u64) {
        let Some(line) = self.lines.get_mut(&class) else { return };
        let has_news = line.said.as_ref().is_none_or(|said| **said != *message);
        if has_news && line.waiting.len() <= RETOLD_AT_ONCE_MAX {
            line.untold = line.waiting.keys().copied().collect();
        }
        let message: Arc<str> = message.into();
        line.said = Some(Arc::clone(&message));
        line.block = Some(Block { message, revision });
        self.list(class);
    }

    /// Lets a line go on.
    pub(crate) fn unblock(&mut self, class: u32) {
        if let Some(line) = self.lines.get_mut(&class)
            && line.block.take().is_some()
        {
            self.list(class);
        }
    }

    /// Returns the lines that stand still, each with its first pod and why it stands.
    pub(crate) fn blocked(&self) -> impl Iterator<Item = (u32, u32, &Block)> {
        self.lines.iter().filter_map(|(class, line)| {
            let block = line.block.as_ref()?;
            let (_, first) = line.waiting.first_key_value()?;
            Some((*class, *first, block))
        })
    }

    /// Returns pods that have yet to hear why they wait, at most `limit`; they count as told.
    pub(crate) fn take_untold(&mut self, limit: usize) -> Vec<(u32, Arc<str>)> {
        let mut told = Vec::new();
        for line in self.lines.values_mut() {
            let Some(block) = &line.block else { continue };
            while told.len() < limit
                && let Some(number) = line.untold.pop_first()
            {
                told.push((line.waiting[&number], Arc::clone(&block.message)));
            }
        }
        told
    }

    /// Returns whether pods can be tried or told.
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || self.lines.values().any(|line| line.block.is_some() && !line.untold.is_empty())
    }

    fn line_up(&mut self, pod: u32, class: u32, priority: i32, number: u64) {
        let line = self.lines.entry(class).or_default();
        line.priority = priority;
        line.waiting.insert(number, pod);
        line.untold.insert(number);
        self.list(class);
    }

    fn leave_line(&mut self, place: &Place) {
        if let Some(line) = self.lines.get_mut(&place.class) {
            line.waiting.remove(&place.number);
            line.untold.remove(&place.number);
            self.list(place.class);
        }
    }

    /// Brings the place of a line among the ready ones up to date.
    fn list(&mut self, class: u32) {
        let Some(line) = self.lines.get_mut(&class) else { return };
        if let Some(listed) = line.listed.take() {
            self.ready.remove(&listed);
        }
        match line.waiting.first_key_value() {
            None => {
                self.lines.remove(&class);
            }
            Some((number, _)) if line.block.is_none() => {
                let listed = (Reverse(line.priority), *number, class);
                line.listed = Some(listed);
                self.ready.insert(listed);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_comes_first_then_the_time_of_waiting() {
        let mut queue = Queue::default();
        queue.push(1, 10, 0);
        queue.push(2, 11, 5);
        queue.push(3, 11, 5);
        let mut order = Vec::new();
        while let Some(pod) = queue.next() {
            order.push(pod);
            queue.remove(pod);
        }
        assert_eq!(order, [2, 3, 1]);
    }

    #[test]
    fn a_blocked_line_lets_others_pass_and_every_pod_hears_why_once() {
        let mut queue = Queue::default();
        queue.push(1, 10, 5);
        queue.push(2, 10, 5);
        queue.push(3, 11, 0);
        queue.block(10, "no room", 7);
        assert_eq!(queue.next(), Some(3));
        let told: Vec<u32> = queue.take_untold(10).into_iter().map(|(pod, _)| pod).collect();
        assert_eq!(told, [1, 2]);
        assert!(queue.take_untold(10).is_empty());
        queue.unblock(10);
        assert_eq!(queue.next(), Some(1));
        queue.block(10, "no room", 8);
        assert!(queue.take_untold(10).is_empty());
    }

    #[test]
    fn a_parked_pod_keeps_its_turn() {
        let mut queue = Queue::default();
        queue.push(1, 10, 0);
        queue.push(2, 10, 0);
        queue.park(1);
        assert_eq!(queue.next(), Some(2));
        queue.unpark(1);
        assert_eq!(queue.next(), Some(1));
    }
}
