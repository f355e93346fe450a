//! OpenAPI documents as clients fetch them.

use serde_json::{Value, json};

use crate::world::World;

const NOTHING: &Value = &Value::Null;

fn widgets(description: &str) -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "description": description, "properties": {"spec": {"type": "object"}},
            }}}],
        },
    })
}

async fn path_of(world: &World, group: &str) -> String {
    let (_, index) = world.raw("GET", "/openapi/v3", &[], NOTHING).await;
    index["paths"][group]["serverRelativeURL"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn documents_have_hashes_that_change_with_a_crd_and_only_there() {
    let world = World::new();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(world.raw("POST", definitions, &[], &widgets("One.")).await.0, 201);
    let (apps, first) = (path_of(&world, "apis/apps/v1").await, path_of(&world, "apis/example.com/v1").await);
    let (code, document) = world.raw("GET", &first, &[], NOTHING).await;
    assert_eq!(code, 200);
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["description"], "One.");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    let formats: Vec<&String> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert!(!formats.iter().any(|format| format.contains("strategic")), "{formats:?}");
    let change = [("content-type", "application/merge-patch+json")];
    let object = format!("{definitions}/widgets.example.com");
    let spec = json!({"spec": widgets("Two.")["spec"]});
    assert_eq!(world.raw("PATCH", &object, &change, &spec).await.0, 200);
    assert_ne!(path_of(&world, "apis/example.com/v1").await, first);
    assert_eq!(path_of(&world, "apis/apps/v1").await, apps);
    // Whoever still has the old address is sent to the new one.
    assert_eq!(world.raw("GET", &first, &[], NOTHING).await.0, 301);
}

#[tokio::test]
async fn a_client_that_has_a_document_is_told_so() {
    let world = World::new();
    let path = path_of(&world, "apis/apps/v1").await;
    let hash = path.split_once("hash=").unwrap().1;
    let tag = format!("\"{hash}\"");
    assert_eq!(world.raw("GET", &path, &[("if-none-match", &tag)], NOTHING).await.0, 304);
    assert_eq!(world.raw("GET", "/openapi/v3/apis/none/v1", &[], NOTHING).await.0, 404);
}

#[tokio::test]
async fn version_two_knows_all_kinds_and_comes_in_both_forms() {
    let world = World::new();
    let (code, document) = world.raw("GET", "/openapi/v2", &[], NOTHING).await;
    assert_eq!((code, &document["swagger"]), (200, &json!("2.0")));
    let deployment = &document["definitions"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(deployment["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.apps.v1.DeploymentSpec");
    assert!(!document.to_string().contains("#/components/"));
    let options = &document["definitions"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"];
    assert!(options["x-kubernetes-group-version-kind"].as_array().unwrap().len() > 10);
    let accept = [("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")];
    let (code, bytes) = world.bytes("GET", "/openapi/v2", &accept, Vec::new()).await;
    assert_eq!(code, 200);
    assert!(bytes.starts_with(b"\n\x032.0"), "{:?}", &bytes[..20]);
    let other = [("accept", "application/xml")];
    assert_eq!(world.raw("GET", "/openapi/v2", &other, NOTHING).await.0, 406);
}
