//! create, get, list: names, conflicts, selectors, paging.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::world::{World, from, refused};

#[tokio::test]
async fn a_created_object_gets_identity_defaults_and_an_owner_of_its_fields() {
    let world = World::new();
    let pod = world.pod("web", json!({"app": "web"}), None).await;
    assert_eq!(pod.metadata.uid.as_ref().unwrap().len(), 36);
    assert_eq!(pod.metadata.creation_timestamp.unwrap().0.to_string(), "2026-01-01T00:00:00Z");
    let spec = pod.spec.unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(spec.priority, Some(0));
    assert_eq!(spec.tolerations.unwrap().len(), 2);
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    assert_eq!(pod.metadata.managed_fields.unwrap()[0].operation.as_deref(), Some("Update"));
}

#[tokio::test]
async fn taken_missing_and_generated_names() {
    let world = World::new();
    let maps = world.config_maps();
    let create = |name: &str| from::<ConfigMap>(json!({"metadata": {"name": name}}));
    maps.create(&PostParams::default(), &create("a")).await.unwrap();
    let (code, reason, message) = refused(maps.create(&PostParams::default(), &create("a")).await);
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(message, "configmaps \"a\" already exists");
    let (code, _, message) = refused(maps.get("b").await);
    assert_eq!((code, message.as_str()), (404, "configmaps \"b\" not found"));
    let (code, _, message) = refused(maps.create(&PostParams::default(), &create("Bad_Name")).await);
    assert_eq!(code, 422);
    assert!(
        message.starts_with("ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value"),
        "{message}"
    );
    let generated = from::<ConfigMap>(json!({"metadata": {"generateName": "x-"}}));
    let first = maps.create(&PostParams::default(), &generated).await.unwrap().metadata.name.unwrap();
    let second = maps.create(&PostParams::default(), &generated).await.unwrap().metadata.name.unwrap();
    assert!(first.starts_with("x-") && first.len() == 7 && first != second, "{first} {second}");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let world = World::new();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let map = from::<ConfigMap>(json!({"metadata": {"name": "a"}, "data": {"k": "v"}}));
    let before = world.server.resource_version();
    world.config_maps().create(&dry, &map).await.unwrap();
    assert_eq!(world.server.resource_version(), before);
    assert_eq!(world.config_maps().get_opt("a").await.unwrap(), None);
}

#[tokio::test]
async fn objects_need_a_namespace_that_exists() {
    let world = World::new();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "nowhere");
    let map = from(json!({"metadata": {"name": "a"}}));
    let (code, _, message) = refused(maps.create(&PostParams::default(), &map).await);
    assert_eq!((code, message.as_str()), (404, "namespaces \"nowhere\" not found"));
}

#[tokio::test]
async fn an_update_needs_the_version_it_read() {
    let world = World::new();
    let maps = world.config_maps();
    let map = from(json!({"metadata": {"name": "a"}}));
    let mut first = maps.create(&PostParams::default(), &map).await.unwrap();
    let second = first.clone();
    first.data = Some([("k".to_owned(), "1".to_owned())].into());
    let written = maps.replace("a", &PostParams::default(), &first).await.unwrap();
    let (code, reason, message) = refused(maps.replace("a", &PostParams::default(), &second).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.contains("the object has been modified"), "{message}");
    let unchanged = maps.replace("a", &PostParams::default(), &written).await.unwrap();
    assert_eq!(unchanged.metadata.resource_version, written.metadata.resource_version);
}

#[tokio::test]
async fn selectors_choose_by_labels_and_fields() {
    let world = World::new();
    world.pod("a", json!({"app": "web"}), Some("n1")).await;
    world.pod("b", json!({"app": "web"}), None).await;
    world.pod("c", json!({"app": "api"}), Some("n1")).await;
    let names = async |params: ListParams| -> Vec<String> {
        let list = world.pods().list(&params).await.unwrap();
        list.into_iter().map(|pod| pod.metadata.name.unwrap()).collect()
    };
    assert_eq!(names(ListParams::default().labels("app=web")).await, ["a", "b"]);
    assert_eq!(names(ListParams::default().fields("spec.nodeName=n1")).await, ["a", "c"]);
    assert_eq!(names(ListParams::default().fields("spec.nodeName=").labels("app in (web,api)")).await, ["b"]);
    let (code, _, message) = refused(world.pods().list(&ListParams::default().fields("spec.image=x")).await);
    assert_eq!((code, message.as_str()), (400, "field label not supported: spec.image"));
}

#[tokio::test]
async fn pages_show_one_revision_until_it_is_compacted() {
    let world = World::new();
    for name in ["a", "b", "c", "d"] {
        world.pod(name, json!({}), None).await;
    }
    let first = world.pods().list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.items.len(), 2);
    assert_eq!(first.metadata.remaining_item_count, Some(2));
    let token = first.metadata.continue_.clone().unwrap();
    world.pod("bb", json!({}), None).await;
    world.pods().delete("d", &DeleteParams::default()).await.unwrap();
    let next = world.pods().list(&ListParams::default().limit(9).continue_token(&token)).await.unwrap();
    let names: Vec<_> = next.items.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(next.metadata.resource_version, first.metadata.resource_version);
    world.server.compact();
    let (code, reason, _) =
        refused(world.pods().list(&ListParams::default().limit(2).continue_token(&token)).await);
    assert_eq!((code, reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn secrets_namespaces_and_lists_across_namespaces() {
    let world = World::new();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = from(json!({"metadata": {"name": "other"}}));
    let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    assert_eq!(namespace.metadata.labels.unwrap()["kubernetes.io/metadata.name"], "other");
    assert_eq!(namespace.status.unwrap().phase.as_deref(), Some("Active"));
    for space in ["default", "other"] {
        let secrets: Api<Secret> = Api::namespaced(world.client.clone(), space);
        let secret = from(json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}}));
        let secret = secrets.create(&PostParams::default(), &secret).await.unwrap();
        assert_eq!(secret.data.unwrap()["a"].0, b"b");
    }
    let all: Api<Secret> = Api::all(world.client.clone());
    assert_eq!(all.list(&ListParams::default()).await.unwrap().items.len(), 2);
    let pods: Api<Pod> = Api::all(world.client.clone());
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_page_of_a_collection_is_deleted_and_no_more() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b", "c"] {
        world.raw("POST", path, &[], &json!({"metadata": {"name": name}})).await;
    }
    let nothing = serde_json::Value::Null;
    let (code, page) = world.raw("DELETE", &format!("{path}?limit=2"), &[], &nothing).await;
    assert_eq!((code, page["items"].as_array().unwrap().len()), (200, 2));
    assert!(page["metadata"]["continue"].is_string(), "{page}");
    let (_, left) = world.raw("GET", path, &[], &nothing).await;
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_next_page_has_the_version_of_the_first_and_no_other() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b"] {
        world.raw("POST", path, &[], &json!({"metadata": {"name": name}})).await;
    }
    let nothing = serde_json::Value::Null;
    let (_, page) = world.raw("GET", &format!("{path}?limit=1"), &[], &nothing).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let (code, status) =
        world.raw("GET", &format!("{path}?continue={token}&resourceVersion=1"), &[], &nothing).await;
    assert_eq!(
        (code, &status["message"]),
        (400, &json!("specifying resource version is not allowed when using continue"))
    );
    let accept = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    assert_eq!(world.raw("GET", &format!("{path}?includeObject=Everything"), &accept, &nothing).await.0, 400);
}
