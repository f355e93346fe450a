//! A running cluster, ten pods on every node, into which new pods of the same deployments come. Small ones find room
//! on what is there, the rest needs new nodes.

use anyhow::{Context, Result};
use karpenter_quantity::ResourceList;
use serde_json::{Value, json};

use super::{ARCH, pod_group, rescale};
use crate::random::Random;

/// Pods of the deployments on every node; one more takes what they leave.
const PODS_PER_NODE: i64 = 9;
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// What the three daemon sets of the catalog ask for, left free on every node.
const DAEMONS: (i64, i64) = (225, 384 << 20);

/// A deployment's pod and what it asks for, in thousandths of a core and bytes.
struct Deployment {
    name: String,
    pod: Value,
    cpu: i64,
    memory: i64,
}

/// An instance type a node may have, with what pods can use of it.
struct Machine {
    name: String,
    arch: String,
    cpu: i64,
    memory: i64,
}

pub(super) fn scenario(mut base: Value, mut random: Random, nodes: usize, pending: usize) -> Result<Value> {
    let mut groups = base["podGroups"].as_array().cloned().unwrap_or_default();
    let deployments = groups.iter().map(deployment).collect::<Result<Vec<_>>>()?;
    let types = base["instanceTypes"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let machines = types.iter().map(machine).collect::<Result<Vec<_>>>()?;
    let middling: Vec<Machine> =
        machines.into_iter().filter(|machine| (7_000..24_000).contains(&machine.cpu)).collect();
    let nodes = (0..nodes).map(|index| node(index, &middling, &deployments, &mut random)).collect();
    base["nodes"] = Value::Array(nodes);
    rescale(&mut groups, pending);
    base["podGroups"] = Value::Array(groups);
    Ok(base)
}

fn node(index: usize, machines: &[Machine], deployments: &[Deployment], random: &mut Random) -> Value {
    let machine = random.pick(machines);
    let zone = ZONES[index % ZONES.len()];
    let on_demand = random.below(4) == 0;
    // A batch node takes ten pods of the batch deployment, which ask for much memory.
    let batch = !on_demand && machine.memory > 44 << 30 && random.below(4) == 0;
    let pool = match machine.arch.as_str() {
        _ if batch => "batch",
        "arm64" => "arm",
        _ => "general",
    };
    let allowed =
        |deployment: &Deployment, already| may_run(&deployment.name, pool, zone, on_demand, already);
    let bound = bound_pods(machine, deployments, random, allowed);
    let mut node = json!({
        "name": format!("node-{index:04}"), "nodePool": pool, "instanceType": machine.name, "zone": zone,
        "capacityType": if on_demand { "on-demand" } else { "spot" },
        "podGroups": bound,
    });
    if pool == "batch" {
        node["taints"] = json!([{ "key": "dedicated", "value": "batch", "effect": "NoSchedule" }]);
    }
    node
}

/// Draws the node's pods. The room that the smallest deployment needs for the rest is kept free, so that every node
/// gets all its pods; a last pod takes what they leave but for some slack.
fn bound_pods(
    machine: &Machine,
    deployments: &[Deployment],
    random: &mut Random,
    allowed: impl Fn(&Deployment, i64) -> bool,
) -> Vec<Value> {
    let smallest = (0..deployments.len())
        .filter(|index| allowed(&deployments[*index], 0))
        .min_by_key(|index| deployments[*index].cpu)
        .expect("every pool has a deployment that may run there");
    let mut counts = vec![0; deployments.len()];
    let (mut cpu, mut memory) = (machine.cpu - DAEMONS.0, machine.memory - DAEMONS.1);
    for left in (1..=PODS_PER_NODE).rev() {
        let drawn = random.below(deployments.len());
        let fits = deployments[drawn].cpu + left * deployments[smallest].cpu <= cpu
            && deployments[drawn].memory + left * deployments[smallest].memory <= memory;
        let chosen = if fits && allowed(&deployments[drawn], counts[drawn]) { drawn } else { smallest };
        counts[chosen] += 1;
        cpu -= deployments[chosen].cpu;
        memory -= deployments[chosen].memory;
    }
    let present = counts.into_iter().zip(deployments).filter(|(count, _)| *count > 0);
    let mut bound: Vec<Value> =
        present.map(|(count, deployment)| json!({ "count": count, "pod": deployment.pod })).collect();
    let (cpu_slack, memory_slack) = (random.below(400) as i64, (random.below(800) as i64) << 20);
    let (cpu, memory) =
        (format!("{}m", (cpu - cpu_slack).max(10)), ((memory - memory_slack).max(1 << 20)).to_string());
    bound.push(pod_group(1, "filler", &json!({ "app": "filler" }), json!({}), (&cpu, &memory)));
    bound
}

/// Whether one more pod of a deployment of the catalog's file may run on such a node.
fn may_run(deployment: &str, pool: &str, zone: &str, on_demand: bool, already: i64) -> bool {
    match deployment {
        "d16" => pool == "batch",
        _ if pool == "batch" => false,
        "d10" => already < 4,
        "d11" | "d18" => already == 0,
        "d12" => zone == ZONES[0],
        "d14" => pool == "arm",
        "d15" => on_demand && zone != ZONES[2],
        _ => true,
    }
}

fn deployment(group: &Value) -> Result<Deployment> {
    let pod = group["pod"].clone();
    let requests = resources(&pod["spec"]["containers"][0]["resources"]["requests"])?;
    let name = pod["metadata"]["name"].as_str().context("a pod group has a name")?.to_owned();
    Ok(Deployment {
        name,
        pod,
        cpu: requests.get("cpu").ceil_milli(),
        memory: requests.get("memory").ceil_units(),
    })
}

fn machine(instance_type: &Value) -> Result<Machine> {
    let mut allocatable = resources(&instance_type["capacity"])?;
    allocatable.subtract(&resources(&instance_type["overhead"])?);
    let requirements = instance_type["requirements"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let arch = requirements.iter().find(|requirement| requirement["key"] == ARCH);
    Ok(Machine {
        name: instance_type["name"].as_str().context("an instance type has a name")?.to_owned(),
        arch: arch.and_then(|arch| arch["values"][0].as_str()).unwrap_or_default().to_owned(),
        cpu: allocatable.get("cpu").ceil_milli(),
        memory: allocatable.get("memory").ceil_units(),
    })
}

pub(super) fn resources(list: &Value) -> Result<ResourceList> {
    serde_json::from_value(list.clone()).context("reading a list of resources of the catalog")
}
