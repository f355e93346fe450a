//! watch: initial state, resuming, bookmarks, selectors, expiry, time-outs.

use std::pin::pin;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};

use crate::world::World;

fn shown(event: &WatchEvent<Pod>) -> String {
    match event {
        WatchEvent::Added(pod) => format!("+{}", pod.metadata.name.as_ref().unwrap()),
        WatchEvent::Modified(pod) => format!("~{}", pod.metadata.name.as_ref().unwrap()),
        WatchEvent::Deleted(pod) => format!("-{}", pod.metadata.name.as_ref().unwrap()),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

async fn collect(world: &World, params: &WatchParams, version: &str) -> Vec<String> {
    let stream = world.pods().watch(params, version).await.unwrap();
    stream.map_ok(|event| shown(&event)).try_collect().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_after_a_version_and_ends_at_its_timeout() {
    let world = World::new();
    let first = world.pod("a", json!({}), None).await;
    world.pod("b", json!({}), None).await;
    world.pods().delete("a", &DeleteParams::default()).await.unwrap();
    let params = WatchParams::default().timeout(30).disable_bookmarks();
    let version = first.metadata.resource_version.unwrap();
    assert_eq!(collect(&world, &params, &version).await, ["+b", "~a", "-a"]);
    assert_eq!(collect(&world, &params, "0").await, ["+b"]);
    let future = (world.server.resource_version() + 100).to_string();
    assert_eq!(collect(&world, &params, &future).await, ["error 410"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_from_before_a_compaction_is_gone() {
    let world = World::new();
    let version = world.pod("a", json!({}), None).await.metadata.resource_version.unwrap();
    world.pod("b", json!({}), None).await;
    world.server.compact();
    assert_eq!(collect(&world, &WatchParams::default(), &version).await, ["error 410"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_arrivals_and_departures() {
    let world = World::new();
    let start = world.server.resource_version().to_string();
    world.pod("a", json!({"app": "web"}), None).await;
    for label in ["api", "web"] {
        let patch = json!({"metadata": {"labels": {"app": label}}});
        world.pods().patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
    let params = WatchParams::default().labels("app=web").timeout(5).disable_bookmarks();
    assert_eq!(collect(&world, &params, &start).await, ["+a", "-a", "+a"]);
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_an_annotated_bookmark() {
    let world = World::new();
    world.pod("a", json!({}), None).await;
    let path = "/api/v1/namespaces/default/pods?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
                &resourceVersionMatch=NotOlderThan&timeoutSeconds=90";
    let (code, text) = world.raw_bytes("GET", path, &[], Vec::new()).await;
    assert_eq!(code, 200);
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ADDED", "BOOKMARK", "BOOKMARK", "BOOKMARK"]);
    let metadata = &events[1]["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(metadata["resourceVersion"], world.server.resource_version().to_string());
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_kube_runtime_stays_in_sync_through_compactions() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let world = World::with(|options| options.history_limit = 4);
        world.pod("p0", json!({}), None).await;
        let stream = watcher(world.pods(), config).default_backoff().applied_objects();
        let mut stream = pin!(stream);
        let mut seen = vec![stream.next().await.unwrap().unwrap().metadata.name.unwrap()];
        for round in 1..10 {
            // More than the history holds, so the watch falls behind and has to start over.
            for _ in 0..6 {
                let patch = json!({"metadata": {"labels": {"round": round.to_string(), "x": world.server.resource_version().to_string()}}});
                world.pods().patch("p0", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
            }
            let name = format!("p{round}");
            world.pod(&name, json!({}), None).await;
            while seen.last() != Some(&name) {
                // The 410 itself shows as an error before the watcher lists again.
                if let Ok(pod) = stream.next().await.unwrap() {
                    seen.push(pod.metadata.name.unwrap());
                }
            }
        }
    }
}
