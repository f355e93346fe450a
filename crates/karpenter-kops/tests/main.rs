//! kOps' groups in, Karpenter's objects out.

mod generated;
mod kops;
mod refused;
mod stores;
