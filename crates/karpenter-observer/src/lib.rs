//! Watches a cluster as any client may, and says whether budgets, PodDisruptionBudgets and `karpenter.sh/do-not-disrupt` were kept.
//!
//! It judges those who disrupt, so it shares no line with them: objects are JSON, every rule is restated in [`History::violations`], and all it knows of
//! a decision is what the API server's watch tells afterwards. Tests attach an [`Observer`] to the cluster they play with; what it has seen is a
//! [`History`], which tests can also write by hand to show that every rule can be broken.

mod budgets;
mod cluster;
mod fields;
mod history;
mod rules;
mod watch;

pub use history::{Disruption, History, Seen};
pub use rules::{Rule, Violation};
pub use watch::Observer;
