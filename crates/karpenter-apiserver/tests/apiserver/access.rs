//! Who may do what, with role-based access control on.

use karpenter_apiserver::{Authorization, User};
use serde_json::{Value, json};

use crate::world::World;

const NOTHING: &Value = &Value::Null;
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const JANE: &[(&str, &str)] = &[("authorization", "Bearer jane")];
const ADMIN: &[(&str, &str)] = &[("authorization", "Bearer admin")];

fn world() -> World {
    World::with(|options| {
        options.authorization = Authorization::Rbac;
        options.tokens.insert("admin".into(), User::admin());
        options.tokens.insert("jane".into(), User::new("jane", ["dev"]));
    })
}

async fn grant(world: &World, namespace: &str, name: &str, role: &str, subject: &Value) {
    let binding = json!({
        "metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    });
    let path = format!("{RBAC}/namespaces/{namespace}/rolebindings");
    let (code, answer) = world.raw("POST", &path, ADMIN, &binding).await;
    assert_eq!(code, 201, "{answer}");
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

#[tokio::test]
async fn nothing_is_allowed_that_no_role_grants() {
    let world = world();
    let (code, status) = world.raw("GET", "/api/v1/namespaces/default/pods", JANE, NOTHING).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        status["message"],
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    assert_eq!(status["details"], json!({"kind": "pods"}));
    let (_, status) = world.raw("GET", "/api/v1/nodes/n", JANE, NOTHING).await;
    assert_eq!(
        status["message"],
        "nodes \"n\" is forbidden: User \"jane\" cannot get resource \"nodes\" in API group \"\" at the cluster scope"
    );
    let (code, status) = world.raw("GET", "/metrics", JANE, NOTHING).await;
    assert_eq!(
        (code, &status["message"]),
        (403, &json!("forbidden: User \"jane\" cannot get path \"/metrics\""))
    );
    // Everybody with credentials may look around.
    assert_eq!(world.raw("GET", "/apis", JANE, NOTHING).await.0, 200);
    assert_eq!(world.raw("GET", "/api/v1/nodes/n", ADMIN, NOTHING).await.0, 404);
}

#[tokio::test]
async fn callers_without_credentials_are_anonymous_and_wrong_ones_are_refused() {
    let world = world();
    let (code, status) = world.raw("GET", "/api/v1/pods", &[], NOTHING).await;
    assert_eq!(code, 403);
    assert!(
        status["message"].as_str().unwrap().contains("User \"system:anonymous\" cannot list"),
        "{status}"
    );
    assert_eq!(world.raw("GET", "/version", &[], NOTHING).await.0, 200);
    assert_eq!(world.raw("GET", "/version", &[("authorization", "Bearer x")], NOTHING).await.0, 401);
}

#[tokio::test]
async fn a_role_binding_gives_the_rules_of_an_aggregated_cluster_role_in_one_namespace() {
    let world = world();
    grant(&world, "default", "janes", "edit", &user("jane")).await;
    let map = json!({"metadata": {"name": "a"}});
    let (code, answer) = world.raw("POST", "/api/v1/namespaces/default/configmaps", JANE, &map).await;
    assert_eq!(code, 201, "{answer}");
    // What `view` grants reaches `edit` by aggregation.
    assert_eq!(world.raw("GET", "/api/v1/namespaces/default/pods", JANE, NOTHING).await.0, 200);
    assert_eq!(world.raw("GET", "/api/v1/namespaces/kube-system/pods", JANE, NOTHING).await.0, 403);
    assert_eq!(world.raw("GET", "/api/v1/pods", JANE, NOTHING).await.0, 403);
    // A cluster role that says it belongs to `view` is part of it from then on.
    let path = "/apis/apiextensions.k8s.io/v1/namespaces/default/widgets";
    assert_eq!(world.raw("GET", path, JANE, NOTHING).await.0, 403);
    let role = json!({
        "metadata": {"name": "widgets", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["apiextensions.k8s.io"], "resources": ["widgets"], "verbs": ["list"]}],
    });
    assert_eq!(world.raw("POST", &format!("{RBAC}/clusterroles"), ADMIN, &role).await.0, 201);
    assert_eq!(world.raw("GET", path, JANE, NOTHING).await.0, 404);
}

#[tokio::test]
async fn names_restrict_and_broken_bindings_are_named() {
    let world = world();
    let role = json!({
        "metadata": {"name": "one"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get", "list"]}],
    });
    assert_eq!(world.raw("POST", &format!("{RBAC}/clusterroles"), ADMIN, &role).await.0, 201);
    grant(&world, "default", "one", "one", &json!({"kind": "Group", "name": "dev"})).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(world.raw("GET", &format!("{maps}/a"), JANE, NOTHING).await.0, 404);
    assert_eq!(world.raw("GET", &format!("{maps}/b"), JANE, NOTHING).await.0, 403);
    assert_eq!(world.raw("GET", maps, JANE, NOTHING).await.0, 403);
    assert_eq!(
        world.raw("GET", &format!("{maps}?fieldSelector=metadata.name%3Da"), JANE, NOTHING).await.0,
        200
    );
    grant(&world, "default", "broken", "missing", &user("jane")).await;
    let (_, status) = world.raw("GET", &format!("{maps}/b"), JANE, NOTHING).await;
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with(
            "in the namespace \"default\": RBAC: clusterrole.rbac.authorization.k8s.io \"missing\" not found"
        ),
        "{message}"
    );
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_hold() {
    let world = world();
    grant(&world, "default", "janes", "admin", &user("jane")).await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |resource: &str| json!({"metadata": {"name": resource}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]});
    assert_eq!(world.raw("POST", &roles, JANE, &role("pods")).await.0, 201);
    let (code, status) = world.raw("POST", &roles, JANE, &role("nodes")).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "roles.rbac.authorization.k8s.io \"nodes\" is forbidden: user \"jane\" (groups=[\"dev\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], \
         Resources:[\"nodes\"], Verbs:[\"get\"]}"
    );
    let binding = json!({
        "metadata": {"name": "more"}, "subjects": [user("jane")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    });
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let (code, status) = world.raw("POST", &bindings, JANE, &binding).await;
    assert_eq!(code, 403, "{status}");
    assert!(
        status["message"].as_str().unwrap().contains("{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"),
        "{status}"
    );
}

#[tokio::test]
async fn impersonation_needs_permission_and_changes_who_asks() {
    let world = world();
    let as_bot = |token: &'static str| {
        [("authorization", token), ("impersonate-user", "system:serviceaccount:default:bot")]
    };
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, review) = world.raw("POST", path, &as_bot("Bearer admin"), &json!({})).await;
    assert_eq!(code, 201, "{review}");
    assert_eq!(
        review["status"]["userInfo"],
        json!({
            "username": "system:serviceaccount:default:bot",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        })
    );
    let (code, status) = world.raw("POST", path, &as_bot("Bearer jane"), &json!({})).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "serviceaccounts \"bot\" is forbidden: User \"jane\" cannot impersonate resource \"serviceaccounts\" in API \
         group \"\" in the namespace \"default\""
    );
}

#[tokio::test]
async fn reviews_answer_what_the_roles_say() {
    let world = world();
    grant(&world, "default", "janes", "view", &user("jane")).await;
    let access = async |verb: &str, resource: &str| {
        let spec =
            json!({"resourceAttributes": {"namespace": "default", "verb": verb, "resource": resource}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        world.raw("POST", path, JANE, &json!({"spec": spec})).await.1["status"].clone()
    };
    assert_eq!(
        access("get", "pods").await,
        json!({
            "allowed": true,
            "reason": "RBAC: allowed by RoleBinding \"janes/default\" of ClusterRole \"view\" to User \"jane\"",
        })
    );
    assert_eq!(access("delete", "pods").await, json!({"allowed": false}));
    let subject = json!({"spec": {
        "user": "bob", "groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"},
    }});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    assert_eq!(world.raw("POST", path, ADMIN, &subject).await.1["status"]["allowed"], true);
    assert_eq!(world.raw("POST", path, JANE, &subject).await.0, 403);
    let (code, status) = world.raw("POST", path, ADMIN, &json!({"spec": {}})).await;
    assert_eq!((code, status["details"]["causes"].as_array().unwrap().len()), (422, 2));
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (_, rules) = world.raw("POST", path, JANE, &json!({"spec": {"namespace": "default"}})).await;
    let rules = rules["status"]["resourceRules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["resources"] == json!(["endpointslices"])), "{rules:?}");
    assert!(!rules.iter().any(|rule| rule["verbs"] == json!(["*"])));
}

#[tokio::test]
async fn tokens_of_service_accounts_end_with_them() {
    let world = world();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    world.raw("POST", accounts, ADMIN, &json!({"metadata": {"name": "bot"}})).await;
    let (code, token) =
        world.raw("POST", &format!("{accounts}/bot/token"), ADMIN, &json!({"spec": {}})).await;
    assert_eq!(code, 201, "{token}");
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let headers = [("authorization", format!("Bearer {token}"))];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(world.raw("GET", pods, &headers, NOTHING).await.0, 403);
    grant(&world, "default", "bots", "view", &json!({"kind": "ServiceAccount", "name": "bot"})).await;
    assert_eq!(world.raw("GET", pods, &headers, NOTHING).await.0, 200);
    let review = json!({"spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, answer) = world.raw("POST", path, ADMIN, &review).await;
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:bot", "{answer}");
    world.environment.set_now("2026-01-01T01:00:00Z".parse().unwrap());
    assert_eq!(world.raw("GET", pods, &headers, NOTHING).await.0, 401);
    world.environment.set_now("2026-01-01T00:00:00Z".parse().unwrap());
    world.raw("DELETE", &format!("{accounts}/bot"), ADMIN, NOTHING).await;
    assert_eq!(world.raw("GET", pods, &headers, NOTHING).await.0, 401);
    let (_, answer) = world.raw("POST", path, ADMIN, &review).await;
    assert_eq!(answer["status"]["error"], "invalid bearer token");
}

#[tokio::test]
async fn a_token_for_somebody_else_is_refused_here() {
    let world = world();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    world.raw("POST", accounts, ADMIN, &json!({"metadata": {"name": "bot"}})).await;
    let request = json!({"spec": {"audiences": ["vault"]}});
    let (_, token) = world.raw("POST", &format!("{accounts}/bot/token"), ADMIN, &request).await;
    let token = token["status"]["token"].as_str().unwrap();
    let bearer = format!("Bearer {token}");
    assert_eq!(world.raw("GET", "/api", &[("authorization", &bearer)], NOTHING).await.0, 401);
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = json!({"spec": {"token": token, "audiences": ["vault"]}});
    let (_, answer) = world.raw("POST", path, ADMIN, &review).await;
    assert_eq!(answer["status"]["authenticated"], true, "{answer}");
    let review = json!({"spec": {"token": token}});
    let (_, answer) = world.raw("POST", path, ADMIN, &review).await;
    assert_eq!(answer["status"]["authenticated"], Value::Null, "{answer}");
}

#[tokio::test]
async fn everybody_may_ask_for_health_but_not_for_its_checks() {
    let world = world();
    assert_eq!(world.raw("GET", "/healthz", JANE, NOTHING).await.0, 200);
    let (code, status) = world.raw("GET", "/healthz/ping", JANE, NOTHING).await;
    assert_eq!(code, 403);
    assert_eq!(status["message"], "forbidden: User \"jane\" cannot get path \"/healthz/ping\"");
    assert_eq!(world.raw("GET", "/healthz/ping", ADMIN, NOTHING).await.0, 200);
}
