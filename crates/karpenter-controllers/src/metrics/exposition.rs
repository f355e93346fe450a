//! The exposition beside the list in `exposition.txt`: every metric of the list is there with its kind and labels, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::LabelRules;
use karpenter_apiserver::{ApiServer, Options};
use karpenter_environment::{Environment, SimulatedEnvironment};
use karpenter_kwok::{Kwok, definition, generated_instance_types};
use karpenter_provider::Provider;
use karpenter_runtime::Runtime;
use karpenter_simcloud::Plenty;
use kube::Client;
use serde_json::{Value, json};

use super::{Exporter, Exposure, Metrics, ObjectLabels};
use crate::state::{SharedState, StateKeeper};

/// Kind and labels of a metric.
type Shape = (String, BTreeSet<String>);

const NODE: &str = "arch capacity_type instance_cpu instance_family instance_memory instance_size instance_type managed node_name nodepool os phase region windows_build zone";
const CLAIM: &str = "karpenter_kwok_sh_kwoknodeclass karpenter_sh_nodepool";
const JOINED: &str = "karpenter_kwok_sh_kwoknodeclass karpenter_sh_initialized karpenter_sh_nodepool";

fn wanted() -> BTreeMap<String, Shape> {
    let lines = include_str!("exposition.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let line = line.replace("@node", NODE).replace("@claim", CLAIM).replace("@joined", JOINED);
            let mut words = line.split(' ').map(str::to_owned);
            (words.next().unwrap(), (words.next().unwrap(), words.collect()))
        })
        .collect()
}

/// Reads an exposition: the labels are those of any of the metric's series; all series of a metric must have the same.
fn shown(text: &str) -> BTreeMap<String, Shape> {
    let mut kinds = BTreeMap::new();
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            kinds.insert(name.to_owned(), kind.to_owned());
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let end = line.find(['{', ' ']).unwrap();
        let (sample, rest) = line.split_at(end);
        let suffixes = ["", "_total", "_bucket", "_sum", "_count"];
        let known = |suffix: &&str| sample.strip_suffix(suffix).is_some_and(|name| kinds.contains_key(name));
        let suffix = suffixes.iter().find(|suffix| known(suffix)).unwrap_or_else(|| panic!("{line}"));
        let family = sample.strip_suffix(suffix).unwrap();
        let kind = &kinds[family];
        let name = if kind == "counter" { format!("{family}_total") } else { family.to_owned() };
        let mut labels = label_names(rest);
        labels.retain(|label| label != "le" && label != "quantile");
        let shape = (kind.clone(), labels);
        let same = shapes.entry(name).or_insert_with(|| shape.clone());
        assert_eq!(*same, shape, "{line}");
    }
    shapes
}

fn label_names(rest: &str) -> BTreeSet<String> {
    let Some((labels, _)) = rest.strip_prefix('{').and_then(|rest| rest.rsplit_once('}')) else {
        return BTreeSet::new();
    };
    labels
        .split("\",")
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split('=').next().unwrap().to_owned())
        .collect()
}

/// A cluster with one of everything, some of it on its way out.
async fn populate(client: &Client) {
    let mut definitions = karpenter_api::crds(&LabelRules::default());
    definitions.push(definition());
    for crd in definitions {
        post(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &json!(crd)).await;
    }
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let leaving = json!(["example.com/stay"]);
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "general", "finalizers": leaving},
        "spec": {"limits": {"cpu": "10"}, "template": {"spec": {"nodeClassRef": class, "requirements": []}}}});
    post(client, "/apis/karpenter.sh/v1/nodepools", &pool).await;
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "claim", "finalizers": leaving}, "spec": {"nodeClassRef": class, "requirements": []}});
    post(client, "/apis/karpenter.sh/v1/nodeclaims", &claim).await;
    let ready = json!([{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    for path in ["nodepools/general", "nodeclaims/claim"] {
        let status = json!({"status": {"conditions": ready, "resources": {"cpu": "1"}}});
        patch(client, &format!("/apis/karpenter.sh/v1/{path}/status"), &status).await;
    }
    let amounts = json!({"cpu": "4", "memory": "4Gi", "pods": "10"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "finalizers": leaving},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": ready}});
    post(client, "/api/v1/nodes", &node).await;
    for (name, owner) in [("pod", "ReplicaSet"), ("daemon", "DaemonSet")] {
        let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
        let owner = json!([{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u"}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": owner},
            "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i", "resources": resources}]}});
        post(client, "/api/v1/namespaces/default/pods", &pod).await;
    }
    for name in ["waiting", "unseen"] {
        let waiting = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        post(client, "/api/v1/namespaces/default/pods", &waiting).await;
    }
    for path in [
        "/apis/karpenter.sh/v1/nodepools/general",
        "/apis/karpenter.sh/v1/nodeclaims/claim",
        "/api/v1/nodes/node",
    ] {
        let request = http::Request::delete(path).body(Vec::new()).unwrap();
        let _: Value = client.request(request).await.unwrap();
    }
}

async fn post(client: &Client, path: &str, body: &Value) {
    let request = http::Request::post(path).header("content-type", "application/json");
    let _: Value = client.request(request.body(serde_json::to_vec(body).unwrap()).unwrap()).await.unwrap();
}

async fn patch(client: &Client, path: &str, body: &Value) {
    let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let _: Value = client.request(request.body(serde_json::to_vec(body).unwrap()).unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_scrape_shows_every_metric_of_the_list_and_no_other() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let environment: Arc<dyn Environment> = Arc::new(SimulatedEnvironment::new(1, now));
    let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
    let client = Client::new(server, "default");
    populate(&client).await;
    let types = generated_instance_types();
    let kwok = Kwok::new(client.clone(), environment.clone(), Arc::new(Plenty), types, Vec::new());
    let state = SharedState::new(&kwok.label_rules());
    let mut runtime = Runtime::new(client, environment.clone());
    runtime.add(StateKeeper::new(state.clone(), &kwok.label_rules(), false));
    let running = tokio::spawn(runtime.run(std::future::pending()));
    tokio::time::sleep(Duration::from_secs(1)).await;

    let metrics = Metrics::default();
    metrics.touch();
    metrics.transitions.touch(&ObjectLabels::new(kwok.node_classes()));
    let _solving = metrics.solves.begin("provisioner", 1);
    let pods: Vec<(String, Arc<str>)> = {
        let state = state.lock();
        state.pods().map(|pod| (pod.names().1.to_owned(), pod.uid().into())).collect()
    };
    for (name, uid) in pods.iter().filter(|(name, _)| name == "waiting" || name == "unseen") {
        let mut state = state.lock();
        state.waits().begin(uid, now);
        if name == "waiting" {
            state.waits().decide(uid, true, now);
        }
    }
    let exporter = Exporter::new(&metrics, &state, &kwok, &environment, ("1", "c"), Exposure::default());
    let text = exporter.text();
    running.abort();
    assert!(text.ends_with("# EOF\n"));
    let (shown, wanted) = (shown(&text), wanted());
    for (name, shape) in &wanted {
        assert_eq!(shown.get(name), Some(shape), "{name}");
    }
    let more: Vec<&String> = shown.keys().filter(|name| !wanted.contains_key(*name)).collect();
    assert!(more.is_empty(), "not in the list: {more:?}");
}
