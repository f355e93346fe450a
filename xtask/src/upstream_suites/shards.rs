//! Which specs run together. A shard is one run of one suite; the longest spec decides how long all take.

/// One part of a suite.
#[derive(Clone, Copy)]
pub(super) struct Shard {
    pub(super) name: &'static str,
    pub(super) suite: &'static str,
    /// Regular expressions over the names of specs, which begin with the name of the suite.
    pub(super) focus: &'static str,
    pub(super) skip: &'static str,
    /// Minutes after which a shard is cut off.
    pub(super) minutes: u32,
}

const fn shard(
    name: &'static str,
    suite: &'static str,
    focus: &'static str,
    skip: &'static str,
    minutes: u32,
) -> Shard {
    Shard { name, suite, focus, skip, minutes }
}

/// All specs, the longest shards first.
pub(super) const SHARDS: [Shard; 14] = [
    shard("kubelet", "disruption", "Kubelet conditions", "", 45),
    shard("timeout", "regression", "registration timeout", "", 25),
    shard("drift-unregistered", "disruption", "never registers", "", 25),
    shard("drift-uninitialized", "disruption", "never initialized", "", 25),
    shard("integration", "regression", "Regression Integration|Regression DefaultTopology", "", 40),
    shard("static", "regression", "Regression StaticCapacity", "", 40),
    shard("chaos", "regression", "Regression Chaos", "", 25),
    shard("drift", "disruption", "Disruption Drift", "never registers|never initialized", 40),
    shard("buffer", "regression", "Regression CapacityBuffer", "", 40),
    shard("repair", "disruption", "Disruption Repair|Disruption TerminateFirst", "Kubelet conditions", 40),
    shard("terminate", "disruption", "Disruption Termination|Disruption Expiration", "", 40),
    shard("reboot", "disruption", "Disruption Reboot", "", 30),
    shard("scale", "regression", "Regression Performance", "", 30),
    shard("nodeclaim", "regression", "Regression NodeClaim", "registration timeout", 30),
];

/// Upstream's measurements of its controller, with limits of time, memory and processor. One after the other: the machine is what
/// is measured, and the controller has the port that the suite asks.
pub(super) const PERFORMANCE: [Shard; 7] = [
    shard("performance-basic", PERFORMANCE_SUITE, "Basic Deployment", "", 45),
    shard("performance-wide", PERFORMANCE_SUITE, "Wide Deployments", "", 60),
    shard("performance-spread", PERFORMANCE_SUITE, "Host Name Spreading Deployment Reg", "", 60),
    shard("performance-spread-xl", PERFORMANCE_SUITE, "Host Name Spreading Deployment XL", "", 90),
    shard("performance-anti-affinity", PERFORMANCE_SUITE, "Self Anti-Affinity", "", 60),
    shard("performance-do-not-disrupt", PERFORMANCE_SUITE, "Do Not Disrupt", "", 60),
    shard("performance-drift", PERFORMANCE_SUITE, "Drift Performance", "", 75),
];
/// The suite that looks at the controller's metrics through its pod.
pub(super) const PERFORMANCE_SUITE: &str = "performance";

/// The quickest specs of both suites.
pub(super) const QUICK: [Shard; 2] = [
    shard(
        "quick-regression",
        "regression",
        "Integration Validation|CRD Hash|StandaloneNodeClaim should (create a standard NodeClaim$|delete a NodeClaim if it references)|PodTemplate is updated|respect nodeSelector|create static NodeClaim propagating",
        "",
        10,
    ),
    shard(
        "quick-disruption",
        "disruption",
        "should terminate the node and the instance|budgets for empty drift|nodepool-hash-version",
        "",
        10,
    ),
];
