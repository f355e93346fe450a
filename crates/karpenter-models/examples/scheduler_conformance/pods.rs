//! Generated pods: every rule the scheduler knows, alone and together.

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::cluster::{Cluster, TAINTS};

/// Values of the label `app`.
pub(crate) const APPS: [&str; 3] = ["web", "db", "batch"];

/// Returns a pod of a cluster.
pub(crate) fn pod(chance: &mut Chance, cluster: &Cluster, index: usize) -> Value {
    let namespace = if chance.percent(85) { cluster.name.clone() } else { format!("{}-other", cluster.name) };
    let mut labels = json!({"app": chance.one(&APPS)});
    if chance.percent(50) {
        labels["tier"] = json!(chance.one(&["front", "back"]));
    }
    if chance.percent(50) {
        labels["version"] = json!(chance.one(&["1", "2"]));
    }
    let mut spec = json!({"terminationGracePeriodSeconds": 0, "containers": [container(chance, "main")]});
    add_resources(chance, &mut spec);
    add_node_rules(chance, cluster, &mut spec);
    add_pod_rules(chance, &mut spec);
    if chance.percent(30) {
        spec["topologySpreadConstraints"] = (0..chance.number(1, 2)).map(|_| spread(chance)).collect();
        drop_duplicates(&mut spec["topologySpreadConstraints"]);
    }
    if namespace == cluster.name && !cluster.claims.is_empty() && chance.percent(25) {
        add_claim(chance, cluster, &mut spec);
    }
    if chance.percent(45) {
        spec["priorityClassName"] = json!(chance.one(&["low", "low", "high", "high", "patient"]));
    }
    if chance.percent(5) {
        spec["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    }
    json!({"metadata": {"name": format!("p{index}"), "namespace": namespace, "labels": labels}, "spec": spec})
}

fn container(chance: &mut Chance, name: &str) -> Value {
    let mut container = json!({"name": name, "image": "app"});
    let mut amounts = json!({});
    if chance.percent(80) {
        amounts["cpu"] = format!("{}m", chance.number(1, 10) * 100).into();
    }
    if chance.percent(70) {
        amounts["memory"] = format!("{}Mi", chance.number(1, 10) * 100).into();
    }
    if chance.percent(8) {
        amounts["ephemeral-storage"] = format!("{}Gi", chance.number(1, 5)).into();
    }
    // Limits alone stand for requests too.
    let place = if chance.percent(15) { "limits" } else { "requests" };
    container["resources"] = json!({place: amounts});
    if chance.percent(8) {
        let count = chance.number(1, 2).to_string();
        container["resources"]["limits"]["example.com/gpu"] = count.clone().into();
        container["resources"]["requests"]["example.com/gpu"] = count.into();
    }
    if chance.percent(8) {
        let mut port = json!({"containerPort": 80, "hostPort": chance.number(8000, 8002), "protocol": chance.one(&["TCP", "UDP"])});
        if chance.percent(40) {
            port["hostIP"] = json!(chance.one(&["127.0.0.1", "0.0.0.0", "10.0.0.1"]));
        }
        container["ports"] = json!([port]);
    }
    container
}

/// More containers, sidecars, and resources of the whole pod.
fn add_resources(chance: &mut Chance, spec: &mut Value) {
    if chance.percent(15) {
        let second = container(chance, "second");
        if let Some(containers) = spec["containers"].as_array_mut() {
            containers.push(second);
        }
    }
    if chance.percent(20) {
        let mut init: Vec<Value> =
            (0..chance.number(1, 2)).map(|index| container(chance, &format!("init-{index}"))).collect();
        for container in &mut init {
            if let Some(container) = container.as_object_mut() {
                container.remove("ports");
            }
            if chance.percent(50) {
                container["restartPolicy"] = "Always".into();
            }
        }
        spec["initContainers"] = init.into();
    }
    if chance.percent(6) {
        // Of the whole pod: no less than its containers together.
        spec["resources"] = json!({"requests": {"cpu": "5", "memory": "5Gi"}});
    }
}

fn add_node_rules(chance: &mut Chance, cluster: &Cluster, spec: &mut Value) {
    let tolerations: Vec<Value> = chance
        .some(&TAINTS, 25)
        .into_iter()
        .map(
            |(key, value, effect)| json!({"key": key, "operator": "Equal", "value": value, "effect": effect}),
        )
        .collect();
    if !tolerations.is_empty() {
        spec["tolerations"] = tolerations.into();
    } else if chance.percent(12) {
        spec["tolerations"] = json!([{"operator": "Exists"}]);
    } else if chance.percent(13) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    if chance.percent(10) {
        spec["nodeSelector"] = json!({"disk": chance.one(&["ssd", "hdd"])});
    }
    if chance.percent(15) {
        let terms: Vec<Value> = (0..chance.number(1, 2)).map(|_| node_term(chance, cluster)).collect();
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if chance.percent(10) {
        let term = json!({"weight": chance.number(1, 100), "preference": node_term(chance, cluster)});
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([term]);
    }
}

fn node_term(chance: &mut Chance, cluster: &Cluster) -> Value {
    let expression = match chance.number(0, 6) {
        0 => json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}),
        1 => json!({"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["a"]}),
        2 => json!({"key": "disk", "operator": "Exists"}),
        3 => json!({"key": "disk", "operator": "DoesNotExist"}),
        4 => json!({"key": "cores", "operator": "Gt", "values": ["4"]}),
        5 => json!({"key": "cores", "operator": "Lt", "values": ["9"]}),
        _ => {
            let name = cluster.node_name(chance.number(0, 4));
            let operator = chance.one(&["In", "NotIn"]);
            return json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]});
        }
    };
    json!({"matchExpressions": [expression]})
}

fn add_pod_rules(chance: &mut Chance, spec: &mut Value) {
    for (kind, percent) in [("podAffinity", 12), ("podAntiAffinity", 18)] {
        if chance.percent(percent) {
            let terms: Vec<Value> = (0..chance.number(1, 2)).map(|_| pod_term(chance)).collect();
            spec["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"] = terms.into();
        }
        if chance.percent(10) {
            let term = json!({"weight": chance.number(1, 100), "podAffinityTerm": pod_term(chance)});
            spec["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([term]);
        }
    }
}

fn pod_term(chance: &mut Chance) -> Value {
    let mut term = json!({"topologyKey": chance.topology_key(), "labelSelector": chance.selector()});
    match chance.number(0, 7) {
        0 => term["namespaceSelector"] = json!({}),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"team": "two"}}),
        2 => term["matchLabelKeys"] = json!(["version"]),
        3 => term["mismatchLabelKeys"] = json!(["version"]),
        _ => {}
    }
    term
}

fn spread(chance: &mut Chance) -> Value {
    let is_hard = chance.percent(80);
    let mut constraint = json!({"topologyKey": chance.topology_key(), "maxSkew": chance.number(1, 2),
        "whenUnsatisfiable": if is_hard { "DoNotSchedule" } else { "ScheduleAnyway" }, "labelSelector": chance.selector()});
    if is_hard && chance.percent(30) {
        constraint["minDomains"] = chance.number(1, 5).into();
    }
    if chance.percent(30) {
        constraint["matchLabelKeys"] = json!(["version"]);
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if chance.percent(40) {
            constraint[policy] = json!(chance.one(&["Honor", "Ignore"]));
        }
    }
    constraint
}

/// The API refuses two constraints with one key and the same `whenUnsatisfiable`.
fn drop_duplicates(constraints: &mut Value) {
    if let Some(list) = constraints.as_array_mut() {
        list.dedup_by_key(|one| (one["topologyKey"].clone(), one["whenUnsatisfiable"].clone()));
    }
}

fn add_claim(chance: &mut Chance, cluster: &Cluster, spec: &mut Value) {
    let claim = chance.one(&cluster.claims);
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim.name}}]);
    if claim.waits {
        // Both schedulers must choose the same node, or the volumes chosen for the claim differ from then on.
        spec["nodeSelector"]["kubernetes.io/hostname"] = cluster.node_name(chance.number(0, 4)).into();
    }
}

/// Returns the pod with one more demand, which no node meets and which is looked at last. What the scheduler says about
/// it tells how many nodes meet all other demands.
pub(crate) fn probe(pod: &Value) -> Value {
    let mut probe = pod.clone();
    let name = format!("{}-probe", pod["metadata"]["name"].as_str().unwrap_or_default());
    probe["metadata"]["name"] = name.into();
    let near =
        &mut probe["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"nobody": "here"}}});
    match near.as_array_mut() {
        Some(terms) => terms.push(term),
        None => *near = json!([term]),
    }
    probe
}
