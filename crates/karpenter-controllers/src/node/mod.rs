//! The end of a node: pods leave, volumes leave, the machine stops, the object goes.

mod drain;
mod evictions;
mod health;
mod termination;

pub(crate) use drain::drain;
pub(crate) use evictions::Evictions;
pub(crate) use health::LegacyRepair;
pub(crate) use termination::Termination;
