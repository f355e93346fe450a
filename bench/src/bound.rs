//! A lower bound of what any plan for a scenario must cost: the linear relaxation in which machines are bought and
//! pods are split in fractions.
//!
//! It honours requests, daemon overhead, node selectors and required node affinity, taints, what is free on existing
//! nodes, and pods that refuse their equals on the same node. Every other rule is left out, which can only lower the
//! bound. Pods that no machine takes are left out too and counted.

mod demand;
mod dual;
mod labels;
mod scenario;
mod supply;

use std::path::Path;

use anyhow::{Context, Result};

use demand::Demand;
use scenario::Scenario;
use supply::{Item, Resources};

/// What the relaxation says of one scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    /// No plan that places all other pods costs less per hour.
    pub(crate) price: f64,
    /// No plan costs less in which every pod runs on a node that exists or in the heaviest pool that takes it. A plan
    /// that honours weights can still be a little cheaper where pods fill up nodes that others needed anyway.
    pub(crate) price_by_weight: f64,
    /// Pods that no machine takes.
    pub(crate) unplaceable: usize,
}

/// Reads a scenario file and bounds its price; `None` for a scenario that asks for consolidation.
pub(crate) fn of_file(path: &Path) -> Result<Option<Bound>> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let scenario: Scenario =
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
    if scenario.mode == "disrupt" {
        return Ok(None);
    }
    of_scenario(&scenario).map(Some)
}

fn of_scenario(scenario: &Scenario) -> Result<Bound> {
    let demand = Demand::of(scenario);
    let resources = Resources::of(&demand);
    let groups = supply::groups(scenario, &demand, &resources);
    let mut items = Vec::new();
    let mut unplaceable = 0;
    for class in &demand.classes {
        let requests = resources.requests(&class.requests, class.family);
        let item = Item { count: class.count, requests, place: class.place, weight: None };
        if groups.iter().any(|group| group.takes(&item)) {
            items.push(item);
        } else {
            unplaceable += class.count as usize;
        }
    }
    let price = dual::lower_bound(&items, &groups)?;
    for item in &mut items {
        item.weight = groups.iter().filter(|group| group.takes(item)).filter_map(|group| group.weight).max();
    }
    Ok(Bound { price, price_by_weight: dual::lower_bound(&items, &groups)?, unplaceable })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::random::Random;

    fn bound(scenario: &Value) -> Bound {
        let scenario = serde_json::from_value(scenario.clone()).expect("the test's scenario is well formed");
        of_scenario(&scenario).expect("the relaxation has an answer")
    }

    fn machine(name: &str, cpu: i64, price: f64) -> Value {
        json!({ "name": name, "capacity": { "cpu": cpu.to_string(), "memory": format!("{}Gi", 4 * cpu), "pods": "110" },
            "offerings": [["a", "on-demand", price, true]] })
    }

    fn pods(name: &str, count: usize, cpu: &str, spec: Value) -> Value {
        let mut spec = spec;
        spec["containers"] = json!([{ "resources": { "requests": { "cpu": cpu, "memory": "1Mi" } } }]);
        json!({ "count": count, "pod": { "metadata": { "name": name, "labels": { "app": name } }, "spec": spec } })
    }

    fn scenario(machines: &[Value], groups: &[Value]) -> Value {
        let pool = json!({ "metadata": { "name": "default" }, "spec": { "template": { "spec": {} } } });
        json!({ "instanceTypes": machines, "nodePools": [pool], "podGroups": groups })
    }

    #[track_caller]
    fn check(scenario: &Value, expected: f64) {
        let found = bound(scenario).price;
        assert!((found - expected).abs() < 1e-6 * expected.max(1.0), "{found} instead of {expected}");
    }

    #[test]
    fn the_cheapest_core_prices_plain_pods() {
        let machines = [machine("small", 2, 0.2), machine("large", 8, 0.6)];
        check(&scenario(&machines, &[pods("p", 16, "1", json!({}))]), 1.2);
    }

    #[test]
    fn a_pod_too_large_for_the_cheap_machine_pays_for_the_dear_one() {
        let machines = [machine("small", 2, 0.1), machine("large", 8, 0.8)];
        check(&scenario(&machines, &[pods("p", 2, "4", json!({}))]), 0.8);
    }

    #[test]
    fn pods_that_refuse_each_other_pay_for_a_machine_each() {
        let term = json!([{ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "p" } } }]);
        let alone = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term } } });
        let machines = [machine("small", 2, 0.2), machine("large", 8, 0.6)];
        check(&scenario(&machines, &[pods("p", 10, "100m", alone)]), 2.0);
    }

    #[test]
    fn daemons_take_their_share_of_every_machine() {
        let mut scenario = scenario(&[machine("large", 8, 0.6)], &[pods("p", 12, "1", json!({}))]);
        let daemon = json!({ "containers": [{ "resources": { "requests": { "cpu": "2" } } }] });
        scenario["daemonSets"] = json!([{ "name": "d", "template": { "spec": daemon } }]);
        check(&scenario, 1.2);
    }

    #[test]
    fn what_is_free_on_existing_nodes_costs_nothing() {
        let mut scenario = scenario(&[machine("large", 8, 0.8)], &[pods("p", 10, "1", json!({}))]);
        scenario["nodes"] = json!([{ "name": "n", "nodePool": "default", "instanceType": "large",
            "podGroups": [pods("bound", 6, "1", json!({}))] }]);
        check(&scenario, 0.8);
    }

    #[test]
    fn pods_that_no_machine_takes_are_counted_and_cost_nothing() {
        let nowhere = json!({ "nodeSelector": { "team": "x" } });
        let found = bound(&scenario(&[machine("large", 8, 0.8)], &[pods("p", 3, "1", nowhere)]));
        assert_eq!(found, Bound { price: 0.0, price_by_weight: 0.0, unplaceable: 3 });
    }

    #[test]
    fn by_weight_the_heavier_pool_is_paid_even_when_it_is_dearer() {
        let mut scenario =
            scenario(&[machine("cheap", 8, 0.4), machine("dear", 8, 0.8)], &[pods("p", 8, "1", json!({}))]);
        let pool = |name: &str, weight: i64| {
            let only =
                json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name] }]);
            json!({ "metadata": { "name": name }, "spec": { "weight": weight, "template": { "spec": { "requirements": only } } } })
        };
        scenario["nodePools"] = json!([pool("cheap", 1), pool("dear", 2)]);
        let found = bound(&scenario);
        assert!((found.price - 0.4).abs() < 1e-6 && (found.price_by_weight - 0.8).abs() < 1e-6, "{found:?}");
    }

    /// Buys the cheapest machine for each pod or fills the last one: a plan, if a poor one.
    fn a_plan(machines: &[(i64, f64)], pods: &[i64]) -> f64 {
        let (mut price, mut free) = (0.0, 0);
        for cpu in pods {
            if *cpu > free {
                let fitting = machines.iter().filter(|(cores, _)| cores * 1000 >= *cpu);
                let (cores, cost) =
                    fitting.min_by(|a, b| a.1.total_cmp(&b.1)).expect("every pod fits somewhere");
                price += cost;
                free = cores * 1000;
            }
            free -= cpu;
        }
        price
    }

    #[test]
    fn no_plan_is_cheaper_than_the_bound() {
        let mut random = Random::new(7);
        for round in 0..100 {
            let machines: Vec<(i64, f64)> = [2_i64, 4, 8, 16]
                .map(|cores| (cores, cores as f64 * (20 + random.below(20)) as f64 / 1000.0))
                .into();
            let cpus: Vec<i64> = (0..=random.below(300)).map(|_| 50 + random.below(15_000) as i64).collect();
            let offered: Vec<Value> =
                machines.iter().map(|(cores, price)| machine(&format!("m{cores}"), *cores, *price)).collect();
            let groups: Vec<Value> = cpus
                .iter()
                .enumerate()
                .map(|(index, cpu)| pods(&format!("p{index}"), 1, &format!("{cpu}m"), json!({})))
                .collect();
            let (bound, plan) = (bound(&scenario(&offered, &groups)).price, a_plan(&machines, &cpus));
            assert!(bound <= plan + 1e-9, "round {round}: bound {bound} above a plan of {plan}");
            assert!(bound * 4.0 >= plan, "round {round}: bound {bound} says nothing beside a plan of {plan}");
        }
    }
}
