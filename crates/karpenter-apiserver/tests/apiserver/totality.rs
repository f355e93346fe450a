//! Whatever is sent, there is an answer, and none of them is that the server does not know what to do.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::World;

const TYPES: [&str; 8] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/html",
];

fn paths() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
        "/api/v1/namespaces/default/pods/a/eviction",
        "/api/v1/namespaces/default/pods/a/status",
        "/api/v1/nodes/a",
        "/apis/apps/v1/namespaces/default/deployments/a/scale",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/policy/v1/poddisruptionbudgets",
        "/openapi/v3/api/v1",
        "/version",
    ]);
    let query = prop_oneof![
        Just(String::new()),
        "\\?(labelSelector|fieldSelector|limit|continue|resourceVersion|fieldManager|dryRun|propagationPolicy)=[a-zA-Z0-9%=,!()./_-]{0,20}",
        "\\?[a-zA-Z0-9%=&,!()._-]{0,30}",
    ];
    let path = prop_oneof![4 => known.prop_map(str::to_owned), 1 => "(/[a-zA-Z0-9%._-]{0,8}){1,7}"];
    (path, query).prop_map(|(path, query)| format!("{path}{query}"))
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,8}".prop_map(Value::from),
    ];
    let words = vec![
        "metadata",
        "name",
        "spec",
        "kind",
        "apiVersion",
        "status",
        "data",
        "labels",
        "op",
        "path",
        "value",
        "$patch",
        "template",
    ];
    let object = leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(words.clone()), inner, 0..5)
                .prop_map(|fields| json!(fields)),
        ]
    });
    let prefixed =
        prop::collection::vec(any::<u8>(), 0..64).prop_map(|rest| [b"k8s\0".to_vec(), rest].concat());
    prop_oneof![
        3 => object.prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => prefixed,
        1 => ".{0,64}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn every_request_is_answered_and_never_with_an_internal_error(
        method in prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
        path in paths(),
        content in prop::sample::select(TYPES.to_vec()),
        accept in prop::sample::select(TYPES.to_vec()),
        body in bodies(),
    ) {
        // A watch has no end.
        prop_assume!(!path.contains("watch"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (code, answer) = runtime.block_on(async {
            let world = World::new();
            world.raw("POST", "/api/v1/namespaces/default/configmaps", &[], &json!({"metadata": {"name": "a"}})).await;
            let headers = [("content-type", content), ("accept", accept)];
            world.bytes(method, &path, &headers, body.clone()).await
        });
        prop_assert!((200..500).contains(&code), "{method} {path} {content}: {code} {}", String::from_utf8_lossy(&answer));
    }
}
