//! A machine's whole life in each of the API groups: a pod waits, a machine joins, the cloud warns, pods leave before the machine goes, another takes
//! its place, and in the end nothing is left.

use k8s_openapi::api::core::v1::Pod;
use karpenter_alibabacloud_client::{Credentials, Source};
use karpenter_simcloud_alibabacloud::{
    ACCESS_KEY, ACCESS_SECRET, CapacityReservation, Fault, FaultRule, Market, Queue,
};
use serde_json::{Value, json};

use crate::region::{Region, pass, until, world};

const CLUSTER: &str = "c1";

/// A class of a group, and a pool of spot machines of its own.
pub(crate) fn class_and_pool(group: &str) -> [Value; 2] {
    let mut class = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "ECSNodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "vSwitchSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
            "securityGroupSelectorTerms": [{"tags": {"Name": format!("{CLUSTER}-node")}}],
        },
    });
    match group {
        "karpenter.alibabacloud.com" => {
            class["spec"]["imageSelectorTerms"] =
                json!([{"imageFamily": "acs:alibaba_cloud_linux_3_2104_lts_x64"}]);
        }
        "karpenter.k8s.alibabacloud.com" => class["spec"]["amiFamily"] = json!("ContainerOS"),
        _ => class["spec"]["imageSelectorTerms"] = json!([{"alias": "AlibabaCloudLinux3"}]),
    }
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": group, "kind": "ECSNodeClass", "name": "default"},
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["ecs.g7.xlarge", "ecs.g7.2xlarge"]},
            ],
        }}},
    });
    [class, pool]
}

/// The names of the pods that run on a node.
fn on_node(pods: &[Pod], node: &str) -> usize {
    let is_there = |pod: &&Pod| {
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
            && pod.metadata.deletion_timestamp.is_none()
    };
    pods.iter().filter(is_there).count()
}

async fn lives(group: &str) {
    let region = Region::new(CLUSTER).await;
    for object in class_and_pool(group) {
        region.create(&object).await;
    }
    region.deploy("web", "default", 2, "1").await;
    until("the pods run", || async { region.running().await == 2 }).await;
    let [first] = region.instances().try_into().expect("two small pods need one machine");
    assert_eq!(first.market, Market::Spot);
    let node = first.node_name.clone().expect("it has joined");
    let [claim] = region.claims().await.try_into().unwrap();
    assert_eq!(claim.spec.node_class_ref.group, group);
    let annotation = format!("{group}/ecsnodeclass-hash");
    assert!(claim.metadata.annotations.unwrap().contains_key(&annotation), "{annotation}");

    assert!(region.cloud.interrupt(&first.id));
    until("the pods leave", || async { on_node(&region.pods().await, &node) == 0 }).await;
    assert!(region.instances().iter().any(|one| one.id == first.id), "pods leave before the machine goes");
    until("the pods run elsewhere", || async {
        region.running().await == 2 && region.instances().iter().all(|one| one.id != first.id)
    })
    .await;
    let [second] = region.instances().try_into().expect("one machine takes the other's place");
    let place =
        |one: &karpenter_simcloud_alibabacloud::Instance| (one.instance_type.clone(), one.zone.clone());
    assert_ne!(place(&second), place(&first), "what was taken back is not bought again at once");
    let said = region.said().await;
    assert!(said.contains("SpotInterrupted"), "{said}");

    region.undeploy("web").await;
    region.delete_class(group, "default").await;
    pass(5).await;
    assert_eq!(
        region.class(group, "default").await["metadata"]["name"],
        "default",
        "a class stays while it is used"
    );
    region.leaves_nothing().await;
    until("the class is gone", || async {
        let uri = format!("/apis/{group}/v1alpha1/ecsnodeclasses");
        let list: Value =
            region.client.request(http::Request::get(uri).body(Vec::new()).unwrap()).await.unwrap();
        list["items"].as_array().is_some_and(Vec::is_empty)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_the_container_service_group_lives_and_ends() {
    lives("karpenter.alibabacloud.com").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_the_handbooks_group_lives_and_ends() {
    lives("karpenter.k8s.alibabacloud.com").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_cloud_pilots_group_lives_and_ends() {
    lives("karpenter.k8s.alibabacloud").await;
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_queue_is_enough_to_drain_a_spot_machine_before_it_goes() {
    let mut world = world(CLUSTER);
    world.queues.insert("warnings".to_owned(), Queue::new("warnings", true));
    let action = "DescribeSystemEventAttribute".to_owned();
    world.faults.add(FaultRule { action, fault: Fault::InternalError, times: None, per_mille: None });
    let keys = Source::Keys(Credentials::fixed(ACCESS_KEY, ACCESS_SECRET));
    let region = Region::with(CLUSTER, world, keys).await;
    for object in class_and_pool("karpenter.alibabacloud.com") {
        region.create(&object).await;
    }
    region.deploy("web", "default", 2, "1").await;
    until("the pods run", || async { region.running().await == 2 }).await;
    let [first] = region.instances().try_into().expect("two small pods need one machine");
    let node = first.node_name.clone().expect("it has joined");
    assert!(region.cloud.interrupt(&first.id));
    region.cloud.change(|world| world.instances.get_mut(&first.id).unwrap().locks.clear());
    until("the pods leave", || async { on_node(&region.pods().await, &node) == 0 }).await;
    assert!(region.instances().iter().any(|one| one.id == first.id), "pods leave before the machine goes");
    until("the pods run elsewhere", || async {
        region.running().await == 2 && region.instances().iter().all(|one| one.id != first.id)
    })
    .await;
    until("every message was dealt with", || async {
        region.cloud.change(|world| world.queues["warnings"].messages.is_empty())
    })
    .await;
    region.leaves_nothing().await;
}

/// A region with a reservation of one machine, a class that selects it with a preference, and a pool for two kinds of capacity.
async fn with_a_reservation(preference: &str, capacity_types: &[&str]) -> Region {
    let group = "karpenter.alibabacloud.com";
    let region = Region::new(CLUSTER).await;
    region.cloud.change(|world| {
        let reservation = CapacityReservation {
            id: "crp-1".to_owned(),
            instance_type: "ecs.g7.2xlarge".to_owned(),
            zone: "cn-hangzhou-i".to_owned(),
            total: 1,
            open: false,
            tags: [("team".to_owned(), "data".to_owned())].into(),
        };
        world.reservations.insert(reservation.id.clone(), reservation);
    });
    let [mut class, mut pool] = class_and_pool(group);
    class["spec"]["capacityReservationSelectorTerms"] = json!([{"tags": {"team": "data"}}]);
    class["spec"]["capacityReservationPreference"] = json!(preference);
    pool["spec"]["template"]["spec"]["requirements"] = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["ecs.g7.2xlarge"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["cn-hangzhou-i"]},
    ]);
    region.create(&class).await;
    region.create(&pool).await;
    region.deploy("web", "default", 2, "5").await;
    until("the pods run", || async { region.running().await == 2 }).await;
    assert_eq!(region.instances().len(), 2);
    region
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_used_first_and_what_is_over_is_bought() {
    let region = with_a_reservation("open", &["reserved", "on-demand"]).await;
    let reserved = region.instances().iter().filter(|one| one.private_pool.is_some()).count();
    assert_eq!(reserved, 1);
    let mut labels: Vec<String> = region
        .claims()
        .await
        .iter()
        .filter_map(|claim| claim.metadata.labels.as_ref()?.get("karpenter.sh/capacity-type").cloned())
        .collect();
    labels.sort();
    assert_eq!(labels, ["on-demand", "reserved"]);
    // What the cloud describes is what was launched: nothing drifts, and nobody is replaced.
    let before: Vec<String> = region.instances().into_iter().map(|one| one.id).collect();
    pass(3600).await;
    assert_eq!(region.instances().into_iter().map(|one| one.id).collect::<Vec<_>>(), before);
    region.leaves_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_class_that_uses_only_selected_reservations_uses_them_for_machines_on_demand_too() {
    let region = with_a_reservation("target", &["on-demand"]).await;
    let reserved = region.instances().iter().filter(|one| one.private_pool.is_some()).count();
    assert_eq!(reserved, 1);
    region.leaves_nothing().await;
}
