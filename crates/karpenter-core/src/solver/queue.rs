//! The reference strategy: pods one at a time in queue order, each to an existing node, an open node, or a new one.
//!
//! This is upstream's way of working and handles every rule. It is what decides when limits or missing room leave pods without a place,
//! because then the order of the queue is what users rely on; the other strategies only ever replace its answer by a better one.

use std::collections::VecDeque;

use super::bin::Share;
use super::bits::Bits;
use super::classes::{ClassId, Level};
use super::existing::{Finder, Suited};
use super::problem::Problem;
use super::world::{Target, Tuning, World};

/// Which open node a pod joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// The one with the fewest pods, whatever it costs: upstream's rule.
    FewestPods,
    /// The one whose price rises least, unless a new node is cheaper still.
    LeastIncrease,
}

/// The settings of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) join: Join,
    pub(crate) tuning: Tuning,
    /// Rotates classes of equal size in the queue: 0 keeps the order.
    pub(crate) rotation: u32,
}

/// Places the pods of a queue in the world; returns those left over.
pub(crate) fn drain(world: &mut World<'_>, join: Join, queue: VecDeque<(ClassId, u32)>) -> Vec<Share> {
    let finder = Finder::Own(Suited::new(world));
    drain_with(world, join, queue, finder)
}

/// The same, with nodes looked up by `finder`.
pub(crate) fn drain_with(
    world: &mut World<'_>,
    join: Join,
    queue: VecDeque<(ClassId, u32)>,
    finder: Finder<'_>,
) -> Vec<Share> {
    let closed = vec![Vec::new(); world.problem.classes.len()];
    Runner { world, join, finder, closed }.drain(queue)
}

/// The queue with classes of equal size rotated among themselves.
pub(crate) fn rotated(problem: &Problem<'_>, rotation: u32) -> VecDeque<(ClassId, u32)> {
    let mut queue = problem.queue.clone();
    if rotation > 0 {
        let size = |class: ClassId| {
            let requests = &problem.classes[class as usize].spec.requests;
            (requests.get(karpenter_quantity::CPU), requests.get(karpenter_quantity::MEMORY))
        };
        for equals in queue.chunk_by_mut(|a, b| size(a.0) == size(b.0)) {
            let turn = rotation as usize % equals.len();
            equals.rotate_left(turn);
        }
    }
    queue.into()
}

struct Runner<'w, 'p, 'f> {
    world: &'w mut World<'p>,
    join: Join,
    finder: Finder<'f>,
    /// Open nodes that can never again take a pod of a class at a level.
    closed: Vec<Vec<Bits>>,
}

/// Open nodes tracked per class; grown in steps.
const BINS_STEP: usize = 512;

impl Runner<'_, '_, '_> {
    fn drain(&mut self, mut queue: VecDeque<(ClassId, u32)>) -> Vec<Share> {
        let mut stuck = 0;
        while let Some((class, count)) = queue.pop_front() {
            let mut left = count;
            while left > 0 && self.place_one(class) {
                left -= 1;
            }
            stuck = if left < count { 0 } else { stuck + 1 };
            if left > 0 {
                queue.push_back((class, left));
            }
            if stuck > 0 && stuck >= queue.len() {
                break;
            }
        }
        queue.into_iter().map(|(class, count)| Share { class, level: 0, count }).collect()
    }

    fn place_one(&mut self, id: ClassId) -> bool {
        let class = self.world.class(id);
        for (number, level) in class.levels.iter().enumerate() {
            if level.conditions.is_none() {
                continue;
            }
            self.world.waits_for_reserved = false;
            if let Some(target) = self.target(id, number, level) {
                self.world.commit(id, number as u8, target);
                return true;
            }
            // A pod that only waits for reserved capacity keeps its preferences.
            if self.world.waits_for_reserved {
                return false;
            }
        }
        false
    }

    fn target(&mut self, id: ClassId, number: usize, level: &Level) -> Option<Target> {
        if let Some(place) = self.finder.first(self.world, id, number) {
            return Some(Target::Place(place));
        }
        match self.join {
            Join::FewestPods => self.fewest_pods(id, number, level).or_else(|| self.new_node(id, level)),
            Join::LeastIncrease => self.least_increase(id, number, level),
        }
    }

    fn new_node(&mut self, id: ClassId, level: &Level) -> Option<Target> {
        let class = self.world.class(id);
        self.world.new_node(class, level).map(|(template, addition)| Target::New(template, addition))
    }

    fn closed(&mut self, id: ClassId, number: usize) -> &mut Bits {
        let wanted = (self.world.bins.len() / BINS_STEP + 1) * BINS_STEP;
        let levels = &mut self.closed[id as usize];
        levels.resize(self.world.problem.classes[id as usize].levels.len(), Bits::default());
        levels[number].grow(wanted);
        &mut levels[number]
    }

    fn fewest_pods(&mut self, id: ClassId, number: usize, level: &Level) -> Option<Target> {
        let class = self.world.class(id);
        let closed = self.closed(id, number).clone();
        let mut open: Vec<usize> = (0..self.world.bins.len()).filter(|bin| !closed.contains(*bin)).collect();
        open.sort_by_key(|bin| self.world.bins[*bin].pods);
        for bin in open {
            match self.world.on_bin(class, level, bin) {
                Ok(addition) => return Some(Target::Bin(bin, addition)),
                Err(true) => self.closed(id, number).insert(bin),
                Err(false) => {}
            }
        }
        None
    }

    fn least_increase(&mut self, id: ClassId, number: usize, level: &Level) -> Option<Target> {
        let class = self.world.class(id);
        let mut best: Option<(f64, usize, super::world::Addition)> = None;
        for bin in 0..self.world.bins.len() {
            if self.closed(id, number).contains(bin) {
                continue;
            }
            match self.world.on_bin(class, level, bin) {
                Ok(addition) => {
                    let increase = addition.fit.price - self.world.bins[bin].price;
                    if best.as_ref().is_none_or(|(least, _, _)| increase < *least) {
                        let free = increase <= 0.0;
                        best = Some((increase, bin, addition));
                        if free {
                            break;
                        }
                    }
                }
                Err(true) => self.closed(id, number).insert(bin),
                Err(false) => {}
            }
        }
        if let Some((increase, bin, addition)) = &best
            && *increase <= 0.0
        {
            return Some(Target::Bin(*bin, addition.clone()));
        }
        let new = self.new_node(id, level);
        match (best, new) {
            (Some((increase, bin, addition)), Some(Target::New(template, new))) => {
                if increase <= new.fit.price {
                    Some(Target::Bin(bin, addition))
                } else {
                    Some(Target::New(template, new))
                }
            }
            (Some((_, bin, addition)), _) => Some(Target::Bin(bin, addition)),
            (None, new) => new,
        }
    }
}
