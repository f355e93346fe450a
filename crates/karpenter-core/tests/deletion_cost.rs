//! Which pods ReplicaSets should give up first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::cluster::{Node, Taint, TaintEffect};
use karpenter_core::disruption::{
    Budget, BudgetNodes, BudgetWindow, DisruptionOptions, DisruptionReason, PoolDisruption, deletion_costs,
};

use crate::disruption::{cluster, node, now};

fn budget(reason: DisruptionReason, nodes: u32) -> Budget {
    Budget { reasons: Some(vec![reason]), nodes: BudgetNodes::Count(nodes), window: BudgetWindow::Always }
}

/// What the nodes cost in a pool with these budgets.
fn costs(budgets: Vec<Budget>, nodes: Vec<Node>, kept: &[&str]) -> BTreeMap<String, i32> {
    let disruption = PoolDisruption { budgets, ..PoolDisruption::default() };
    let (snapshot, catalog) = cluster(disruption, |cores| cores as f64, nodes);
    let kept: BTreeSet<Arc<str>> = kept.iter().map(|name| Arc::from(*name)).collect();
    let found = deletion_costs(&snapshot, &catalog, &DisruptionOptions::default(), &kept, now());
    found.into_iter().map(|(node, cost)| (node.to_string(), cost)).collect()
}

fn expected(costs: &[(&str, i32)]) -> BTreeMap<String, i32> {
    costs.iter().map(|(node, cost)| ((*node).to_owned(), *cost)).collect()
}

fn drifted(mut node: Node) -> Node {
    node.life.drifted = Some(now());
    node
}

#[test]
fn nodes_that_go_come_first_then_drifted_ones_then_those_that_save_most() {
    let mut going = node("going", 4, &[1]);
    going.deleting = true;
    let mut fenced = node("fenced", 4, &[1]);
    let taint =
        Taint { key: "karpenter.sh/disrupted".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    fenced.taints.push(taint);
    let mut annotated = node("annotated", 8, &[1]);
    annotated.life.do_not_disrupt = true;
    let nodes = vec![
        going,
        fenced,
        annotated,
        node("dear", 16, &[1]),
        node("cheap", 2, &[1]),
        drifted(node("drifted", 2, &[1])),
    ];
    let wanted = [("going", i32::MIN), ("fenced", i32::MIN), ("drifted", -3), ("dear", -2), ("cheap", -1)];
    assert_eq!(costs(Vec::new(), nodes, &[]), expected(&wanted));
}

#[test]
fn only_as_many_as_budgets_let_go() {
    let nodes = || {
        vec![
            node("a", 16, &[1]),
            node("b", 8, &[1]),
            drifted(node("c", 4, &[1])),
            drifted(node("d", 2, &[1])),
        ]
    };
    let both = vec![budget(DisruptionReason::Drifted, 1), budget(DisruptionReason::Underutilized, 1)];
    assert_eq!(costs(both, nodes(), &[]), expected(&[("c", -2), ("a", -1)]));
    let none = vec![budget(DisruptionReason::Underutilized, 0), budget(DisruptionReason::Drifted, 0)];
    assert_eq!(costs(none, nodes(), &[]), expected(&[]));
}

#[test]
fn nodes_with_pods_nobody_makes_anew_say_nothing() {
    let nodes = vec![node("a", 8, &[1]), node("b", 4, &[1])];
    assert_eq!(costs(Vec::new(), nodes, &["a"]), expected(&[("b", -1)]));
}
