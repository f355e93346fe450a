//! What the checker reports: one broken rule, on one subject, in one sentence.

use std::fmt;

/// A rule a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule, as a stable name.
    pub kind: ViolationKind,
    /// The pod, claim, node or node pool it is about.
    pub subject: String,
    /// What is wrong, for people.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(kind: ViolationKind, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Violation { kind, subject: subject.into(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}] {}", self.kind, self.subject, self.message)
    }
}

macro_rules! violation_kinds {
    ($($(#[$doc:meta])+ $variant:ident => $name:literal,)+) => {
        /// The rules the checker knows, one per way a plan can be wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ViolationKind { $($(#[$doc])+ $variant,)+ }

        impl ViolationKind {
            /// Every kind, in the order of the enum.
            pub const ALL: &'static [ViolationKind] = &[$(ViolationKind::$variant,)+];

            /// Returns the stable name used in reports.
            pub fn name(self) -> &'static str {
                match self { $(ViolationKind::$variant => $name,)+ }
            }
        }
    };
}

violation_kinds! {
    /// A pending pod appears nowhere in the plan, or more than once.
    Coverage => "coverage",
    /// The plan names a pod that is not pending.
    UnknownPod => "unknown-pod",
    /// The plan names a node pool that cannot be used.
    UnknownPool => "unknown-pool",
    /// The plan names an existing node that is not there, is being deleted, or appears twice.
    UnknownNode => "unknown-node",
    /// A claim lists no types, too many, or one that is unknown or repeated.
    TypeList => "type-list",
    /// A claim's types are not ordered by price and name.
    TypeOrder => "type-order",
    /// A claim's `cheapest` is not its cheapest offering.
    Cheapest => "cheapest",
    /// A claim's `requests` are not what its pods and daemons ask for.
    Requests => "requests",
    /// A claim's requirements admit something its node pool forbids.
    PoolRequirement => "pool-requirement",
    /// A claim requires a custom label its node pool does not define.
    UndefinedLabel => "undefined-label",
    /// A listed type contradicts the claim's requirements or has no offering for it.
    TypeRequirement => "type-requirement",
    /// `minValues` is not reached, or was lowered under the strict policy.
    MinValues => "min-values",
    /// A node pool's limits could be exceeded.
    Limits => "limits",
    /// A pod's node selector is not satisfied.
    NodeSelector => "node-selector",
    /// No term of a pod's required node affinity is satisfied.
    NodeAffinity => "node-affinity",
    /// A pod whose own node requirements contradict each other was placed.
    Contradiction => "contradiction",
    /// A pod does not tolerate a taint.
    Taint => "taint",
    /// Pods and daemons ask for more than the node has.
    Resources => "resources",
    /// Two pods want the same host port.
    HostPort => "host-port",
    /// A pod's volume cannot be reached from the node.
    Volume => "volume",
    /// A pod was placed that should have been rejected before scheduling.
    NotAdmissible => "not-admissible",
    /// A pod was rejected before scheduling without a cause.
    IgnoredWithoutCause => "ignored-without-cause",
    /// A spread constraint's skew is exceeded, whatever the order of placement.
    Spread => "spread",
    /// A pod with a spread constraint is on a claim that may land in several domains, or in none.
    SpreadDomain => "spread-domain",
    /// Required pod affinity cannot have been satisfied in any order of placement.
    Affinity => "affinity",
    /// Two pods that must keep apart share a domain, or may come to.
    AntiAffinity => "anti-affinity",
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
