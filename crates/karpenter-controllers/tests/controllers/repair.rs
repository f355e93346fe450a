//! Broken nodes: replaced or restarted, within budgets, and not while too many are broken.

use karpenter_api::options::FeatureGate;
use karpenter_controllers::{DisruptionSettings, Karpenter};
use karpenter_provider::RebootError;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::disruption::{claim_of, names, node_with_pod, remove_pod};
use crate::static_capacity::{claims, live, with_gates};
use crate::world::{World, condition, pass, reason};

const REPAIR: &[FeatureGate] = &[FeatureGate::NodeRepair];

/// Five nodes with a pod each; returns their names in the order of the pods `a` to `e`.
async fn five_nodes(world: &World) -> Vec<String> {
    let all = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]});
    world.set_disruption("general", all).await;
    let mut nodes = Vec::new();
    for pod in ["a", "b", "c", "d", "e"] {
        nodes.push(node_with_pod(world, pod, "200").await);
    }
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_broken_node_is_replaced_before_it_goes() {
    let world = World::new().await;
    let _running = world.start_with(with_gates(REPAIR));
    let nodes = five_nodes(&world).await;
    let old = claim_of(&world, &nodes[0]).await;
    world.set_condition(&nodes[0], "KWOKUnhealthy", "True").await;
    pass(20).await;
    assert_eq!(claims(&world).await.len(), 5, "thirty seconds are tolerated");
    pass(30).await;
    assert_eq!(claims(&world).await.len(), 6, "a replacement is on its way");
    let claim = world.claims().get(&old).await.unwrap();
    assert!(claim.metadata.deletion_timestamp.is_none());
    assert_eq!(reason(&claim, "DisruptionReason"), "Unhealthy");
    let stamp = "karpenter.sh/nodeclaim-termination-timestamp";
    assert!(!claim.metadata.annotations.unwrap().contains_key(stamp), "the drain has not begun");
    live(&world, 30).await;
    let claim = world.claims().get(&old).await.unwrap();
    assert!(claim.metadata.deletion_timestamp.is_some(), "the replacement is up");
    assert!(claim.metadata.annotations.unwrap().contains_key(stamp), "the policy bounds the drain");
    remove_pod(&world, "a").await;
    live(&world, 30).await;
    assert!(world.claims().get_opt(&old).await.unwrap().is_none());
    assert_eq!(claims(&world).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn pods_and_nodes_that_refuse_cannot_hold_a_bounded_repair_up() {
    let world = World::new().await;
    let _running = world.start_with(with_gates(REPAIR));
    let nodes = five_nodes(&world).await;
    let old = claim_of(&world, &nodes[0]).await;
    world.annotate_node(&nodes[0], "karpenter.sh/do-not-disrupt", "true").await;
    let refusal = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    world.pods().patch("a", &PatchParams::default(), &refusal).await.unwrap();
    world.set_condition(&nodes[0], "KWOKUnhealthy", "True").await;
    live(&world, 90).await;
    assert!(world.claims().get(&old).await.unwrap().metadata.deletion_timestamp.is_some());
    live(&world, 60).await;
    let pod = world.pods().get_opt("a").await.unwrap();
    assert!(pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()), "its time is up");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_repaired_while_too_many_are_broken() {
    let world = World::new().await;
    let _running = world.start_with(with_gates(REPAIR));
    let nodes = five_nodes(&world).await;
    let before = claims(&world).await;
    for node in &nodes[..2] {
        world.set_condition(node, "KWOKUnhealthy", "True").await;
    }
    pass(600).await;
    assert_eq!(claims(&world).await, before, "two of five are more than a fifth");
    let told = world.events("NodeRepairBlocked").await;
    for kind in ["Node", "NodeClaim", "NodePool"] {
        let of_kind = told.iter().filter(|event| event.involved_object.kind.as_deref() == Some(kind));
        assert!(of_kind.clone().count() > 0, "people are told on the {kind}");
        assert!(of_kind.into_iter().all(|event| event.type_.as_deref() == Some("Warning")));
    }
    world.set_condition(&nodes[0], "KWOKUnhealthy", "False").await;
    pass(30).await;
    assert_eq!(claims(&world).await.len(), 6, "one of five is repaired");
}

#[tokio::test(start_paused = true)]
async fn a_node_may_forbid_its_repair_and_a_budget_may_put_it_off() {
    let world = World::new().await;
    let _running = world.start_with(with_gates(REPAIR));
    let nodes = five_nodes(&world).await;
    world.annotate_node(&nodes[0], "karpenter.sh/do-not-repair", "true").await;
    world.set_condition(&nodes[0], "KWOKUnhealthy", "True").await;
    pass(600).await;
    assert_eq!(claims(&world).await.len(), 5);
    assert!(world.told("DisruptionBlocked").await.iter().any(|text| text.contains("do-not-repair")));
    let frozen = json!([{"nodes": "0", "reasons": ["Unhealthy"]}]);
    world.set_disruption("general", json!({"consolidateAfter": "Never", "budgets": frozen})).await;
    world.annotate_node(&nodes[0], "karpenter.sh/do-not-repair", "no").await;
    pass(600).await;
    assert_eq!(claims(&world).await.len(), 5);
    world.set_disruption("general", json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]})).await;
    pass(60).await;
    assert_eq!(claims(&world).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_is_repaired() {
    let world = World::new().await;
    let _running = world.start();
    let nodes = five_nodes(&world).await;
    world.set_condition(&nodes[0], "KWOKUnhealthy", "True").await;
    pass(3600).await;
    assert_eq!(claims(&world).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_needs_it_is_restarted_in_place_twice_and_then_replaced() {
    let world = World::new().await;
    let _running = world.start_with(with_gates(REPAIR));
    let nodes = five_nodes(&world).await;
    let broken = claim_of(&world, &nodes[0]).await;
    let boot = async || {
        let node = world.nodes().get(&nodes[0]).await.unwrap();
        node.status.unwrap().node_info.map(|info| info.boot_id).unwrap_or_default()
    };
    let mut boots = vec![boot().await];
    // The fault stays, whatever is done.
    world.set_condition(&nodes[0], "KWOKRebootRequired", "True").await;
    let mut fenced = false;
    for _ in 0..200 {
        pass(3).await;
        let Some(claim) = world.claims().get_opt(&broken).await.unwrap() else { break };
        if claim.metadata.deletion_timestamp.is_some() {
            break;
        }
        let node = world.nodes().get(&nodes[0]).await.unwrap();
        let taints = node.spec.unwrap().taints.unwrap_or_default();
        if condition(&claim, "Rebooting") == "True" {
            fenced |= taints.iter().any(|taint| taint.key == "karpenter.sh/rebooting");
        } else if boot().await != *boots.last().unwrap() {
            boots.push(boot().await);
            assert_eq!(reason(&claim, "Rebooting"), "RebootSucceeded");
            assert!(taints.is_empty(), "{taints:?}");
            pass(1).await;
            let claim = world.claims().get(&broken).await.unwrap();
            assert_eq!(condition(&claim, "Initialized"), "True");
            assert!(!claim.metadata.annotations.unwrap().contains_key("karpenter.sh/reboot-pre-boot-id"));
            let node = world.nodes().get(&nodes[0]).await.unwrap();
            assert_eq!(node.metadata.labels.unwrap()["karpenter.sh/initialized"], "true");
        }
    }
    assert!(fenced, "nobody moved to the node meanwhile");
    assert_eq!(boots.len(), 3, "it was restarted twice");
    let ended = ["result=\"succeeded\""];
    assert_eq!(world.scraped("karpenter_nodes_reboots_total", &ended), 2);
    assert_eq!(world.scraped("karpenter_nodes_reboot_duration_seconds_count", &ended), 2);
    assert_eq!(world.scraped("karpenter_nodes_reboot_recovery_duration_seconds_count", &[]), 2);
    let labels = ["condition=\"KWOKRebootRequired\"", "termination_mode=\"eventual\""];
    assert!(world.scraped("karpenter_nodeclaims_unhealthy_disrupted_total", &labels) >= 2);
    pass(60).await;
    let left = claims(&world).await;
    assert!(!left.contains(&broken), "then it goes, and since its pod had left nothing comes in its place");
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_the_provider_cannot_do_ends_the_claim() {
    let world = World::new().await;
    *world.cloud.no_reboot.lock().unwrap() = Some(RebootError::NotSupported);
    let _running = world.start_with(with_gates(REPAIR));
    let nodes = five_nodes(&world).await;
    let broken = claim_of(&world, &nodes[0]).await;
    world.set_condition(&nodes[0], "KWOKRebootRequired", "True").await;
    pass(180).await;
    let claim = world.claims().get_opt(&broken).await.unwrap();
    assert!(claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()));
    assert!(!world.told("RebootFailed").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_where_another_process_left_it() {
    let world = World::new().await;
    let running = world.start_with(with_gates(REPAIR));
    let nodes = five_nodes(&world).await;
    let broken = claim_of(&world, &nodes[0]).await;
    world.set_condition(&nodes[0], "KWOKRebootRequired", "True").await;
    pass(45).await;
    assert_eq!(reason(&world.claims().get(&broken).await.unwrap(), "Rebooting"), "RebootRequested");
    running.abort();
    // A restart under way ends even where repair has been switched off since.
    let _running = world.start();
    pass(90).await;
    world.make_ready(&nodes[0]).await;
    pass(30).await;
    assert_eq!(reason(&world.claims().get(&broken).await.unwrap(), "Rebooting"), "RebootSucceeded");
}

#[tokio::test(start_paused = true)]
async fn a_broken_node_of_a_static_pool_at_its_limit_goes_first_where_that_is_allowed() {
    let world = World::new().await;
    world.create_pool_with("fixed", json!({"replicas": 1, "limits": {"nodes": "1"}})).await;
    let gates = &[FeatureGate::StaticCapacity, FeatureGate::NodeRepair, FeatureGate::TerminateFirstRepair];
    let _running = world.start_with(with_gates(gates));
    live(&world, 60).await;
    let before = claims(&world).await;
    let node = names(&world).await[0].clone();
    world.set_condition(&node, "KWOKUnhealthy", "True").await;
    for _ in 0..40 {
        pass(5).await;
        assert!(claims(&world).await.len() <= 1, "never above the limit");
        world.make_new_nodes_ready().await;
    }
    let after = claims(&world).await;
    assert_eq!(after.len(), 1);
    assert_ne!(after, before);
}

#[tokio::test(start_paused = true)]
async fn the_old_way_deletes_a_broken_node_at_once_and_only_replaces() {
    let world = World::new().await;
    let legacy = |karpenter: Karpenter| {
        let karpenter = with_gates(REPAIR)(karpenter);
        let disruption = DisruptionSettings { legacy_repair: true, ..karpenter.disruption };
        Karpenter { disruption, ..karpenter }
    };
    let _running = world.start_with(legacy);
    let nodes = five_nodes(&world).await;
    let frozen = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    world.set_disruption("general", frozen).await;
    world.annotate_node(&nodes[0], "karpenter.sh/do-not-repair", "true").await;
    world.set_condition(&nodes[0], "KWOKRebootRequired", "True").await;
    pass(600).await;
    assert_eq!(claims(&world).await.len(), 5, "restarts are not its business");
    let old = claim_of(&world, &nodes[0]).await;
    world.set_condition(&nodes[0], "KWOKUnhealthy", "True").await;
    pass(20).await;
    assert!(world.claims().get(&old).await.unwrap().metadata.deletion_timestamp.is_none(), "tolerated");
    pass(12).await;
    let claim = world.claims().get(&old).await.unwrap();
    assert!(claim.metadata.deletion_timestamp.is_some(), "neither budget nor veto counts");
    assert_eq!(condition(&claim, "DisruptionReason"), "absent");
    let counted = ["condition=\"KWOKUnhealthy\"", "termination_mode=\"forceful\""];
    assert_eq!(world.scraped("karpenter_nodeclaims_unhealthy_disrupted_total", &counted), 1);
    for node in &nodes[1..3] {
        world.set_condition(node, "KWOKUnhealthy", "True").await;
    }
    pass(600).await;
    let second = world.claims().get(&claim_of(&world, &nodes[1]).await).await.unwrap();
    assert!(second.metadata.deletion_timestamp.is_none(), "too many are broken");
    assert!(!world.told("NodeRepairBlocked").await.is_empty());
}
