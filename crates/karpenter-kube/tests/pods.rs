//! Pod groups become pods.

use std::sync::Arc;

use karpenter_core::ProvisioningPlan;
use karpenter_core::cluster::{PodOwner, PodPhase};
use karpenter_kube::scenario::outcome;
use serde_json::json;

use crate::{EXAMPLE, loaded};

#[test]
fn a_group_expands_to_numbered_pods_that_share_everything_but_their_names() {
    let pod = |name: &str| json!({ "metadata": { "name": name, "labels": { "app": "web" } }, "spec": { "containers": [{}] } });
    let problem =
        loaded(&json!({ "podGroups": [{ "count": 12, "pod": pod("web") }, { "pod": pod("other") }] }));
    let pending = &problem.snapshot.pending;
    assert_eq!(pending.len(), 13, "a group without a count is one pod");
    assert_eq!(pending[11].key(), "default/web-11");
    assert_eq!(&*pending[11].id.uid, "default/web-000011");
    assert!(pending.iter().all(|pod| Arc::ptr_eq(&pod.spec, &pending[0].spec)));
    assert!(pending.iter().all(|pod| Arc::ptr_eq(&pod.labels, &pending[0].labels)));
    assert_eq!(pending[0].created, "2026-01-01T11:50:00Z".parse().unwrap());
    assert_eq!(pending[0].spec.requests.get("pods").to_string(), "1");
}

#[test]
fn pods_that_belong_to_a_node_or_have_one_are_ignored() {
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d" }]);
    let problem = loaded(&json!({ "podGroups": [
        { "pod": { "metadata": { "name": "daemon", "ownerReferences": owner } } },
        { "pod": { "metadata": { "name": "placed" }, "spec": { "nodeName": "node", "containers": [] } } },
        { "pod": { "metadata": { "name": "waiting" } } },
    ] }));
    assert_eq!(problem.snapshot.pending.len(), 1);
    let outcome = outcome(&problem, &ProvisioningPlan::default());
    let ignored: Vec<&str> = outcome.ignored.keys().map(String::as_str).collect();
    assert_eq!(ignored, ["default/daemon-0", "default/placed-0"]);
}

#[test]
fn pods_that_ask_for_something_badly_written_are_ignored_not_refused() {
    let pod = json!({ "metadata": { "name": "odd" }, "spec": { "containers": [], "nodeSelector": { "a b": "c" } } });
    let problem = loaded(&json!({ "podGroups": [{ "count": 2, "pod": pod }] }));
    let outcome = outcome(&problem, &ProvisioningPlan::default());
    assert!(problem.snapshot.pending.is_empty());
    assert!(outcome.ignored["default/odd-1"].contains("\"a b\""), "{:?}", outcome.ignored);
}

#[test]
fn the_status_of_a_running_pod_counts_by_the_name_of_its_container() {
    let status = json!({ "containerStatuses": [{ "name": "c", "allocatedResources": { "cpu": "3" } }] });
    let spec = json!({ "containers": [{ "resources": { "requests": { "cpu": "1" } } }] });
    let group = json!({ "pod": { "metadata": { "name": "resized" }, "spec": spec, "status": status } });
    let problem = loaded(&json!({ "nodes": [{ "name": "n", "podGroups": [group] }] }));
    assert_eq!(problem.snapshot.nodes[0].pods[0].spec.requests.get("cpu").to_string(), "3");
}

#[test]
fn running_pods_are_named_after_their_node() {
    let group = json!({ "count": 2, "pod": { "metadata": { "name": "web", "namespace": "shop" } } });
    let problem = loaded(&json!({ "nodes": [{ "name": "node-1", "podGroups": [group] }] }));
    let pod = &problem.snapshot.nodes[0].pods[1];
    assert_eq!(pod.key(), "shop/web-1-node-1");
    assert_eq!(&*pod.id.uid, "shop/web-000001-node-1");
    assert_eq!(pod.phase, PodPhase::Running);
    assert!(problem.snapshot.namespaces.contains_key("shop"));
}

#[test]
fn claims_of_ephemeral_volumes_differ_from_pod_to_pod() {
    let volume = json!({ "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } });
    let pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": [], "volumes": [volume] } });
    let problem = loaded(&json!({ "podGroups": [{ "count": 2, "pod": pod }] }));
    let claims: Vec<&str> = problem.snapshot.pending.iter().map(|pod| &*pod.volumes[0].claim).collect();
    assert_eq!(claims, ["web-0-scratch", "web-1-scratch"]);
}

#[test]
fn buffers_add_virtual_pods_from_templates_and_workloads() {
    let problem = loaded(&serde_json::from_str(EXAMPLE).unwrap());
    let virtual_pods = problem.snapshot.pending.iter().filter(|pod| pod.owner == PodOwner::CapacityBuffer);
    let keys: Vec<String> = virtual_pods.map(|pod| pod.key()).collect();
    let expected = [
        "shop/capacity-buffer-spare-1",
        "shop/capacity-buffer-spare-2",
        "shop/capacity-buffer-web-1",
        "shop/capacity-buffer-web-2",
    ];
    assert_eq!(keys, expected);
}
