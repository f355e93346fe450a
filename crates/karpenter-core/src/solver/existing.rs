//! Finding room on existing nodes: which nodes suit a class is found once, whether they still have room each time.

use super::classes::ClassId;
use super::world::World;

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
