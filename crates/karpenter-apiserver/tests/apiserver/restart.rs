//! A server with a data directory: what the next one on the same directory finds, and directories it must refuse.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_apiserver::{ApiServer, DataDir, DataDirError, Options, SeededEnvironment};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::world::{World, from};

/// A server on a directory, which is free again when the value is dropped.
struct Life {
    world: World,
    _data_dir: DataDir,
}

impl Life {
    fn on(path: &Path) -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let environment = Arc::new(SeededEnvironment::new(1, start));
        let options = Options { environment: environment.clone(), ..Options::default() };
        let data_dir = DataDir::open(path).unwrap();
        let world = World::on(ApiServer::open(options, &data_dir).unwrap(), environment);
        Self { world, _data_dir: data_dir }
    }

    async fn get(&self, path: &str) -> Value {
        self.world.raw("GET", path, &[], &Value::Null).await.1
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let (code, answer) = self.world.raw("POST", path, &[], body).await;
        assert_eq!(code, 201, "{answer}");
        answer
    }

    fn end(self) {
        self.world.server.close();
    }
}

#[tokio::test]
async fn objects_definitions_and_versions_survive() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::on(folder.path());
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let created = life.post("/api/v1/namespaces/default/configmaps", &map).await;
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 3}}},
                }}},
            }],
        },
    });
    life.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let things = "/apis/example.com/v1/things";
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
    let thing = life.post(things, &thing).await;
    let namespaces = life.get("/api/v1/namespaces").await;
    let version = life.world.server.resource_version();
    life.end();

    let life = Life::on(folder.path());
    assert_eq!(life.world.server.resource_version(), version);
    assert_eq!(life.get("/api/v1/namespaces/default/configmaps/a").await, created);
    assert_eq!(life.get(&format!("{things}/t")).await, thing);
    assert_eq!(life.get("/api/v1/namespaces").await["items"], namespaces["items"]);
    let large = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "l"}, "spec": {"size": 4},
    });
    assert_eq!(life.world.raw("POST", things, &[], &large).await.0, 422, "the schema is back");
    let next = life.post("/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "b"}})).await;
    assert_eq!(next["metadata"]["resourceVersion"], (version + 1).to_string());
}

#[tokio::test]
async fn tokens_of_service_accounts_stay_good() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::on(folder.path());
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    life.post(accounts, &json!({"metadata": {"name": "bot"}})).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = life.post(&format!("{accounts}/bot/token"), &request).await;
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    life.end();

    let life = Life::on(folder.path());
    let header = format!("Bearer {token}");
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, review) = life.world.raw("POST", path, &[("authorization", &header)], &review).await;
    assert_eq!(review["status"]["user"]["username"], "system:serviceaccount:default:bot");
}

#[tokio::test]
async fn garbage_left_by_a_crash_is_collected_by_the_next_server() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::on(folder.path());
    let maps: Api<ConfigMap> = life.world.config_maps();
    let owner: ConfigMap = from(json!({"metadata": {"name": "owner"}}));
    let owner = maps.create(&PostParams::default(), &owner).await.unwrap();
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
    });
    let dependent: ConfigMap =
        from(json!({"metadata": {"name": "dependent", "ownerReferences": [reference]}}));
    maps.create(&PostParams::default(), &dependent).await.unwrap();
    life.post("/api/v1/namespaces", &json!({"metadata": {"name": "doomed"}})).await;
    life.post("/api/v1/namespaces/doomed/configmaps", &json!({"metadata": {"name": "x"}})).await;
    life.world.raw("DELETE", "/api/v1/namespaces/doomed", &[], &Value::Null).await;
    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    life.end();

    let life = Life::on(folder.path());
    let maps = life.world.config_maps();
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);
    life.world.server.settle();
    life.post("/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "flush"}})).await;
    let left = maps.list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = left.iter().filter_map(|map| map.metadata.name.as_deref()).collect();
    assert_eq!(names, ["flush"]);
    assert_eq!(life.world.raw("GET", "/api/v1/namespaces/doomed", &[], &Value::Null).await.0, 404);
}

#[tokio::test]
async fn a_watch_from_before_the_restart_is_told_to_start_over_unless_nothing_happened() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::on(folder.path());
    let maps = "/api/v1/namespaces/default/configmaps";
    let first = life.post(maps, &json!({"metadata": {"name": "a"}})).await;
    let last = life.post(maps, &json!({"metadata": {"name": "b"}})).await;
    life.end();

    let life = Life::on(folder.path());
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let watch = async |from: String| {
        let path = format!("{maps}?watch=true&resourceVersion={from}&timeoutSeconds=1");
        life.world.raw_bytes("GET", &path, &[], Vec::new()).await.1
    };
    tokio::time::pause();
    assert!(watch(version(&first)).await.contains("\"code\":410"));
    assert_eq!(watch(version(&last)).await, "");
}

#[tokio::test]
async fn a_closed_server_ends_watches_and_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::on(folder.path());
    let maps = "/api/v1/namespaces/default/configmaps";
    let watch = life.world.raw_bytes("GET", "/api/v1/configmaps?watch=true", &[], Vec::new());
    let close = async { life.world.server.close() };
    let (watched, ()) = tokio::join!(watch, close);
    assert_eq!(watched, (200, String::new()));
    let (code, status) = life.world.raw("POST", maps, &[], &json!({"metadata": {"name": "a"}})).await;
    assert_eq!((code, &status["reason"]), (503, &json!("ServiceUnavailable")));
}

#[test]
fn a_directory_belongs_to_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let first = DataDir::open(folder.path()).unwrap();
    let error = DataDir::open(folder.path()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    drop(first);
    DataDir::open(folder.path()).unwrap();
}

#[test]
fn what_is_no_directory_or_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let error = DataDir::open(&file).unwrap_err();
    assert!(matches!(error, DataDirError::NotADirectory(_)), "{error}");
    let error = DataDir::open(file.join("below")).unwrap_err();
    assert!(matches!(error, DataDirError::Io { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
}

fn refusal(path: &Path) -> DataDirError {
    let data_dir = DataDir::open(path).unwrap();
    ApiServer::open(Options::default(), &data_dir).map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    Life::on(folder.path()).end();
    let good = std::fs::read(&state).unwrap();
    let mut scribbled = good.clone();
    scribbled[..4096].fill(0xaa);
    for damaged in [b"not a database".to_vec(), good[..good.len() / 2].to_vec(), scribbled, Vec::new()] {
        std::fs::write(&state, &damaged).unwrap();
        let error = refusal(folder.path());
        assert!(matches!(error, DataDirError::Damaged { .. }), "{error}");
        assert!(std::fs::read(&state).unwrap() == damaged, "the file was changed");
    }
    std::fs::write(&state, &good).unwrap();
    Life::on(folder.path()).end();
}

#[tokio::test]
async fn a_first_start_that_was_cut_short_is_started_over() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("state.redb.new"), "half").unwrap();
    std::fs::write(folder.path().join("service-account.key.new"), "ha").unwrap();
    let life = Life::on(folder.path());
    assert!(!life.get("/api/v1/namespaces").await["items"].as_array().unwrap().is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn secrets_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    Life::on(&path).end();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for file in ["service-account.key", "state.redb"] {
        assert_eq!(mode(&path.join(file)), 0o600, "{file}");
    }
}
