//! A machine's whole life: the class is ready, a pod waits, a fleet is asked for, the node joins, EC2 warns, the machine goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::NodeOverlay;
use karpenter_api::options::{FeatureGate, FeatureGates};
use karpenter_controllers::Karpenter;
use karpenter_provider::conformance::{Subject, check};
use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{CapacityType, Fault, FaultKind, Happening, PlacementGroup};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::world::{QUEUE, World, capacity_type, pass};

async fn world() -> World {
    World::new(Arc::new(Plenty)).await
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_launched_joins_is_warned_drains_and_ends() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    let class = json!({"tags": {"team": "web"}, "detailedMonitoring": true});
    world.create_pool(&class, &capacity_type(&["spot"])).await;
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;

    let [instance] = world.cloud.living().try_into().expect("one pod needs one machine");
    assert_eq!(instance.capacity_type, CapacityType::Spot);
    let [claim] = world.claims().await.try_into().unwrap();
    let status = claim.status.clone().unwrap();
    assert_eq!(status.provider_id.as_deref(), Some(instance.provider_id().as_str()));
    assert_eq!(World::condition(&claim, "Registered"), "True");
    let name = claim.metadata.name.clone().unwrap();
    let tags = ["team", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "eks:eks-cluster-name"];
    let found: Vec<&str> = tags.iter().map(|key| instance.tags[*key].as_str()).collect();
    assert_eq!(found, ["web", "general", name.as_str(), "local"]);
    assert_eq!(instance.tags.get("Name"), status.node_name.as_ref(), "the node's name is tagged later");
    let annotations = claim.metadata.annotations.unwrap();
    assert!(annotations.contains_key("karpenter.k8s.aws/ec2nodeclass-hash"));
    assert_eq!(annotations["karpenter.k8s.aws/tagged"], "true");

    let [node] = world.nodes().await.try_into().unwrap();
    world.bind("a", node.metadata.name.as_deref().unwrap()).await;
    world.cloud.happen(Happening::SpotInterruption { instance: instance.id.clone() }).unwrap();
    pass(30).await;
    let pod = world.pods().get("a").await.unwrap();
    assert!(pod.metadata.deletion_timestamp.is_some(), "the pod is asked to leave while the machine runs");
    assert!(world.cloud.living().iter().any(|alive| alive.id == instance.id));
    world.delete_pod("a").await;
    pass(60).await;
    assert!(
        world.cloud.living().iter().all(|alive| alive.id != instance.id),
        "the machine ends before it is taken"
    );
    assert!(world.claims().await.iter().all(|claim| claim.metadata.name.as_ref() != Some(&name)));
    assert!(world.cloud.messages().is_empty(), "messages that were heeded are deleted");
    let told = world.told().await;
    for reason in ["SpotInterrupted", "TerminatingOnInterruption"] {
        assert!(told.iter().any(|found| found == reason), "{reason} is not among {told:?}");
    }
    assert!(
        world.scraped("karpenter_interruption_received_messages_total{message_type=\"spot_interrupted\"}")
            >= 1.0
    );
}

#[tokio::test(start_paused = true)]
async fn the_provider_does_what_every_provider_must() {
    let world = world().await;
    let aws = world.connect(QUEUE).await.unwrap();
    let running = world.start_with(&aws);
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    // From here on nobody but the suite launches and ends machines.
    running.abort();
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let requirements = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"]},
    ]);
    let of_class = class.clone();
    let claim = move |name: &str| {
        let claim = json!({
            "metadata": {"name": name, "uid": format!("uid-of-{name}"), "labels": {"karpenter.sh/nodepool": "general"}},
            "spec": {"nodeClassRef": of_class, "requirements": requirements},
        });
        serde_json::from_value(claim).unwrap()
    };
    let pool = json!({"metadata": {"name": "general"}, "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}}});
    let subject = Subject {
        provider: Arc::new(aws),
        pool: serde_json::from_value(pool).unwrap(),
        claim: Box::new(claim),
        settle: Box::new(|| Box::pin(pass(15))),
    };
    check(&subject).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_launches_no_second_machine() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.cloud.inject(Fault::times("CreateFleet", 1, FaultKind::ResetAfter));
    world.create_pending_pod("a", "500m").await;
    pass(120).await;
    assert_eq!(world.cloud.instances().len(), 1);
    assert_eq!(world.claims().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_is_bought_elsewhere() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["spot", "on-demand"])).await;
    pass(60).await;
    world.cloud.inject(Fault::times(
        "CreateFleet",
        3,
        FaultKind::Error {
            status: 400,
            code: "InsufficientInstanceCapacity".to_owned(),
            message: "There is none.".to_owned(),
        },
    ));
    world.create_pending_pod("a", "500m").await;
    pass(180).await;
    let claims = world.claims().await;
    assert!(claims.iter().any(|claim| World::condition(claim, "Registered") == "True"));
    assert_eq!(world.cloud.living().len(), 1, "no machine is left over");
}

#[tokio::test(start_paused = true)]
async fn templates_that_nobody_uses_are_deleted() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    assert!(!world.cloud.launch_templates().is_empty());
    pass(900).await;
    assert!(world.cloud.launch_templates().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_fails_its_checks_is_replaced() {
    let world = world().await;
    let _running = world.start(&[]).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    let [instance] = world.cloud.living().try_into().unwrap();
    world.cloud.happen(Happening::Impairment { instance: instance.id.clone(), system: true }).unwrap();
    pass(300).await;
    assert!(world.cloud.living().iter().all(|alive| alive.id != instance.id));
    let series = "karpenter_interruption_instance_status_unhealthy_total{category=\"system_status\"}";
    assert!((world.scraped(series) - 1.0).abs() < 0.1, "each episode counts once");
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_claim_is_ended() {
    let world = world().await;
    let running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    running.abort();
    let [claim] = world.claims().await.try_into().unwrap();
    let claims: kube::Api<karpenter_api::NodeClaim> = kube::Api::all(world.kube.clone());
    let name = claim.metadata.name.unwrap();
    let patch = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    claims.patch(&name, &kube::api::PatchParams::default(), &patch).await.unwrap();
    claims.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    world.delete_pod("a").await;
    let _running = world.start(QUEUE).await;
    pass(400).await;
    assert_eq!(world.cloud.living().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_provider_starts_only_where_it_can_work() {
    let world = world().await;
    world.cloud.inject(Fault::times("DescribeInstanceTypes", 1, FaultKind::ExpiredCredentials));
    let error = world.connect(&["--cluster-endpoint=example.com"]).await.err().unwrap();
    assert!(error.to_string().contains("--cluster-endpoint must be a whole URL"), "{error}");
    let error = world.connect(&[]).await.err();
    assert!(error.is_none() || error.unwrap().to_string().contains("EC2 cannot be reached"));
    world.cloud.heal();
    world.cloud.inject(Fault::times("DescribeCluster", 9, FaultKind::Denied));
    let error = world.connect(&[]).await.err().unwrap();
    assert!(error.to_string().contains("allow eks:DescribeCluster"), "{error}");
    assert!(world.connect(&["--cluster-endpoint=https://example.com"]).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_waits_for_the_label_of_the_partition_that_ec2_chose() {
    const PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";
    let world = world().await;
    world.cloud.put_placement_group(PlacementGroup {
        id: "pg-1".into(),
        name: "apart".into(),
        strategy: "partition".into(),
        partitions: Some(3),
        spread_level: None,
        tags: BTreeMap::new(),
    });
    let _running = world.start(&[]).await;
    let class = json!({"placementGroupSelector": {"name": "apart"}});
    world.create_pool(&class, &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.cloud.inject(Fault::chance("DescribeInstances", 1.0, FaultKind::Denied));
    world.create_pending_pod("a", "500m").await;
    pass(90).await;
    let [claim] = world.claims().await.try_into().unwrap();
    assert_eq!(world.nodes().await.len(), 1, "the machine has joined");
    assert_eq!(World::condition(&claim, "Launched"), "True");
    assert_eq!(World::condition(&claim, "Registered"), "Unknown", "nobody knows its partition");

    world.cloud.heal();
    pass(30).await;
    let [claim] = world.claims().await.try_into().unwrap();
    assert_eq!(World::condition(&claim, "Registered"), "True");
    let [instance] = world.cloud.living().try_into().unwrap();
    let [node] = world.nodes().await.try_into().unwrap();
    let partition = instance.partition.map(|number| number.to_string());
    assert!(partition.is_some());
    assert_eq!(claim.metadata.labels.unwrap().get(PARTITION), partition.as_ref());
    assert_eq!(node.metadata.labels.unwrap().get(PARTITION), partition.as_ref());
}

#[tokio::test(start_paused = true)]
async fn an_overlay_decides_among_the_machines_of_a_fleet() {
    let world = world().await;
    let types = json!(["m5.large", "m6i.large", "c5.4xlarge"]);
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "gift"},
        "spec": {
            "price": "0.001",
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c5.4xlarge"]}],
        },
    });
    let overlay: NodeOverlay = serde_json::from_value(overlay).unwrap();
    Api::all(world.kube.clone()).create(&PostParams::default(), &overlay).await.unwrap();
    let aws = world.connect(&[]).await.unwrap();
    let mut gates = FeatureGates::default();
    gates.set(FeatureGate::NodeOverlay, true);
    let _running = world.start_as(&aws, |karpenter| Karpenter { gates, ..karpenter });
    let requirements = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
    ]);
    world.create_pool(&json!({}), &requirements).await;
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    let [instance] = world.cloud.living().try_into().unwrap();
    assert_eq!(&*instance.facts.name, "c5.4xlarge", "the operator knows what it costs");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_at_rest_asks_little_of_ec2() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_class(&json!({})).await;
    for number in 0..20 {
        let name = format!("pool-{number}");
        world.create_named_pool(&name, &json!({}), &capacity_type(&["on-demand"])).await;
    }
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    let [node] = world.nodes().await.try_into().unwrap();
    world.bind("a", node.metadata.name.as_deref().unwrap()).await;
    pass(600).await;
    world.cloud.forget_records();
    pass(600).await;
    let records = world.cloud.records();
    let calls = |operation| records.count(operation);
    for idle in
        ["CreateFleet", "CreateLaunchTemplate", "TerminateInstances", "CreateTags", "DescribeInstanceTypes"]
    {
        assert_eq!(calls(idle), 0, "{idle}: {:?}", records.counts());
    }
    assert!(calls("DescribeInstances") <= 6, "{:?}", records.counts());
    assert!(calls("DescribeInstanceStatus") <= 33, "{:?}", records.counts());
}
