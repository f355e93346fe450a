//! Answers in other forms: tables, bare metadata, pages that have expired, watches by path.

use serde_json::{Value, json};

use crate::patches::deployment;
use crate::world::World;

const NOTHING: &Value = &Value::Null;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn form(kind: &str, version: &str) -> String {
    format!("application/json;as={kind};g=meta.k8s.io;v={version}")
}

async fn world_with_maps(names: &[&str]) -> World {
    let world = World::new();
    for name in names {
        let (code, _) = world.raw("POST", MAPS, &[], &json!({"metadata": {"name": name}})).await;
        assert_eq!(code, 201);
    }
    world
}

async fn get(world: &World, path: &str, accept: &str) -> (u16, Value) {
    world.raw("GET", path, &[("accept", accept)], NOTHING).await
}

#[tokio::test]
async fn forms_are_written_in_the_version_asked_for() {
    let world = world_with_maps(&["a"]).await;
    let item = format!("{MAPS}/a");
    for version in ["v1", "v1beta1"] {
        let api_version = format!("meta.k8s.io/{version}");
        let (_, table) = get(&world, &item, &form("Table", version)).await;
        assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!(api_version)));
        assert_eq!(table["rows"][0]["object"]["apiVersion"], api_version);
        let (_, metadata) = get(&world, &item, &form("PartialObjectMetadata", version)).await;
        assert_eq!(metadata["apiVersion"], api_version);
        let (_, list) = get(&world, MAPS, &form("PartialObjectMetadataList", version)).await;
        assert_eq!(list["apiVersion"], api_version);
        assert_eq!(list["items"][0]["apiVersion"], api_version);
    }
}

#[tokio::test]
async fn columns_are_described_and_kinds_without_any_have_no_rows() {
    let world = World::new();
    let (_, pods) = get(&world, "/api/v1/pods", &form("Table", "v1")).await;
    let described = |column: &Value| column["description"].as_str().is_some_and(|text| !text.is_empty());
    assert!(pods["columnDefinitions"].as_array().unwrap().iter().all(described));
    assert_eq!(pods["rows"], json!([]));
    let (_, ranges) = get(&world, "/api/v1/limitranges", &form("Table", "v1")).await;
    assert_eq!(ranges["rows"], NOTHING.clone());
}

#[tokio::test]
async fn a_review_says_who_asked() {
    let world = World::new();
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "group": ""}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?fieldManager=me";
    let (code, answer) = world.raw("POST", path, &[], &review).await;
    let entry = &answer["metadata"]["managedFields"][0];
    assert_eq!((code, &entry["manager"]), (201, &json!("me")));
    let owned = json!({"f:spec": {"f:resourceAttributes": {".": {}, "f:verb": {}, "f:resource": {}}}});
    assert_eq!(entry["fieldsV1"], owned);
}

#[tokio::test]
async fn one_object_is_no_list_and_a_list_no_object() {
    let world = world_with_maps(&["a"]).await;
    let (code, status) = get(&world, &format!("{MAPS}/a"), &form("PartialObjectMetadataList", "v1")).await;
    let message =
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)";
    assert_eq!((code, &status["message"]), (406, &json!(message)));
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let (code, status) = get(&world, deployments, &form("PartialObjectMetadata", "v1")).await;
    let message =
        "you requested PartialObjectMetadata, but the requested object is a list (*apps.DeploymentList)";
    assert_eq!((code, &status["message"]), (406, &json!(message)));
}

#[tokio::test]
async fn a_refused_format_gets_a_list_of_the_formats_there_are() {
    let world = World::new();
    let (code, status) = get(&world, MAPS, "text/html").await;
    let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf, application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!((code, &status["message"]), (406, &json!(message)));
    let (code, status) = get(&world, MAPS, "application/json;as=Table").await;
    let message = "only the following media types are accepted: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf";
    assert_eq!((code, &status["message"]), (406, &json!(message)));
}

#[tokio::test]
async fn an_expired_page_says_how_to_go_on() {
    let world = world_with_maps(&["a", "b", "c"]).await;
    let (_, page) = world.raw("GET", &format!("{MAPS}?limit=1"), &[], NOTHING).await;
    let next =
        |page: &Value| format!("{MAPS}?limit=1&continue={}", page["metadata"]["continue"].as_str().unwrap());
    world.raw("POST", MAPS, &[], &json!({"metadata": {"name": "aa"}})).await;
    world.server.compact();
    let (code, status) = world.raw("GET", &next(&page), &[], NOTHING).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("The provided continue parameter is too old"), "{message}");
    // What has come since is on the pages that follow.
    let (code, rest) = world.raw("GET", &next(&status), &[], NOTHING).await;
    assert_eq!((code, &rest["items"][0]["metadata"]["name"]), (200, &json!("aa")));
    let old = page["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    let (code, status) = world.raw("GET", &exact, &[], NOTHING).await;
    let message = "The resourceVersion for the provided list is too old.";
    assert_eq!((code, &status["message"]), (410, &json!(message)));
}

#[tokio::test]
async fn paths_can_ask_to_watch() {
    let world = world_with_maps(&["a", "b"]).await;
    let names = async |path: &str| {
        let (code, text) = world.raw_bytes("GET", path, &[], Vec::new()).await;
        assert_eq!(code, 200, "{text}");
        let event =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["object"]["metadata"]["name"].clone();
        text.lines().map(event).collect::<Vec<Value>>()
    };
    tokio::time::pause();
    assert_eq!(names("/api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1").await, ["a", "b"]);
    assert_eq!(names("/api/v1/watch/namespaces/default/configmaps/b?timeoutSeconds=1").await, ["b"]);
    assert_eq!(names("/api/v1/watch/namespaces/default?timeoutSeconds=1").await, ["default"]);
    let (code, _) = world.raw("POST", "/api/v1/watch/configmaps", &[], &json!({})).await;
    assert_eq!(code, 405);
    let elsewhere = "/api/v1/watch/namespaces/default?fieldSelector=metadata.name%3Dx";
    assert_eq!(world.raw("GET", elsewhere, &[], NOTHING).await.0, 400);
    // One object is read, whatever the query says.
    let (_, object) = world.raw("GET", &format!("{MAPS}/a?watch=true"), &[], NOTHING).await;
    assert_eq!(object["metadata"]["name"], "a");
}

#[tokio::test]
async fn the_names_of_stateful_sets_are_labels() {
    let world = World::new();
    let path = "/apis/apps/v1/namespaces/default/statefulsets";
    let pods =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"metadata": {"generateName": "a.b-"}, "spec": {
        "serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": pods}});
    let (code, status) = world.raw("POST", path, &[], &set).await;
    assert_eq!(code, 422);
    let fields: Vec<&Value> =
        status["details"]["causes"].as_array().unwrap().iter().map(|cause| &cause["field"]).collect();
    assert_eq!(fields, ["metadata.generateName", "metadata.name"]);
}

#[tokio::test]
async fn a_group_cannot_be_taken_on_without_a_user() {
    let world = World::new();
    let headers = [("impersonate-group", "dev"), ("impersonate-uid", "u")];
    let (code, status) = world.raw("GET", MAPS, &headers, NOTHING).await;
    let message = "requested &user.DefaultInfo{Name:\"\", UID:\"u\", Groups:[]string{\"dev\"}, \
                   Extra:map[string][]string(nil)} without impersonating a user name";
    assert_eq!((code, &status["message"]), (400, &json!(message)));
}

#[tokio::test]
async fn scales_tokens_and_reviews_have_forms_of_their_own() {
    let world = World::new();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(world.raw("POST", deployments, &[], &deployment()).await.0, 201);
    let scale = format!("{deployments}/web/scale");
    let (_, table) = get(&world, &scale, &form("Table", "v1")).await;
    let names: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..3], [json!("web"), json!(2), json!(0)]);
    // The form of the answer changes nothing about what is done.
    let accept = form("PartialObjectMetadata", "v1");
    let headers = [("accept", accept.as_str()), ("content-type", "application/merge-patch+json")];
    let (code, metadata) = world.raw("PATCH", &scale, &headers, &json!({"spec": {"replicas": 5}})).await;
    assert_eq!((code, &metadata["kind"]), (200, &json!("PartialObjectMetadata")));
    let (_, scaled) = get(&world, &scale, "application/json").await;
    assert_eq!(scaled["spec"]["replicas"], 5);
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, _) = world.raw("POST", review, &[("accept", &form("Table", "v1"))], &json!({})).await;
    assert_eq!(code, 406);
    let either = format!("{},application/json", form("Table", "v1"));
    let (code, answer) = world.raw("POST", review, &[("accept", &either)], &json!({})).await;
    assert_eq!((code, &answer["kind"]), (201, &json!("SelfSubjectReview")));
    let (code, status) =
        world.raw("POST", review, &[("accept", &form("PartialObjectMetadataList", "v1"))], &json!({})).await;
    let message = "you requested PartialObjectMetadataList, but the requested object is not a list \
                   (*authentication.SelfSubjectReview)";
    assert_eq!((code, &status["message"]), (406, &json!(message)));
}

#[tokio::test]
async fn health_is_told_to_everybody_but_not_in_the_name_of_a_group() {
    let world = World::new();
    let (code, text) = world.raw_bytes("GET", "/readyz", &[("impersonate-user", "jane")], Vec::new()).await;
    assert_eq!((code, text.as_str()), (200, "ok"));
    let (code, _) = world.raw("GET", "/readyz", &[("impersonate-group", "dev")], NOTHING).await;
    assert_eq!(code, 400);
}
