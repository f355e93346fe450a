//! Karpenter's own definitions and objects of them, valid and damaged, so that every CEL rule answers.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Library;
use crate::kinds::Kinds;
use crate::mutate::{mutate, mutation};
use crate::random::Random;
use crate::samples::Resource;
use crate::script::{Condition, MERGE_PATCH, Request, Script};
use crate::side::edit;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const KINDS: [&str; 4] = ["NodePool", "NodeClaim", "NodeOverlay", "CapacityBuffer"];

const FILES: [&str; 4] = [
    include_str!("../../../../crds/karpenter.sh_nodepools.yaml"),
    include_str!("../../../../crds/karpenter.sh_nodeclaims.yaml"),
    include_str!("../../../../crds/karpenter.sh_nodeoverlays.yaml"),
    include_str!("../../../../crds/autoscaling.x-k8s.io_capacitybuffers.yaml"),
];

/// The definition of a kind, and the resource with a valid object.
pub(super) fn subject(kind: &str) -> Result<(Value, Resource)> {
    let index =
        KINDS.iter().position(|known| *known == kind).with_context(|| format!("no definition of {kind}"))?;
    let definition: Value = serde_saphyr::from_str(FILES[index]).context("reading a definition")?;
    let spec = &definition["spec"];
    let requirement =
        json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"], "minValues": 1});
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let object = match index {
        0 => json!({"kind": "NodePool", "spec": {
            "weight": 10, "limits": {"cpu": "100", "nodes": "10"},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s",
                "budgets": [{"nodes": "10%"}, {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h", "reasons": ["Drifted"]}]},
            "template": {"metadata": {"labels": {"team": "a"}, "annotations": {"example.com/a": "b"}}, "spec": {
                "requirements": [requirement, {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]},
                    {"key": "example.com/cpu", "operator": "Gt", "values": ["3"]}, {"key": "example.com/x", "operator": "Exists"}],
                "nodeClassRef": class, "taints": [{"key": "example.com/t", "value": "v", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "example.com/s", "effect": "NoExecute"}], "expireAfter": "720h", "terminationGracePeriod": "48h",
            }},
        }}),
        1 => json!({"kind": "NodeClaim", "spec": {
            "requirements": [requirement, {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}],
            "resources": {"requests": {"cpu": "1", "pods": "3"}}, "nodeClassRef": class,
            "taints": [{"key": "example.com/t", "effect": "NoSchedule"}], "expireAfter": "720h",
        }}),
        2 => json!({"kind": "NodeOverlay", "spec": {
            "weight": 5, "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
            "priceAdjustment": "+10%", "capacity": {"example.com/gpu": "1"},
        }}),
        _ => json!({"kind": "CapacityBuffer", "spec": {
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity", "replicas": 2, "podTemplateRef": {"name": "p"},
        }}),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&spec["versions"][0]["name"]);
    let path = format!("{}/{version}/{}", text(&spec["group"]), text(&spec["names"]["plural"]));
    let resource = Resource { path, namespaced: spec["scope"] == "Namespaced", objects: vec![object] };
    Ok((definition, resource))
}

/// Installs a definition unless an earlier script did, and waits until its objects are served.
pub(super) fn install(script: &mut Script, definition: &Value, resource: &Resource) {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    script.send(Request::new("POST", DEFINITIONS).json(definition.clone()));
    let established = "/status/conditions/1/status".to_owned();
    script.wait(Condition::Value(format!("{DEFINITIONS}/{name}"), established, json!("True")));
    script.wait(Condition::Code(resource.collection(&script.namespace), 200));
}

pub(super) fn script(_: &Library, script: &mut Script) {
    let kind = script.random.pick(&KINDS);
    let (definition, resource) = subject(kind).expect("the definitions are YAML");
    let (kinds, root) = Kinds::custom(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    install(script, &definition, &resource);
    for index in 0..6 {
        let mut object = script.sample(&resource, &format!("o{index}"));
        for _ in 0..script.random.below(3) {
            if script.random.chance(60) {
                special(&mut script.random, &mut object);
            } else {
                mutate(&kinds, &mut script.random, &mut object, &root);
            }
        }
        script.create(&resource, object);
    }
    let object = script.sample(&resource, "a");
    script.create(&resource, object.clone());
    for _ in 0..5 {
        let mut changed = object.clone();
        if script.random.chance(50) {
            special(&mut script.random, &mut changed);
        } else if let Some((pointer, value)) = mutation(&kinds, &mut script.random, &object, &root) {
            edit(&mut changed, &pointer, value);
        }
        let patch = Request::new("PATCH", script.item(&resource, "a"));
        script.send(patch.patch(MERGE_PATCH, json!({"spec": changed["spec"]})));
    }
    script.get(&resource, "a");
    script.send(Request::new("DELETE", script.item(&resource, "a")));
}

/// Changes aimed at the rules of Karpenter's schemas.
fn special(random: &mut Random, object: &mut Value) {
    let pool = object["kind"] == "NodePool";
    let inside = |name: &str| format!("{}{name}", if pool { "/spec/template/spec" } else { "/spec" });
    let requirement = |key: &str, operator: &str, values: Value| json!([{"key": key, "operator": operator, "values": values}]);
    let choices = [
        (inside("/requirements"), requirement("karpenter.sh/nodepool", "In", json!(["x"]))),
        (inside("/requirements"), requirement("kubernetes.io/hostname", "In", json!(["x"]))),
        (inside("/requirements"), requirement("karpenter.sh/other", "Exists", json!([]))),
        (inside("/requirements"), requirement("kubernetes.io/custom", "In", json!(["x"]))),
        (inside("/requirements"), requirement("node.kubernetes.io/instance-type", "In", json!(["x"]))),
        (inside("/requirements"), requirement("example.com/a", "In", json!([]))),
        (inside("/requirements"), requirement("example.com/a", "Gt", json!(["a"]))),
        (inside("/requirements"), requirement("example.com/a", "Gt", json!(["1", "2"]))),
        (inside("/requirements"), requirement("example.com/a", "Lt", json!(["-1"]))),
        (inside("/requirements"), requirement("example.com/a", "Gte", json!(["1"]))),
        (inside("/requirements"), requirement("bad key", "Exists", json!([]))),
        (inside("/requirements"), json!([{"key": "a", "operator": "In", "values": ["x"], "minValues": 2}])),
        (inside("/requirements"), json!([{"key": "a", "operator": "In", "values": ["x"], "minValues": 51}])),
        (inside("/taints"), json!([{"key": "a", "effect": "Never"}])),
        (inside("/taints"), json!([{"effect": "NoSchedule"}])),
        (inside("/expireAfter"), json!("Never")),
        (inside("/expireAfter"), json!("soon")),
        (inside("/terminationGracePeriod"), json!("10x")),
        (inside("/nodeClassRef"), json!({"group": "", "kind": "", "name": ""})),
        (inside("/nodeClassRef/group"), json!("a/b")),
        (inside("/nodeClassRef/kind"), json!("Other")),
        ("/spec/template/metadata/labels".to_owned(), json!({"karpenter.sh/nodepool": "x"})),
        ("/spec/template/metadata/labels".to_owned(), json!({"kubernetes.io/hostname": "x"})),
        ("/spec/template/metadata/labels".to_owned(), json!({"a": "bad value!"})),
        ("/spec/template/metadata/labels".to_owned(), json!({"example.kubernetes.io/a": "b"})),
        ("/spec/disruption/budgets".to_owned(), json!([{"nodes": "110%"}])),
        ("/spec/disruption/budgets".to_owned(), json!([{"nodes": "5", "schedule": "@daily"}])),
        (
            "/spec/disruption/budgets".to_owned(),
            json!([{"nodes": "5", "schedule": "* * *", "duration": "1h"}]),
        ),
        (
            "/spec/disruption/budgets".to_owned(),
            json!([{"nodes": "5", "duration": "1h30m10s", "schedule": "* * * * *"}]),
        ),
        ("/spec/disruption/budgets".to_owned(), json!([{"nodes": "5", "reasons": ["Boredom"]}])),
        ("/spec/disruption/consolidateAfter".to_owned(), json!("Never")),
        ("/spec/disruption/consolidateAfter".to_owned(), json!("x")),
        ("/spec/disruption/consolidationPolicy".to_owned(), json!("Sometimes")),
        ("/spec/disruption".to_owned(), json!({"consolidationPolicy": "WhenEmpty"})),
        ("/spec/weight".to_owned(), json!(0)),
        ("/spec/weight".to_owned(), json!(101)),
        ("/spec/replicas".to_owned(), json!(3)),
        ("/spec/replicas".to_owned(), json!(-3)),
        ("/spec/limits".to_owned(), json!({"cpu": "x"})),
        ("/spec/limits".to_owned(), json!({"cpu": 5})),
        ("/spec/price".to_owned(), json!("1.5")),
        ("/spec/price".to_owned(), json!("-1")),
        ("/spec/priceAdjustment".to_owned(), json!("10")),
        ("/spec/priceAdjustment".to_owned(), json!("-100%")),
        ("/spec/priceAdjustment".to_owned(), json!("-101%")),
        ("/spec/capacity".to_owned(), json!({"cpu": "1"})),
        ("/spec/percentage".to_owned(), json!(10)),
        ("/spec/scalableRef".to_owned(), json!({"apiGroup": "apps", "kind": "Deployment", "name": "d"})),
        ("/spec/podTemplateRef".to_owned(), Value::Null),
    ];
    let (pointer, value) = random.pick(&choices);
    edit(object, &pointer, Some(value));
}
