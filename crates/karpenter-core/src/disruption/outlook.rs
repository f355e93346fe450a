//! Why a node is not disrupted now, as data and as a sentence.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::budget::{Allowance, DisruptionReason};
use super::plan::DisruptionMethod;
use super::rollout::RolloutPause;

/// What a node's future looks like.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outlook", rename_all_fields = "camelCase")]
pub enum Outlook {
    /// A command disrupts it.
    Planned {
        /// The method that found it, the first one if several did.
        method: DisruptionMethod,
    },
    /// Karpenter does not manage it.
    NotManaged,
    /// It is not up yet.
    NotInitialized,
    /// It is being rebooted.
    Rebooting,
    /// It is already on its way out.
    Leaving,
    /// Pods are expected on it soon.
    Nominated,
    /// It is empty because a CapacityBuffer keeps it free.
    HoldsBuffer,
    /// Its own annotation forbids it.
    DoNotDisrupt,
    /// Its NodePool is not there, is static, or has no instance types.
    UnknownNodePool {
        /// The pool it names.
        node_pool: Arc<str>,
    },
    /// It is broken, and its own annotation forbids repair.
    DoNotRepair,
    /// It is broken, but so much of its NodePool is that nothing is repaired.
    RepairsStopped {
        /// Broken nodes of the pool.
        unhealthy: u32,
        /// All nodes of the pool.
        nodes: u32,
    },
    /// Its NodePool has a fixed number of nodes, and it is what the pool asks for.
    Static,
    /// Its NodePool has more nodes than it should; that is seen to first.
    ScalingDown,
    /// It is to be replaced, and its NodePool's roll-out makes it wait.
    RolloutPaused {
        /// Why.
        pause: RolloutPause,
    },
    /// All voluntary disruption is switched off.
    SwitchedOff,
    /// Its static NodePool can be launched in reservations only, and all of them are full.
    ReservationsFull,
    /// Its static NodePool has as many nodes as `limits.nodes` allows, so no replacement can come up beside it.
    AtNodeLimit,
    /// A pod on it refuses.
    PodDoNotDisrupt {
        /// The pod.
        pod: String,
    },
    /// A PodDisruptionBudget allows no eviction now.
    PodDisruptionBudget {
        /// The pod.
        pod: String,
        /// The budget.
        budget: String,
    },
    /// Several budgets cover one pod, which makes evicting it impossible.
    SeveralPodDisruptionBudgets {
        /// The pod.
        pod: String,
        /// The budgets.
        budgets: Vec<String>,
    },
    /// Its pool is never consolidated.
    ConsolidationOff,
    /// Its pool is consolidated only where nodes are empty, and it is not.
    NotEmpty,
    /// Pods came or went too recently.
    TooYoung {
        /// When it becomes eligible.
        until: Timestamp,
    },
    /// A pod on it is so new that it is not moved yet, by the pool's own wish.
    PodResidency {
        /// The newest such pod.
        pod: String,
        /// When it may be moved.
        until: Timestamp,
    },
    /// It could go, but that would save less than the pool asks for.
    SavingTooSmall {
        /// What would be saved per hour.
        savings: f64,
        /// What would be enough.
        needed: f64,
    },
    /// Nobody knows what it costs.
    UnknownPrice {
        /// The label that is missing or names something unknown.
        label: Arc<str>,
    },
    /// Its pool's budgets allow no more.
    Budget {
        /// The reason the budgets were asked for.
        reason: DisruptionReason,
        /// Nodes that may be disrupted at once.
        allowed: u32,
        /// Nodes that already are, or are broken.
        disrupting: u32,
        /// When more may be allowed, as far as budgets say.
        #[serde(skip_serializing_if = "Option::is_none")]
        opens: Option<Timestamp>,
    },
    /// Some of its pods would have no place.
    NoPlace {
        /// One of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pod: Option<String>,
    },
    /// Its pods would need several new nodes.
    SeveralNewNodes {
        /// How many.
        nodes: usize,
    },
    /// Nothing that carries its pods is surely cheaper.
    NoCheaper {
        /// What it costs per hour.
        price: f64,
    },
    /// Too few different kinds of machine are cheaper for the pool's `minValues`.
    MinValues,
    /// It is a spot node, and spot nodes are not replaced by spot nodes.
    SpotToSpotOff,
    /// It is a spot node, and too few types are cheaper.
    TooFewSpotTypes {
        /// How many types there have to be.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// Its pool weighs savings against disturbance, and the saving is too small.
    NotWorthIt {
        /// The saving's share over the disturbance's share.
        score: f64,
        /// What would be enough.
        threshold: f64,
    },
    /// It could be disrupted; a better move comes first.
    Next {
        /// What would be saved per hour.
        savings: f64,
    },
    /// No method that was asked looks at it.
    NotAsked,
}

/// The outlook of a node whose pool's budgets allow no more.
pub(crate) fn over_budget(reason: DisruptionReason, allowance: Option<Allowance>) -> Outlook {
    let allowance = allowance.unwrap_or(Allowance { allowed: 0, disrupting: 0, opens: None });
    Outlook::Budget {
        reason,
        allowed: allowance.allowed,
        disrupting: allowance.disrupting,
        opens: allowance.opens,
    }
}

impl Outlook {
    /// What is said of the outlooks that need no names and numbers.
    fn phrase(&self) -> &'static str {
        match self {
            Self::NotManaged => "is not managed by Karpenter",
            Self::NotInitialized => "is not initialised yet",
            Self::Rebooting => "is being rebooted",
            Self::Leaving => "is already being removed",
            Self::Nominated => "is about to get pods",
            Self::HoldsBuffer => "keeps room for a CapacityBuffer",
            Self::DoNotDisrupt => "carries the annotation karpenter.sh/do-not-disrupt",
            Self::DoNotRepair => "is broken and carries the annotation karpenter.sh/do-not-repair",
            Self::Static => {
                "belongs to a NodePool with a fixed number of nodes and is what that pool asks for"
            }
            Self::ScalingDown => "waits until its NodePool is down to its replicas",
            Self::AtNodeLimit => {
                "cannot be replaced: its NodePool is at limits.nodes; raise the limit, or switch on TerminateFirstDrift or TerminateFirstRepair"
            }
            Self::SwitchedOff => {
                "stays: voluntary disruption is switched off (--disable-voluntary-disruption)"
            }
            Self::ReservationsFull => {
                "cannot be replaced: its NodePool launches in reservations only, all are full, and it holds no slot of one in force"
            }
            Self::ConsolidationOff => "belongs to a NodePool with consolidateAfter: Never",
            Self::NotEmpty => "is not empty, and its NodePool consolidates WhenEmpty only",
            Self::NoPlace { pod: None } => "runs pods that would find no other place",
            Self::MinValues => "has cheaper alternatives, but too few for its NodePool's minValues",
            Self::SpotToSpotOff => {
                "is a spot node; replacing it by a spot node needs SpotToSpotConsolidation"
            }
            _ => "was looked at by none of the methods",
        }
    }
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planned { method } => write!(f, "is to be disrupted by {method:?}"),
            Self::UnknownNodePool { node_pool } => {
                write!(
                    f,
                    "belongs to NodePool {node_pool}, which is missing, static or without instance types"
                )
            }
            Self::RepairsStopped { unhealthy, nodes } => write!(
                f,
                "is not repaired: {unhealthy} of {nodes} nodes of its NodePool are broken, which points to another cause"
            ),
            Self::PodDoNotDisrupt { pod } => {
                write!(f, "runs pod {pod}, which carries karpenter.sh/do-not-disrupt")
            }
            Self::PodDisruptionBudget { pod, budget } => {
                write!(f, "runs pod {pod}, which PodDisruptionBudget {budget} does not let go now")
            }
            Self::SeveralPodDisruptionBudgets { pod, budgets } => write!(
                f,
                "runs pod {pod}, which cannot be evicted because several PodDisruptionBudgets cover it: {}",
                budgets.join(", ")
            ),
            Self::RolloutPaused { pause } => write!(f, "waits{pause}"),
            Self::TooYoung { until } => {
                write!(f, "saw pods come or go recently; consolidateAfter ends at {until}")
            }
            Self::PodResidency { pod, until } => {
                write!(f, "runs pod {pod}, which its NodePool does not let move before {until}")
            }
            Self::SavingTooSmall { savings, needed } => {
                write!(f, "could go and save {savings:.4} per hour; its NodePool asks for {needed:.4}")
            }
            Self::UnknownPrice { label } => write!(f, "has no known price: look at its label {label}"),
            Self::Budget { reason, allowed, disrupting, opens } => {
                write!(
                    f,
                    "has to wait: the NodePool's budgets allow {allowed} {reason:?} at once, {disrupting} already are"
                )?;
                opens.iter().try_for_each(|opens| write!(f, "; the budget in force ends at {opens}"))
            }
            Self::NoPlace { pod: Some(pod) } => write!(f, "runs pod {pod}, which would find no other place"),
            Self::SeveralNewNodes { nodes } => write!(f, "cannot go without {nodes} new nodes"),
            Self::NoCheaper { price } => {
                write!(f, "costs {price} per hour, and nothing that carries its pods is surely cheaper")
            }
            Self::TooFewSpotTypes { needed, found } => {
                write!(f, "is a spot node with {found} cheaper instance types; {needed} are needed")
            }
            Self::NotWorthIt { score, threshold } => {
                write!(f, "would save too little for the disturbance: {score:.2}, less than {threshold:.2}")
            }
            Self::Next { savings } => {
                write!(f, "could go and save {savings} per hour; a better move comes first")
            }
            plain => f.write_str(plain.phrase()),
        }
    }
}
