//! Amazon EC2 as a provider of machines.
//!
//! [`EC2NodeClass`] is how users say what machines look like; [`Aws`] is the provider. Decisions (what goes into a fleet, what an answer
//! means, what a template contains, what a message says, whether a machine has drifted) are functions of plain data; the parts that call
//! AWS are thin.

mod account;
mod book;
mod catalogue;
mod drift;
mod events;
mod instances;
mod interruption;
mod launch;
mod metrics;
mod names;
mod node_class;
mod provider;
mod repair;
mod start;
mod upkeep;

pub use account::Account;
pub use interruption::{Said, read_message};
pub use node_class::*;
pub use provider::{Aws, NODE_CLASSES, Settings};
pub use start::StartError;
pub use upkeep::prices::read as read_spot_prices;
