//! JSON patch, merge patch, strategic merge patch.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{World, from, refused};

pub(crate) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]},
            },
        },
    })
}

async fn deployed(world: &World) -> Api<Deployment> {
    let api: Api<Deployment> = Api::namespaced(world.client.clone(), "default");
    api.create(&PostParams::default(), &from(deployment())).await.unwrap();
    api
}

#[tokio::test]
async fn a_strategic_patch_merges_containers_by_name() {
    let world = World::new();
    let api = deployed(&world).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:2"}]}}}});
    let patched = api.patch("web", &PatchParams::default(), &Patch::Strategic(&patch)).await.unwrap();
    assert_eq!(patched.metadata.generation, Some(2));
    let containers = patched.spec.unwrap().template.spec.unwrap().containers;
    let images: Vec<_> = containers.iter().map(|container| container.image.clone().unwrap()).collect();
    assert_eq!(images, ["a:1", "b:2"]);
}

#[tokio::test]
async fn a_merge_patch_replaces_lists_and_a_json_patch_tests() {
    let world = World::new();
    let api = deployed(&world).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "c:1"}]}}}});
    let patched = api.patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.spec.unwrap().template.spec.unwrap().containers.len(), 1);
    let scale = |expected: i32| {
        json!([
            {"op": "test", "path": "/spec/replicas", "value": expected},
            {"op": "replace", "path": "/spec/replicas", "value": 5},
        ])
    };
    let send = async |patch: Value| {
        let headers = [("content-type", "application/json-patch+json")];
        world.raw("PATCH", "/apis/apps/v1/namespaces/default/deployments/web", &headers, &patch).await
    };
    assert_eq!(send(scale(9)).await.0, 422);
    let (code, object) = send(scale(2)).await;
    assert_eq!((code, &object["spec"]["replicas"]), (200, &json!(5)));
}

#[tokio::test]
async fn a_patch_is_judged_like_an_update() {
    let world = World::new();
    let api = deployed(&world).await;
    let patch = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    let (code, _, message) =
        refused(api.patch("web", &PatchParams::default(), &Patch::Strategic(&patch)).await);
    assert_eq!(code, 422);
    assert!(message.contains("field is immutable"), "{message}");
    let stale = json!({"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}});
    let (code, _, _) = refused(api.patch("web", &PatchParams::default(), &Patch::Merge(&stale)).await);
    assert_eq!(code, 409);
    let status = json!({"status": {"replicas": 7, "observedGeneration": 1}, "spec": {"replicas": 9}});
    let patched = api.patch_status("web", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(2));
    assert_eq!(patched.status.unwrap().replicas, Some(7));
    assert_eq!(patched.metadata.generation, Some(1));
}

#[tokio::test]
async fn an_empty_list_inside_of_a_whole_list_takes_it_over() {
    let world = World::new();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role =
        json!({"metadata": {"name": "r"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
    assert_eq!(world.raw("POST", &format!("{roles}?fieldManager=first"), &[], &role).await.0, 201);
    let patch = json!([{"op": "add", "path": "/rules/0/resourceNames", "value": []}]);
    let role_path = format!("{roles}/r?fieldManager=second");
    let headers = [("content-type", "application/json-patch+json")];
    let (code, patched) = world.raw("PATCH", &role_path, &headers, &patch).await;
    assert_eq!((code, &patched["rules"]), (200, &role["rules"]));
    let managers = patched["metadata"]["managedFields"].as_array().unwrap();
    let names: Vec<&Value> = managers.iter().map(|entry| &entry["manager"]).collect();
    assert_eq!(names, ["second"]);
}
