//! Webhooks and policies that judge or change writes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use crate::world::World;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A webhook on loopback that gives prepared responses and keeps the requests it got.
struct Hook {
    url: String,
    authority: String,
    requests: Arc<Mutex<Vec<Value>>>,
    responses: Arc<Mutex<VecDeque<Value>>>,
}

impl Hook {
    /// Starts it; the last response is given again and again.
    async fn start(responses: impl IntoIterator<Item = Value>) -> Self {
        // Its own authority, as many installations make it.
        let mut parameters =
            rcgen::CertificateParams::new(["127.0.0.1".to_owned(), "judge.default.svc".to_owned()]).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let hook = Self {
            url: format!("https://{}/judge", listener.local_addr().unwrap()),
            authority: STANDARD.encode(certificate.pem()),
            requests: Arc::default(),
            responses: Arc::new(Mutex::new(responses.into_iter().collect())),
        };
        let (requests, responses) = (Arc::clone(&hook.requests), Arc::clone(&hook.responses));
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not trust the certificate breaks off; the next one may.
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let service = hyper::service::service_fn(|request: hyper::Request<hyper::body::Incoming>| {
                    let (requests, responses) = (Arc::clone(&requests), Arc::clone(&responses));
                    async move {
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let review: Value = serde_json::from_slice(&body).unwrap();
                        let mut responses = responses.lock().unwrap();
                        let mut response = responses.front().cloned().unwrap();
                        if responses.len() > 1 {
                            responses.pop_front();
                        }
                        response["uid"] = review["request"]["uid"].clone();
                        requests.lock().unwrap().push(review["request"].clone());
                        let answer = json!({
                            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
                        });
                        Ok::<_, hyper::Error>(hyper::Response::new(Full::new(Bytes::from(
                            answer.to_string(),
                        ))))
                    }
                });
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                builder.serve_connection(TokioIo::new(stream), service).await.unwrap();
            }
        });
        hook
    }

    /// A webhook entry that points here and is about config maps.
    fn entry(&self) -> Value {
        json!({
            "name": "judge.test.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
            "clientConfig": {"url": self.url, "caBundle": self.authority},
            "rules": [{
                "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            }],
        })
    }

    fn taken(&self) -> Vec<Value> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

async fn configure(world: &World, plural: &str, webhooks: Value) {
    let configuration = json!({"metadata": {"name": "test"}, "webhooks": webhooks});
    let (code, answer) = world.raw("POST", &format!("{GROUP}/{plural}"), &[], &configuration).await;
    assert_eq!(code, 201, "{answer}");
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn a_denial_is_told_in_the_webhooks_words_and_nothing_is_stored() {
    let world = World::new();
    let denial =
        json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "no maps"}});
    let hook = Hook::start([denial]).await;
    configure(&world, "validatingwebhookconfigurations", json!([hook.entry()])).await;
    let (code, status) = world.raw("POST", MAPS, &[], &map("a")).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    assert_eq!(status["message"], "admission webhook \"judge.test.io\" denied the request: no maps");
    assert_eq!(world.raw("GET", &format!("{MAPS}/a"), &[], &Value::Null).await.0, 404);
    let asked = hook.taken();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["operation"], "CREATE");
    assert_eq!(asked[0]["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(asked[0]["userInfo"]["username"], "kubernetes-admin");
    assert!(asked[0]["object"]["metadata"]["uid"].is_string());
    // Other resources do not wait for it.
    assert_eq!(world.raw("POST", "/api/v1/namespaces/default/secrets", &[], &map("s")).await.0, 201);
    assert!(hook.taken().is_empty());
}

#[tokio::test]
async fn what_was_judged_is_what_is_stored() {
    let world = World::new();
    let hook = Hook::start([json!({"allowed": true, "warnings": ["mind the gap"]})]).await;
    configure(&world, "validatingwebhookconfigurations", json!([hook.entry()])).await;
    let (code, created) = world.raw("POST", MAPS, &[], &json!({"metadata": {"generateName": "g-"}})).await;
    assert_eq!(code, 201, "{created}");
    let judged = &hook.taken()[0];
    for name in ["uid", "name", "creationTimestamp"] {
        assert_eq!(judged["object"]["metadata"][name], created["metadata"][name], "{name}");
    }
    let path = format!("{MAPS}/{}", created["metadata"]["name"].as_str().unwrap());
    let headers = [("content-type", "application/merge-patch+json")];
    let (code, changed) = world.raw("PATCH", &path, &headers, &json!({"data": {"k": "v"}})).await;
    assert_eq!(code, 200, "{changed}");
    let judged = &hook.taken()[0];
    assert_eq!((&judged["operation"], &judged["object"]["data"]["k"]), (&json!("UPDATE"), &json!("v")));
    assert_eq!(judged["oldObject"]["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    assert_eq!(world.raw("DELETE", &path, &[], &Value::Null).await.0, 200);
    let judged = &hook.taken()[0];
    assert_eq!((&judged["operation"], &judged["object"]), (&json!("DELETE"), &Value::Null));
}

#[tokio::test]
async fn a_webhook_that_cannot_be_asked_fails_or_is_ignored_as_it_says() {
    let world = World::new();
    let hook = Hook::start([json!({"allowed": true})]).await;
    let mut service = hook.entry();
    service["clientConfig"] = json!({"service": {"namespace": "default", "name": "judge", "path": "/x"}});
    configure(&world, "validatingwebhookconfigurations", json!([service])).await;
    let (code, status) = world.raw("POST", MAPS, &[], &map("a")).await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    let message = status["message"].as_str().unwrap();
    let expected = "Internal error occurred: failed calling webhook \"judge.test.io\": failed to call webhook: Post \
                    \"https://judge.default.svc:443/x?timeout=5s\": service \"judge\" not found";
    assert_eq!(message, expected);
    let path = format!("{GROUP}/validatingwebhookconfigurations/test");
    let headers = [("content-type", "application/json-patch+json")];
    let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    assert_eq!(world.raw("PATCH", &path, &headers, &ignore).await.0, 200);
    assert_eq!(world.raw("POST", MAPS, &[], &map("a")).await.0, 201);
    // One whose authority is not named is not trusted.
    let untrusted = json!([
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"},
        {"op": "replace", "path": "/webhooks/0/clientConfig", "value": {"url": hook.url}},
    ]);
    assert_eq!(world.raw("PATCH", &path, &headers, &untrusted).await.0, 200);
    let (code, status) = world.raw("POST", MAPS, &[], &map("b")).await;
    assert_eq!(code, 500);
    assert!(status["message"].as_str().unwrap().contains("failed to verify certificate"), "{status}");
    assert!(hook.taken().is_empty());
}

#[tokio::test]
async fn selectors_conditions_and_dry_run_decide_who_is_asked() {
    let world = World::new();
    let hook = Hook::start([json!({"allowed": false})]).await;
    let mut entry = hook.entry();
    entry["objectSelector"] = json!({"matchLabels": {"judged": "yes"}});
    entry["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
    entry["matchConditions"] = json!([{"name": "not-spared", "expression": "!('spared' in object.data)"}]);
    configure(&world, "validatingwebhookconfigurations", json!([entry])).await;
    let labelled = |name: &str, key: &str| json!({"metadata": {"name": name, "labels": {"judged": "yes"}}, "data": {key: ""}});
    assert_eq!(world.raw("POST", MAPS, &[], &map("plain")).await.0, 201);
    assert_eq!(world.raw("POST", MAPS, &[], &labelled("spared", "spared")).await.0, 201);
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(world.raw("POST", elsewhere, &[], &labelled("far", "x")).await.0, 201);
    assert!(hook.taken().is_empty());
    let (code, status) =
        world.raw("POST", &format!("{MAPS}?dryRun=All"), &[], &labelled("judged", "x")).await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "admission webhook \"judge.test.io\" denied the request without explanation"
    );
    assert_eq!(hook.taken()[0]["dryRun"], true);
    // A condition that cannot be evaluated is a failure of the webhook.
    let (code, status) = world
        .raw(
            "POST",
            MAPS,
            &[],
            &json!({
                "metadata": {"name": "broken", "labels": {"judged": "yes"}},
            }),
        )
        .await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{status}");
}

#[tokio::test]
async fn mutating_webhooks_change_objects_in_turn() {
    let world = World::new();
    let patched = |operations: Value| json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())});
    let first =
        Hook::start([patched(json!([{"op": "add", "path": "/data", "value": {"first": "1"}}]))]).await;
    let second = Hook::start([patched(json!([{"op": "add", "path": "/data/second", "value": "2"}]))]).await;
    let mut again = first.entry();
    again["name"] = "again.test.io".into();
    again["reinvocationPolicy"] = "IfNeeded".into();
    configure(&world, "mutatingwebhookconfigurations", json!([again, second.entry()])).await;
    let (code, created) = world.raw("POST", MAPS, &[], &map("a")).await;
    assert_eq!(code, 201, "{created}");
    // The first had another look at what the second made, and replaced it.
    assert_eq!(created["data"], json!({"first": "1"}));
    let seen: Vec<Value> = first.taken().iter().map(|request| request["object"]["data"].clone()).collect();
    assert_eq!(seen, [Value::Null, json!({"first": "1", "second": "2"})]);
    assert_eq!(second.taken().len(), 1);
}

#[tokio::test]
async fn configurations_are_checked() {
    let world = World::new();
    let configuration = json!({"metadata": {"name": "bad"}, "webhooks": [{
        "name": "short", "clientConfig": {"url": "http://plain"}, "timeoutSeconds": 60,
        "matchConditions": [{"name": "c", "expression": "object."}],
    }]});
    let path = format!("{GROUP}/validatingwebhookconfigurations");
    let (code, status) = world.raw("POST", &path, &[], &configuration).await;
    assert_eq!(code, 422);
    let causes = status["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "webhooks[0].name",
            "webhooks[0].sideEffects",
            "webhooks[0].timeoutSeconds",
            "webhooks[0].clientConfig.url",
            "webhooks[0].matchConditions[0].expression",
            "webhooks[0].admissionReviewVersions",
        ]
    );
}

#[tokio::test]
async fn policies_deny_and_warn_as_their_bindings_say() {
    let world = World::new();
    let policy = json!({"metadata": {"name": "small"}, "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [{
            "operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
        }]},
        "variables": [{"name": "most", "expression": "int(params.data.most)"}],
        "validations": [{
            "expression": "object.spec.replicas <= variables.most",
            "messageExpression": "'at most ' + string(variables.most) + ' replicas'",
        }],
    }});
    let (code, answer) =
        world.raw("POST", &format!("{GROUP}/validatingadmissionpolicies"), &[], &policy).await;
    assert_eq!(code, 201, "{answer}");
    let limits = json!({"metadata": {"name": "limits"}, "data": {"most": "3"}});
    assert_eq!(world.raw("POST", MAPS, &[], &limits).await.0, 201);
    let binding = json!({"metadata": {"name": "small-here"}, "spec": {
        "policyName": "small", "validationActions": ["Deny"],
        "paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"},
    }});
    let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
    assert_eq!(world.raw("POST", &bindings, &[], &binding).await.0, 201);
    let deployment = |name: &str, replicas: i64| {
        json!({"metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }})
    };
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(world.raw("POST", deployments, &[], &deployment("ok", 3)).await.0, 201);
    let (code, status) = world.raw("POST", deployments, &[], &deployment("big", 4)).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    assert_eq!(
        status["message"],
        "deployments.apps \"big\" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'small-here' denied \
         request: at most 3 replicas"
    );
}

#[tokio::test]
async fn a_webhook_behind_a_service_is_asked_at_an_endpoint_of_the_service() {
    let world = World::new();
    let hook = Hook::start([json!({"allowed": false, "status": {"message": "not here"}})]).await;
    let address: std::net::SocketAddr =
        hook.url.trim_start_matches("https://").split('/').next().unwrap().parse().unwrap();
    let mut entry = hook.entry();
    entry["clientConfig"] = json!({"service": {"name": "judge", "namespace": "default", "path": "/judge"}, "caBundle": hook.authority});
    configure(&world, "validatingwebhookconfigurations", json!([entry])).await;
    let why = async || {
        let (code, status) = world.raw("POST", MAPS, &[], &map("a")).await;
        (code, status["message"].as_str().unwrap().to_owned())
    };
    assert!(why().await.1.ends_with("service \"judge\" not found"));
    let service = json!({"metadata": {"name": "judge"}, "spec": {"ports": [{"port": 443}]}});
    assert_eq!(world.raw("POST", "/api/v1/namespaces/default/services", &[], &service).await.0, 201);
    assert!(why().await.1.ends_with("no endpoints available for service \"judge\""));
    let slice = json!({"metadata": {"name": "judge-1", "labels": {"kubernetes.io/service-name": "judge"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": [{"port": address.port()}]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let (code, answer) = world.raw("POST", slices, &[], &slice).await;
    assert_eq!(code, 201, "{answer}");
    let (code, message) = why().await;
    assert_eq!(
        (code, message.as_str()),
        (400, "admission webhook \"judge.test.io\" denied the request: not here")
    );
}

#[tokio::test]
async fn mutating_webhooks_hear_of_deletions_and_may_deny_them() {
    let world = World::new();
    assert_eq!(world.raw("POST", MAPS, &[], &map("a")).await.0, 201);
    let denial = json!({"allowed": false, "status": {"message": "keep it"}});
    let hook = Hook::start([denial, json!({"allowed": true})]).await;
    configure(&world, "mutatingwebhookconfigurations", json!([hook.entry()])).await;
    let item = format!("{MAPS}/a?gracePeriodSeconds=3");
    assert_eq!(world.raw("DELETE", &item, &[], &Value::Null).await.0, 400);
    let asked = hook.taken();
    assert_eq!((&asked[0]["operation"], &asked[0]["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(asked[0]["oldObject"]["metadata"]["name"], "a");
    assert_eq!(asked[0]["options"]["gracePeriodSeconds"], 3);
    assert_eq!(world.raw("DELETE", &item, &[], &Value::Null).await.0, 200);
    assert_eq!(world.raw("GET", &format!("{MAPS}/a"), &[], &Value::Null).await.0, 404);
}

#[tokio::test]
async fn a_webhook_needs_a_plain_secure_url_and_rules_that_say_one_thing() {
    let world = World::new();
    let hook = Hook::start([json!({"allowed": true})]).await;
    let mut fields = Vec::new();
    for (place, value) in [
        ("/clientConfig/url", json!("http://judge.test.io")),
        ("/clientConfig/url", json!("https://")),
        ("/clientConfig/url", json!("https://judge.test.io/x?a=b")),
        ("/rules/0/operations", json!(["*", "CREATE"])),
        ("/rules/0/scope", json!("Somewhere")),
    ] {
        let mut entry = hook.entry();
        if place == "/rules/0/scope" {
            entry["rules"][0]["scope"] = value;
        } else {
            *entry.pointer_mut(place).unwrap() = value;
        }
        let configuration = json!({"metadata": {"name": "bad"}, "webhooks": [entry]});
        let path = format!("{GROUP}/validatingwebhookconfigurations");
        let (code, status) = world.raw("POST", &path, &[], &configuration).await;
        assert_eq!(code, 422, "{status}");
        fields.push(status["details"]["causes"][0]["field"].as_str().unwrap().to_owned());
    }
    let rules = "webhooks[0].rules[0]";
    let url = "webhooks[0].clientConfig.url";
    assert_eq!(fields, [url, url, url, &format!("{rules}.operations"), &format!("{rules}.scope")]);
}
