//! Objects in a cluster: applied, pruned, refused. The cluster is the embedded API server.

use std::sync::Arc;

use karpenter_api::LabelRules;
use karpenter_apiserver::{ApiServer, Options};
use karpenter_environment::{Environment, SimulatedEnvironment};
use karpenter_kops::{
    ANNOTATION, Inventory, Live, LiveCluster, Outcome, Pair, Scripts, generate, identity, live_refusals,
    plan, questions,
};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::kops::{FACTS, Kops};

/// A cluster without nodes that knows Karpenter's kinds.
async fn cluster() -> Client {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let environment: Arc<dyn Environment> = Arc::new(SimulatedEnvironment::new(1, now));
    let server = ApiServer::new(Options { environment, ..Options::default() });
    let client = Client::new(server, "default");
    for definition in karpenter_api::crds(&LabelRules::default()) {
        Api::all(client.clone()).create(&PostParams::default(), &definition).await.unwrap();
    }
    for (group, version, kind) in
        [("karpenter.k8s.aws", "v1", "EC2NodeClass"), ("karpenter.sh", "v1alpha5", "Provisioner")]
    {
        define(&client, group, version, kind).await;
    }
    client
}

/// Installs a kind whose objects may hold anything.
async fn define(client: &Client, group: &str, version: &str, kind: &str) {
    let plural = plural(kind);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let kinds = api(client, "apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    create_object(&kinds, definition).await;
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    if lower.ends_with('s') { format!("{lower}es") } else { format!("{lower}s") }
}

fn api(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural(kind));
    Api::all_with(client.clone(), &resource)
}

async fn create_object(api: &Api<DynamicObject>, object: Value) {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

fn inventory(kops: &Kops) -> (Inventory, Vec<Pair>) {
    let inventory = kops.inventory();
    let answers = karpenter_kops::CloudFacts::read(FACTS).unwrap().answer(&questions(&inventory));
    let scripts: Scripts = [("workers".to_owned(), "#!/bin/sh\nexit 0\n".to_owned())].into();
    let pairs = generate(&inventory, &answers, &scripts).unwrap();
    (inventory, pairs)
}

async fn apply(live: &LiveCluster, kops: &Kops) -> Vec<(String, Outcome)> {
    let (inventory, pairs) = inventory(kops);
    let looked = live.look().await.unwrap();
    let plan = plan(&inventory, &pairs, &looked, None).unwrap();
    let outcomes = live.carry_out(&plan, &looked).await.unwrap();
    outcomes.into_iter().map(|((kind, name), outcome)| (format!("{kind}/{name}"), outcome)).collect()
}

async fn refusals(live: &LiveCluster, kops: &Kops) -> String {
    let (inventory, pairs) = inventory(kops);
    live_refusals(&inventory, &pairs, &live.look().await.unwrap()).join("\n")
}

fn both(outcome: Outcome) -> Vec<(String, Outcome)> {
    vec![("EC2NodeClass/workers".to_owned(), outcome), ("NodePool/workers".to_owned(), outcome)]
}

#[tokio::test]
async fn objects_are_created_once_and_changed_when_their_group_changes() {
    let live = LiveCluster::new(cluster().await);
    let kops = Kops::with(&json!({}));
    assert_eq!(apply(&live, &kops).await, both(Outcome::Created));
    assert_eq!(apply(&live, &kops).await, both(Outcome::Unchanged));
    let wider = Kops::with(&json!({"maxSize": 7}));
    let (inventory, pairs) = inventory(&wider);
    let looked = live.look().await.unwrap();
    let plan = plan(&inventory, &pairs, &looked, None).unwrap();
    let preview = live.preview(&plan).await.unwrap();
    assert_eq!(preview[1]["spec"]["limits"]["nodes"], "7");
    assert_eq!(
        live.look().await.unwrap().objects[1]["spec"].get("limits"),
        None,
        "a preview changes nothing"
    );
    assert_eq!(apply(&live, &wider).await[1], ("NodePool/workers".to_owned(), Outcome::Configured));
    let pool = &live.look().await.unwrap().objects[1];
    assert_eq!(pool["metadata"]["annotations"][ANNOTATION], "one.example.com");
    assert_eq!(pool["metadata"]["labels"]["app.kubernetes.io/managed-by"], "kops");
    // A field that the group no longer asks for goes.
    assert_eq!(apply(&live, &kops).await[1].1, Outcome::Configured);
    assert_eq!(live.look().await.unwrap().objects[1]["spec"].get("limits"), None);
}

#[tokio::test]
async fn only_our_objects_are_pruned_and_their_nodes_are_named() {
    let client = cluster().await;
    let live = LiveCluster::new(client.clone());
    apply(&live, &Kops::with(&json!({}))).await;
    let classes = api(&client, "karpenter.k8s.aws", "v1", "EC2NodeClass");
    let labels = json!({"addon.kops.k8s.io/name": "karpenter.sh", "app.kubernetes.io/managed-by": "kops"});
    let foreign = |name: &str, labels: &Value, annotations: Value| {
        json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
               "metadata": {"name": name, "labels": labels, "annotations": annotations}})
    };
    create_object(&classes, foreign("theirs", &json!({}), json!({}))).await;
    create_object(&classes, foreign("of-kops", &labels, json!({}))).await;
    create_object(&classes, foreign("only-annotated", &json!({}), json!({ANNOTATION: "one.example.com"})))
        .await;
    create_object(&classes, foreign("other-cluster", &labels, json!({ANNOTATION: "two.example.com"}))).await;
    let node = json!({"apiVersion": "v1", "kind": "Node",
                      "metadata": {"name": "n1", "labels": {"karpenter.sh/nodepool": "workers"}}});
    create_object(&api(&client, "", "v1", "Node"), node).await;

    let without = Kops::with(&json!({"manager": null, "minSize": 1, "maxSize": 1}));
    let (inventory, pairs) = inventory(&without);
    let looked = live.look().await.unwrap();
    let plan = plan(&inventory, &pairs, &looked, None).unwrap();
    let pruned: Vec<_> =
        plan.prune.iter().map(|prune| (identity(&prune.object), prune.nodes.join(","))).collect();
    assert_eq!(
        pruned,
        [(("NodePool", "workers"), "n1".to_owned()), (("EC2NodeClass", "workers"), String::new())]
    );
    live.carry_out(&plan, &looked).await.unwrap();
    let left: Vec<String> =
        live.look().await.unwrap().objects.iter().map(|object| identity(object).1.to_owned()).collect();
    assert_eq!(left, ["of-kops", "only-annotated", "other-cluster", "theirs"]);
}

#[tokio::test]
async fn an_object_that_changed_since_it_was_looked_at_is_not_pruned() {
    let client = cluster().await;
    let live = LiveCluster::new(client.clone());
    apply(&live, &Kops::with(&json!({}))).await;
    let (inventory, pairs) = inventory(&Kops::with(&json!({"manager": null})));
    let looked = live.look().await.unwrap();
    let plan = plan(&inventory, &pairs, &looked, None).unwrap();
    let pools = api(&client, "karpenter.sh", "v1", "NodePool");
    let adopted = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: null}}}));
    pools.patch("workers", &PatchParams::default(), &adopted).await.unwrap();
    let error = live.carry_out(&plan, &looked).await.unwrap_err().to_string();
    assert!(error.contains("removing NodePool workers"), "{error}");
    assert!(pools.get_opt("workers").await.unwrap().is_some());
}

#[tokio::test]
async fn objects_of_others_are_not_applied_over() {
    let client = cluster().await;
    let live = LiveCluster::new(client.clone());
    let classes = api(&client, "karpenter.k8s.aws", "v1", "EC2NodeClass");
    let object = |labels: Value| json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "workers", "labels": labels}});
    create_object(&classes, object(json!({}))).await;
    assert!(refusals(&live, &Kops::with(&json!({}))).await.contains("somebody else"));
    classes.delete("workers", &kube::api::DeleteParams::default()).await.unwrap();
    let labels = json!({"addon.kops.k8s.io/name": "karpenter.sh", "app.kubernetes.io/managed-by": "kops"});
    create_object(&classes, object(labels)).await;
    assert!(refusals(&live, &Kops::with(&json!({}))).await.contains("delivered by kOps itself"));
}

#[tokio::test]
async fn a_pool_does_not_change_between_static_and_dynamic() {
    let live = LiveCluster::new(cluster().await);
    apply(&live, &Kops::with(&json!({}))).await;
    let reason = refusals(&live, &Kops::with(&json!({"minSize": 3}))).await;
    assert!(reason.contains("kubectl delete nodepool workers"), "{reason}");
    assert_eq!(refusals(&live, &Kops::with(&json!({}))).await, "");
}

#[tokio::test]
async fn objects_of_karpenter_v0_stand_in_the_way() {
    let client = cluster().await;
    let live = LiveCluster::new(client.clone());
    assert_eq!(refusals(&live, &Kops::with(&json!({}))).await, "");
    let provisioners = api(&client, "karpenter.sh", "v1alpha5", "Provisioner");
    let old = json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "default"}});
    create_object(&provisioners, old).await;
    assert!(refusals(&live, &Kops::with(&json!({}))).await.contains("Provisioner/default"));
}

#[tokio::test]
async fn nothing_is_changed_when_one_object_is_refused() {
    let client = cluster().await;
    let live = LiveCluster::new(client.clone());
    // kOps lets a taint without effect pass; the API of NodePools does not.
    let (inventory, pairs) = inventory(&Kops::with(&json!({"taints": ["alone"]})));
    let looked = live.look().await.unwrap();
    let plan = plan(&inventory, &pairs, &looked, None).unwrap();
    let error = live.carry_out(&plan, &looked).await.unwrap_err().to_string();
    assert!(error.contains("applying NodePool workers"), "{error}");
    assert!(live.look().await.unwrap().objects.is_empty());
}

#[tokio::test]
async fn a_cluster_without_the_definitions_says_so() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let environment: Arc<dyn Environment> = Arc::new(SimulatedEnvironment::new(1, now));
    let server = ApiServer::new(Options { environment, ..Options::default() });
    let error = LiveCluster::new(Client::new(server, "default")).look().await.unwrap_err().to_string();
    assert!(error.contains("EC2NodeClass") && error.contains("CRDs"), "{error}");
}

#[test]
fn where_kops_delivers_the_objects_itself_nothing_is_applied() {
    let (inventory, pairs) = inventory(&Kops::with(&json!({})));
    let decide = |version: &str| plan(&inventory, &pairs, &Live::default(), Some(version.parse().unwrap()));
    assert!(decide("1.35.9").is_ok());
    assert!(decide("1.36.0-beta.1").unwrap_err()[0].contains("kops update cluster"));
}
