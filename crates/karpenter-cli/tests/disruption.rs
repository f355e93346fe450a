//! Consolidation scenarios with known answers: commands are allowed, feasible, cheaper, save no less than upstream's, and are always
//! the same.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use karpenter_checker::cases::{self, DisruptionCase};
use karpenter_checker::judge_disruption;
use karpenter_core::plan_disruption;
use karpenter_kube::scenario::{disruption_outcome, load};
use serde_json::{Value, json};

/// A case and the answer it got.
struct Answered {
    case: DisruptionCase,
    printed: String,
}

static CASES: LazyLock<Vec<Answered>> = LazyLock::new(|| {
    let answered = |case: DisruptionCase| Answered { printed: printed(&case.scenario, false), case };
    cases::disruption().map(answered).collect()
});

/// The answer as `karpenter solve` prints it.
fn printed(scenario: &Value, parallel: bool) -> String {
    let problem = load(scenario.to_string().as_bytes()).expect("the scenario can be used");
    let mut options = problem.disruption_options();
    options.solver.parallel = parallel;
    let plan = plan_disruption(&problem.snapshot, &problem.catalog, &options, problem.now);
    serde_json::to_string(&disruption_outcome(&problem, &plan)).expect("every plan can be printed")
}

fn read(printed: &str) -> Value {
    serde_json::from_str(printed).expect("what is printed is JSON")
}

#[test]
fn every_consolidation_case_is_answered_right() {
    assert_eq!(CASES.len(), 80);
    let complaints: Vec<String> = CASES
        .iter()
        .flat_map(|answer| {
            let name = answer.case.scenario["name"].as_str().unwrap_or_default();
            let complaints = judge_disruption(&answer.case, &read(&answer.printed));
            complaints.into_iter().map(move |complaint| format!("{name}: {complaint}"))
        })
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn neither_threads_nor_the_order_of_facts_change_the_answer() {
    const LISTS: &[&str] = &["instanceTypes", "nodePools", "nodes", "podDisruptionBudgets", "podGroups"];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("three threads can be had");
    for answer in &*CASES {
        let name = &answer.case.scenario["name"];
        assert_eq!(pool.install(|| printed(&answer.case.scenario, true)), answer.printed, "{name}");
        let mut scenario = answer.case.scenario.clone();
        for list in LISTS {
            if let Some(Value::Array(items)) = scenario.get_mut(list) {
                items.reverse();
            }
        }
        assert_eq!(printed(&scenario, false), answer.printed, "{name}");
    }
}

#[test]
fn every_node_is_either_disrupted_or_says_why_not() {
    let mut outlooks = BTreeSet::new();
    for answer in &*CASES {
        let result = read(&answer.printed);
        let explained: BTreeSet<&str> =
            array(&result["explanations"]).iter().filter_map(|line| line["node"].as_str()).collect();
        let nodes = array(&answer.case.scenario["nodes"]);
        assert_eq!(explained.len(), nodes.len(), "{}", answer.case.scenario["name"]);
        for line in array(&result["explanations"]) {
            let outlook = line["reason"]["outlook"].as_str().unwrap_or_default().to_owned();
            assert_ne!(outlook, "NotAsked", "{line}");
            outlooks.insert(outlook);
        }
    }
    let wanted =
        ["Budget", "DoNotDisrupt", "NotEmpty", "Planned", "PodDisruptionBudget", "SpotToSpotOff", "TooYoung"];
    let missing: Vec<&str> = wanted.into_iter().filter(|outlook| !outlooks.contains(*outlook)).collect();
    assert!(missing.is_empty(), "no node of any case is {missing:?}, only {outlooks:?}");
}

#[test]
fn the_judge_notices_what_is_wrong() {
    let answer = CASES
        .iter()
        .find(|answer| answer.printed.contains("\"decision\":\"replace\""))
        .expect("some case is answered by a replacement");
    let result = read(&answer.printed);
    let replacing = array(&result["disruption"])
        .iter()
        .position(|command| command["decision"] == "replace")
        .expect("this is why the case was chosen");
    let complains = |change: &dyn Fn(&mut Value)| {
        let mut changed = result.clone();
        change(&mut changed["disruption"][replacing]);
        !judge_disruption(&answer.case, &changed).is_empty()
    };
    assert!(!complains(&|_| {}));
    assert!(complains(&|command| command["savings"] = json!(1000.0)));
    assert!(complains(&|command| command["replacements"][0]["pods"] = json!([])));
    assert!(complains(&|command| command["candidates"] = json!(["nobody"])));
    assert!(complains(&|command| command["replacements"][0]["instanceTypes"] = json!([])));
    assert!(complains(&|command| command["decision"] = json!("delete")));
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
