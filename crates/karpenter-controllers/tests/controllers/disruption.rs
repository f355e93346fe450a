//! Voluntary disruption, from the look at a quiet node to the end of its machine.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use karpenter_api::NodeClaim;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{World, condition, pass};

/// A cluster with one ready node for a pod of this size, which is bound to it; returns the node's name.
pub(crate) async fn node_with_pod(world: &World, pod: &str, cpu: &str) -> String {
    let before: Vec<String> = names(world).await;
    world.create_pending_pod(pod, cpu).await;
    pass(30).await;
    let node = names(world).await.into_iter().find(|name| !before.contains(name)).expect("a node has joined");
    world.make_ready(&node).await;
    world.bind(pod, &node).await;
    pass(5).await;
    node
}

pub(crate) async fn names(world: &World) -> Vec<String> {
    world.list_nodes().await.into_iter().filter_map(|node| node.metadata.name).collect()
}

pub(crate) async fn remove_pod(world: &World, name: &str) {
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    world.pods().delete(name, &now).await.unwrap();
}

pub(crate) async fn is_fenced(world: &World, node: &str) -> bool {
    let taints = world.nodes().get(node).await.unwrap().spec.and_then(|spec| spec.taints).unwrap_or_default();
    taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted")
}

pub(crate) fn any_number(after: &str) -> serde_json::Value {
    json!({"consolidateAfter": after, "budgets": [{"nodes": "100%"}]})
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_goes_when_it_has_been_quiet() {
    let world = World::new().await;
    world.set_disruption("general", any_number("2m")).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    pass(10 * 60).await;
    assert_eq!(world.list_nodes().await.len(), 1, "a node with a pod that fits nothing cheaper stays");
    remove_pod(&world, "a").await;
    pass(100).await;
    assert_eq!(world.list_nodes().await.len(), 1, "it has not been quiet for long enough");
    pass(80).await;
    assert!(world.list_nodes().await.is_empty());
    assert!(world.list_claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_zero_keeps_an_empty_node() {
    let world = World::new().await;
    let budget = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]});
    world.set_disruption("general", budget).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    remove_pod(&world, "a").await;
    pass(30 * 60).await;
    assert_eq!(world.list_nodes().await.len(), 1);
    let told = world.told("Unconsolidatable").await;
    assert!(told.iter().any(|text| text.contains("budgets allow 0")), "people are told: {told:?}");
    world.set_disruption("general", any_number("0s")).await;
    pass(60).await;
    assert!(world.list_nodes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_too_large_is_replaced_before_it_goes() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.buy_on_demand("general").await;
    let _running = world.start();
    let large = node_with_pod(&world, "large", "12").await;
    let old = world.list_claims().await[0].metadata.name.clone().unwrap();
    world.create_bound_pod("small", "500m", &large).await;
    remove_pod(&world, "large").await;
    world.set_disruption("general", any_number("0s")).await;
    pass(60).await;
    let claims = world.list_claims().await;
    assert_eq!(claims.len(), 2, "the replacement is there, the old node as well");
    assert!(is_fenced(&world, &large).await, "nobody moves to a node that will go");
    assert_eq!(condition(&world.claims().get(&old).await.unwrap(), "DisruptionReason"), "True");
    let old_claim: NodeClaim = world.claims().get(&old).await.unwrap();
    assert!(old_claim.metadata.deletion_timestamp.is_none(), "it goes when the new one is ready, not before");
    let new =
        names(&world).await.into_iter().find(|name| *name != large).expect("the replacement has joined");
    world.make_ready(&new).await;
    pass(10).await;
    let pod = world.pods().get("small").await.unwrap();
    assert!(pod.metadata.deletion_timestamp.is_some(), "the pod was asked to leave");
    remove_pod(&world, "small").await;
    pass(15).await;
    assert_eq!(names(&world).await, [new], "the old node is gone");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_be_had_takes_the_fence_down_again() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.buy_on_demand("general").await;
    let _running = world.start();
    let large = node_with_pod(&world, "large", "12").await;
    world.create_bound_pod("small", "500m", &large).await;
    remove_pod(&world, "large").await;
    world.set_boot_time("24h").await;
    world.set_disruption("general", any_number("0s")).await;
    pass(60).await;
    assert!(is_fenced(&world, &large).await);
    world.set_disruption("general", any_number("Never")).await;
    pass(11 * 60).await;
    assert!(!is_fenced(&world, &large).await, "after ten minutes it is given up");
    assert_eq!(
        condition(&world.claims().get(&claim_of(&world, &large).await).await.unwrap(), "DisruptionReason"),
        "absent"
    );
}

pub(crate) async fn claim_of(world: &World, node: &str) -> String {
    let claims = world.list_claims().await;
    let has = |claim: &&NodeClaim| {
        claim.status.as_ref().and_then(|status| status.node_name.as_deref()) == Some(node)
    };
    claims.iter().find(has).and_then(|claim| claim.metadata.name.clone()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_restart_takes_fences_down_that_nobody_knows_of() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let running = world.start();
    let node = node_with_pod(&world, "a", "500m").await;
    running.abort();
    let fence = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    let patch = Patch::Merge(json!({"spec": {"taints": fence}}));
    world.nodes().patch(&node, &PatchParams::default(), &patch).await.unwrap();
    let _running = world.start();
    pass(5).await;
    assert!(!is_fenced(&world, &node).await);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_must_not_be_disturbed_keeps_its_node_for_as_long_as_it_says() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.buy_on_demand("general").await;
    let _running = world.start();
    let large = node_with_pod(&world, "large", "12").await;
    world.create_bound_pod("small", "500m", &large).await;
    let annotation =
        Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "1h"}}}));
    world.pods().patch("small", &PatchParams::default(), &annotation).await.unwrap();
    remove_pod(&world, "large").await;
    world.set_disruption("general", any_number("0s")).await;
    pass(50 * 60).await;
    assert_eq!(world.list_claims().await.len(), 1, "the hour is not over");
    let events: kube::Api<k8s_openapi::api::core::v1::Event> = kube::Api::all(world.client.clone());
    let events = events.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert!(
        events.iter().any(|event| event.reason.as_deref() == Some("DisruptionBlocked")),
        "people are told why"
    );
    pass(20 * 60).await;
    assert_eq!(world.list_claims().await.len(), 2, "now a smaller node is on its way");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_left_alone() {
    let world = World::new().await;
    world.set_disruption("general", any_number("0s")).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    node_with_pod(&world, "b", "7").await;
    pass(600).await;
    let versions = async || -> Vec<Option<String>> {
        let claims = world.list_claims().await.into_iter().map(|claim| claim.metadata.resource_version);
        let nodes = world.list_nodes().await.into_iter().map(|node| node.metadata.resource_version);
        claims.chain(nodes).collect()
    };
    let before = versions().await;
    pass(6 * 3600).await;
    assert_eq!(versions().await, before, "nothing was written about claims and nodes");
}

/// Has the server refuse every new NodeClaim, until the policy is deleted.
async fn refuse_new_claims(world: &World) {
    let policy = json!({
        "metadata": {"name": "no-claims"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["karpenter.sh"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["nodeclaims"],
            }]},
            "validations": [{"expression": "false", "message": "not now"}],
        },
    });
    let binding = json!({
        "metadata": {"name": "no-claims"},
        "spec": {"policyName": "no-claims", "validationActions": ["Deny"]},
    });
    let policies: kube::Api<ValidatingAdmissionPolicy> = kube::Api::all(world.client.clone());
    let bindings: kube::Api<ValidatingAdmissionPolicyBinding> = kube::Api::all(world.client.clone());
    let parameters = kube::api::PostParams::default();
    policies.create(&parameters, &serde_json::from_value(policy).unwrap()).await.unwrap();
    bindings.create(&parameters, &serde_json::from_value(binding).unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_the_server_refused_is_asked_for_again() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.buy_on_demand("general").await;
    let _running = world.start();
    let large = node_with_pod(&world, "large", "12").await;
    world.create_bound_pod("small", "500m", &large).await;
    remove_pod(&world, "large").await;
    refuse_new_claims(&world).await;
    world.set_disruption("general", any_number("0s")).await;
    pass(60).await;
    assert_eq!(world.list_claims().await.len(), 1, "the server refuses");
    assert!(is_fenced(&world, &large).await, "the move is still wanted");
    let bindings: kube::Api<ValidatingAdmissionPolicyBinding> = kube::Api::all(world.client.clone());
    bindings.delete("no-claims", &DeleteParams::default()).await.unwrap();
    pass(90).await;
    let claims = world.list_claims().await;
    assert_eq!(claims.len(), 2, "it was asked for again, and once only");
    let new = names(&world).await.into_iter().find(|name| *name != large).expect("it has joined");
    world.make_ready(&new).await;
    pass(10).await;
    remove_pod(&world, "small").await;
    pass(15).await;
    assert_eq!(names(&world).await, [new], "the move was made");
}

#[tokio::test(start_paused = true)]
async fn a_day_of_constant_work_disrupts_nobody() {
    let world = World::new().await;
    let _running = world.start();
    world.set_disruption("general", any_number("30s")).await;
    world.buy_on_demand("general").await;
    for (index, cpu) in ["12", "500m", "7", "30", "3", "1", "60", "2", "900m"].into_iter().enumerate() {
        world.create_pending_pod(&format!("pod-{index}"), cpu).await;
        settle(&world, 1).await;
    }
    // Some work ends, so that nodes are too large for what is left.
    for index in [0, 3, 6] {
        remove_pod(&world, &format!("pod-{index}")).await;
    }
    settle(&world, 120).await;
    assert!(world.list_nodes().await.len() < 6, "it has settled");
    let before = world.observer.as_ref().unwrap().history().seen().len();
    pass(24 * 3600).await;
    let seen = world.observer.as_ref().unwrap().history().seen();
    let disturbed: Vec<_> = seen[before..]
        .iter()
        .filter(|seen| {
            seen.kind == "NodeClaim" && (seen.gone || seen.object.to_string().contains("DisruptionReason"))
        })
        .collect();
    assert!(disturbed.is_empty(), "{disturbed:?}");
    let leaving = seen[before..].iter().filter(|seen| seen.kind == "Pod").count();
    assert_eq!(leaving, 0, "no pod was touched");
}

/// Lives for so many half minutes: nodes come up, and whoever is asked to leave comes back as another pod that waits for a place.
async fn settle(world: &World, half_minutes: u64) {
    for _ in 0..half_minutes {
        pass(30).await;
        world.make_new_nodes_ready().await;
        for pod in world.pods().list(&kube::api::ListParams::default()).await.unwrap().items {
            if pod.metadata.deletion_timestamp.is_some() {
                let name = pod.metadata.name.clone().unwrap();
                let resources = pod.spec.unwrap().containers[0].resources.clone().unwrap();
                remove_pod(world, &name).await;
                world
                    .create_pending_pod(&format!("{name}-again"), &resources.requests.unwrap()["cpu"].0)
                    .await;
            }
        }
        bind_waiting(world).await;
    }
}

/// Binds every waiting pod to the first node that is up, open and large enough, as a scheduler would.
async fn bind_waiting(world: &World) {
    let pods = world.pods().list(&kube::api::ListParams::default()).await.unwrap().items;
    let cores = |text: &str| match text.strip_suffix('m') {
        Some(milli) => milli.parse::<f64>().unwrap() / 1000.0,
        None => text.parse().unwrap(),
    };
    let request = |pod: &k8s_openapi::api::core::v1::Pod| {
        cores(
            &pod.spec.as_ref().unwrap().containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()
                ["cpu"]
                .0,
        )
    };
    let place = |pod: &k8s_openapi::api::core::v1::Pod| pod.spec.as_ref().unwrap().node_name.clone();
    for pod in pods.iter().filter(|pod| place(pod).is_none()) {
        for node in world.list_nodes().await {
            let name = node.metadata.name.clone().unwrap();
            let open = node.spec.as_ref().is_none_or(|spec| spec.taints.as_ref().is_none_or(Vec::is_empty));
            let size = cores(&node.status.as_ref().unwrap().allocatable.as_ref().unwrap()["cpu"].0);
            let now = world.pods().list(&kube::api::ListParams::default()).await.unwrap().items;
            let used: f64 =
                now.iter().filter(|other| place(other).as_ref() == Some(&name)).map(request).sum();
            if open && node.metadata.deletion_timestamp.is_none() && used + request(pod) <= size {
                world.bind(pod.metadata.name.as_deref().unwrap(), &name).await;
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_pool_is_left_alone() {
    let world = World::new().await;
    world.set_disruption("general", any_number("0s")).await;
    let paused = |value: serde_json::Value| json!({"metadata": {"annotations": {"disruption.karpenter.sh/paused": value}}});
    world.change_pool("general", paused(json!("true"))).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    remove_pod(&world, "a").await;
    pass(3600).await;
    assert_eq!(world.list_nodes().await.len(), 1);
    world.change_pool("general", paused(json!(null))).await;
    pass(60).await;
    assert!(world.list_nodes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_disruption_budget_that_lets_nobody_go_keeps_the_node() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.buy_on_demand("general").await;
    let _running = world.start();
    let large = node_with_pod(&world, "large", "12").await;
    world.create_bound_pod("small", "500m", &large).await;
    let label = Patch::Merge(json!({"metadata": {"labels": {"app": "a"}}}));
    world.pods().patch("small", &PatchParams::default(), &label).await.unwrap();
    let budgets: kube::Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        kube::Api::namespaced(world.client.clone(), "default");
    let budget = json!({
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    });
    budgets
        .create(&kube::api::PostParams::default(), &serde_json::from_value(budget).unwrap())
        .await
        .unwrap();
    let status = |allowed: u64| {
        Patch::Merge(json!({"status": {
            "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1,
        }}))
    };
    budgets.patch_status("keep", &PatchParams::default(), &status(0)).await.unwrap();
    remove_pod(&world, "large").await;
    world.set_disruption("general", any_number("0s")).await;
    pass(3600).await;
    assert!(!is_fenced(&world, &large).await);
    let told = world.told("DisruptionBlocked").await;
    assert!(told.iter().any(|text| text.contains("default/keep")), "{told:?}");
    budgets.patch_status("keep", &PatchParams::default(), &status(1)).await.unwrap();
    pass(60).await;
    assert!(is_fenced(&world, &large).await, "now the pod may move");
}
