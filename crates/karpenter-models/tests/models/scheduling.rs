//! What the scheduler decides, over plain objects.

use jiff::{SignedDuration, Timestamp};
use karpenter_models::config::SchedulerConfig;
use karpenter_models::scheduler::{Decision, Scheduler};
use karpenter_runtime::Key;
use serde_json::{Value, json};

use crate::objects::{node, placed, pod, read};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn scheduler(nodes: &[(&str, &str)]) -> Scheduler {
    let mut scheduler = Scheduler::new(SchedulerConfig::default());
    for (name, zone) in nodes {
        scheduler.cluster_mut().set_node(&node(name, zone, json!({})));
    }
    scheduler
}

/// Decides until nothing is left to decide and says what was decided, one line each.
fn decide(scheduler: &mut Scheduler) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let decisions = scheduler.decide(NOW, 100);
        lines.extend(decisions.iter().map(describe));
        if !scheduler.has_work() {
            return lines;
        }
    }
}

fn describe(decision: &Decision) -> String {
    match decision {
        Decision::Bind { pod, node, .. } => format!("bind {} to {node}", pod.name()),
        Decision::Prepare { pod, node, choice } => {
            let claims: Vec<&str> = choice.provision.iter().map(Key::name).collect();
            format!("make {} for {} on {node}", claims.join(","), pod.name())
        }
        Decision::Refuse { pod, message, nominated, .. } => {
            let nominated = nominated.as_ref().map(|node| format!(" [{node}]")).unwrap_or_default();
            format!("refuse {}: {message}{nominated}", pod.name())
        }
        Decision::Evict { victim, node, .. } => format!("evict {} from {node}", victim.name()),
    }
}

#[test]
fn pods_go_where_most_room_is_left() {
    let mut scheduler = scheduler(&[("a", "z"), ("b", "z")]);
    scheduler.set_pod(&placed("there", "a", "2", json!({})));
    for name in ["p1", "p2", "p3"] {
        scheduler.set_pod(&pod(name, "1", json!({})));
    }
    assert_eq!(decide(&mut scheduler), ["bind p1 to b", "bind p2 to b", "bind p3 to a"]);
}

#[test]
fn a_pod_without_a_place_hears_why_and_is_placed_when_a_node_comes() {
    let mut scheduler = scheduler(&[("a", "z")]);
    for name in ["p1", "p2"] {
        scheduler.set_pod(&pod(name, "5", json!({})));
    }
    let why = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: \
        1 Preemption is not helpful for scheduling.";
    assert_eq!(decide(&mut scheduler), [format!("refuse p1: {why}"), format!("refuse p2: {why}")]);
    assert!(decide(&mut scheduler).is_empty());
    scheduler.cluster_mut().set_node(&node("small", "z", json!({})));
    assert!(decide(&mut scheduler).is_empty(), "a node that cannot help wakes nobody");
    scheduler.cluster_mut().set_node(&node("big", "z", json!({"status": {"allocatable": {"cpu": "12"}}})));
    assert_eq!(decide(&mut scheduler), ["bind p1 to big", "bind p2 to big"]);
}

#[test]
fn a_cluster_without_nodes_says_so() {
    let mut scheduler = scheduler(&[]);
    scheduler.set_pod(&pod("p", "1", json!({})));
    let help = "preemption: 0/0 nodes are available";
    let lines = decide(&mut scheduler);
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("refuse p: no nodes available to schedule pods") && !lines[0].contains(help)
    );
}

#[test]
fn room_that_becomes_free_is_used() {
    let mut scheduler = scheduler(&[("a", "z")]);
    scheduler.set_pod(&placed("there", "a", "4", json!({})));
    scheduler.set_pod(&pod("p", "1", json!({})));
    assert_eq!(decide(&mut scheduler).len(), 1);
    scheduler.remove_pod(&Key::namespaced("default", "there"));
    assert_eq!(decide(&mut scheduler), ["bind p to a"]);
}

#[test]
fn gated_deleted_and_foreign_pods_are_left_alone() {
    let mut scheduler = scheduler(&[("a", "z")]);
    scheduler.set_pod(&pod("gated", "1", json!({"spec": {"schedulingGates": [{"name": "g"}]}})));
    scheduler.set_pod(&pod(
        "leaving",
        "1",
        json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
    ));
    scheduler.set_pod(&pod("foreign", "1", json!({"spec": {"schedulerName": "other"}})));
    assert!(decide(&mut scheduler).is_empty());
    scheduler.set_pod(&pod("gated", "1", json!({})));
    assert_eq!(decide(&mut scheduler), ["bind gated to a"]);
}

#[test]
fn what_is_decided_counts_for_the_next_pod_and_is_taken_back_if_it_does_not_happen() {
    let mut scheduler = scheduler(&[("a", "z")]);
    scheduler.set_pod(&pod("p1", "3", json!({})));
    scheduler.set_pod(&pod("p2", "3", json!({})));
    let lines = decide(&mut scheduler);
    assert_eq!(lines[0], "bind p1 to a");
    assert!(lines[1].starts_with("refuse p2"));
    let deadline = scheduler.next_deadline().unwrap();
    assert_eq!(deadline, NOW + SignedDuration::from_secs(30));
    let decisions = scheduler.decide(deadline, 100);
    assert_eq!(describe(&decisions[0]), "bind p2 to a", "p1 was never bound, so it queues again behind p2");
}

fn priority(value: i32) -> Value {
    json!({"spec": {"priority": value}})
}

#[test]
fn an_important_pod_comes_first_and_takes_the_place_of_the_least_important() {
    let mut scheduler = scheduler(&[("a", "z"), ("b", "z")]);
    scheduler.set_pod(&placed("low", "a", "4", priority(1)));
    scheduler.set_pod(&placed("lower", "b", "4", priority(0)));
    scheduler.set_pod(&pod("plain", "1", priority(0)));
    scheduler.set_pod(&pod("urgent", "4", priority(10)));
    let lines = decide(&mut scheduler);
    assert_eq!(
        lines[..2],
        ["evict lower from b", "refuse urgent: 0/2 nodes are available: 2 Insufficient cpu. [b]",]
    );
    assert!(lines[2].starts_with("refuse plain"));
    scheduler.remove_pod(&Key::namespaced("default", "lower"));
    assert_eq!(
        decide(&mut scheduler)[0],
        "bind urgent to b",
        "the place is kept for the pod it was freed for"
    );
}

#[test]
fn only_as_many_as_needed_leave() {
    let mut scheduler = scheduler(&[("a", "z")]);
    for (name, cpu) in [("v1", "1"), ("v2", "1"), ("v3", "2")] {
        scheduler.set_pod(&placed(name, "a", cpu, priority(0)));
    }
    scheduler.set_pod(&pod("urgent", "2", priority(10)));
    let lines = decide(&mut scheduler);
    assert_eq!(lines[0], "evict v3 from a");
    assert!(lines[1].starts_with("refuse urgent"));
}

#[test]
fn victims_with_a_spent_budget_are_avoided_where_possible() {
    let mut scheduler = scheduler(&[("a", "z"), ("b", "z")]);
    let guarded = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"priority": 0}});
    scheduler.set_pod(&placed("guarded", "a", "4", guarded));
    scheduler.set_pod(&placed("free", "b", "4", priority(5)));
    let budget = json!({"metadata": {"name": "db", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
    scheduler.set_budget(Key::namespaced("default", "db"), Some(&read(budget)));
    scheduler.set_pod(&pod("urgent", "4", priority(10)));
    assert_eq!(decide(&mut scheduler)[0], "evict free from b");
}

#[test]
fn a_pod_that_never_preempts_waits() {
    let mut scheduler = scheduler(&[("a", "z")]);
    scheduler.set_pod(&placed("low", "a", "4", priority(0)));
    let polite = json!({"spec": {"priority": 10, "preemptionPolicy": "Never"}});
    scheduler.set_pod(&pod("polite", "4", polite));
    let expected = "refuse polite: 0/1 nodes are available: 1 Insufficient cpu. \
        no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(decide(&mut scheduler), [expected]);
}

#[test]
fn nobody_less_important_is_no_victim() {
    let mut scheduler = scheduler(&[("a", "z"), ("b", "z")]);
    scheduler.cluster_mut().set_node(&node("c", "z", json!({"spec": {"unschedulable": true}})));
    for name in ["a", "b"] {
        scheduler.set_pod(&placed(&format!("on-{name}"), name, "4", json!({})));
    }
    scheduler.set_pod(&pod("p", "1", json!({})));
    let expected = "refuse p: 0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. \
        no new claims to deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, \
        2 No preemption victims found for incoming pod.";
    assert_eq!(decide(&mut scheduler), [expected]);
}

#[test]
fn a_claim_that_waits_is_prepared_before_its_pod_is_bound() {
    let mut scheduler = scheduler(&[("a", "z")]);
    let class = json!({"metadata": {"name": "disk"}, "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer"});
    let claim =
        json!({"metadata": {"name": "data", "namespace": "default"}, "spec": {"storageClassName": "disk"}});
    let key = Key::namespaced("default", "data");
    scheduler.change_volumes(|cluster| cluster.set_storage_class("disk", Some(&read(class))));
    scheduler.change_volumes(|cluster| cluster.set_claim(key.clone(), Some(&read(claim.clone()))));
    let mount = json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
    scheduler.set_pod(&pod("p", "1", mount));
    assert_eq!(decide(&mut scheduler), ["make data for p on a"]);
    let mut bound = claim;
    crate::objects::merge(
        &mut bound,
        json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v1"}}),
    );
    scheduler.change_volumes(|cluster| cluster.set_claim(key, Some(&read(bound))));
    assert_eq!(decide(&mut scheduler), ["bind p to a"]);
}

#[test]
fn a_spread_over_zones_comes_out_even() {
    let mut scheduler = scheduler(&[("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")]);
    let wish = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": [
        {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    for index in 0..9 {
        scheduler.set_pod(&pod(&format!("p{index}"), "100m", wish.clone()));
    }
    let lines = decide(&mut scheduler);
    for zone in ["a", "b", "c"] {
        let count = lines.iter().filter(|line| line.contains(&format!(" to {zone}"))).count();
        assert_eq!(count, 3, "{lines:?}");
    }
}

#[test]
fn pods_of_a_replica_set_are_spread_without_being_told_to() {
    let mut scheduler = scheduler(&[("a1", "a"), ("b1", "b"), ("c1", "c")]);
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]);
    let tiny = json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": owner}});
    scheduler.set_pod(&placed("other", "a1", "1", json!({})));
    for index in 0..6 {
        scheduler.set_pod(&pod(&format!("p{index}"), "1m", tiny.clone()));
    }
    let lines = decide(&mut scheduler);
    for zone in ["a", "b", "c"] {
        let count = lines.iter().filter(|line| line.contains(&format!(" to {zone}"))).count();
        assert_eq!(count, 2, "{lines:?}");
    }
}
