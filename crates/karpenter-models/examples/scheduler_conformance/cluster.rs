//! Generated clusters: nodes, what they can attach, volumes and claims, budgets, priorities.

use serde_json::{Value, json};

use crate::chance::Chance;

const ZONES: [&str; 3] = ["a", "b", "c"];
/// The storage driver of all generated volumes.
const DRIVER: &str = "disk.example.com";
/// Taints nodes may have: key, value, effect.
pub(crate) const TAINTS: [(&str, &str, &str); 4] = [
    ("dedicated", "batch", "NoSchedule"),
    ("dedicated", "web", "NoExecute"),
    ("spot", "", "NoSchedule"),
    ("old", "yes", "PreferNoSchedule"),
];

/// A claim and how pods may use it.
pub(crate) struct Claim {
    pub(crate) name: String,
    /// Whether it gets its volume when its pod gets a node: then one pod on one node uses it.
    pub(crate) waits: bool,
}

/// Everything a cluster has before its pods come.
pub(crate) struct Cluster {
    /// Part of the names of everything that is not namespaced.
    pub(crate) name: String,
    pub(crate) namespaces: Vec<Value>,
    pub(crate) nodes: Vec<Value>,
    pub(crate) csi_nodes: Vec<Value>,
    pub(crate) storage_classes: Vec<Value>,
    pub(crate) volumes: Vec<Value>,
    pub(crate) claim_objects: Vec<Value>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) budgets: Vec<Value>,
}

impl Cluster {
    pub(crate) fn generate(chance: &mut Chance, number: u64) -> Self {
        let name = format!("c{number}");
        let mut cluster = Self {
            namespaces: vec![
                json!({"metadata": {"name": name, "labels": {"team": "one"}}}),
                json!({"metadata": {"name": format!("{name}-other"), "labels": {"team": "two"}}}),
            ],
            nodes: Vec::new(),
            csi_nodes: Vec::new(),
            storage_classes: storage_classes(&name),
            volumes: Vec::new(),
            claim_objects: Vec::new(),
            claims: Vec::new(),
            budgets: Vec::new(),
            name,
        };
        for index in 0..chance.number(0, 12) {
            cluster.add_node(chance, index);
        }
        for index in 0..chance.number(3, 8) {
            cluster.add_claim(chance, index);
        }
        for index in 0..chance.number(0, 2) {
            cluster.budgets.push(json!({"metadata": {"name": format!("budget-{index}"), "namespace": cluster.name},
                "spec": {"minAvailable": 1, "selector": chance.selector()},
                "status": {"disruptionsAllowed": chance.number(0, 1), "currentHealthy": 1, "desiredHealthy": 1,
                    "expectedPods": 1, "observedGeneration": 1}}));
        }
        cluster
    }

    pub(crate) fn node_name(&self, index: u64) -> String {
        format!("{}-n{index}", self.name)
    }

    fn add_node(&mut self, chance: &mut Chance, index: u64) {
        let name = self.node_name(index);
        let mut labels =
            json!({"kubernetes.io/hostname": name, "kubernetes.io/arch": chance.one(&["amd64", "arm64"])});
        if chance.percent(90) {
            labels["topology.kubernetes.io/zone"] = json!(chance.one(&ZONES));
        }
        if chance.percent(70) {
            labels["rack"] = json!(chance.one(&["r1", "r2"]));
        }
        if chance.percent(50) {
            labels["disk"] = json!(chance.one(&["ssd", "hdd"]));
        }
        if chance.percent(50) {
            labels["cores"] = json!(chance.number(1, 16).to_string());
        }
        let taints: Vec<Value> = chance
            .some(&TAINTS, 12)
            .into_iter()
            .map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect}))
            .collect();
        let mut room = json!({"cpu": format!("{}m", chance.number(4, 32) * 250),
            "memory": format!("{}Mi", chance.number(4, 64) * 128), "pods": chance.number(3, 12).to_string()});
        if chance.percent(30) {
            room["example.com/gpu"] = chance.number(1, 4).to_string().into();
        }
        if chance.percent(60) {
            room["ephemeral-storage"] = format!("{}Gi", chance.number(1, 20)).into();
        }
        self.nodes.push(json!({"metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": chance.percent(10)},
            "status": {"capacity": room, "allocatable": room}}));
        if chance.percent(80) {
            let mut driver =
                json!({"name": DRIVER, "nodeID": name, "topologyKeys": ["topology.kubernetes.io/zone"]});
            if chance.percent(80) {
                driver["allocatable"] = json!({"count": chance.number(1, 3)});
            }
            self.csi_nodes.push(json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}}));
        }
    }

    /// Adds a claim: bound to a volume of its own, waiting for its pod's node with or without volumes to choose from, or
    /// hopeless.
    fn add_claim(&mut self, chance: &mut Chance, index: u64) {
        let name = format!("claim-{index}");
        let kind = chance.number(0, 9);
        let class = match kind {
            0..=4 => "at-once",
            5 | 6 => "chosen",
            7 | 8 => "made",
            _ => "unknown",
        };
        let class = format!("{}-{class}", self.name);
        let mode = *chance.one(&["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]);
        let mut spec = json!({"accessModes": [mode], "storageClassName": class,
            "resources": {"requests": {"storage": format!("{}Gi", chance.number(1, 4))}}});
        let volume = format!("{}-v{index}", self.name);
        match kind {
            // One in five stays without its volume.
            0..=4 => {
                spec["volumeName"] = volume.clone().into();
                if kind != 0 {
                    let owner = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": self.name, "name": name});
                    self.volumes.push(volume_object(chance, &volume, &class, mode, Some(owner)));
                }
            }
            5 | 6 => {
                for copy in 0..chance.number(1, 2) {
                    self.volumes.push(volume_object(chance, &format!("{volume}-{copy}"), &class, mode, None));
                }
            }
            _ => {}
        }
        self.claim_objects.push(json!({"metadata": {"name": name, "namespace": self.name}, "spec": spec}));
        self.claims.push(Claim { name, waits: kind >= 5 });
    }
}

fn storage_classes(name: &str) -> Vec<Value> {
    let class = |kind: &str, mode: &str, provisioner: &str| json!({"metadata": {"name": format!("{name}-{kind}")}, "provisioner": provisioner, "volumeBindingMode": mode});
    let mut made = class("made", "WaitForFirstConsumer", DRIVER);
    made["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a", "b"]}]}]);
    vec![
        class("at-once", "Immediate", "kubernetes.io/no-provisioner"),
        class("chosen", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
        made,
    ]
}

fn volume_object(chance: &mut Chance, name: &str, class: &str, mode: &str, owner: Option<Value>) -> Value {
    let mut spec = json!({"capacity": {"storage": format!("{}Gi", if owner.is_some() { 4 } else { chance.number(1, 4) })},
        "accessModes": [mode], "storageClassName": class, "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": DRIVER, "volumeHandle": name}});
    let zone = chance.one(&ZONES);
    let mut labels = json!({});
    match chance.number(0, 3) {
        0 => labels = json!({"topology.kubernetes.io/zone": zone}),
        1 => {}
        _ => {
            let term = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
            spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}});
        }
    }
    if let Some(owner) = owner {
        spec["claimRef"] = owner;
    }
    json!({"metadata": {"name": name, "labels": labels}, "spec": spec})
}

/// Priorities, the same in all clusters.
pub(crate) fn priority_classes() -> Vec<Value> {
    vec![
        json!({"metadata": {"name": "low"}, "value": -10}),
        json!({"metadata": {"name": "high"}, "value": 1000}),
        json!({"metadata": {"name": "patient"}, "value": 2000, "preemptionPolicy": "Never"}),
    ]
}
