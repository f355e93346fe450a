//! Nodes leaving on trial: a cluster compiled once, on which the departure of nodes is tried and undone.
//!
//! ```text
//! Stage (compiled once) ─► Settled (waiting pods placed, closed nodes shut) ─► Trial (one per thread): remove, place, look, undo
//! ```
//! A [`Stage`] knows every pod that may have to move. A [`Settled`] world is what all trials start from and nobody changes; a
//! [`Trial`] is a copy of it that remembers what it touches, so taking a node away and putting it back costs what the node's own
//! pods cost, not what the cluster is large.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bin::{Bin, Share};
use super::classes::ClassId;
use super::departure::Mark;
use super::eligibility::Eligible;
use super::existing::{Finder, Fitting};
use super::output::{self, PodSupply};
use super::packing::{self, Filling, Tactics};
use super::problem::Problem;
use super::queue::{self, Join};
use super::states::States;
use super::world::{Target, Tuning, World};
use super::{limits, lots, merging};
use crate::catalog::Catalog;
use crate::cluster::{ClusterSnapshot, Node, Pod};
use crate::plan::{ClaimPlan, PodIndex, SolverOptions};

/// A cluster compiled once, with every pod that may have to move.
pub(crate) struct Stage<'a> {
    problem: Problem<'a>,
    states: States,
    pods: Vec<Arc<Pod>>,
    /// Pods that wait now: the first of `pods`.
    waiting: usize,
    class_of: Vec<ClassId>,
    /// Where each class comes in the queue.
    rank: Vec<u32>,
    /// Places by the address of their node.
    place_of: FxHashMap<usize, usize>,
    /// Classes that must share nodes with others.
    beside: Vec<bool>,
    packable: bool,
}

/// How pods are placed on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// On existing nodes only.
    Existing,
    /// Upstream's way: the open node with the fewest pods, whatever it costs.
    FewestPods,
    /// The open or new node whose price rises least.
    LeastIncrease,
    /// The same, but pods that few existing nodes take come first.
    ScarceFirst,
    /// Packed, with one of several tactics.
    Packed(u8),
}

/// Number of packing tactics.
pub(crate) const TACTICS: u8 = 3;

/// What became of the pods of a trial.
pub(crate) struct Placed {
    pub(crate) claims: Vec<ClaimPlan>,
    /// Existing nodes and the pods they get, by name.
    pub(crate) existing: Vec<(Arc<str>, Vec<PodIndex>)>,
}

impl<'a> Stage<'a> {
    /// Compiles the cluster with the pods that wait and those of the nodes that may leave.
    ///
    /// Returns the numbers of the latter along with it, in the order they were given.
    pub(crate) fn new(
        (snapshot, catalog, options): (&'a ClusterSnapshot, &'a Catalog, &'a SolverOptions),
        eligible: Eligible,
        leaving: &[Vec<Arc<Pod>>],
    ) -> (Self, Vec<Vec<PodIndex>>) {
        let Eligible { mut pods, mut wanted, .. } = eligible;
        let (waiting, moving) = (pods.len(), wanted.len());
        let mut numbers = Vec::with_capacity(leaving.len());
        for group in leaving {
            let first = pods.len();
            pods.extend(group.iter().cloned());
            numbers.push((first..pods.len()).map(|index| index as PodIndex).collect::<Vec<_>>());
        }
        wanted.extend(numbers.iter().flatten());
        let (problem, states) = Problem::new(snapshot, catalog, options, &pods, &wanted, moving);
        let mut class_of = vec![0; pods.len()];
        for (id, class) in problem.classes.iter().enumerate() {
            class.pods.iter().for_each(|pod| class_of[*pod as usize] = id as ClassId);
        }
        let mut rank = vec![u32::MAX; problem.classes.len()];
        for (position, (class, _)) in problem.queue.iter().enumerate() {
            rank[*class as usize] = rank[*class as usize].min(position as u32);
        }
        let place_of = problem
            .places
            .iter()
            .enumerate()
            .map(|(id, place)| (Arc::as_ptr(&place.node).addr(), id))
            .collect();
        let beside = lots::beside_others(&problem);
        let packable = lots::packable(&problem);
        let stage = Self { problem, states, pods, waiting, class_of, rank, place_of, beside, packable };
        (stage, numbers)
    }

    /// All pods a plan may speak of.
    pub(crate) fn pods(&self) -> &[Arc<Pod>] {
        &self.pods
    }

    /// The place of a node, unless it is already leaving.
    pub(crate) fn place(&self, node: &Arc<Node>) -> Option<usize> {
        self.place_of.get(&Arc::as_ptr(node).addr()).copied()
    }

    /// The ways worth trying.
    pub(crate) fn ways(&self) -> Vec<Way> {
        let mut ways = vec![Way::FewestPods, Way::LeastIncrease, Way::ScarceFirst];
        if self.packable {
            ways.extend((0..TACTICS).map(Way::Packed));
        }
        ways
    }

    /// The world every trial starts from: waiting pods have their places, and `is_shut` nodes take no pods from leaving ones.
    pub(crate) fn settle(&self, is_shut: impl Fn(&Node) -> bool) -> Settled<'_> {
        let mut world = World::new(&self.problem, self.states.clone(), Tuning::default());
        let own: Vec<Vec<PodIndex>> = self
            .problem
            .classes
            .iter()
            .map(|class| class.pods.iter().copied().filter(|pod| (*pod as usize) < self.waiting).collect())
            .collect();
        let counts = own.iter().enumerate().map(|(id, pods)| (id as ClassId, pods.len() as u32));
        let queue = self.queue(counts.filter(|(_, count)| *count > 0));
        world.expect(&queue);
        queue::drain(&mut world, Join::FewestPods, queue);
        let mut supply = PodSupply::of(own.iter().map(Vec::as_slice).collect());
        let mut planned: FxHashMap<usize, Vec<PodIndex>> = FxHashMap::default();
        for (place, shares) in world.take_shares() {
            let pods = shares.iter().flat_map(|share| supply.take(*share).to_vec()).collect();
            planned.insert(place, pods);
        }
        for (id, place) in self.problem.places.iter().enumerate() {
            if is_shut(&place.node) {
                world.shut(id);
            }
        }
        // Nodes opened for waiting pods are the provisioner's business: pods of leaving nodes do not join them.
        world.bins.clear();
        let fitting = Fitting::new(&world);
        Settled { stage: self, world, planned, fitting }
    }

    /// Classes and counts in the order of the queue.
    fn queue(&self, counts: impl Iterator<Item = (ClassId, u32)>) -> VecDeque<(ClassId, u32)> {
        let mut by_rank: BTreeMap<(u32, ClassId), u32> = BTreeMap::new();
        for (class, count) in counts {
            *by_rank.entry((self.rank[class as usize], class)).or_default() += count;
        }
        by_rank.into_iter().map(|((_, class), count)| (class, count)).collect()
    }
}

/// The world every trial starts from.
pub(crate) struct Settled<'s> {
    stage: &'s Stage<'s>,
    world: World<'s>,
    /// Waiting pods that are planned on existing nodes.
    planned: FxHashMap<usize, Vec<PodIndex>>,
    fitting: Fitting,
}

impl<'s> Settled<'s> {
    /// A copy to try things on.
    pub(crate) fn trial(&self) -> Trial<'_, 's> {
        let mut world = self.world.clone();
        world.record();
        Trial { settled: self, world, gone: Vec::new(), waiting: FxHashMap::default(), stuck: None }
    }

    /// Waiting pods that are planned on a node.
    pub(crate) fn planned(&self, place: usize) -> &[PodIndex] {
        self.planned.get(&place).map_or(&[], Vec::as_slice)
    }
}

/// A world in which nodes leave on trial.
pub(crate) struct Trial<'t, 's> {
    settled: &'t Settled<'s>,
    pub(super) world: World<'s>,
    /// Pods that had to leave their nodes.
    gone: Vec<PodIndex>,
    /// Pods without a place, by class.
    waiting: FxHashMap<ClassId, u32>,
    /// A class that found no place when last asked.
    stuck: Option<ClassId>,
}

/// A point to return to.
pub(crate) struct Point {
    mark: Mark,
    gone: usize,
    waiting: FxHashMap<ClassId, u32>,
}

impl Trial<'_, '_> {
    pub(crate) fn point(&self) -> Point {
        Point { mark: self.world.mark(), gone: self.gone.len(), waiting: self.waiting.clone() }
    }

    pub(crate) fn return_to(&mut self, point: &Point) {
        self.world.undo(&point.mark);
        self.gone.truncate(point.gone);
        self.waiting.clone_from(&point.waiting);
    }

    /// Takes a node away; its pods, those planned for it and those it got in this trial wait for a place.
    pub(crate) fn remove(&mut self, place: usize, pods: &[PodIndex]) {
        let stage = self.settled.stage;
        self.stuck = None;
        for share in self.world.remove_place(place) {
            *self.waiting.entry(share.class).or_default() += share.count;
        }
        for pod in pods.iter().chain(self.settled.planned(place)) {
            *self.waiting.entry(stage.class_of[*pod as usize]).or_default() += 1;
            self.gone.push(*pod);
        }
    }

    /// Finds places for the pods that wait; false when some have none.
    pub(crate) fn place(&mut self, way: Way) -> bool {
        let stage = self.settled.stage;
        let mut queue = stage.queue(self.waiting.drain());
        if way == Way::ScarceFirst {
            let fitting = &self.settled.fitting;
            queue.make_contiguous().sort_by_key(|(class, _)| fitting.count(&self.world, *class));
        }
        self.world.expect(&queue);
        let finder = Finder::Shared(&self.settled.fitting);
        let left = match way {
            Way::Existing => self.place_on_existing(queue),
            Way::FewestPods => {
                self.world.tuning = Tuning::default();
                queue::drain_with(&mut self.world, Join::FewestPods, queue, finder)
            }
            Way::LeastIncrease | Way::ScarceFirst => {
                self.world.tuning = Tuning { cheapest_pool: true, ..Tuning::default() };
                queue::drain_with(&mut self.world, Join::LeastIncrease, queue, finder)
            }
            Way::Packed(number) => return self.pack(queue, number),
        };
        self.all_placed(&left)
    }

    fn all_placed(&mut self, left: &[Share]) -> bool {
        self.stuck = left.first().map(|share| share.class).or(self.stuck);
        left.is_empty()
    }

    /// One of these pods that found no place.
    pub(crate) fn stuck(&self, pods: &[PodIndex]) -> Option<PodIndex> {
        let class = self.stuck?;
        pods.iter().copied().find(|pod| self.settled.stage.class_of[*pod as usize] == class)
    }

    /// Every pod on an existing node, or none of them counts.
    fn place_on_existing(&mut self, queue: VecDeque<(ClassId, u32)>) -> Vec<Share> {
        self.world.tuning = Tuning::default();
        let mut left = Vec::new();
        for (class, count) in queue {
            for _ in 0..count {
                if !self.place_one(class) {
                    left.push(Share { class, level: 0, count: 1 });
                    return left;
                }
            }
        }
        left
    }

    fn place_one(&mut self, id: ClassId) -> bool {
        let mut finder = Finder::Shared(&self.settled.fitting);
        let class = self.world.class(id);
        for (number, level) in class.levels.iter().enumerate() {
            if level.conditions.is_none() {
                continue;
            }
            if let Some(place) = finder.first(&self.world, id, number) {
                self.world.commit(id, number as u8, Target::Place(place));
                return true;
            }
        }
        false
    }

    fn pack(&mut self, queue: VecDeque<(ClassId, u32)>, number: u8) -> bool {
        let tactics = match number {
            0 => Tactics { filling: Filling::Largest, sizes: 40, share: 1.0 },
            1 => Tactics { filling: Filling::Balanced, sizes: 40, share: 1.4 },
            _ => Tactics { filling: Filling::Largest, sizes: 40, share: 4.0 },
        };
        self.world.tuning = Tuning {
            cheapest_domain: number == 2,
            settles_doubt: true,
            cheapest_pool: true,
            ..Tuning::default()
        };
        let fitting = &self.settled.fitting;
        let beside = &self.settled.stage.beside;
        let (first, rest) = queue.into_iter().partition(|(class, _)| beside[*class as usize]);
        let left = queue::drain_with(&mut self.world, Join::LeastIncrease, first, Finder::Shared(fitting));
        if !left.is_empty() {
            return false;
        }
        let (lots, left) = lots::assign_with(&mut self.world, rest, Finder::Shared(fitting));
        if !left.is_empty() {
            return false;
        }
        packing::pack(&mut self.world, lots, tactics);
        limits::keep(&mut self.world)
    }

    /// Joins new nodes where that costs no more. Nothing can be placed afterwards.
    pub(crate) fn join_new_nodes(&mut self) {
        merging::merge(&mut self.world);
    }

    /// The nodes that would have to be created.
    pub(crate) fn new_nodes(&self) -> usize {
        self.world.bins.len()
    }

    /// What the new nodes cost, each at its cheapest.
    pub(crate) fn price(&self) -> f64 {
        self.world.bins.iter().map(|bin: &Bin| bin.price).sum()
    }

    /// Writes down where the pods went.
    pub(crate) fn written(&self) -> Placed {
        let stage = self.settled.stage;
        let mut by_class: Vec<Vec<PodIndex>> = vec![Vec::new(); stage.problem.classes.len()];
        for pod in &self.gone {
            by_class[stage.class_of[*pod as usize] as usize].push(*pod);
        }
        by_class.iter_mut().for_each(|pods| pods.sort_unstable());
        let mut supply = PodSupply::of(by_class.iter().map(Vec::as_slice).collect());
        let mut existing: Vec<(Arc<str>, Vec<PodIndex>)> = Vec::new();
        for (place, used) in stage.problem.places.iter().zip(&self.world.places) {
            if !used.shares.is_empty() {
                let pods = used.shares.iter().flat_map(|share| supply.take(*share).to_vec()).collect();
                existing.push((place.node.name.clone(), pods));
            }
        }
        existing.sort_by(|a, b| a.0.cmp(&b.0));
        let claims = self.world.bins.iter().map(|bin| output::claim(&self.world, bin, &mut supply)).collect();
        Placed { claims, existing }
    }
}
