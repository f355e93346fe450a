//! Paper machines on a real API server in this process: bought, booted, found, stopped.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_apiserver::{ApiServer, Options};
use karpenter_environment::SimulatedEnvironment;
use karpenter_kwok::{KWOKNodeClass, Kwok, definition, generated_instance_types};
use karpenter_provider::conformance::{Subject, check};
use karpenter_provider::{LaunchError, OfferingKey, Provider as _, Termination};
use karpenter_simcloud::{Market, Plenty};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

struct World {
    client: Client,
    kwok: Kwok,
}

async fn world(market: impl Market) -> World {
    let environment = Arc::new(SimulatedEnvironment::new(1, Timestamp::UNIX_EPOCH));
    let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
    let client = Client::new(server, "default");
    Api::all(client.clone()).create(&PostParams::default(), &definition()).await.unwrap();
    for crd in karpenter_api::crds(&karpenter_api::LabelRules::default()) {
        Api::all(client.clone()).create(&PostParams::default(), &crd).await.unwrap();
    }
    let class: KWOKNodeClass = serde_json::from_value(
        json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": "20s"}}),
    )
    .unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &class).await.unwrap();
    let kwok =
        Kwok::new(client.clone(), environment, Arc::new(market), generated_instance_types(), Vec::new());
    World { client, kwok }
}

impl World {
    async fn nodes(&self) -> Vec<Node> {
        Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }
}

fn claim(class: &str) -> Arc<NodeClaim> {
    let requirement = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let claim = serde_json::from_value(json!({
        "metadata": {"name": "web-x7k2p", "uid": "0a1b2c3d-0000-4000-8000-000000000000", "labels": {"team": "web"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": class},
            "requirements": [
                requirement("node.kubernetes.io/instance-type", &["c-1x-amd64-linux", "c-2x-amd64-linux"]),
                requirement("karpenter.sh/capacity-type", &["spot", "on-demand"]),
            ],
            "resources": {"requests": {"cpu": "500m", "example.com/device": "2"}},
        },
    }));
    Arc::new(claim.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_machine_joins_after_its_boot_and_only_once() {
    let world = world(Plenty).await;
    let first = world.kwok.launch(claim("default")).await.unwrap();
    assert_eq!(
        first,
        world.kwok.launch(claim("default")).await.unwrap(),
        "a repeated launch is the same machine"
    );
    assert!(world.nodes().await.is_empty());
    tokio::time::sleep(Duration::from_secs(21)).await;
    let nodes = world.nodes().await;
    assert_eq!(nodes.len(), 1);
    let labels = nodes[0].metadata.labels.as_ref().unwrap();
    assert_eq!(labels["node.kubernetes.io/instance-type"], "c-1x-amd64-linux");
    assert_eq!(labels["karpenter.sh/capacity-type"], "spot");
    assert_eq!(labels["team"], "web");
    assert_eq!(first.allocatable["example.com/device"].0, "2");
    assert_eq!(nodes[0].spec.as_ref().unwrap().taints.as_ref().unwrap()[0].key, "karpenter.sh/unregistered");
    assert_eq!(world.kwok.list().await.unwrap().len(), 1);
    assert!(world.kwok.find(first.provider_id.as_str().into()).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_machine_stopped_during_its_boot_never_turns_up() {
    let world = world(Plenty).await;
    let machine = world.kwok.launch(claim("default")).await.unwrap();
    let mut stopped = NodeClaim::clone(&claim("default"));
    stopped.status.get_or_insert_default().provider_id = Some(machine.provider_id);
    let stopped = Arc::new(stopped);
    for _ in 0..2 {
        assert_eq!(world.kwok.terminate(stopped.clone()).await.unwrap(), Termination::Gone);
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.nodes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_missing_class_is_no_capacity() {
    let world = world(Plenty).await;
    let error = world.kwok.launch(claim("elsewhere")).await.unwrap_err();
    assert_eq!(error, LaunchError::InsufficientCapacity("there is no KWOKNodeClass elsewhere".into()));
}

/// Sells no spot machines.
struct NoSpot;

impl Market for NoSpot {
    fn price(&self, _: &OfferingKey, list: f64, _: Timestamp) -> f64 {
        list
    }

    fn buy(&self, offering: &OfferingKey, _: &str, _: Timestamp) -> Result<(), String> {
        if &*offering.capacity_type == "spot" { Err("sold out".to_owned()) } else { Ok(()) }
    }

    fn give_back(&self, _: &str, _: Timestamp) {}
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_left_alone_for_a_while() {
    let world = world(NoSpot).await;
    let machine = world.kwok.launch(claim("default")).await.unwrap();
    assert_eq!(machine.labels["karpenter.sh/capacity-type"], "on-demand");
    let in_stock = |types: karpenter_provider::InstanceTypes| {
        let small = types.iter().find(|found| &*found.name == "c-1x-amd64-linux").unwrap().clone();
        small.offerings.iter().filter(|offering| offering.available).count()
    };
    let pool = Arc::new(karpenter_api::NodePool::default());
    assert_eq!(in_stock(world.kwok.instance_types(pool.clone()).await.unwrap()), 4);
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(in_stock(world.kwok.instance_types(pool).await.unwrap()), 8);
}

#[tokio::test(start_paused = true)]
async fn the_provider_does_what_every_provider_must() {
    let world = world(Plenty).await;
    let named = |name: &str| {
        let mut claim = NodeClaim::clone(&claim("default"));
        claim.metadata.name = Some(name.to_owned());
        claim.metadata.uid = Some(format!("{:08x}-0000-4000-8000-000000000000", name.len()));
        claim
    };
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let pool = json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}}});
    let subject = Subject {
        provider: Arc::new(world.kwok.clone()),
        pool: serde_json::from_value(pool).unwrap(),
        claim: Box::new(named),
        settle: Box::new(|| Box::pin(tokio::time::sleep(Duration::from_secs(21)))),
    };
    check(&subject).await;
}
