//! Budgets: whether any node may ever be disrupted, and whether a schedule means what it says.

use jiff::{SignedDuration, Timestamp};
use karpenter_api::NodePool;
use karpenter_core::disruption::{Budget, BudgetNodes, BudgetWindow, DisruptionReason, Schedule};
use karpenter_kube::disruption::pool_disruption;

use crate::finding::{Code, Finding, Object};

/// The reasons that budgets are about.
const REASONS: [DisruptionReason; 3] =
    [DisruptionReason::Empty, DisruptionReason::Underutilized, DisruptionReason::Drifted];
/// How far ahead windows are looked at: long enough for every day of a year.
const HORIZON: SignedDuration = SignedDuration::from_hours(24 * 400);
/// How many windows of one budget are looked at: ten days of a budget that opens every minute.
const WINDOWS: usize = 15_000;

pub(crate) fn check(pool: &NodePool, now: Timestamp, object: &Object) -> Vec<Finding> {
    let defaulted = pool.clone().defaulted();
    let Some(written) = defaulted.spec.disruption.as_ref() else { return Vec::new() };
    let budgets = pool_disruption(written).budgets;
    let mut findings: Vec<Finding> = budgets
        .iter()
        .enumerate()
        .filter_map(|(index, budget)| check_schedule(budget, index, now, object))
        .collect();
    let unreadable = findings.iter().any(|finding| finding.code == Code::BudgetUnreadable);
    if !unreadable && REASONS.iter().all(|reason| is_closed_for_ever(&budgets, *reason, now)) {
        findings.push(Finding::new(
            Code::BudgetNeverOpens,
            object,
            "spec.disruption.budgets",
            "at every time some budget allows no node to be disrupted: nothing is consolidated and drifted nodes stay",
            "let a budget allow at least 1 node, or bind the budget of 0 to a schedule and a duration",
        ));
    }
    let has_window = |budget: &Budget| matches!(budget.window, BudgetWindow::Recurring { .. });
    if !budgets.is_empty() && budgets.iter().all(has_window) && findings.is_empty() {
        findings.push(Finding::new(
            Code::BudgetUnboundedOutside,
            object,
            "spec.disruption.budgets",
            "every budget has a schedule; a budget restricts while it is in force, so at all other times any number of nodes may be disrupted at once",
            "add a budget without a schedule, such as nodes: 10%",
        ));
    }
    findings
}

fn check_schedule(budget: &Budget, index: usize, now: Timestamp, object: &Object) -> Option<Finding> {
    let field = format!("spec.disruption.budgets[{index}]");
    let read_as_zero = "no node may be disrupted until it is corrected";
    match &budget.window {
        BudgetWindow::Unreadable => Some(Finding::new(
            Code::BudgetUnreadable,
            object,
            format!("{field}.schedule"),
            format!("the schedule is no cron expression, so {read_as_zero}"),
            "write five fields (minute hour day month weekday, in UTC) or @daily and the like",
        )),
        _ if budget.nodes == BudgetNodes::Unreadable => Some(Finding::new(
            Code::BudgetUnreadable,
            object,
            format!("{field}.nodes"),
            format!("it is neither a number nor a percentage, so {read_as_zero}"),
            "write a number of nodes or a percentage, such as 5 or 10%",
        )),
        BudgetWindow::Recurring { schedule, .. } if schedule.next_after(now).is_none() => Some(Finding::new(
            Code::BudgetNeverInForce,
            object,
            format!("{field}.schedule"),
            "the schedule names a date that does not occur, so the budget has no effect",
            "correct day and month of the schedule",
        )),
        _ => None,
    }
}

/// Whether at all times some budget of `reason` allows no node.
fn is_closed_for_ever(budgets: &[Budget], reason: DisruptionReason, now: Timestamp) -> bool {
    let binds = |budget: &&Budget| budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason));
    let allows_none = |budget: &&Budget| {
        matches!(budget.nodes, BudgetNodes::Count(0) | BudgetNodes::Percent(0) | BudgetNodes::Unreadable)
    };
    let closed: Vec<&BudgetWindow> =
        budgets.iter().filter(binds).filter(allows_none).map(|budget| &budget.window).collect();
    // Time without such a budget begins where one of them ends, so these are the only times to look at.
    let ends = closed.iter().flat_map(|window| ends(window, now));
    std::iter::once(now).chain(ends).all(|time| closed.iter().any(|window| is_in_force(window, time)))
}

fn is_in_force(window: &BudgetWindow, time: Timestamp) -> bool {
    match window {
        BudgetWindow::Always | BudgetWindow::Unreadable => true,
        BudgetWindow::Recurring { schedule, duration } => {
            let earliest = time.checked_sub(*duration).ok();
            earliest.and_then(|earliest| schedule.next_after(earliest)).is_some_and(|opened| opened <= time)
        }
    }
}

/// When the windows end, as far ahead as is looked.
fn ends(window: &BudgetWindow, now: Timestamp) -> Vec<Timestamp> {
    let BudgetWindow::Recurring { schedule, duration } = window else { return Vec::new() };
    let horizon = now.checked_add(HORIZON).unwrap_or(Timestamp::MAX);
    openings(schedule, now)
        .take(WINDOWS)
        .take_while(|opened| *opened < horizon)
        .filter_map(|opened| opened.checked_add(*duration).ok())
        .collect()
}

fn openings(schedule: &Schedule, now: Timestamp) -> impl Iterator<Item = Timestamp> {
    std::iter::successors(schedule.next_after(now), move |opened| schedule.next_after(*opened))
}
