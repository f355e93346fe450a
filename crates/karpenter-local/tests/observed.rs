//! The whole cluster under the eyes of an observer that sees the API's watch alone: budgets, PodDisruptionBudgets and `do-not-disrupt` are kept, and a
//! workload that does not change is left alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::Provider;
use karpenter_api::options::FeatureGates;
use karpenter_apiserver::{ApiServer, Options};
use karpenter_controllers::Computing;
use karpenter_environment::{Environment, SimulatedEnvironment};
use karpenter_local::{Cloud, Cluster, Pools, install, play_demo};
use karpenter_models::ModelsConfig;
use karpenter_observer::{History, Observer};
use karpenter_simcloud::Plenty;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;

/// A cluster that runs until it is dropped, and whoever observes it.
struct Observed {
    client: Client,
    environment: Arc<dyn Environment>,
    observer: Observer,
    _stopping: watch::Sender<bool>,
}

async fn observed(pools: Pools) -> Observed {
    let environment: Arc<dyn Environment> =
        Arc::new(SimulatedEnvironment::new(1, "2026-01-05T09:00:00Z".parse().unwrap()));
    let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
    let client = Client::new(server.clone(), "default");
    tokio::spawn(async move { server.run_collector().await });
    install(&client, Provider::Kwok, "20s", pools).await.unwrap();
    let observer = Observer::begin(&client, &environment, SignedDuration::ZERO);
    let (stopping, stop) = watch::channel(false);
    let cluster = Cluster {
        client: client.clone(),
        environment: environment.clone(),
        cloud: Cloud::kwok(client.clone(), environment.clone(), Arc::new(Plenty)),
        models: ModelsConfig::default(),
        computing: Computing::InPlace,
        gates: FeatureGates::default(),
        karpenter: true,
    };
    cluster.start(stop).await.unwrap();
    Observed { client, environment, observer, _stopping: stopping }
}

impl Observed {
    /// A Deployment, with a PodDisruptionBudget that lets one pod go at a time.
    async fn deploy(&self, name: &str, replicas: i32, cpu: &str, annotations: Value) {
        let labels = json!({"app": name});
        let container = json!({"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}});
        let metadata = json!({"labels": labels, "annotations": annotations});
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": metadata, "spec": {"containers": [container]}},
            },
        }))
        .unwrap();
        self.deployments().create(&PostParams::default(), &deployment).await.unwrap();
        let budget: PodDisruptionBudget = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        }))
        .unwrap();
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), "default");
        budgets.create(&PostParams::default(), &budget).await.unwrap();
    }

    async fn scale(&self, name: &str, replicas: i32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.deployments().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn now(&self) -> Timestamp {
        self.environment.now()
    }

    /// What was seen in the end, if no promise was broken.
    fn history(self) -> History {
        let history = self.observer.history();
        let said = history.verdict().unwrap_or_else(|broken| panic!("the observer saw: {broken}"));
        // Past the test harness, which would keep it to itself: `cargo xtask test` adds these up.
        let _ = writeln!(std::io::stdout(), "{said}");
        history
    }
}

#[tokio::test(start_paused = true)]
async fn five_hours_of_the_demo_disrupt_nodes_and_break_no_promise() {
    let cluster = observed(Pools::Demo).await;
    tokio::select! {
        played = play_demo(cluster.client.clone(), cluster.environment.clone()) => played.unwrap(),
        () = tokio::time::sleep(Duration::from_hours(5)) => {}
    }
    let history = cluster.history();
    assert!(!history.disruptions().is_empty(), "nothing was disrupted: there was nothing to observe");
}

#[tokio::test(start_paused = true)]
async fn a_day_of_constant_work_disrupts_nobody_once_it_has_settled() {
    let cluster = observed(Pools::Default).await;
    cluster.deploy("large", 6, "3", json!({})).await;
    cluster.deploy("small", 20, "250m", json!({})).await;
    cluster.deploy("pinned", 2, "500m", json!({"karpenter.sh/do-not-disrupt": "true"})).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    cluster.scale("large", 2).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let settled = cluster.now();
    assert!(!cluster.observer.history().disruptions().is_empty(), "what is no longer needed goes");
    tokio::time::sleep(Duration::from_hours(24)).await;
    let history = cluster.history();
    let since: Vec<_> = history.disruptions().into_iter().filter(|began| began.at > settled).collect();
    assert!(since.is_empty(), "nothing changed, and still nodes were disrupted: {since:?}");
    for kind in ["NodeClaim", "Node", "Pod"] {
        let left: Vec<_> = history.departures(kind).into_iter().filter(|(at, _)| *at > settled).collect();
        assert!(left.is_empty(), "nothing changed, and still a {kind} went: {left:?}");
    }
}
