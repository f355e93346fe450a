//! Sweeps until nothing more is saved: every round the command that saves most is carried out on paper.
//!
//! What is left then is compared with the lower bound of the price of all pods, and the saving with the pods that moved for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::bound;
use crate::measure::{self, Program, Stats};

/// More rounds than any cluster here needs: a planner that never comes to rest is reported, not waited for.
const ROUNDS_MAX: usize = 300;

/// How a cluster came to rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rest {
    pub(crate) rounds: usize,
    /// Whether nothing more was proposed in the end.
    pub(crate) reached: bool,
    pub(crate) price_before: f64,
    pub(crate) price_after: f64,
    pub(crate) pods_moved: usize,
    pub(crate) nodes_after: usize,
    /// The least all pods can cost.
    pub(crate) bound: Option<f64>,
    /// The cost of a sweep that finds nothing, and so tries everything.
    pub(crate) sweep: Option<Stats>,
}

/// Carries out commands until there are none.
pub(crate) fn reach(program: &Program, scenario: Value, folder: &Path) -> Result<Rest> {
    let whole = program.printing_all();
    let path = folder.join("quiescence.json");
    let mut cluster = Cluster::new(scenario)?;
    let mut rest = Rest { price_before: cluster.price(), bound: cluster.bound(&path)?, ..Rest::default() };
    while rest.rounds < ROUNDS_MAX {
        std::fs::write(&path, cluster.scenario.to_string())
            .with_context(|| format!("writing {}", path.display()))?;
        let result = answer(&whole, &path)?;
        let savings = |command: &&Value| command["savings"].as_f64().unwrap_or_default();
        let commands = result["disruption"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        let Some(best) = commands.iter().max_by(|a, b| savings(a).total_cmp(&savings(b))) else {
            rest.reached = true;
            rest.sweep = Some(measure::median(program, &path)?);
            break;
        };
        rest.rounds += 1;
        rest.pods_moved += cluster.carry_out(best)?;
    }
    rest.price_after = cluster.price();
    rest.nodes_after = cluster.nodes().len();
    Ok(rest)
}

fn answer(program: &Program, file: &Path) -> Result<Value> {
    let output = program.command(file).stdin(Stdio::null()).output().context("running karpenter")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("reading what karpenter printed")
}

/// A scenario whose nodes come and go.
struct Cluster {
    scenario: Value,
    /// Price by instance type, zone and capacity type.
    prices: BTreeMap<[String; 3], f64>,
    /// Makes names that nobody has.
    made: usize,
}

impl Cluster {
    fn new(scenario: Value) -> Result<Self> {
        let mut prices = BTreeMap::new();
        for known in scenario["instanceTypes"].as_array().context("a scenario lists instance types")? {
            for offering in known["offerings"].as_array().into_iter().flatten() {
                let key = [&known["name"], &offering[0], &offering[1]].map(text);
                prices.insert(key, offering[2].as_f64().unwrap_or_default());
            }
        }
        Ok(Self { scenario, prices, made: 0 })
    }

    fn nodes(&self) -> &[Value] {
        self.scenario["nodes"].as_array().map_or(&[], Vec::as_slice)
    }

    fn price(&self) -> f64 {
        let of = |node: &Value| {
            let key = [&node["instanceType"], &node["zone"], &node["capacityType"]].map(text);
            self.prices.get(&key).copied().unwrap_or_default()
        };
        self.nodes().iter().map(of).sum()
    }

    /// The least all pods can cost when nothing is there.
    fn bound(&self, path: &Path) -> Result<Option<f64>> {
        let mut all = self.scenario.clone();
        let mut groups: BTreeMap<String, (Value, u64)> = BTreeMap::new();
        for group in self.nodes().iter().flat_map(|node| node["podGroups"].as_array().into_iter().flatten()) {
            let count = group["count"].as_u64().unwrap_or(1);
            groups.entry(group["pod"].to_string()).or_insert_with(|| (group["pod"].clone(), 0)).1 += count;
        }
        let numbered = groups.into_values().enumerate().map(|(index, (mut pod, count))| {
            pod["metadata"]["name"] = json!(format!("p{index}"));
            json!({ "count": count, "pod": pod })
        });
        all["podGroups"] = numbered.collect();
        all["nodes"] = json!([]);
        all["mode"] = json!("");
        std::fs::write(path, all.to_string()).with_context(|| format!("writing {}", path.display()))?;
        Ok(bound::of_file(path)?.map(|bound| bound.price))
    }

    /// Moves the pods of a command; returns how many.
    fn carry_out(&mut self, command: &Value) -> Result<usize> {
        let mut pods = self.pods_by_name();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let leaving: Vec<Value> = list(&command["candidates"]);
        let mut moved = 0;
        let mut arrivals: Vec<(Value, Vec<Value>)> = Vec::new();
        for target in list(&command["existingNodes"]).iter().chain(&list(&command["replacements"])) {
            let mut coming = Vec::new();
            for name in list(&target["pods"]) {
                let key = text(&name);
                coming.push(pods.remove(&key).with_context(|| format!("there is no pod {key} to move"))?);
            }
            moved += coming.len();
            arrivals.push((target.clone(), coming));
        }
        let mut nodes: Vec<Value> = self.nodes().to_vec();
        nodes.retain(|node| !leaving.contains(&node["name"]));
        for (target, coming) in arrivals {
            let index = if target["cheapest"].is_object() {
                nodes.push(self.new_node(&target));
                nodes.len() - 1
            } else {
                let found = nodes.iter().position(|node| node["name"] == target["name"]);
                found.with_context(|| format!("there is no node {}", target["name"]))?
            };
            for pod in coming {
                self.made += 1;
                let mut pod = pod;
                pod["metadata"]["name"] = json!(format!("m{}", self.made));
                let groups = nodes[index]["podGroups"].as_array_mut().context("nodes have pod groups")?;
                groups.push(json!({ "count": 1, "pod": pod }));
            }
        }
        self.scenario["nodes"] = Value::Array(nodes);
        Ok(moved)
    }

    /// Every running pod by the name a result gives it.
    fn pods_by_name(&self) -> BTreeMap<String, Value> {
        let mut pods = BTreeMap::new();
        for node in self.nodes() {
            for group in node["podGroups"].as_array().into_iter().flatten() {
                let (name, of) = (text(&group["pod"]["metadata"]["name"]), text(&node["name"]));
                for number in 0..group["count"].as_u64().unwrap_or(1) {
                    pods.insert(format!("default/{name}-{number}-{of}"), group["pod"].clone());
                }
            }
        }
        pods
    }

    fn new_node(&mut self, claim: &Value) -> Value {
        self.made += 1;
        let pools = self.scenario["nodePools"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        let pool = pools.iter().find(|pool| pool["metadata"]["name"] == claim["nodePool"]);
        let taints = pool.map_or(Value::Null, |pool| pool["spec"]["template"]["spec"]["taints"].clone());
        let launch = &claim["cheapest"];
        json!({
            "name": format!("new-{}", self.made), "nodePool": claim["nodePool"], "taints": taints,
            "instanceType": launch["instanceType"], "zone": launch["zone"], "capacityType": launch["capacityType"],
            "ageSeconds": 86_400, "lastPodEventSeconds": 3_600, "podGroups": [],
        })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_takes_nodes_away_and_puts_their_pods_where_it_says() {
        let node = |name: &str, count: u64| {
            json!({ "name": name, "instanceType": "m", "zone": "z", "capacityType": "spot",
                "podGroups": [{ "count": count, "pod": { "metadata": { "name": "p" } } }] })
        };
        let scenario = json!({
            "instanceTypes": [{ "name": "m", "offerings": [["z", "spot", 2.0, true]] }],
            "nodes": [node("a", 2), node("b", 1)],
        });
        let mut cluster = Cluster::new(scenario).expect("it lists instance types");
        assert!((cluster.price() - 4.0).abs() < 1e-9);
        let launch = json!({ "instanceType": "m", "zone": "z", "capacityType": "spot" });
        let command = json!({
            "candidates": ["a"],
            "existingNodes": [{ "name": "b", "pods": ["default/p-1-a"] }],
            "replacements": [{ "cheapest": launch, "pods": ["default/p-0-a"] }],
        });
        assert_eq!(cluster.carry_out(&command).expect("its names are known"), 2);
        let pods: Vec<usize> =
            cluster.nodes().iter().map(|node| node["podGroups"].as_array().map_or(0, Vec::len)).collect();
        assert_eq!(pods, [2, 1]);
        assert!(cluster.carry_out(&command).is_err(), "the pods have moved");
    }
}
