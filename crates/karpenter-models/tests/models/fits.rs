//! Which pod fits on which node, filter by filter.

use karpenter_models::scheduler::{BIND_COMPLETED, Cluster};
use karpenter_runtime::Key;
use serde_json::{Value, json};

use crate::objects::{node, placed, pod, read};

#[track_caller]
fn check(cluster: &mut Cluster, pod: &k8s_openapi::api::core::v1::Pod, node: &str, expected: &str) {
    let found = match cluster.fits(pod, node) {
        Ok(()) => String::new(),
        Err(rejection) => {
            let texts: Vec<String> = rejection.reasons.iter().map(ToString::to_string).collect();
            texts.join(", ")
        }
    };
    assert_eq!(found, expected);
}

/// Two nodes in zone a, one in zone b.
fn three_nodes() -> Cluster {
    let mut cluster = Cluster::new();
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        cluster.set_node(&node(name, zone, json!({})));
    }
    cluster
}

#[test]
fn resources_are_what_allocatable_leaves() {
    let mut cluster = three_nodes();
    cluster.set_pod(&placed("there", "a1", "3", json!({})));
    check(&mut cluster, &pod("p", "1", json!({})), "a1", "");
    check(&mut cluster, &pod("p", "1001m", json!({})), "a1", "Insufficient cpu");
    let big = json!({"spec": {"containers": [{"name": "c", "resources": {"requests":
        {"cpu": "2", "memory": "17Gi", "example.com/gpu": "1"}}}]}});
    let expected = "Insufficient cpu, Insufficient example.com/gpu, Insufficient memory";
    check(&mut cluster, &pod("p", "1", big), "a1", expected);
}

#[test]
fn a_node_takes_only_so_many_pods_and_finished_ones_take_no_room() {
    let mut cluster = Cluster::new();
    cluster.set_node(&node("n", "a", json!({"status": {"allocatable": {"pods": "1"}}})));
    cluster.set_pod(&placed("there", "n", "1", json!({})));
    check(&mut cluster, &pod("p", "1", json!({})), "n", "Too many pods");
    cluster.set_pod(&placed("there", "n", "1", json!({"status": {"phase": "Succeeded"}})));
    check(&mut cluster, &pod("p", "4", json!({})), "n", "");
}

#[test]
fn cordons_taints_and_affinity_are_checked_in_this_order() {
    let mut cluster = Cluster::new();
    let all = json!({"spec": {"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}});
    cluster.set_node(&node("n", "a", all));
    let plain = pod("p", "1", json!({"spec": {"nodeSelector": {"topology.kubernetes.io/zone": "b"}}}));
    check(&mut cluster, &plain, "n", "node(s) were unschedulable");
    let taint = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}});
    cluster.set_node(&node("n", "a", taint));
    check(&mut cluster, &plain, "n", "node(s) had untolerated taint(s)");
    cluster.set_node(&node(
        "n",
        "a",
        json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}),
    ));
    check(&mut cluster, &plain, "n", "node(s) didn't match Pod's node affinity/selector");
}

#[test]
fn a_pod_for_one_node_by_name_goes_to_no_other() {
    let mut cluster = three_nodes();
    let field = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a1"]}]});
    let pinned = json!({"spec": {"affinity": {"nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}}}});
    check(&mut cluster, &pod("p", "1", pinned.clone()), "a1", "");
    check(&mut cluster, &pod("p", "1", pinned), "a2", "node(s) didn't satisfy plugin(s) [NodeAffinity]");
}

#[test]
fn host_ports_are_taken_once() {
    let mut cluster = three_nodes();
    let port =
        json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}});
    cluster.set_pod(&placed("there", "a1", "1", port.clone()));
    check(
        &mut cluster,
        &pod("p", "1", port.clone()),
        "a1",
        "node(s) didn't have free ports for the requested pod ports",
    );
    check(&mut cluster, &pod("p", "1", port), "a2", "");
}

fn anti_affinity(app: &str, key: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}},
    ]}}})
}

fn affinity(app: &str, key: &str) -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}},
    ]}}})
}

const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
fn anti_affinity_holds_in_both_directions() {
    let mut cluster = three_nodes();
    let shy = json!({"metadata": {"labels": {"app": "shy"}}, "spec": anti_affinity("loud", ZONE)});
    let loud = json!({"metadata": {"labels": {"app": "loud"}}});
    cluster.set_pod(&placed("shy", "a1", "1", shy.clone()));
    let existing = "node(s) didn't satisfy existing pods anti-affinity rules";
    check(&mut cluster, &pod("loud", "1", loud.clone()), "a2", existing);
    check(&mut cluster, &pod("loud", "1", loud.clone()), "b1", "");
    cluster.set_pod(&placed("loud", "b1", "1", loud.clone()));
    check(&mut cluster, &pod("p", "1", shy), "b1", "node(s) didn't match pod anti-affinity rules");
    cluster.remove_pod(&Key::namespaced("default", "shy"));
    check(&mut cluster, &pod("p", "1", loud), "a2", "");
}

#[test]
fn affinity_wants_a_pod_in_the_domain_and_lets_the_first_of_a_kind_in() {
    let mut cluster = three_nodes();
    let friend = json!({"metadata": {"labels": {"app": "friend"}}, "spec": affinity("friend", ZONE)});
    let stranger = json!({"metadata": {"labels": {"app": "stranger"}}, "spec": affinity("friend", ZONE)});
    let nobody = "node(s) didn't match pod affinity rules";
    check(&mut cluster, &pod("first", "1", friend.clone()), "a1", "");
    check(&mut cluster, &pod("p", "1", stranger.clone()), "a1", nobody);
    cluster.set_pod(&placed("first", "a1", "1", friend.clone()));
    check(&mut cluster, &pod("p", "1", friend), "b1", nobody);
    check(&mut cluster, &pod("p", "1", stranger), "a2", "");
}

#[test]
fn affinity_looks_into_namespaces_by_their_labels() {
    let mut cluster = three_nodes();
    let labels = std::collections::BTreeMap::from([("team".to_owned(), "x".to_owned())]);
    let wish = json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": ZONE, "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "x"}}},
    ]}}}});
    cluster.set_pod(&placed("there", "a1", "1", json!({"metadata": {"namespace": "other"}})));
    check(&mut cluster, &pod("p", "1", wish.clone()), "a2", "node(s) didn't match pod affinity rules");
    cluster.set_namespace("other", Some(&labels));
    check(&mut cluster, &pod("p", "1", wish.clone()), "a2", "");
    cluster.set_namespace("other", None);
    check(&mut cluster, &pod("p", "1", wish), "a2", "node(s) didn't match pod affinity rules");
}

fn spread(key: &str, extra: Value) -> Value {
    let mut constraint = json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    crate::objects::merge(&mut constraint, extra);
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": [constraint]}})
}

const UNEVEN: &str = "node(s) didn't match pod topology spread constraints";

#[test]
fn spreading_keeps_domains_within_the_skew_of_the_emptiest() {
    let mut cluster = three_nodes();
    cluster.set_pod(&placed("there", "a1", "1", spread(ZONE, json!({}))));
    let next = pod("p", "1", spread(ZONE, json!({})));
    check(&mut cluster, &next, "a2", UNEVEN);
    check(&mut cluster, &next, "b1", "");
    check(&mut cluster, &pod("p", "1", spread(ZONE, json!({"maxSkew": 2}))), "a2", "");
    cluster.set_pod(&placed("there", "a1", "1", {
        let mut leaving = spread(ZONE, json!({}));
        leaving["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
        leaving
    }));
    check(&mut cluster, &next, "a2", "");
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let mut cluster = three_nodes();
    cluster.set_pod(&placed("there", "a1", "1", spread(ZONE, json!({}))));
    cluster.set_pod(&placed("here", "b1", "1", spread(ZONE, json!({}))));
    check(&mut cluster, &pod("p", "1", spread(ZONE, json!({}))), "a2", "");
    check(&mut cluster, &pod("p", "1", spread(ZONE, json!({"minDomains": 3}))), "a2", UNEVEN);
}

#[test]
fn only_nodes_the_pod_may_use_count_as_domains() {
    let mut cluster = three_nodes();
    cluster.set_node(&node("c1", "c", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})));
    cluster.set_pod(&placed("there", "a1", "1", spread(ZONE, json!({}))));
    cluster.set_pod(&placed("here", "b1", "1", spread(ZONE, json!({}))));
    check(&mut cluster, &pod("p", "1", spread(ZONE, json!({}))), "a2", UNEVEN);
    check(&mut cluster, &pod("p", "1", spread(ZONE, json!({"nodeTaintsPolicy": "Honor"}))), "a2", "");
    let mut selective = spread(ZONE, json!({}));
    selective["spec"]["nodeSelector"] = json!({ZONE: "a"});
    check(&mut cluster, &pod("p", "1", selective.clone()), "a2", "");
    selective["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Ignore".into();
    check(&mut cluster, &pod("p", "1", selective), "a2", UNEVEN);
}

#[test]
fn a_node_without_the_label_takes_no_spread_pod() {
    let mut cluster = three_nodes();
    let missing = format!("{UNEVEN} (missing required label)");
    check(&mut cluster, &pod("p", "1", spread("rack", json!({}))), "a1", &missing);
}

#[test]
fn match_label_keys_spread_each_revision_by_itself() {
    let mut cluster = three_nodes();
    let revision = |hash: &str| {
        let mut wish = spread(ZONE, json!({"matchLabelKeys": ["hash"]}));
        wish["metadata"]["labels"]["hash"] = hash.into();
        wish
    };
    cluster.set_pod(&placed("old", "a1", "1", revision("1")));
    check(&mut cluster, &pod("p", "1", revision("1")), "a2", UNEVEN);
    check(&mut cluster, &pod("p", "1", revision("2")), "a2", "");
}

#[test]
fn counts_follow_nodes_that_change_zone_or_go() {
    let mut cluster = three_nodes();
    cluster.set_pod(&placed("there", "a1", "1", spread(ZONE, json!({}))));
    let next = pod("p", "1", spread(ZONE, json!({})));
    cluster.set_node(&node("a1", "b", json!({})));
    check(&mut cluster, &next, "a2", "");
    check(&mut cluster, &next, "b1", UNEVEN);
    cluster.remove_node("a1");
    check(&mut cluster, &next, "b1", "");
    cluster.set_node(&node("a1", "a", json!({})));
    check(&mut cluster, &next, "a2", UNEVEN);
}

fn with_claim(name: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}})
}

fn claim(cluster: &mut Cluster, name: &str, extra: Value) {
    let mut claim = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}});
    crate::objects::merge(&mut claim, extra);
    cluster.set_claim(Key::namespaced("default", name), Some(&read(claim)));
}

fn bound(volume: &str) -> Value {
    json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume}})
}

fn volume(cluster: &mut Cluster, name: &str, extra: Value) {
    let mut volume = json!({"metadata": {"name": name}, "status": {"phase": "Available"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "capacity": {"storage": "1Gi"},
        "csi": {"driver": "disk.example.com", "volumeHandle": name}}});
    crate::objects::merge(&mut volume, extra);
    cluster.set_volume(name, Some(&read(volume)));
}

fn in_zone(zone: &str) -> Value {
    let expression = json!({"key": ZONE, "operator": "In", "values": [zone]});
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}})
}

fn storage_class(cluster: &mut Cluster, mode: &str, extra: Value) {
    let mut class =
        json!({"metadata": {"name": "disk"}, "provisioner": "disk.example.com", "volumeBindingMode": mode});
    crate::objects::merge(&mut class, extra);
    cluster.set_storage_class("disk", Some(&read(class)));
}

#[test]
fn claims_must_exist_and_be_bound_unless_they_wait_for_a_node() {
    let mut cluster = three_nodes();
    let mounting = pod("p", "1", with_claim("data"));
    check(&mut cluster, &mounting, "a1", "persistentvolumeclaim \"data\" not found");
    claim(&mut cluster, "data", json!({}));
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    check(&mut cluster, &mounting, "a1", unbound);
    storage_class(&mut cluster, "Immediate", json!({}));
    check(&mut cluster, &mounting, "a1", unbound);
    storage_class(&mut cluster, "WaitForFirstConsumer", json!({}));
    check(&mut cluster, &mounting, "a1", "");
}

#[test]
fn a_bound_volume_is_reached_from_its_zone_only() {
    let mut cluster = three_nodes();
    claim(&mut cluster, "data", bound("v1"));
    let mounting = pod("p", "1", with_claim("data"));
    let missing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
    check(&mut cluster, &mounting, "a1", missing);
    volume(&mut cluster, "v1", in_zone("b"));
    check(&mut cluster, &mounting, "a1", "node(s) didn't match PersistentVolume's node affinity");
    check(&mut cluster, &mounting, "b1", "");
    volume(&mut cluster, "v1", json!({"metadata": {"labels": {ZONE: "b__c"}}}));
    check(&mut cluster, &mounting, "a1", "node(s) had no available volume zone");
    check(&mut cluster, &mounting, "b1", "");
}

#[test]
fn a_waiting_claim_takes_a_volume_in_reach_or_one_made_where_the_class_allows() {
    let mut cluster = three_nodes();
    claim(&mut cluster, "data", json!({}));
    let mounting = pod("p", "1", with_claim("data"));
    let none = "node(s) didn't find available persistent volumes to bind";
    storage_class(
        &mut cluster,
        "WaitForFirstConsumer",
        json!({"provisioner": "kubernetes.io/no-provisioner"}),
    );
    check(&mut cluster, &mounting, "b1", none);
    volume(&mut cluster, "v1", in_zone("b"));
    check(&mut cluster, &mounting, "b1", "");
    check(&mut cluster, &mounting, "a1", none);
    let only_a = json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]});
    storage_class(&mut cluster, "WaitForFirstConsumer", only_a);
    check(&mut cluster, &mounting, "a1", "");
    claim(
        &mut cluster,
        "data",
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a2"}}}),
    );
    check(&mut cluster, &mounting, "a1", none);
    check(&mut cluster, &mounting, "a2", "");
}

#[test]
fn a_node_attaches_only_so_many_volumes_and_counts_a_shared_one_once() {
    let mut cluster = three_nodes();
    let csi_node = json!({"metadata": {"name": "a1"}, "spec": {"drivers": [
        {"name": "disk.example.com", "nodeID": "a1", "allocatable": {"count": 1}}]}});
    cluster.set_csi_node("a1", Some(&read(csi_node)));
    for name in ["one", "two"] {
        volume(&mut cluster, name, json!({}));
        claim(&mut cluster, name, bound(name));
    }
    cluster.set_pod(&placed("there", "a1", "1", with_claim("one")));
    check(&mut cluster, &pod("p", "1", with_claim("two")), "a1", "node(s) exceed max volume count");
    check(&mut cluster, &pod("p", "1", with_claim("one")), "a1", "");
    check(&mut cluster, &pod("p", "1", with_claim("two")), "a2", "");
}

#[test]
fn a_claim_for_one_pod_is_for_one_pod() {
    let mut cluster = three_nodes();
    volume(&mut cluster, "v1", json!({}));
    let mut exclusive = bound("v1");
    exclusive["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    claim(&mut cluster, "data", exclusive);
    cluster.set_pod(&placed("there", "a1", "1", with_claim("data")));
    let taken = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    check(&mut cluster, &pod("p", "1", with_claim("data")), "b1", taken);
    check(&mut cluster, &placed("there", "a1", "1", with_claim("data")), "a1", "");
}

#[test]
fn selectors_may_look_at_labels_that_number_the_pods_of_a_set() {
    let mut cluster = three_nodes();
    let numbered =
        |index: &str| json!({"metadata": {"labels": {"app": "db", "apps.kubernetes.io/pod-index": index}}});
    cluster.set_pod(&placed("db-0", "a1", "1", numbered("0")));
    cluster.set_pod(&placed("db-1", "b1", "1", numbered("1")));
    let mut beside = affinity("db", ZONE);
    beside["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"] =
        json!({"matchLabels": {"apps.kubernetes.io/pod-index": "1"}});
    let beside = pod("p", "1", json!({"spec": beside}));
    check(&mut cluster, &beside, "a2", "node(s) didn't match pod affinity rules");
    check(&mut cluster, &beside, "b1", "");
}
