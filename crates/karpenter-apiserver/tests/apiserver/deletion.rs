//! Finalizers, grace periods, preconditions, owners, namespaces.

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use crate::world::{World, from, refused};

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_removed() {
    let world = World::new();
    let maps = world.config_maps();
    let map = from(json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}));
    maps.create(&PostParams::default(), &map).await.unwrap();
    let held = maps.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    let patch = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/late"]}});
    let (code, _, message) = refused(maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await);
    assert_eq!(code, 422);
    assert!(message.contains("no new finalizers can be added"), "{message}");
    let patch = json!({"metadata": {"finalizers": null}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(maps.get_opt("a").await.unwrap(), None);
}

#[tokio::test]
async fn a_running_pod_gets_its_grace_period_and_a_second_deletion_can_shorten_it() {
    let world = World::new();
    world.pod("bound", json!({}), Some("n1")).await;
    world.pod("pending", json!({}), None).await;
    let deleted = world.pods().delete("bound", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(deleted.metadata.deletion_grace_period_seconds, Some(30));
    let end = deleted.metadata.deletion_timestamp.unwrap().0;
    assert_eq!(end.to_string(), "2026-01-01T00:00:30Z");
    let longer = DeleteParams::default().grace_period(60);
    let same = world.pods().delete("bound", &longer).await.unwrap().left().unwrap();
    assert_eq!(same.metadata.deletion_grace_period_seconds, Some(30));
    world.environment.set_now(end + SignedDuration::from_secs(1));
    world.pods().delete("bound", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.pods().delete("pending", &DeleteParams::default()).await.unwrap();
    assert!(world.pods().list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn preconditions_guard_a_deletion() {
    let world = World::new();
    world.pod("a", json!({}), None).await;
    let wrong = Preconditions { uid: Some("other".into()), resource_version: None };
    let params = DeleteParams { preconditions: Some(wrong), ..DeleteParams::default() };
    let (code, reason, message) = refused(world.pods().delete("a", &params).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(
        message.contains("the UID in the precondition (other) does not match the UID in record"),
        "{message}"
    );
}

async fn family(world: &World) -> (Api<ReplicaSet>, String) {
    let sets: Api<ReplicaSet> = Api::namespaced(world.client.clone(), "default");
    let set = json!({"metadata": {"name": "rs"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}},
    }});
    let uid = sets.create(&PostParams::default(), &from(set)).await.unwrap().metadata.uid.unwrap();
    for name in ["p1", "p2"] {
        let pod = json!({
            "metadata": {"name": name, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": uid,
                 "controller": true, "blockOwnerDeletion": true},
            ]},
            "spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "i"}]},
        });
        world.pods().create(&PostParams::default(), &from(pod)).await.unwrap();
    }
    world.server.settle();
    (sets, uid)
}

async fn pods(world: &World) -> Vec<Pod> {
    world.pods().list(&ListParams::default()).await.unwrap().items
}

#[tokio::test]
async fn background_deletion_collects_dependents_after_the_owner() {
    let world = World::new();
    let (sets, _) = family(&world).await;
    sets.delete("rs", &DeleteParams::background()).await.unwrap();
    assert_eq!(sets.get_opt("rs").await.unwrap(), None);
    assert!(pods(&world).await.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()));
    assert!(world.server.step() > 0);
    world.server.settle();
    assert!(pods(&world).await.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()));
}

#[tokio::test]
async fn foreground_deletion_waits_for_dependents() {
    let world = World::new();
    let (sets, _) = family(&world).await;
    sets.delete("rs", &DeleteParams::foreground()).await.unwrap();
    world.server.settle();
    let owner = sets.get("rs").await.unwrap();
    assert_eq!(owner.metadata.finalizers.unwrap(), ["foregroundDeletion"]);
    for name in ["p1", "p2"] {
        world.pods().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    world.server.settle();
    assert_eq!(sets.get_opt("rs").await.unwrap(), None);
}

#[tokio::test]
async fn orphans_stay_without_their_owner() {
    let world = World::new();
    let (sets, _) = family(&world).await;
    sets.delete("rs", &DeleteParams::orphan()).await.unwrap();
    world.server.settle();
    assert_eq!(sets.get_opt("rs").await.unwrap(), None);
    let pods = pods(&world).await;
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod.metadata.owner_references.is_none()));
}

#[tokio::test]
async fn a_namespace_goes_when_its_content_is_gone() {
    let world = World::new();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.create(&PostParams::default(), &from(json!({"metadata": {"name": "ns"}}))).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "ns");
    let map = json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
    maps.create(&PostParams::default(), &from(map)).await.unwrap();
    namespaces.delete("ns", &DeleteParams::default()).await.unwrap();
    let phase = namespaces.get("ns").await.unwrap().status.unwrap().phase;
    assert_eq!(phase.as_deref(), Some("Terminating"));
    let (code, _, message) =
        refused(maps.create(&PostParams::default(), &from(json!({"metadata": {"name": "b"}}))).await);
    assert_eq!(code, 403);
    assert!(message.contains("because it is being terminated"), "{message}");
    world.server.settle();
    assert!(maps.get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    let patch = json!({"metadata": {"finalizers": []}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    world.server.settle();
    assert_eq!(namespaces.get_opt("ns").await.unwrap(), None);
    let (code, _, _) = refused(namespaces.delete("default", &DeleteParams::default()).await);
    assert_eq!(code, 403);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let world = World::new();
    world.pod("a", json!({"app": "x"}), None).await;
    world.pod("b", json!({"app": "y"}), None).await;
    let chosen = ListParams::default().labels("app=x");
    world.pods().delete_collection(&DeleteParams::default(), &chosen).await.unwrap();
    let left: Vec<_> = pods(&world).await.into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
    assert_eq!(left, ["b"]);
}

#[tokio::test]
async fn a_claim_is_kept_while_a_pod_mounts_it() {
    let world = World::new();
    let class = json!({"metadata": {"name": "disk", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "disk.example.com"});
    let classes = Api::<StorageClass>::all(world.client.clone());
    classes.create(&PostParams::default(), &from(class)).await.unwrap();
    let claims = Api::<PersistentVolumeClaim>::namespaced(world.client.clone(), "default");
    let claim = json!({"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let made = claims.create(&PostParams::default(), &from(claim)).await.unwrap();
    assert_eq!(made.spec.unwrap().storage_class_name.as_deref(), Some("disk"));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1",
        "containers": [{"name": "main", "image": "app:1"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    world.pods().create(&PostParams::default(), &from(pod)).await.unwrap();
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    world.server.settle();
    assert!(claims.get_opt("data").await.unwrap().is_some());
    world.pods().delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.server.settle();
    assert!(claims.get_opt("data").await.unwrap().is_none());
}

#[tokio::test]
async fn the_older_way_to_ask_for_dependents_is_answered_with_accepted() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"name": "m", "finalizers": ["example.com/keep"]}});
    assert_eq!(world.raw("POST", path, &[], &map).await.0, 201);
    let item = format!("{path}/m?orphanDependents=false");
    assert_eq!(world.raw("DELETE", &item, &[], &serde_json::Value::Null).await.0, 202);
}

#[tokio::test]
async fn only_the_first_deletion_of_a_namespace_says_what_becomes_of_dependents() {
    let world = World::new();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = from(json!({"metadata": {"name": "team"}}));
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let first = namespaces.delete("team", &DeleteParams::orphan()).await.unwrap().left().unwrap();
    assert_eq!(first.metadata.finalizers.as_deref(), Some(&["orphan".to_owned()][..]));
    let second = namespaces.delete("team", &DeleteParams::background()).await.unwrap().left().unwrap();
    assert_eq!(second, first);
}

#[tokio::test]
async fn the_first_deletion_of_a_namespace_only_marks_it() {
    let world = World::new();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = from(json!({"metadata": {"name": "team"}}));
    let mut created = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    created.spec.as_mut().unwrap().finalizers = None;
    let path = "/api/v1/namespaces/team/finalize";
    let (code, answer) = world.raw("PUT", path, &[], &serde_json::to_value(&created).unwrap()).await;
    assert_eq!(code, 200, "{answer}");
    let marked = namespaces.delete("team", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    assert_eq!(namespaces.get_opt("team").await.unwrap(), None);
}
