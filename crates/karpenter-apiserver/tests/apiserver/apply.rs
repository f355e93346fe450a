//! Server-side apply through the client.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::patches::deployment;
use crate::world::{World, refused};

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

#[tokio::test]
async fn apply_creates_updates_and_removes_what_its_manager_no_longer_names() {
    let world = World::new();
    let maps = world.config_maps();
    let apply = PatchParams::apply("one");
    maps.patch("m", &apply, &Patch::Apply(&map(&json!({"a": "1", "b": "2"})))).await.unwrap();
    let applied = maps.patch("m", &apply, &Patch::Apply(&map(&json!({"a": "1"})))).await.unwrap();
    assert_eq!(serde_json::to_value(&applied.data).unwrap(), json!({"a": "1"}));
    let again = maps.patch("m", &apply, &Patch::Apply(&map(&json!({"a": "1"})))).await.unwrap();
    assert_eq!(again.metadata.resource_version, applied.metadata.resource_version);
    let fields = applied.metadata.managed_fields.unwrap();
    assert_eq!(fields.len(), 1);
    assert_eq!(fields[0].operation.as_deref(), Some("Apply"));
    assert_eq!(fields[0].fields_v1.as_ref().unwrap().0, json!({"f:data": {"f:a": {}}}));
}

#[tokio::test]
async fn managers_conflict_until_one_forces() {
    let world = World::new();
    let maps: Api<ConfigMap> = world.config_maps();
    maps.patch("m", &PatchParams::apply("one"), &Patch::Apply(&map(&json!({"a": "1", "b": "1"}))))
        .await
        .unwrap();
    let theirs = map(&json!({"a": "2"}));
    let (code, reason, message) =
        refused(maps.patch("m", &PatchParams::apply("two"), &Patch::Apply(&theirs)).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    let forced = maps.patch("m", &PatchParams::apply("two").force(), &Patch::Apply(&theirs)).await.unwrap();
    assert_eq!(serde_json::to_value(&forced.data).unwrap(), json!({"a": "2", "b": "1"}));
    let rest =
        maps.patch("m", &PatchParams::apply("one"), &Patch::Apply(&map(&json!({"b": "1"})))).await.unwrap();
    assert_eq!(serde_json::to_value(&rest.data).unwrap(), json!({"a": "2", "b": "1"}));
}

#[tokio::test]
async fn an_applied_deployment_leaves_replicas_to_whoever_scales() {
    let world = World::new();
    let api: Api<Deployment> = Api::namespaced(world.client.clone(), "default");
    let mut wanted = deployment();
    wanted["spec"].as_object_mut().unwrap().remove("replicas");
    let apply = PatchParams::apply("gitops");
    api.patch("web", &apply, &Patch::Apply(&wanted)).await.unwrap();
    let scale = json!({"spec": {"replicas": 7}});
    api.patch_scale("web", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap();
    wanted["spec"]["template"]["spec"]["containers"] = json!([{"name": "b", "image": "b:2"}]);
    let applied = api.patch("web", &apply, &Patch::Apply(&wanted)).await.unwrap();
    let spec = applied.spec.unwrap();
    assert_eq!(spec.replicas, Some(7));
    let containers = spec.template.spec.unwrap().containers;
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0].image.as_deref(), Some("b:2"));
}

#[tokio::test]
async fn a_missing_object_has_no_status_whatever_is_applied_to_it() {
    let world = World::new();
    let headers = [("content-type", "application/apply-patch+yaml")];
    let odd =
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"}, "unheardOf": 1});
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let apply = async |path: String| world.raw("PATCH", &path, &headers, &odd).await.0;
    assert_eq!(apply(format!("{sets}/a/status?fieldManager=one")).await, 404);
    assert_eq!(apply(format!("{sets}/a?fieldManager=one")).await, 500);
}
