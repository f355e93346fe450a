//! Finding room on existing nodes: which nodes suit a class is found once, whether they still have room each time.

use std::sync::OnceLock;

use super::classes::ClassId;
use super::resources::{Amounts, within};
use super::world::World;

/// Where nodes with room are looked up.
pub(crate) enum Finder<'f> {
    /// Of one run, which forgets nodes as they fill up.
    Own(Suited),
    /// Of many runs that start from the same world.
    Shared(&'f Fitting),
}

impl Finder<'_> {
    /// The first node, in order, that takes one more pod of the class.
    pub(crate) fn first(&mut self, world: &World<'_>, id: ClassId, number: usize) -> Option<usize> {
        match self {
            Self::Own(suited) => suited.first(world, id, number),
            Self::Shared(fitting) => fitting.first(world, id, number),
        }
    }
}

/// Existing nodes that suit each class at each level and have room in the world all runs start from. A run only takes room away.
pub(crate) struct Fitting {
    free: Vec<Amounts>,
    by_class: Vec<Vec<OnceLock<Vec<u32>>>>,
}

impl Fitting {
    pub(crate) fn new(world: &World<'_>) -> Self {
        let classes = world.problem.classes.iter();
        Self {
            free: world.places.iter().map(|place| place.free.clone()).collect(),
            by_class: classes.map(|class| class.levels.iter().map(|_| OnceLock::new()).collect()).collect(),
        }
    }

    fn first(&self, world: &World<'_>, id: ClassId, number: usize) -> Option<usize> {
        let class = world.class(id);
        let level = &class.levels[number];
        let fitting = self.places(world, id, number).iter();
        fitting.map(|place| *place as usize).find(|place| world.on_place(class, level, *place))
    }

    /// How many nodes take a pod of the class at its strictest.
    pub(crate) fn count(&self, world: &World<'_>, id: ClassId) -> usize {
        if world.class(id).levels.is_empty() { 0 } else { self.places(world, id, 0).len() }
    }

    fn places(&self, world: &World<'_>, id: ClassId, number: usize) -> &[u32] {
        let class = world.class(id);
        let level = &class.levels[number];
        self.by_class[id as usize][number].get_or_init(|| {
            (0..self.free.len())
                .filter(|place| {
                    within(&class.amounts, &self.free[*place]) && world.suits_place(class, level, *place)
                })
                .map(|place| place as u32)
                .collect()
        })
    }
}

/// Existing nodes that suit each class at each level.
pub(crate) struct Suited {
    by_class: Vec<Vec<Option<Vec<u32>>>>,
}

impl Suited {
    pub(crate) fn new(world: &World<'_>) -> Self {
        Self { by_class: world.problem.classes.iter().map(|class| vec![None; class.levels.len()]).collect() }
    }

    /// The first node, in order, that takes one more pod of the class.
    pub(crate) fn first(&mut self, world: &World<'_>, id: ClassId, number: usize) -> Option<usize> {
        let class = world.class(id);
        let level = &class.levels[number];
        let suited = self.by_class[id as usize][number].get_or_insert_with(|| {
            (0..world.places.len())
                .filter(|place| world.suits_place(class, level, *place))
                .map(|place| place as u32)
                .collect()
        });
        // Nodes only fill up: those without enough free resources never have to be looked at again.
        suited.retain(|place| world.has_room(class, *place as usize));
        suited.iter().map(|place| *place as usize).find(|place| world.on_place(class, level, *place))
    }
}
