//! kOps' groups in, Karpenter's objects out.

mod applied;
mod created;
mod generated;
mod kops;
mod refused;
mod stores;
