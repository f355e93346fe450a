//! The core from outside: laws of the algebra, overlays, cluster events, disruption, sweeps, and plans on random clusters.

mod cluster;
mod deletion_cost;
mod disruption;
mod overlays;
mod provisioning;
mod quiescence;
mod requirements;
mod terminate_first;

use proptest::test_runner::{Config, RngSeed};

/// So many random cases, the same on every run. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` ask for more and for others.
fn repeatable(cases: u32) -> Config {
    let asked = Config::default();
    let is_asked = |variable| std::env::var_os(variable).is_some();
    Config {
        cases: if is_asked("PROPTEST_CASES") { asked.cases } else { cases },
        rng_seed: if is_asked("PROPTEST_RNG_SEED") { asked.rng_seed } else { RngSeed::Fixed(1) },
        failure_persistence: None,
        ..asked
    }
}
