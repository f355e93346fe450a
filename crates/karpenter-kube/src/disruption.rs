//! How the nodes of a pool may be disrupted: consolidation and budgets.

use jiff::SignedDuration;
use karpenter_api::nodepool::{self, Disruption};
use karpenter_core::disruption::{
    Budget, BudgetNodes, BudgetWindow, ConsolidationPolicy, DisruptionReason, PoolDisruption, Schedule,
};

/// The settings as the core sees them. A budget that cannot be read allows nothing.
pub fn pool_disruption(object: &Disruption) -> PoolDisruption {
    PoolDisruption {
        consolidate_after: object.consolidate_after.as_ref().and_then(karpenter_api::NillableDuration::value),
        policy: match &object.consolidation_policy {
            Some(nodepool::ConsolidationPolicy::WhenEmpty) => ConsolidationPolicy::WhenEmpty,
            Some(nodepool::ConsolidationPolicy::Balanced) => ConsolidationPolicy::Balanced,
            _ => ConsolidationPolicy::WhenEmptyOrUnderutilized,
        },
        budgets: object.budgets.iter().flatten().map(budget).collect(),
        ..PoolDisruption::default()
    }
}

fn budget(object: &nodepool::Budget) -> Budget {
    Budget {
        reasons: object.reasons.as_ref().map(|reasons| reasons.iter().filter_map(reason).collect()),
        nodes: BudgetNodes::parse(&object.nodes),
        window: window(object),
    }
}

fn reason(word: &nodepool::DisruptionReason) -> Option<DisruptionReason> {
    match word {
        nodepool::DisruptionReason::Underutilized => Some(DisruptionReason::Underutilized),
        nodepool::DisruptionReason::Empty => Some(DisruptionReason::Empty),
        nodepool::DisruptionReason::Drifted => Some(DisruptionReason::Drifted),
        nodepool::DisruptionReason::Unhealthy => Some(DisruptionReason::Unhealthy),
        nodepool::DisruptionReason::Unknown(_) => None,
    }
}

fn window(object: &nodepool::Budget) -> BudgetWindow {
    if object.schedule.is_none() && object.duration.is_none() {
        return BudgetWindow::Always;
    }
    let schedule = object.schedule.as_deref().and_then(Schedule::parse);
    let duration = object.duration.as_ref().map_or(SignedDuration::ZERO, karpenter_api::GoDuration::value);
    schedule.map_or(BudgetWindow::Unreadable, |schedule| BudgetWindow::Recurring { schedule, duration })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn budgets_keep_their_reasons_numbers_and_windows() {
        let object: Disruption = serde_json::from_value(json!({
            "consolidateAfter": "30s",
            "consolidationPolicy": "Balanced",
            "budgets": [
                { "nodes": "10%" },
                { "nodes": "0", "reasons": ["Drifted"], "schedule": "0 9 * * *", "duration": "8h" },
                { "nodes": "1", "schedule": "whenever", "duration": "8h" },
            ],
        }))
        .unwrap();
        let read = pool_disruption(&object);
        assert_eq!(read.consolidate_after, Some(SignedDuration::from_secs(30)));
        assert_eq!(read.policy, ConsolidationPolicy::Balanced);
        assert_eq!(read.budgets[0].nodes, BudgetNodes::Percent(10));
        assert_eq!(read.budgets[0].window, BudgetWindow::Always);
        assert_eq!(read.budgets[1].reasons.as_deref(), Some(&[DisruptionReason::Drifted][..]));
        assert!(matches!(read.budgets[1].window, BudgetWindow::Recurring { .. }));
        assert_eq!(read.budgets[2].window, BudgetWindow::Unreadable);
    }

    #[test]
    fn consolidation_that_nobody_asked_for_never_happens() {
        assert_eq!(pool_disruption(&Disruption::default()).consolidate_after, None);
        let never: Disruption = serde_json::from_value(json!({ "consolidateAfter": "Never" })).unwrap();
        assert_eq!(pool_disruption(&never).consolidate_after, None);
    }
}
