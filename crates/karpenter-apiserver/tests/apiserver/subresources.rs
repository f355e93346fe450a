//! Eviction, binding, scale, status, tokens.

use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{EvictParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::patches::deployment;
use crate::world::{World, from, refused};

#[tokio::test]
async fn an_eviction_honours_the_disruption_budget() {
    let world = World::new();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(world.client.clone(), "default");
    let budget = json!({"metadata": {"name": "pdb"}, "spec": {
        "minAvailable": 1, "selector": {"matchLabels": {"app": "web"}},
    }});
    budgets.create(&PostParams::default(), &from(budget)).await.unwrap();
    for name in ["a", "b"] {
        world.pod(name, json!({"app": "web"}), Some("n1")).await;
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        world.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
    let (code, reason, _) = refused(world.pods().evict("a", &EvictParams::default()).await);
    assert_eq!((code, reason.as_str()), (429, "TooManyRequests"));
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    }});
    budgets.patch_status("pdb", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    world.pods().evict("a", &EvictParams::default()).await.unwrap();
    assert!(world.pods().get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    let (code, _, message) = refused(world.pods().evict("b", &EvictParams::default()).await);
    assert_eq!(code, 429);
    assert_eq!(message, "Cannot evict pod as it would violate the pod's disruption budget.");
    let status = budgets.get("pdb").await.unwrap().status.unwrap();
    assert_eq!(status.disruptions_allowed, Some(0));
    assert!(status.disrupted_pods.unwrap().contains_key("a"));
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let world = World::new();
    world.pod("a", json!({}), None).await;
    let path = "/api/v1/namespaces/default/pods/a/binding";
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    assert_eq!(world.raw("POST", path, &[], &binding).await.0, 201);
    let pod = world.pods().get("a").await.unwrap();
    assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("n1"));
    let condition = &pod.status.unwrap().conditions.unwrap()[0];
    assert_eq!((condition.type_.as_str(), condition.status.as_str()), ("PodScheduled", "True"));
    let (code, status) = world.raw("POST", path, &[], &binding).await;
    assert_eq!(code, 409);
    assert!(status["message"].as_str().unwrap().contains("already assigned to node \"n1\""), "{status}");
}

#[tokio::test]
async fn scale_reads_and_writes_replicas() {
    let world = World::new();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(world.raw("POST", path, &[], &deployment()).await.0, 201);
    let (_, mut scale) = world.raw("GET", &format!("{path}/web/scale"), &[], &json!(null)).await;
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(2), &json!("app=web")));
    scale["spec"]["replicas"] = json!(4);
    let (code, scaled) = world.raw("PUT", &format!("{path}/web/scale"), &[], &scale).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(4)));
    assert_eq!(world.raw("PUT", &format!("{path}/web/scale"), &[], &scale).await.0, 409);
}

#[tokio::test]
async fn nodes_register_with_status_and_a_not_ready_taint() {
    let world = World::new();
    let nodes: Api<Node> = Api::all(world.client.clone());
    let node = json!({
        "metadata": {"name": "n1"}, "spec": {"providerID": "sim://1"},
        "status": {"capacity": {"cpu": 4, "memory": "16384Mi"}},
    });
    let node = nodes.create(&PostParams::default(), &from(node)).await.unwrap();
    let spec = node.spec.unwrap();
    assert_eq!(spec.taints.unwrap()[0].key, "node.kubernetes.io/not-ready");
    let capacity = node.status.unwrap().capacity.unwrap();
    assert_eq!((capacity["cpu"].0.as_str(), capacity["memory"].0.as_str()), ("4", "16Gi"));
    let patch = json!({"spec": {"providerID": "sim://2"}});
    let (code, _, _) = refused(nodes.patch("n1", &PatchParams::default(), &Patch::Merge(&patch)).await);
    assert_eq!(code, 422);
}

#[tokio::test]
async fn service_account_tokens_authenticate() {
    let world = World::new();
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "default");
    accounts.create(&PostParams::default(), &from(json!({"metadata": {"name": "bot"}}))).await.unwrap();
    let path = "/api/v1/namespaces/default/serviceaccounts/bot/token";
    let (code, request) = world.raw("POST", path, &[], &json!({"spec": {"expirationSeconds": 900}})).await;
    assert_eq!((code, &request["status"]["expirationTimestamp"]), (201, &json!("2026-01-01T00:15:00Z")));
    let authorization = format!("Bearer {}", request["status"]["token"].as_str().unwrap());
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let headers = [("authorization", authorization.as_str())];
    let (_, review) = world.raw("POST", review, &headers, &json!({})).await;
    assert_eq!(review["status"]["userInfo"]["username"], "system:serviceaccount:default:bot");
    let headers = [("authorization", "Bearer wrong")];
    assert_eq!(world.raw("GET", "/api/v1/pods", &headers, &json!(null)).await.0, 401);
}

#[tokio::test]
async fn a_token_is_for_the_account_that_is_meant() {
    let world = World::new();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    world.raw("POST", accounts, &[], &json!({"metadata": {"name": "bot"}})).await;
    let path = format!("{accounts}/bot/token");
    let (code, _) = world.raw("POST", &path, &[], &json!({"metadata": {"uid": "another"}})).await;
    assert_eq!(code, 409);
    let (code, token) = world.raw("POST", &path, &[], &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!((code, &token["metadata"]["labels"]), (201, &json!({"a": "b"})));
}
