//! Custom resources: Karpenter's own CRDs and one with two versions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::{LabelRules, crds};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::world::{World, from, refused};

async fn with_karpenter() -> World {
    let world = World::new();
    let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    for definition in crds(&LabelRules::default()) {
        let name = definition.meta().name.clone().unwrap();
        let apply = PatchParams::apply("test");
        let definition = serde_json::to_value(definition).unwrap();
        api.patch(&name, &apply, &Patch::Apply(&definition)).await.unwrap();
        // Names are accepted after the definition is there, as on the real server.
        let stored = api.get(&name).await.unwrap();
        let conditions = stored.status.unwrap().conditions.unwrap();
        assert!(
            conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
        );
    }
    world
}

fn node_pools(world: &World) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool"),
        "nodepools",
    );
    Api::all_with(world.client.clone(), &resource)
}

fn node_pool(requirements: &Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": requirements, "surprise": 1,
        }}},
    })
}

#[tokio::test]
async fn node_pools_are_defaulted_pruned_and_validated() {
    let world = with_karpenter().await;
    let pools = node_pools(&world);
    let good =
        node_pool(&json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]));
    let pool = pools.create(&PostParams::default(), &from(good)).await.unwrap();
    assert_eq!(pool.data["spec"]["disruption"]["consolidateAfter"], "0s");
    assert_eq!(pool.data["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert!(pool.data["spec"]["template"]["spec"].get("surprise").is_none());
    assert_eq!(pool.metadata.generation, Some(1));
    let bad = node_pool(&json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["x"]}]));
    let (code, reason, message) = refused(pools.create(&PostParams::default(), &from(bad)).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(
        message.starts_with("NodePool.karpenter.sh \"p\" is invalid: spec.template.spec.requirements"),
        "{message}"
    );
    let bad = node_pool(&json!([{"key": "a", "operator": "Near"}]));
    let (code, _, message) = refused(pools.create(&PostParams::default(), &from(bad)).await);
    assert_eq!(code, 422);
    assert!(message.contains("Unsupported value: \"Near\""), "{message}");
}

#[tokio::test]
async fn transition_rules_and_status_updates_of_node_pools() {
    let world = with_karpenter().await;
    let pools = node_pools(&world);
    pools.create(&PostParams::default(), &from(node_pool(&json!([])))).await.unwrap();
    let patch = json!({"spec": {"template": {"spec": {"nodeClassRef": {"kind": "Other"}}}}});
    let (code, _, message) = refused(pools.patch("p", &PatchParams::default(), &Patch::Merge(&patch)).await);
    assert_eq!(code, 422);
    assert!(message.contains("immutable"), "{message}");
    let status =
        json!({"status": {"nodes": 3}, "metadata": {"labels": {"no": "change"}}, "spec": {"weight": 7}});
    let pool = pools.patch_status("p", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(pool.data["status"]["nodes"], 3);
    assert_eq!((pool.metadata.labels, pool.data["spec"].get("weight")), (None, None));
    let patch = json!({"spec": {"weight": 5}, "status": {"nodes": 9}});
    let pool = pools.patch("p", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!((pool.metadata.generation, &pool.data["status"]["nodes"]), (Some(2), &json!(3)));
    let (code, _, _) = refused(pools.patch("p", &PatchParams::default(), &Patch::Strategic(&patch)).await);
    assert_eq!(code, 415);
}

#[tokio::test]
async fn tables_show_the_declared_columns() {
    let world = with_karpenter().await;
    node_pools(&world).create(&PostParams::default(), &from(node_pool(&json!([])))).await.unwrap();
    let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let (_, table) = world.raw("GET", "/apis/karpenter.sh/v1/nodepools", &headers, &json!(null)).await;
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns[..3], ["Name", "NodeClass", "Nodes"]);
    assert_eq!(table["rows"][0]["cells"][1], "default");
}

fn widgets(versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}, "versions": versions,
        },
    })
}

fn version(name: &str, storage: bool, field: &str) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer", "default": 1}, field: {"type": "string"},
        }}}}},
    })
}

#[tokio::test]
async fn an_object_is_served_in_every_version() {
    let world = World::new();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = widgets(&json!([version("v1", true, "a"), version("v2", false, "b")]));
    assert_eq!(world.raw("POST", path, &[], &definition).await.0, 201);
    let at = |version: &str| format!("/apis/example.com/{version}/namespaces/default/widgets");
    let widget = json!({
        "apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"b": "x", "a": "y"},
    });
    let (code, created) = world.raw("POST", &at("v2"), &[], &widget).await;
    // Neither version knows all of it: what is not in the stored one is not kept.
    assert_eq!((code, &created["spec"]), (201, &json!({"size": 1})));
    let (_, stored) = world.raw("GET", &format!("{}/w", at("v1")), &[], &json!(null)).await;
    assert_eq!((&stored["apiVersion"], &stored["kind"]), (&json!("example.com/v1"), &json!("Widget")));
    let (_, list) = world.raw("GET", &at("v2"), &[], &json!(null)).await;
    assert_eq!(
        (&list["kind"], &list["items"][0]["apiVersion"]),
        (&json!("WidgetList"), &json!("example.com/v2"))
    );
    let (_, group) = world.raw("GET", "/apis/example.com", &[], &json!(null)).await;
    assert_eq!(group["preferredVersion"]["version"], "v2");
}

#[tokio::test]
async fn objects_follow_their_definition() {
    let world = World::new();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut definition = widgets(&json!([version("v1beta1", true, "a")]));
    assert_eq!(world.raw("POST", path, &[], &definition).await.0, 201);
    let at = |version: &str| format!("/apis/example.com/{version}/namespaces/default/widgets");
    let widget = json!({
        "apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": "y"},
    });
    let (code, created) = world.raw("POST", &at("v1beta1"), &[], &widget).await;
    assert_eq!(code, 201);
    // A new version is stored from now on; the old one is on its way out.
    let mut old = version("v1beta1", false, "a");
    old["deprecated"] = json!(true);
    let mut new = version("v1", true, "b");
    let fields = &mut new["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    fields["b"]["default"] = json!("new");
    definition["spec"]["versions"] = json!([old, new]);
    let merge = [("content-type", "application/merge-patch+json")];
    let change = json!({"spec": definition["spec"]});
    assert_eq!(world.raw("PATCH", &format!("{path}/widgets.example.com"), &merge, &change).await.0, 200);
    let (_, found) = world.raw("GET", &format!("{}/w", at("v1")), &[], &json!(null)).await;
    assert_eq!(found["apiVersion"], "example.com/v1");
    assert_eq!(found["spec"], json!({"size": 1, "b": "new"}));
    assert_eq!(found["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let (_, found) = world.raw("GET", &format!("{}/w", at("v1beta1")), &[], &json!(null)).await;
    assert_eq!((&found["apiVersion"], &found["spec"]), (&json!("example.com/v1beta1"), &json!({"size": 1})));
    let warnings = world.warnings("GET", &format!("{}/w", at("v1beta1")), &json!(null)).await;
    assert_eq!(
        warnings,
        ["299 - \"example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget\""],
        "{warnings:?}"
    );
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_along() {
    let world = with_karpenter().await;
    let pools = node_pools(&world);
    let mut pool = node_pool(&json!([]));
    pool["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
    pools.create(&PostParams::default(), &from(pool)).await.unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    api.delete("nodepools.karpenter.sh", &DeleteParams::default()).await.unwrap();
    world.server.settle();
    assert!(pools.get("p").await.unwrap().metadata.deletion_timestamp.is_some());
    let patch = json!({"metadata": {"finalizers": null}});
    pools.patch("p", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    world.server.settle();
    assert_eq!(api.get_opt("nodepools.karpenter.sh").await.unwrap(), None);
    let (code, ..) = refused(pools.get("p").await);
    assert_eq!(code, 404);
}

#[tokio::test]
async fn a_bad_definition_is_refused_with_reasons() {
    let world = World::new();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut definition = widgets(&json!([version("v1", true, "a"), version("v2", true, "b")]));
    let (code, status) = world.raw("POST", path, &[], &definition).await;
    assert_eq!(code, 422);
    assert!(
        status["message"].as_str().unwrap().contains("exactly one version marked as storage"),
        "{status}"
    );
    definition["spec"]["versions"] = json!([version("v1", true, "a")]);
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
        json!([{"rule": "self.spec.("}]);
    let (code, status) = world.raw("POST", path, &[], &definition).await;
    assert_eq!(code, 422);
    assert!(status["message"].as_str().unwrap().contains("compilation failed"), "{status}");
}

#[tokio::test]
async fn an_applied_list_where_a_number_or_a_text_belongs_is_invalid() {
    let world = World::new();
    let port = json!({"x-kubernetes-int-or-string": true});
    let schema = json!({"type": "object", "properties": {"port": port}});
    let definition = json!({"metadata": {"name": "things.acme.io"}, "spec": {
        "group": "acme.io", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(world.raw("POST", definitions, &[], &definition).await.0, 201);
    let headers = [("content-type", "application/apply-patch+yaml")];
    let thing = json!({"apiVersion": "acme.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "port": []});
    let path = "/apis/acme.io/v1/things/t?fieldManager=one";
    let (code, status) = world.raw("PATCH", path, &headers, &thing).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("port")), "{status}");
}

#[tokio::test]
async fn a_node_pool_without_replicas_has_no_scale() {
    let world = with_karpenter().await;
    node_pools(&world).create(&PostParams::default(), &from(node_pool(&json!([])))).await.unwrap();
    let path = "/apis/karpenter.sh/v1/nodepools/p/scale";
    let (code, status) = world.raw("GET", path, &[], &Value::Null).await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    let cause = json!([{"message": "the spec replicas field \".spec.replicas\" does not exist"}]);
    assert_eq!(status["details"]["causes"], cause);
    let headers = [("content-type", "application/merge-patch+json")];
    let (code, _) = world.raw("PATCH", path, &headers, &json!({})).await;
    assert_eq!(code, 400);
}
