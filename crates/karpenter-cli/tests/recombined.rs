//! Cases taken apart and put together anew. Nobody knows the right answer to these, but every plan must be feasible.

use std::sync::LazyLock;

use karpenter_checker::{Scenario, cases, check};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};

use crate::planned::{printed_plan, read_plan};

static SCENARIOS: LazyLock<Vec<Value>> =
    LazyLock::new(|| cases::scheduling().chain(cases::quirks()).map(|case| case.scenario).collect());

/// One thing that is different from the case.
#[derive(Clone, Debug)]
enum Change {
    /// Another number of pods in a group.
    Count(Index, u32),
    /// Other requests of a group's pods.
    Requests(Index, &'static str, &'static str),
    /// Another priority of a group's pods.
    Priority(Index, i32),
    /// An item of a list less.
    Remove(&'static str, Index),
    /// An item of another case's list more.
    Borrow(&'static str, Index, Index),
    /// A limit on a NodePool.
    Limit(Index, &'static str, &'static str),
    /// A label of one group's pods on another's, so that what selects the ones selects the others.
    Share(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    use prop::sample::select;
    let quantity = || select(vec!["50m", "250m", "1", "1500m", "3", "6"]);
    let memory = || select(vec!["64Mi", "512Mi", "3Gi", "14Gi"]);
    let removable = || select(vec!["instanceTypes", "nodePools", "nodes", "daemonSets", "podGroups"]);
    let limit = select(vec![("cpu", "9"), ("cpu", "40"), ("memory", "50Gi"), ("nodes", "2"), ("nodes", "5")]);
    prop_oneof![
        2 => (any::<Index>(), 1..40u32).prop_map(|(group, count)| Change::Count(group, count)),
        2 => (any::<Index>(), quantity(), memory()).prop_map(|(group, cpu, memory)| Change::Requests(group, cpu, memory)),
        1 => (any::<Index>(), -5..5i32).prop_map(|(group, priority)| Change::Priority(group, priority)),
        1 => (removable(), any::<Index>()).prop_map(|(list, item)| Change::Remove(list, item)),
        4 => (any::<Index>(), any::<Index>()).prop_map(|(case, item)| Change::Borrow("podGroups", case, item)),
        2 => (select(vec!["daemonSets", "nodePools", "instanceTypes"]), any::<Index>(), any::<Index>())
            .prop_map(|(list, case, item)| Change::Borrow(list, case, item)),
        1 => (any::<Index>(), limit).prop_map(|(pool, (resource, amount))| Change::Limit(pool, resource, amount)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Share(from, to)),
    ]
}

fn list<'a>(scenario: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    let field = &mut scenario[name];
    if !field.is_array() {
        *field = json!([]);
    }
    field.as_array_mut().expect("it was made a list")
}

fn item<'a>(scenario: &'a mut Value, name: &str, index: Index) -> Option<&'a mut Value> {
    let items = list(scenario, name);
    let position = if items.is_empty() { 0 } else { index.index(items.len()) };
    items.get_mut(position)
}

fn apply(scenario: &mut Value, change: &Change, step: usize) {
    match change {
        Change::Count(group, count) => {
            if let Some(group) = item(scenario, "podGroups", *group) {
                group["count"] = json!(count);
            }
        }
        Change::Requests(group, cpu, memory) => {
            if let Some(group) = item(scenario, "podGroups", *group) {
                group["pod"]["spec"]["containers"][0]["resources"]["requests"] =
                    json!({ "cpu": cpu, "memory": memory });
            }
        }
        Change::Priority(group, priority) => {
            if let Some(group) = item(scenario, "podGroups", *group) {
                group["pod"]["spec"]["priority"] = json!(priority);
            }
        }
        Change::Remove(name, index) => {
            let items = list(scenario, name);
            if items.len() > 1 {
                items.remove(index.index(items.len()));
            }
        }
        Change::Borrow(name, case, index) => {
            let mut other = SCENARIOS[case.index(SCENARIOS.len())].clone();
            if let Some(borrowed) = item(&mut other, name, *index) {
                add(scenario, name, borrowed.clone(), step);
            }
        }
        Change::Limit(pool, resource, amount) => {
            if let Some(pool) = item(scenario, "nodePools", *pool) {
                pool["spec"]["limits"] = json!({ *resource: amount });
            }
        }
        Change::Share(from, to) => {
            let labels =
                item(scenario, "podGroups", *from).map(|group| group["pod"]["metadata"]["labels"].clone());
            if let (Some(labels), Some(group)) = (labels, item(scenario, "podGroups", *to)) {
                group["pod"]["metadata"]["labels"] = labels;
            }
        }
    }
}

/// Adds something under a name of its own, because names must differ.
fn add(scenario: &mut Value, name: &str, mut added: Value, step: usize) {
    let items = list(scenario, name);
    let own_name = json!(format!("borrowed-{step}"));
    match name {
        "podGroups" => added["pod"]["metadata"]["name"] = own_name,
        "nodePools" => added["metadata"]["name"] = own_name,
        "daemonSets" => added["name"] = own_name,
        _ if items.iter().any(|item| item["name"] == added["name"]) => return,
        _ => {}
    }
    items.push(added);
}

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

proptest! {
    #![proptest_config(repeatable(250))]

    #[test]
    fn every_plan_is_feasible(case in any::<Index>(), changes in prop::collection::vec(change(), 1..8)) {
        let mut scenario = SCENARIOS[case.index(SCENARIOS.len())].clone();
        for (step, change) in changes.iter().enumerate() {
            apply(&mut scenario, change, step);
        }
        let result = read_plan(&printed_plan(&scenario));
        let understood: Scenario = serde_json::from_value(scenario.clone()).expect("the checker reads the scenario");
        let violations: Vec<String> = check(&understood, &result).iter().map(ToString::to_string).collect();
        prop_assert!(violations.is_empty(), "{}\n{}", violations.join("\n"), scenario);
    }
}
