//! The core from outside: laws of the algebra, overlays, cluster events, and plans on random clusters.

mod cluster;
mod overlays;
mod provisioning;
mod requirements;
