//! A running cluster to be consolidated: ten pods on every node, a hundred deployments with mixed constraints, twenty
//! NodePools. Half of the nodes are the cheapest that carry their pods, the others are dearer than they need be.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::warm::resources;
use super::{ARCH, CAPACITY_TYPE, HOSTNAME, ZONE, spread};
use crate::random::Random;

/// Sizes of the series, in nodes.
pub(crate) const NODES: [usize; 4] = [100, 1_000, 5_000, 10_000];

const POOLS: usize = 20;
const DEPLOYMENTS: usize = 100;
const PODS_PER_NODE: usize = 10;
/// What the daemon sets of the catalog ask for, in thousandths of a core and MiB.
const DAEMONS: (i64, i64) = (225, 384);
/// What a node can be chosen from: its price, its type, its zone.
type Choice = (f64, String, String);

/// A deployment: what its pods ask for in thousandths of a core and MiB, and what else they want.
struct Deployment {
    number: usize,
    cpu: i64,
    memory: i64,
}

/// One way to buy a machine.
struct Machine {
    choice: Choice,
    arch: String,
    capacity_type: String,
    cpu: i64,
    memory: i64,
}

pub(super) fn scenario(mut base: Value, mut random: Random, nodes: usize) -> Result<Value> {
    let machines = machines(&base)?;
    let deployments: Vec<Deployment> =
        (0..DEPLOYMENTS).map(|number| deployment(number, &mut random)).collect();
    let made: Result<Vec<Value>> =
        (0..nodes).map(|index| node(index, &machines, &deployments, &mut random)).collect();
    base["nodes"] = Value::Array(made?);
    base["nodePools"] = (0..POOLS).map(pool).collect();
    base["podGroups"] = json!([]);
    base["mode"] = json!("disrupt");
    base["now"] = json!("2026-01-01T12:00:00Z");
    Ok(base)
}

fn machines(base: &Value) -> Result<Vec<Machine>> {
    let mut machines = Vec::new();
    for known in base["instanceTypes"].as_array().context("the catalog lists instance types")? {
        let mut allocatable = resources(&known["capacity"])?;
        allocatable.subtract(&resources(&known["overhead"])?);
        let arch =
            known["requirements"].as_array().and_then(|all| all.iter().find(|line| line["key"] == ARCH));
        let name = known["name"].as_str().context("an instance type has a name")?;
        for offering in known["offerings"].as_array().into_iter().flatten().filter(|line| line[3] == true) {
            let text = |index: usize| offering[index].as_str().unwrap_or_default().to_owned();
            machines.push(Machine {
                choice: (offering[2].as_f64().unwrap_or_default(), name.to_owned(), text(0)),
                arch: arch.and_then(|arch| arch["values"][0].as_str()).unwrap_or_default().to_owned(),
                capacity_type: text(1),
                cpu: allocatable.get("cpu").ceil_milli() - DAEMONS.0,
                memory: (allocatable.get("memory").ceil_units() >> 20) - DAEMONS.1,
            });
        }
    }
    machines.retain(|machine| machine.cpu < 64_000);
    machines.sort_by(|a, b| {
        let name = |machine: &Machine| (machine.choice.1.clone(), machine.choice.2.clone());
        a.choice.0.total_cmp(&b.choice.0).then_with(|| name(a).cmp(&name(b)))
    });
    Ok(machines)
}

fn arch(pool: usize) -> &'static str {
    if pool % 4 == 3 { "arm64" } else { "amd64" }
}

fn capacity_types(pool: usize) -> &'static [&'static str] {
    if pool.is_multiple_of(3) { &["on-demand"] } else { &["spot", "on-demand"] }
}

fn taints(pool: usize) -> Value {
    if pool % 10 == 9 {
        json!([{ "key": "dedicated", "value": "t", "effect": "NoSchedule" }])
    } else {
        json!([])
    }
}

fn pool(number: usize) -> Value {
    let requirements = json!([
        { "key": CAPACITY_TYPE, "operator": "In", "values": capacity_types(number) },
        { "key": ARCH, "operator": "In", "values": [arch(number)] },
        { "key": "example.com/instance-cpu", "operator": "Lt", "values": ["65"] },
    ]);
    let spec = json!({ "requirements": requirements, "expireAfter": "720h", "taints": taints(number) });
    let labels = json!({ "team": format!("t{}", number % 5) });
    json!({ "metadata": { "name": format!("pool-{number:02}") }, "spec": {
        "weight": 10,
        "template": { "metadata": { "labels": labels }, "spec": spec },
        "disruption": {
            "consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{ "nodes": "100%" }],
        },
    } })
}

fn deployment(number: usize, random: &mut Random) -> Deployment {
    let cpu = *random.pick(&[100, 250, 250, 500, 500, 1000, 1500]);
    Deployment { number, cpu, memory: cpu * *random.pick(&[1, 2, 3]) }
}

impl Deployment {
    /// What the pods want besides resources; some of it depends on the node they were put on.
    fn spec(&self, zone: &str, pool: usize) -> Value {
        let labels = json!({ "app": format!("d{:02}", self.number) });
        let mut spec = json!({ "tolerations": [{ "key": "dedicated", "operator": "Exists" }] });
        let apart = |topology_key: &str, skew: u32, hard: bool| {
            let mut constraint = spread(topology_key, &labels);
            constraint[0]["maxSkew"] = json!(skew);
            constraint[0]["whenUnsatisfiable"] = json!(if hard { "DoNotSchedule" } else { "ScheduleAnyway" });
            constraint
        };
        match self.number % 10 {
            1 => spec["topologySpreadConstraints"] = apart(ZONE, 1, false),
            2 => spec["topologySpreadConstraints"] = apart(ZONE, 5, true),
            3 => {
                let term = json!({ "labelSelector": { "matchLabels": labels }, "topologyKey": HOSTNAME });
                spec["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
            }
            4 => spec["nodeSelector"] = json!({ ZONE: zone }),
            5 => spec["nodeSelector"] = json!({ CAPACITY_TYPE: "on-demand" }),
            6 => spec["nodeSelector"] = json!({ "team": format!("t{}", pool % 5) }),
            7 => spec["topologySpreadConstraints"] = apart(HOSTNAME, 3, true),
            _ => {}
        }
        let requests = json!({ "cpu": format!("{}m", self.cpu), "memory": format!("{}Mi", self.memory) });
        spec["containers"] = json!([{ "resources": { "requests": requests } }]);
        spec
    }

    fn may_run(&self, capacity_type: &str, already: usize) -> bool {
        match self.number % 10 {
            3 => already == 0,
            5 => capacity_type == "on-demand",
            7 => already < 3,
            _ => true,
        }
    }
}

fn node(
    index: usize,
    machines: &[Machine],
    deployments: &[Deployment],
    random: &mut Random,
) -> Result<Value> {
    let pool = random.below(POOLS);
    let capacity_type = *random.pick(capacity_types(pool));
    let mut counts = vec![0; deployments.len()];
    for _ in 0..PODS_PER_NODE {
        let drawn = random.below(deployments.len());
        // The first deployment goes anywhere.
        let chosen = if deployments[drawn].may_run(capacity_type, counts[drawn]) { drawn } else { 0 };
        counts[chosen] += 1;
    }
    let sum = |of: fn(&Deployment) -> i64| -> i64 {
        counts.iter().zip(deployments).map(|(count, deployment)| *count as i64 * of(deployment)).sum()
    };
    let (cpu, memory) = (sum(|deployment| deployment.cpu), sum(|deployment| deployment.memory));
    let fitting: Vec<&Machine> = machines
        .iter()
        .filter(|machine| machine.arch == arch(pool) && machine.capacity_type == capacity_type)
        .filter(|machine| machine.cpu >= cpu.max(1_500) && machine.memory >= memory)
        .collect();
    let wasteful = match random.below(4) {
        0 | 1 => 1,
        2 => 10,
        _ => 60,
    };
    let place = random.below(wasteful).min(fitting.len().saturating_sub(1));
    let (_, name, zone) = &fitting.get(place).context("some machine carries any ten pods")?.choice;
    let present = counts.iter().zip(deployments).filter(|(count, _)| **count > 0);
    let groups: Vec<Value> = present
        .map(|(count, deployment)| {
            let label = format!("d{:02}", deployment.number);
            let metadata = json!({ "name": label, "labels": { "app": label } });
            json!({ "count": count, "pod": { "metadata": metadata, "spec": deployment.spec(zone, pool) } })
        })
        .collect();
    Ok(json!({
        "name": format!("node-{index:05}"), "nodePool": format!("pool-{pool:02}"), "instanceType": name, "zone": zone,
        "capacityType": capacity_type, "ageSeconds": 86_400, "lastPodEventSeconds": 3_600, "taints": taints(pool),
        "podGroups": groups,
    }))
}
