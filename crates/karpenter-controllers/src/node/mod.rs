//! The end of a node: pods leave, volumes leave, the machine stops, the object goes.

mod drain;
mod termination;

pub(crate) use termination::Termination;
