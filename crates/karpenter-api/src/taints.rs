//! Taints the controller sets, and taints of young nodes that it expects to vanish by themselves.

use k8s_openapi::api::core::v1::Taint;

/// Key of the taint that keeps new pods away from a node being disrupted or terminated.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Key of the taint a new node joins with until it is registered.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// Key of the taint that fences a node while it reboots.
pub const REBOOTING: &str = "karpenter.sh/rebooting";

/// New pods stay away.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// New pods stay away if there is room elsewhere.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Running pods leave too.
pub const NO_EXECUTE: &str = "NoExecute";
/// Every effect a taint can have.
pub const EFFECTS: &[&str] = &[NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE];

/// Key and effect of the taints every node may carry while it starts.
pub const KNOWN_EPHEMERAL: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", NO_SCHEDULE),
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_SCHEDULE),
    ("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE),
    (UNREGISTERED, NO_EXECUTE),
];

/// Prefixes of taint keys that controllers remove once a node is ready for work.
pub const KNOWN_EPHEMERAL_PREFIXES: &[&str] = &["readiness.k8s.io/"];

/// Returns the taint of a node being disrupted or terminated.
pub fn disrupted() -> Taint {
    taint(DISRUPTED, NO_SCHEDULE)
}

/// Returns the taint of a node that is not registered yet.
pub fn unregistered() -> Taint {
    taint(UNREGISTERED, NO_EXECUTE)
}

/// Returns the taint of a node that reboots.
pub fn rebooting() -> Taint {
    taint(REBOOTING, NO_SCHEDULE)
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}

/// Says whether a taint is expected to vanish while a node starts, whatever its value.
pub fn is_known_ephemeral(taint: &Taint) -> bool {
    KNOWN_EPHEMERAL.contains(&(taint.key.as_str(), taint.effect.as_str()))
        || KNOWN_EPHEMERAL_PREFIXES.iter().any(|prefix| taint.key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_up_taints_are_recognised_by_key_and_effect() {
        assert!(is_known_ephemeral(&unregistered()));
        assert!(is_known_ephemeral(&taint("node.kubernetes.io/not-ready", NO_EXECUTE)));
        assert!(is_known_ephemeral(&taint("readiness.k8s.io/network", NO_SCHEDULE)));
        assert!(!is_known_ephemeral(&taint("node.kubernetes.io/unreachable", NO_EXECUTE)));
        assert!(!is_known_ephemeral(&taint("example.com/readiness.k8s.io", NO_SCHEDULE)));
        assert!(!is_known_ephemeral(&disrupted()));
        assert!(!is_known_ephemeral(&rebooting()));
    }
}
