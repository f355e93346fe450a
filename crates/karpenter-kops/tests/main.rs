//! kOps' groups in, Karpenter's objects out.

mod applied;
mod bucket;
mod created;
mod generated;
mod kops;
mod refused;
mod stores;
