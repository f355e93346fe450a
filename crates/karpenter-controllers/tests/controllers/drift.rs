//! Drift: a node that is not what its NodePool asks for says so, and is replaced.

use karpenter_api::hash::NODEPOOL_HASH_VERSION;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::disruption::{any_number, is_fenced, node_with_pod, remove_pod};
use crate::static_capacity::live;
use crate::world::{World, condition, pass, reason};

/// A world in which nothing is disrupted, with one node; returns the claim's name.
async fn quiet_node(world: &World) -> String {
    let never = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    world.set_disruption("general", never).await;
    node_with_pod(world, "a", "500m").await;
    world.list_claims().await[0].metadata.name.clone().unwrap()
}

async fn drift_of(world: &World, claim: &str) -> String {
    reason(&world.claims().get(claim).await.unwrap(), "Drifted")
}

#[tokio::test(start_paused = true)]
async fn a_changed_template_is_drift_until_it_is_changed_back() {
    let world = World::new().await;
    let _running = world.start();
    let claim = quiet_node(&world).await;
    pass(600).await;
    assert_eq!(drift_of(&world, &claim).await, "absent", "nothing has changed");
    world
        .change_pool("general", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}))
        .await;
    pass(5).await;
    assert_eq!(drift_of(&world, &claim).await, "NodePoolDrifted");
    world.change_pool("general", json!({"spec": {"template": {"metadata": {"labels": null}}}})).await;
    pass(5).await;
    assert_eq!(drift_of(&world, &claim).await, "absent");
}

#[tokio::test(start_paused = true)]
async fn labels_that_the_pool_no_longer_asks_for_are_drift() {
    let world = World::new().await;
    let _running = world.start();
    let claim = quiet_node(&world).await;
    let arm = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    world.change_pool("general", json!({"spec": {"template": {"spec": {"requirements": arm}}}})).await;
    pass(5).await;
    assert_eq!(drift_of(&world, &claim).await, "RequirementsDrifted");
}

#[tokio::test(start_paused = true)]
async fn what_the_provider_says_is_heard_within_minutes_and_comes_last() {
    let world = World::new().await;
    let _running = world.start();
    let claim = quiet_node(&world).await;
    *world.cloud.drift.lock().unwrap() = Some("ImageDrifted".to_owned());
    pass(5 * 60 + 30).await;
    assert_eq!(drift_of(&world, &claim).await, "ImageDrifted");
    world
        .change_pool("general", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}))
        .await;
    pass(5).await;
    assert_eq!(drift_of(&world, &claim).await, "NodePoolDrifted", "the pool's word comes first");
    world.change_pool("general", json!({"spec": {"template": {"metadata": {"labels": null}}}})).await;
    *world.cloud.drift.lock().unwrap() = None;
    pass(11 * 60).await;
    assert_eq!(drift_of(&world, &claim).await, "absent");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_node_class_has_the_provider_asked_at_once() {
    let world = World::new().await;
    let _running = world.start();
    let claim = quiet_node(&world).await;
    *world.cloud.drift.lock().unwrap() = Some("ImageDrifted".to_owned());
    world.set_boot_time("30s").await;
    pass(5).await;
    assert_eq!(drift_of(&world, &claim).await, "ImageDrifted");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_no_longer_sold_is_drift_once_it_is_an_hour_old() {
    let world = World::new().await;
    let _running = world.start();
    let claim = quiet_node(&world).await;
    let labels = world.claims().get(&claim).await.unwrap().metadata.labels.unwrap();
    let instance_type = labels["node.kubernetes.io/instance-type"].clone();
    world.cloud.withdrawn.lock().unwrap().push(instance_type);
    pass(50 * 60).await;
    assert_eq!(drift_of(&world, &claim).await, "absent", "a young claim is trusted");
    pass(20 * 60).await;
    assert_eq!(drift_of(&world, &claim).await, "InstanceTypeNotFound");
    world.cloud.withdrawn.lock().unwrap().clear();
    pass(11 * 60).await;
    assert_eq!(drift_of(&world, &claim).await, "absent");
}

#[tokio::test(start_paused = true)]
async fn a_claim_stamped_by_an_older_version_is_stamped_anew_and_has_not_drifted() {
    let world = World::new().await;
    let running = world.start();
    let claim = quiet_node(&world).await;
    running.abort();
    let old = json!({"metadata": {"annotations": {
        "karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v1",
    }}});
    world.change_pool("general", old.clone()).await;
    world.claims().patch(&claim, &PatchParams::default(), &Patch::Merge(old)).await.unwrap();
    let _running = world.start();
    pass(600).await;
    assert_eq!(drift_of(&world, &claim).await, "absent");
    let annotations = world.claims().get(&claim).await.unwrap().metadata.annotations.unwrap();
    let of_pool = world.pools().get("general").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations["karpenter.sh/nodepool-hash-version"], NODEPOOL_HASH_VERSION);
    assert_eq!(annotations["karpenter.sh/nodepool-hash"], of_pool["karpenter.sh/nodepool-hash"]);
    assert_ne!(annotations["karpenter.sh/nodepool-hash"], "1");
}

#[tokio::test(start_paused = true)]
async fn drifted_nodes_are_replaced_one_at_a_time_where_the_budget_says_so() {
    let world = World::new().await;
    world.set_disruption("general", json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]})).await;
    let _running = world.start();
    for pod in ["a", "b", "c"] {
        node_with_pod(&world, pod, "200").await;
    }
    let old: Vec<String> =
        world.list_claims().await.into_iter().filter_map(|claim| claim.metadata.name).collect();
    assert_eq!(old.len(), 3);
    world
        .change_pool("general", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}))
        .await;
    for round in 0..40 {
        pass(15).await;
        let claims = world.list_claims().await;
        let disrupted = claims.iter().filter(|claim| condition(claim, "DisruptionReason") == "True").count();
        assert!(disrupted <= 1, "{disrupted} at once");
        // Kubelets and scheduler: new nodes come up, pods that were asked to leave are gone.
        world.make_new_nodes_ready().await;
        for pod in ["a", "b", "c"] {
            let found = world.pods().get_opt(pod).await.unwrap();
            if found.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some()) {
                remove_pod(&world, pod).await;
            }
        }
        if claims.iter().all(|claim| !old.contains(claim.metadata.name.as_ref().unwrap())) {
            assert!(round > 2, "it took some time");
            return;
        }
    }
    panic!("not all drifted nodes were replaced");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_is_there_for_a_moment_before_the_node_goes_that_it_replaces() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    let old = world.list_claims().await[0].metadata.name.clone().unwrap();
    let relabelled = json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}});
    world.change_pool("general", relabelled).await;
    live(&world, 120).await;
    let history = world.observer.as_ref().unwrap().history();
    let claims: Vec<_> = history.seen().into_iter().filter(|seen| seen.kind == "NodeClaim").collect();
    let is_old = |claim: &serde_json::Value| claim["metadata"]["name"] == old.as_str();
    let ready = |claim: &serde_json::Value| {
        let conditions = claim["status"]["conditions"].as_array();
        let ready = |found: &serde_json::Value| found["type"] == "Initialized" && found["status"] == "True";
        conditions.is_some_and(|all| all.iter().any(ready))
    };
    let came = claims.iter().find(|seen| !is_old(&seen.object) && ready(&seen.object)).unwrap().at;
    let going =
        |claim: &serde_json::Value| is_old(claim) && !claim["metadata"]["deletionTimestamp"].is_null();
    let went = claims.iter().find(|seen| going(&seen.object)).unwrap().at;
    assert!(went.duration_since(came).as_secs() >= 2, "{came} {went}");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_open_to_pods_for_a_while_after_its_replacement_was_given_up() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let _running = world.start();
    let node = node_with_pod(&world, "a", "500m").await;
    let relabelled = json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}});
    world.change_pool("general", relabelled).await;
    // Nobody makes the replacement ready.
    pass(5 * 60).await;
    assert!(is_fenced(&world, &node).await);
    let mut open = 0;
    for _ in 0..6 * 60 {
        pass(1).await;
        open += u32::from(!is_fenced(&world, &node).await);
    }
    assert!(open >= 5, "it was open for {open} seconds");
}
