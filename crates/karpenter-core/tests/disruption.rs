//! Disruption on small clusters: who may go, who must stay, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::catalog::{
    CAPACITY_TYPE, Catalog, HOSTNAME, INSTANCE_TYPE, InstanceType, NODE_POOL, Offering, Overlaid, ZONE,
};
use karpenter_core::cluster::{
    ClusterSnapshot, LabelRules, Labels, Node, NodeLife, NodePool, NodeStage, Pod, PodId, PodOwner, PodPhase,
    PodSpec,
};
use karpenter_core::disruption::{
    Budget, BudgetNodes, DisruptionMethod, MinimumSaving, Outlook, PoolDisruption, RepairKind, RepairNeed,
    StaticPool, scale_down_order,
};
use karpenter_core::requirements::{RequirementSet, ValueSet};
use karpenter_core::{DisruptionOptions, DisruptionPlan, plan_disruption};
use karpenter_quantity::{CPU, PODS, Quantity, ResourceList};

pub(crate) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().expect("an instant")
}

fn cores(count: i64) -> ResourceList {
    [(CPU, Quantity::from_units(count)), (PODS, Quantity::from_units(20))].into_iter().collect()
}

/// A machine with so many cores at this price, on demand in zone a.
pub(crate) fn instance_type(count: i64, price: f64) -> Arc<InstanceType> {
    let name: Arc<str> = format!("m{count}").into();
    let mut requirements = RequirementSet::default();
    requirements.add(INSTANCE_TYPE.into(), &ValueSet::only([name.clone()]));
    let mut place = RequirementSet::default();
    place.add(ZONE.into(), &ValueSet::only(["a"]));
    place.add(CAPACITY_TYPE.into(), &ValueSet::only(["on-demand"]));
    for (key, set) in place.iter() {
        requirements.add(key.clone(), set);
    }
    Arc::new(InstanceType {
        name,
        requirements,
        offerings: vec![Offering {
            requirements: place.into(),
            price,
            available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
        }],
        capacity: cores(count),
        overhead: ResourceList::new(),
        volume_limits: BTreeMap::new(),
        overlaid: Overlaid::default(),
    })
}

fn pod(name: &str, count: i64) -> Pod {
    let requests =
        [(CPU, Quantity::from_units(count)), (PODS, Quantity::from_units(1))].into_iter().collect();
    Pod {
        id: PodId { namespace: "default".into(), name: name.into(), uid: name.into() },
        labels: Arc::new(Labels::new()),
        spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
        created: now(),
        priority: 0,
        owner: PodOwner::Workload,
        phase: PodPhase::Running,
        terminating: false,
        do_not_disrupt: false,
        disruption_cost: 0,
        volumes: Vec::new(),
    }
}

/// A node with so many cores and one pod for each of the numbers.
pub(crate) fn node(name: &str, count: i64, pods: &[i64]) -> Node {
    let label = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
    let named = |(index, size): (usize, &i64)| Arc::new(pod(&format!("{name}-{index}"), *size));
    Node {
        name: name.into(),
        node_pool: Some("pool".into()),
        stage: NodeStage::Initialized,
        labels: Arc::new(
            [
                label(HOSTNAME, name),
                label(NODE_POOL, "pool"),
                label(INSTANCE_TYPE, &format!("m{count}")),
                label(ZONE, "a"),
                label(CAPACITY_TYPE, "on-demand"),
            ]
            .into(),
        ),
        taints: Vec::new(),
        capacity: cores(count),
        allocatable: cores(count),
        created: "2026-01-01T00:00:00Z".parse().expect("an instant"),
        deleting: false,
        volume_limits: BTreeMap::new(),
        life: NodeLife::default(),
        pods: pods.iter().enumerate().map(named).collect(),
    }
}

pub(crate) fn planned(nodes: Vec<Node>, options: &DisruptionOptions) -> DisruptionPlan {
    planned_in(PoolDisruption::default(), nodes, options)
}

/// A plan where a machine with so many cores costs what `price` says.
pub(crate) fn planned_at(
    price: fn(i64) -> f64,
    nodes: Vec<Node>,
    options: &DisruptionOptions,
) -> DisruptionPlan {
    planned_from(PoolDisruption::default(), price, nodes, options)
}

/// A plan for a pool that is consolidated at once and otherwise disrupted as said.
fn planned_in(disruption: PoolDisruption, nodes: Vec<Node>, options: &DisruptionOptions) -> DisruptionPlan {
    planned_from(disruption, |cores| cores as f64, nodes, options)
}

fn planned_from(
    disruption: PoolDisruption,
    price: fn(i64) -> f64,
    nodes: Vec<Node>,
    options: &DisruptionOptions,
) -> DisruptionPlan {
    let (snapshot, catalog) = cluster(disruption, price, nodes);
    plan_disruption(&snapshot, &catalog, options, now())
}

/// A cluster with one pool that is consolidated at once and otherwise disrupted as said.
pub(crate) fn cluster(
    disruption: PoolDisruption,
    price: fn(i64) -> f64,
    nodes: Vec<Node>,
) -> (ClusterSnapshot, Catalog) {
    let disruption = PoolDisruption { consolidate_after: Some(SignedDuration::ZERO), ..disruption };
    let labels = [(Arc::from(NODE_POOL), Arc::from("pool"))].into();
    let pool = NodePool { name: "pool".into(), labels, disruption, ..NodePool::default() };
    let well_known = [ZONE, CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, HOSTNAME].map(Arc::from).into();
    let snapshot = ClusterSnapshot {
        node_pools: vec![Arc::new(pool)],
        nodes: nodes.into_iter().map(Arc::new).collect(),
        label_rules: Arc::new(LabelRules { well_known, ..LabelRules::default() }),
        ..ClusterSnapshot::default()
    };
    let types: Vec<_> = [1, 2, 4, 8, 16].map(|cores| instance_type(cores, price(cores))).into();
    (snapshot, Catalog::shared(["pool".into()], types.into()))
}

fn command(plan: &DisruptionPlan, method: DisruptionMethod) -> Option<(Vec<&str>, usize)> {
    let found = plan.commands.iter().find(|command| command.method == method)?;
    Some((found.candidates.iter().map(|name| &**name).collect(), found.replacements.len()))
}

fn outlook<'p>(plan: &'p DisruptionPlan, node: &str) -> &'p Outlook {
    &plan.nodes.iter().find(|found| &*found.node == node).expect("every node has an outlook").outlook
}

#[test]
fn the_dearest_node_whose_pods_fit_elsewhere_is_deleted() {
    let nodes = vec![node("a", 4, &[3]), node("b", 8, &[1]), node("c", 16, &[14, 1])];
    let plan = planned(nodes, &DisruptionOptions::default());
    assert_eq!(command(&plan, DisruptionMethod::SingleNodeConsolidation), Some((vec!["b"], 0)));
    assert_eq!(command(&plan, DisruptionMethod::Emptiness), None);
}

#[test]
fn several_nodes_leave_together_where_that_saves_more() {
    let nodes = vec![node("a", 8, &[1]), node("b", 8, &[1]), node("c", 4, &[1])];
    let plan = planned(nodes, &DisruptionOptions::default());
    let (candidates, _) = command(&plan, DisruptionMethod::MultiNodeConsolidation).expect("two are too many");
    assert!(candidates.starts_with(&["a", "b"]), "{candidates:?}");
}

#[test]
fn a_replacement_that_could_be_the_node_itself_is_no_saving() {
    let plan = planned(vec![node("a", 2, &[1]), node("b", 2, &[1])], &DisruptionOptions::default());
    assert_eq!(command(&plan, DisruptionMethod::MultiNodeConsolidation), None);
    assert_eq!(command(&plan, DisruptionMethod::SingleNodeConsolidation), Some((vec!["a"], 0)));
}

#[test]
fn pods_and_nodes_that_refuse_stay_and_say_so() {
    let mut refusing = node("refusing", 8, &[1]);
    let mut protected = pod("protected", 1);
    protected.do_not_disrupt = true;
    refusing.pods.push(Arc::new(protected));
    let mut annotated = node("annotated", 8, &[]);
    annotated.life.do_not_disrupt = true;
    let nominated = node("nominated", 8, &[]);
    let mut options = DisruptionOptions::default();
    options.nominated.insert("nominated".into());
    let plan = planned(vec![refusing, annotated, nominated, node("free", 4, &[])], &options);
    assert_eq!(command(&plan, DisruptionMethod::Emptiness), Some((vec!["free"], 0)));
    assert_eq!(*outlook(&plan, "refusing"), Outlook::PodDoNotDisrupt { pod: "default/protected".to_owned() });
    assert_eq!(*outlook(&plan, "annotated"), Outlook::DoNotDisrupt);
    assert_eq!(*outlook(&plan, "nominated"), Outlook::Nominated);
    assert_eq!(*outlook(&plan, "free"), Outlook::Planned { method: DisruptionMethod::Emptiness });
}

#[test]
fn drift_replaces_the_oldest_whatever_it_costs_and_a_bounded_drain_overrides_refusals() {
    let drifted = |name: &str, since: &str| {
        let mut node = node(name, 4, &[4]);
        node.life.drifted = Some(since.parse().expect("an instant"));
        node
    };
    let (early, late) = ("2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z");
    let plan = planned(vec![drifted("late", late), drifted("early", early)], &DisruptionOptions::default());
    assert_eq!(command(&plan, DisruptionMethod::Drift), Some((vec!["early"], 1)));

    let mut stubborn = drifted("stubborn", early);
    let mut protected = pod("protected", 0);
    protected.do_not_disrupt = true;
    stubborn.pods.push(Arc::new(protected));
    let plan = planned(vec![stubborn.clone()], &DisruptionOptions::default());
    assert_eq!(command(&plan, DisruptionMethod::Drift), None);
    stubborn.life.has_termination_grace_period = true;
    let plan = planned(vec![stubborn], &DisruptionOptions::default());
    assert_eq!(command(&plan, DisruptionMethod::Drift), Some((vec!["stubborn"], 1)));
    assert_eq!(command(&plan, DisruptionMethod::SingleNodeConsolidation), None);
}

#[test]
fn a_node_that_fits_its_pods_has_no_cheaper_replacement() {
    let plan = planned(vec![node("a", 4, &[4])], &DisruptionOptions::default());
    assert!(plan.commands.is_empty());
    assert_eq!(*outlook(&plan, "a"), Outlook::NoCheaper { price: 4.0 });
}

#[test]
fn a_command_takes_no_more_nodes_than_it_may() {
    let nodes: Vec<Node> =
        (0..6).map(|index| node(&format!("n{index}"), 4, &[1])).chain([node("big", 16, &[8])]).collect();
    let options = DisruptionOptions { nodes_per_command: 3, ..DisruptionOptions::default() };
    let plan = planned(nodes, &options);
    let (candidates, _) = command(&plan, DisruptionMethod::MultiNodeConsolidation).expect("there is room");
    assert_eq!(candidates.len(), 3);
}

fn static_pool(replicas: u32, active: u32, room: u32, budgets: &str) -> StaticPool {
    let budget = Budget {
        reasons: None,
        nodes: BudgetNodes::parse(budgets),
        window: karpenter_core::disruption::BudgetWindow::Always,
    };
    let disruption = PoolDisruption { budgets: vec![budget], ..PoolDisruption::default() };
    let pool = Arc::new(NodePool { name: "fixed".into(), disruption, ..NodePool::default() });
    StaticPool { pool, replicas, active, pending: 0, room }
}

fn fixed_node(name: &str, drifted: Option<&str>) -> Node {
    let mut node = node(name, 4, &[1]);
    node.node_pool = Some("fixed".into());
    node.life.drifted = drifted.map(|since| since.parse().expect("an instant"));
    node
}

fn static_drift(pool: StaticPool, terminate_first: bool) -> (Vec<(String, usize)>, DisruptionPlan) {
    let nodes = vec![
        fixed_node("new", None),
        fixed_node("late", Some("2026-01-01T02:00:00Z")),
        fixed_node("early", Some("2026-01-01T01:00:00Z")),
    ];
    let options = DisruptionOptions {
        static_pools: vec![pool],
        terminate_first_drift: terminate_first,
        ..DisruptionOptions::default()
    };
    let plan = planned(nodes, &options);
    assert!(plan.commands.iter().all(|command| command.method == DisruptionMethod::StaticDrift));
    let commands = plan.commands.iter();
    let commands =
        commands.map(|command| (command.candidates[0].to_string(), command.template_replacements.len()));
    (commands.collect(), plan)
}

#[test]
fn static_drift_takes_the_longest_drifted_within_budget_and_limit() {
    let of = |pool| static_drift(pool, false).0;
    let (early, late) = (("early".to_owned(), 1), ("late".to_owned(), 1));
    assert_eq!(of(static_pool(3, 3, u32::MAX, "100%")), [early.clone(), late]);
    assert_eq!(of(static_pool(3, 3, u32::MAX, "1")), std::slice::from_ref(&early));
    assert_eq!(of(static_pool(3, 3, 1, "100%")), [early]);
    assert!(of(static_pool(3, 3, 0, "100%")).is_empty());
    assert!(of(static_pool(2, 3, u32::MAX, "100%")).is_empty(), "scaling down comes first");
    let (_, plan) = static_drift(static_pool(3, 3, 0, "100%"), false);
    assert_eq!(*outlook(&plan, "early"), Outlook::AtNodeLimit);
    assert_eq!(*outlook(&plan, "new"), Outlook::Static);
}

#[test]
fn at_the_limit_static_drift_ends_the_node_first_where_it_may() {
    let (commands, _) = static_drift(static_pool(3, 3, 0, "1"), true);
    assert_eq!(commands, [("early".to_owned(), 0)]);
    let (commands, _) = static_drift(static_pool(3, 3, 1, "100%"), true);
    assert_eq!(commands, [("early".to_owned(), 1)], "while there is room the replacement comes first");
}

#[test]
fn a_static_pool_gives_up_the_nodes_that_are_missed_least() {
    let mut refusing = fixed_node("refusing", None);
    refusing.pods.clear();
    let mut protected = pod("protected", 1);
    protected.do_not_disrupt = true;
    refusing.pods.push(Arc::new(protected));
    let mut daemons = fixed_node("daemons", None);
    let mut daemon = pod("daemon", 1);
    daemon.owner = PodOwner::DaemonSet;
    daemons.pods = vec![Arc::new(daemon)];
    let mut busy = fixed_node("busy", None);
    busy.pods.push(Arc::new(pod("second", 1)));
    let mut old = busy.clone();
    old.name = "old".into();
    old.life.expire_after = Some(SignedDuration::from_hours(13));
    let light = fixed_node("light", None);
    let nodes = [refusing, busy, light, old, daemons].map(Arc::new);
    let order = scale_down_order(&nodes.iter().collect::<Vec<_>>(), now());
    let order: Vec<&str> = order.iter().map(|name| &**name).collect();
    assert_eq!(order, ["daemons", "old", "light", "busy", "refusing"], "an old node has little life to lose");
}

fn need(score: f64) -> RepairNeed {
    let bound = Some(SignedDuration::ZERO);
    RepairNeed { score, kind: RepairKind::Replace, bound, vetoed: false, cause: "Ready/Test".into() }
}

/// Options with these nodes broken, repair being asked first.
fn repairing(broken: &[(&str, RepairNeed)]) -> DisruptionOptions {
    let mut options = DisruptionOptions::default();
    options.methods.insert(0, DisruptionMethod::Repair);
    for (node, need) in broken {
        options.repairs.due.insert((*node).into(), need.clone());
        options.repairs.unhealthy.insert((*node).into());
    }
    options
}

/// Ten full nodes, so that two of them may be broken.
fn ten() -> Vec<Node> {
    (0..10).map(|index| node(&format!("n{index}"), 4, &[4])).collect()
}

#[test]
fn the_most_urgent_repair_comes_first_and_one_at_a_time() {
    let plan = planned(ten(), &repairing(&[("n1", need(0.5)), ("n2", need(1.5))]));
    assert_eq!(command(&plan, DisruptionMethod::Repair), Some((vec!["n2"], 1)));
    assert_eq!(plan.commands.len(), 1);
    let mut nodes = ten();
    nodes[1].pods.clear();
    let plan = planned(nodes, &repairing(&[("n1", need(1.0)), ("n2", need(1.0))]));
    assert_eq!(
        command(&plan, DisruptionMethod::Repair),
        Some((vec!["n1"], 0)),
        "an empty one costs nobody anything"
    );
}

#[test]
fn repair_stops_where_more_than_a_fifth_is_broken() {
    let broken = [("n1", need(1.0)), ("n2", need(1.0)), ("n3", need(1.0))];
    let plan = planned(ten(), &repairing(&broken));
    assert_eq!(command(&plan, DisruptionMethod::Repair), None);
    assert_eq!(*outlook(&plan, "n1"), Outlook::RepairsStopped { unhealthy: 3, nodes: 10 });
    let mut options = repairing(&broken);
    options.repairs.tolerated_percent.insert("pool".into(), 30);
    assert!(
        command(&planned(ten(), &options), DisruptionMethod::Repair).is_some(),
        "where the pool tolerates more"
    );
}

#[test]
fn who_may_hold_a_repair_up_and_who_may_not() {
    let guarded = || {
        let mut nodes = ten();
        nodes[1].life.do_not_disrupt = true;
        let mut protected = pod("protected", 0);
        protected.do_not_disrupt = true;
        nodes[1].pods.push(Arc::new(protected));
        nodes
    };
    let plan = planned(guarded(), &repairing(&[("n1", need(1.0))]));
    assert_eq!(command(&plan, DisruptionMethod::Repair), Some((vec!["n1"], 1)), "the drain is bounded");
    let unbounded = RepairNeed { bound: None, ..need(1.0) };
    let plan = planned(guarded(), &repairing(&[("n1", unbounded)]));
    assert_eq!(command(&plan, DisruptionMethod::Repair), None);
    assert_eq!(*outlook(&plan, "n1"), Outlook::PodDoNotDisrupt { pod: "default/protected".to_owned() });
    let vetoed = RepairNeed { vetoed: true, ..need(1.0) };
    let plan = planned(ten(), &repairing(&[("n1", vetoed)]));
    assert_eq!(*outlook(&plan, "n1"), Outlook::DoNotRepair);
    let mut young = ten();
    young[1].stage = NodeStage::Registered;
    let plan = planned(young, &repairing(&[("n1", need(1.0))]));
    assert!(command(&plan, DisruptionMethod::Repair).is_some(), "a node that never came up is repaired too");
}

#[test]
fn a_pool_may_ask_for_a_minimum_saving() {
    // A node of 8 with a pod of 3 could be one of 4: that saves 4, half of what it costs.
    let plan = |minimum: &str| {
        let disruption =
            PoolDisruption { minimum_saving: MinimumSaving::parse(minimum), ..PoolDisruption::default() };
        planned_in(disruption, vec![node("a", 8, &[3])], &DisruptionOptions::default())
    };
    for enough in ["50%", "4"] {
        assert_eq!(plan(enough).commands.len(), 1, "{enough}");
    }
    for too_much in ["51%", "4.1"] {
        let plan = plan(too_much);
        assert!(plan.commands.is_empty(), "{too_much}");
        let stays = outlook(&plan, "a");
        assert!(matches!(stays, Outlook::SavingTooSmall { .. }), "{stays:?}");
    }
}

#[test]
fn a_pool_may_let_new_pods_rest() {
    let plan = |hours: i64| {
        let mut quiet = node("a", 8, &[3]);
        let mut resident = pod("resident", 3);
        resident.created = "2026-01-01T11:00:00Z".parse().expect("an instant");
        quiet.pods = vec![Arc::new(resident)];
        let residency = Some(SignedDuration::from_hours(hours));
        let disruption = PoolDisruption { pod_residency: residency, ..PoolDisruption::default() };
        planned_in(disruption, vec![quiet, node("empty", 4, &[])], &DisruptionOptions::default())
    };
    assert!(command(&plan(1), DisruptionMethod::SingleNodeConsolidation).is_some(), "an hour has passed");
    let resting = plan(2);
    assert_eq!(command(&resting, DisruptionMethod::SingleNodeConsolidation), None);
    assert_eq!(command(&resting, DisruptionMethod::Emptiness), Some((vec!["empty"], 0)), "nobody moves");
    let until = "2026-01-01T13:00:00Z".parse().expect("an instant");
    assert_eq!(*outlook(&resting, "a"), Outlook::PodResidency { pod: "default/resident".to_owned(), until });
}
