//! Requests as they come over the wire: discovery, health, bad input.

use std::collections::BTreeSet;

use karpenter_apiserver::User;
use serde_json::{Value, json};

use crate::world::World;

const NOTHING: &Value = &Value::Null;

#[tokio::test]
async fn health_and_version_answer() {
    let world = World::new();
    for path in ["/healthz", "/readyz", "/livez"] {
        assert_eq!(world.raw_bytes("GET", path, &[], Vec::new()).await, (200, "ok".to_owned()));
    }
    let (_, version) = world.raw("GET", "/version", &[], NOTHING).await;
    assert_eq!(version["major"], "1");
    assert_eq!(world.raw_bytes("GET", "/nowhere", &[], Vec::new()).await.0, 404);
}

#[tokio::test]
async fn health_can_be_asked_for_check_by_check() {
    let world = World::new();
    for (path, code) in [
        ("/healthz/ping", 200),
        ("/readyz/shutdown", 200),
        ("/livez/shutdown", 404),
        ("/healthz/", 404),
        ("/healthz/unheard-of", 404),
    ] {
        assert_eq!(world.raw_bytes("GET", path, &[], Vec::new()).await.0, code, "{path}");
    }
    let (_, text) = world.raw_bytes("GET", "/livez?verbose&exclude=ping&exclude=x", &[], Vec::new()).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "[+]ping excluded: ok");
    assert!(lines.contains(&"warn: some health checks cannot be excluded: no matches for \"x\""), "{text}");
    assert_eq!(lines.last(), Some(&"livez check passed"));
}

#[tokio::test]
async fn discovery_in_both_forms_names_the_same_resources() {
    let world = World::new();
    let (_, legacy) = world.raw("GET", "/api/v1", &[], NOTHING).await;
    let names: Vec<&str> = legacy["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|resource| resource["name"].as_str())
        .filter(|name| !name.contains('/'))
        .collect();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (_, aggregated) = world.raw("GET", "/api", &[("accept", accept)], NOTHING).await;
    let resources = aggregated["items"][0]["versions"][0]["resources"].as_array().unwrap();
    let aggregated: Vec<&str> =
        resources.iter().filter_map(|resource| resource["resource"].as_str()).collect();
    assert_eq!(names, aggregated);
    let (_, groups) = world.raw("GET", "/apis", &[("accept", accept)], NOTHING).await;
    assert!(groups["items"].as_array().unwrap().iter().any(|group| group["metadata"]["name"] == "apps"));
}

#[tokio::test]
async fn the_documentation_lists_the_resources_that_are_served() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/apiserver.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut listed = BTreeSet::new();
    for row in text.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (group, resources) = row.split_once("` | ").unwrap();
        let resources = resources.split([':', '|']).next().unwrap().split(", ");
        let plain = resources.map(str::trim).filter(|resource| !resource.contains(' '));
        listed.extend(plain.map(|resource| format!("{group} {resource}")));
    }
    let world = World::new();
    let (_, groups) = world.raw("GET", "/apis", &[], NOTHING).await;
    let versions =
        groups["groups"].as_array().unwrap().iter().flat_map(|group| group["versions"].as_array().unwrap());
    let versions = versions.map(|version| version["groupVersion"].as_str().unwrap());
    let mut served = BTreeSet::new();
    for (version, path) in
        versions.map(|version| (version, format!("/apis/{version}"))).chain([("v1", "/api/v1".into())])
    {
        let (_, resources) = world.raw("GET", &path, &[], NOTHING).await;
        let resources = resources["resources"].as_array().unwrap().iter();
        let names =
            resources.map(|resource| resource["name"].as_str().unwrap()).filter(|name| !name.contains('/'));
        served.extend(names.map(|name| format!("{version} {name}")));
    }
    assert_eq!(listed, served);
}

#[tokio::test]
async fn odd_paths_and_tokens_get_the_answers_kubernetes_gives() {
    let world = World::new();
    for (path, code, message) in [
        ("/api/v1/namespaces/default/configmaps/a+b", 404, "configmaps \"a+b\" not found"),
        (
            "/api/v1/namespaces/default/configmaps/a%2Fb",
            404,
            "the server could not find the requested resource",
        ),
        ("/api/v1//namespaces", 404, "the server could not find the requested resource"),
        ("/api//v1/namespaces", 404, "the server could not find the requested resource"),
        ("/apis/apps//v1", 404, "the server could not find the requested resource"),
        (
            "/api/v1/namespaces/default/configmaps/a%25b",
            400,
            "Name parameter invalid: \"a%b\": may not contain '%'",
        ),
        (
            "/api/v1/configmaps?continue=zzz",
            400,
            "invalid continue token: continue key is not valid: invalid character 'Ï' looking for beginning of value",
        ),
    ] {
        let (answered, status) = world.raw("GET", path, &[], NOTHING).await;
        assert_eq!((answered, status["message"].as_str()), (code, Some(message)), "{path}");
    }
    let (code, text) = world.raw("GET", "//api/v1/namespaces", &[], NOTHING).await;
    assert_eq!((code, text.as_str()), (404, Some("404 page not found\n")));
    assert_eq!(world.raw("GET", "/api/v1/namespaces//pods", &[], NOTHING).await.0, 200);
    let (code, status) = world.raw("GET", "/api/v1/pods?resourceVersion=99999", &[], NOTHING).await;
    assert_eq!(code, 504);
    assert!(status["message"].as_str().unwrap().starts_with("Timeout: Too large resource version: 99999"));
}

#[tokio::test]
async fn bad_bodies_get_the_codes_kubernetes_gives() {
    let world = World::with(|options| options.body_limit = 1000);
    let path = "/api/v1/namespaces/default/configmaps";
    let send = async |kind: &str, body: &str| {
        world.raw_bytes("POST", path, &[("content-type", kind)], body.as_bytes().to_vec()).await
    };
    assert_eq!(send("application/json", "{").await.0, 400);
    assert_eq!(send("application/json", "[]").await.0, 400);
    assert_eq!(send("application/vnd.kubernetes.protobuf", "hello").await.0, 400);
    assert_eq!(send("application/vnd.kubernetes.protobuf", "k8s\0\n\x06\n\x02v1\x12\0").await.0, 415);
    assert_eq!(send("application/json", &format!("{{\"data\":\"{}\"}}", "x".repeat(2000))).await.0, 413);
    assert_eq!(
        send("application/json", r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}"#).await.0,
        400
    );
    assert_eq!(send("application/json", r#"{"metadata":{"name":"a"},"data":{"k":1}}"#).await.0, 400);
    let (code, text) = send("application/yaml", "metadata:\n  name: y\n").await;
    assert_eq!(code, 201, "{text}");
    assert_eq!(world.raw("GET", "/api/v1/things", &[], NOTHING).await.0, 404);
    assert_eq!(world.raw("POST", "/api/v1/namespaces/default/pods/x", &[], NOTHING).await.0, 405);
    let accept = [("accept", "application/vnd.kubernetes.protobuf")];
    assert_eq!(world.raw("GET", "/api/v1/pods", &accept, NOTHING).await.0, 406);
}

#[tokio::test]
async fn unknown_fields_are_errors_warnings_or_nothing() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"name": "a"}, "dta": {}});
    let strict = format!("{path}?fieldValidation=Strict");
    let (code, status) = world.raw("POST", &strict, &[], &map).await;
    assert_eq!(code, 400);
    let expected = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: \
                    strict decoding error: unknown field \"dta\"";
    assert_eq!(status["message"], expected);
    let (code, created) = world.raw("POST", path, &[], &map).await;
    assert_eq!((code, created.get("dta")), (201, None));
}

#[tokio::test]
async fn configured_tokens_are_required() {
    let world = World::with(|options| {
        options.tokens.insert("secret".into(), User::admin());
    });
    let (code, status) = world.raw("GET", "/api/v1/pods", &[], NOTHING).await;
    assert_eq!((code, &status["reason"]), (401, &json!("Unauthorized")));
    let headers = [("authorization", "Bearer secret")];
    assert_eq!(world.raw("GET", "/api/v1/pods", &headers, NOTHING).await.0, 200);
    assert_eq!(world.raw("GET", "/readyz", &[], NOTHING).await.0, 200);
}

#[tokio::test]
async fn events_of_both_groups_are_the_same_objects() {
    let world = World::new();
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "hello", "reason": "R", "type": "Normal", "action": "A", "reportingController": "c",
        "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z",
    });
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, created) = world.raw("POST", path, &[], &event).await;
    assert_eq!((code, &created["note"]), (201, &json!("hello")));
    let selected = "/api/v1/events?fieldSelector=involvedObject.name%3Dp,involvedObject.kind%3DPod";
    let (_, list) = world.raw("GET", selected, &[], NOTHING).await;
    assert_eq!(list["items"][0]["message"], "hello");
}

#[tokio::test]
async fn two_runs_with_one_seed_give_the_same_bytes() {
    let run = async || {
        let world = World::new();
        world.pod("a", json!({"app": "x"}), None).await;
        let generated = json!({"metadata": {"generateName": "g-"}});
        world.raw("POST", "/api/v1/namespaces/default/configmaps", &[], &generated).await;
        world.raw_bytes("GET", "/api/v1/pods", &[], Vec::new()).await.1
            + &world.raw_bytes("GET", "/api/v1/configmaps", &[], Vec::new()).await.1
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test]
async fn answers_come_in_yaml_to_whoever_prefers_it() {
    let world = World::new();
    let path = "/api/v1/namespaces/default";
    let accept = [("accept", "application/yaml")];
    let (code, text) = world.raw_bytes("GET", path, &accept, Vec::new()).await;
    assert_eq!(code, 200);
    assert!(text.contains("kind: Namespace") && text.contains("  name: default"), "{text}");
    let (code, text) = world.raw_bytes("GET", &format!("{path}/pods/none"), &accept, Vec::new()).await;
    assert_eq!(code, 404);
    assert!(text.contains("reason: NotFound"), "{text}");
    let watch = format!("{path}/pods?watch=true");
    assert_eq!(world.raw_bytes("GET", &watch, &accept, Vec::new()).await.0, 406);
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {on: 'yes'}\n";
    let headers = [("content-type", "application/yaml")];
    let created =
        world.raw_bytes("POST", &format!("{path}/configmaps"), &headers, map.as_bytes().to_vec()).await;
    assert_eq!(created.0, 201, "{}", created.1);
}
