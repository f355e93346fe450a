//! The Alibaba Cloud provider: ECSNodeClass in every API group in use, what ECS sells, launches and interruptions.

pub mod catalogue;
pub mod controllers;
pub mod drift;
pub mod instances;
pub mod interruption;
pub mod launch;
pub mod machine;
pub mod market;
mod metrics;
pub mod node_class;
pub mod ownership;
pub mod provider;
pub mod refresh;
pub mod rights;
pub mod upkeep;

pub use provider::{AlibabaCloud, Settings};
pub use rights::policy_document;
