//! A cloud on paper: what can be had at which price, and machines that come and go.
//!
//! The fronts that speak a cloud's wire protocol, and the KWOK provider, sell machines through a [`Market`]. What happens to machines
//! is told to whoever plays their nodes, as a [`MachineEvent`].

mod machines;
mod market;
mod moods;

pub use machines::{Boot, MachineEvent, Nobody, Taint, Watcher};
pub use market::{Market, Plenty};
pub use moods::{Capacity, CloudDescription, Interruption, Outage, Price, SimulatedCloud, Which, market};
