//! What becomes of pods: one file per subject, small scenarios written by hand, every plan checked for feasibility.
//!
//! Scenarios are JSON as users write it. Unless a test says otherwise there are three types of machines, `small`, `medium`
//! and `large` with 2, 4 and 8 CPUs, in three zones, on-demand and spot. Price follows size; spot costs 40 %, `zone-b` a
//! quarter and `zone-c` half more than `zone-a`. So a pod that does not care lands on `small` spot in `zone-a`, for 0.08.

#![expect(
    clippy::needless_pass_by_value,
    reason = "parts of scenarios are JSON literals, handed over as they are written"
)]

mod affinity;
mod capacity_buffers;
mod daemon_sets;
mod existing_nodes;
mod host_ports;
mod limits;
mod min_values;
mod node_overlays;
mod node_pools;
mod pods;
mod preferences;
mod priorities;
mod reservations;
mod spread;
mod taints;
mod volumes;

use std::collections::BTreeMap;

use karpenter_checker::{PlanResult, PlannedClaim, Scenario, check};
use serde_json::{Value, json};

use crate::planned::{printed_plan, read_plan};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

const ZONES: [(&str, f64); 3] = [("zone-a", 1.0), ("zone-b", 1.25), ("zone-c", 1.5)];
const ON_DEMAND: f64 = 0.1;
const SPOT: f64 = 0.04;

/// A machine type in all zones, on-demand and spot.
fn machine(name: &str, cpu: u32) -> Value {
    let offering = |zone: &str, factor: f64, capacity_type: &str, price: f64| {
        json!([zone, capacity_type, f64::from(cpu) * price * factor, true])
    };
    let offerings: Vec<Value> = ZONES
        .iter()
        .flat_map(|(zone, factor)| {
            [offering(zone, *factor, "on-demand", ON_DEMAND), offering(zone, *factor, "spot", SPOT)]
        })
        .collect();
    json!({
        "name": name,
        "capacity": { "cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "30" },
        "requirements": [
            { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
            { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
        ],
        "offerings": offerings,
    })
}

fn machines() -> Value {
    json!([machine("small", 2), machine("medium", 4), machine("large", 8)])
}

/// A NodePool with this spec.
fn pool(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// A NodePool that only buys what `requirement` allows: key, operator, values.
fn pool_with(name: &str, requirements: &[(&str, &str, &[&str])]) -> Value {
    pool(name, json!({ "template": { "spec": { "requirements": expressions(requirements) } } }))
}

fn expressions(requirements: &[(&str, &str, &[&str])]) -> Value {
    let expression = |(key, operator, values): &(&str, &str, &[&str])| json!({ "key": key, "operator": operator, "values": values });
    requirements.iter().map(expression).collect()
}

/// `count` pods that ask for `cpu`, labelled `app: <name>`, with more fields of their spec.
fn pods(name: &str, count: u32, cpu: &str, spec: Value) -> Value {
    let mut spec = spec;
    let containers = json!([{ "resources": { "requests": { "cpu": cpu } } }]);
    spec.as_object_mut().expect("a spec is an object").entry("containers").or_insert(containers);
    json!({ "count": count, "pod": { "metadata": { "name": name, "labels": { "app": name } }, "spec": spec } })
}

/// A node of the pool `general`, on-demand, with more fields of its own.
fn node(name: &str, instance_type: &str, zone: &str, fields: Value) -> Value {
    let mut node = json!({
        "name": name, "nodePool": "general", "instanceType": instance_type, "zone": zone, "capacityType": "on-demand",
    });
    overwrite(&mut node, fields);
    node
}

fn overwrite(object: &mut Value, fields: Value) {
    let (Value::Object(object), Value::Object(fields)) = (object, fields) else { panic!("two objects") };
    object.extend(fields);
}

/// Selects pods by their `app` label.
fn app(name: &str) -> Value {
    json!({ "matchLabels": { "app": name } })
}

/// What was decided.
struct Plan {
    result: PlanResult,
}

/// Plans a scenario that says only what differs from the usual machines and the pool `general`.
#[track_caller]
fn plan(fields: Value) -> Plan {
    let scenario = with_defaults(fields);
    plan_as_if(&scenario, &scenario)
}

fn with_defaults(fields: Value) -> Value {
    let mut scenario = json!({ "instanceTypes": machines(), "nodePools": [pool("general", json!({}))] });
    overwrite(&mut scenario, fields);
    scenario
}

/// Plans a scenario and checks the plan against another one: the checker knows neither overlays nor buffers, so a test
/// tells it what they amount to.
#[track_caller]
fn plan_as_if(scenario: &Value, same_for_checker: &Value) -> Plan {
    let result = read_plan(&printed_plan(scenario));
    assert_feasible(same_for_checker, &result);
    Plan { result }
}

#[track_caller]
fn assert_feasible(scenario: &Value, result: &PlanResult) {
    let scenario: Scenario =
        serde_json::from_value(scenario.clone()).expect("the checker reads the scenario");
    let violations: Vec<String> = check(&scenario, result).iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{}\n{result:#?}", violations.join("\n"));
}

impl Plan {
    fn claims(&self) -> &[PlannedClaim] {
        &self.result.new_node_claims
    }

    /// Price per hour of the new nodes.
    #[track_caller]
    fn assert_price(&self, expected: f64) {
        let price =
            |claim: &PlannedClaim| claim.cheapest.as_ref().map_or(f64::INFINITY, |launch| launch.price);
        let total: f64 = self.claims().iter().map(price).sum();
        assert!((total - expected).abs() < 1e-9, "costs {total}, not {expected}: {:#?}", self.result);
    }

    /// Pods without a place, by name.
    fn unplaced(&self) -> Vec<&str> {
        self.result.errors.keys().map(|pod| short(pod)).collect()
    }

    #[track_caller]
    fn assert_all_placed(&self) {
        assert!(self.result.errors.is_empty() && self.result.ignored.is_empty(), "{:#?}", self.result);
    }

    /// Pods on existing nodes, by node.
    fn on_nodes(&self) -> BTreeMap<&str, Vec<&str>> {
        let nodes = self.result.existing_nodes.iter();
        nodes.map(|node| (node.name.as_str(), node.pods.iter().map(|pod| short(pod)).collect())).collect()
    }

    /// The new node a pod is to run on.
    #[track_caller]
    fn claim_of(&self, pod: &str) -> &PlannedClaim {
        let found = self.claims().iter().find(|claim| claim.pods.iter().any(|other| short(other) == pod));
        found.unwrap_or_else(|| panic!("{pod} is on no new node: {:#?}", self.result))
    }

    /// The only new node.
    #[track_caller]
    fn only_claim(&self) -> &PlannedClaim {
        assert_eq!(self.claims().len(), 1, "{:#?}", self.result);
        &self.claims()[0]
    }

    /// How many pods of a group run in each zone of new nodes.
    fn zones(&self, group: &str) -> BTreeMap<&str, usize> {
        self.pods_by(group, |claim| &launch(claim).zone)
    }

    /// How many pods of a group run on each kind of new nodes.
    fn pods_by<'a>(
        &'a self,
        group: &str,
        kind: impl Fn(&'a PlannedClaim) -> &'a str,
    ) -> BTreeMap<&'a str, usize> {
        let prefix = format!("default/{group}-");
        let mut counts = BTreeMap::new();
        for claim in self.claims() {
            let pods = claim.pods.iter().filter(|pod| pod.starts_with(&prefix)).count();
            if pods > 0 {
                *counts.entry(kind(claim)).or_insert(0) += pods;
            }
        }
        counts
    }

    /// How many pods of a group are on each new node, in ascending order.
    fn pods_per_claim(&self, group: &str) -> Vec<usize> {
        let prefix = format!("default/{group}-");
        let count = |claim: &PlannedClaim| claim.pods.iter().filter(|pod| pod.starts_with(&prefix)).count();
        let mut counts: Vec<usize> = self.claims().iter().map(count).filter(|count| *count > 0).collect();
        counts.sort_unstable();
        counts
    }
}

fn short(pod: &str) -> &str {
    pod.strip_prefix("default/").unwrap_or(pod)
}

fn launch(claim: &PlannedClaim) -> &karpenter_checker::CheapestOffering {
    claim.cheapest.as_ref().expect("every claim can be launched")
}
