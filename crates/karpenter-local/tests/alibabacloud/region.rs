//! A cluster in a simulated region, in process and in simulated time, under the eyes of an observer.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use karpenter_alibabacloud::node_class::definitions;
use karpenter_alibabacloud::{AlibabaCloud, Settings};
use karpenter_alibabacloud_client::{Client, Config, Credentials, Source, TransportError};
use karpenter_api::options::FeatureGates;
use karpenter_api::{LabelRules, NodeClaim, Provider, crds};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_controllers::Computing;
use karpenter_environment::{Environment, SimulatedEnvironment};
use karpenter_local::{Cloud, Cluster, NodePlayer};
use karpenter_models::ModelsConfig;
use karpenter_observer::Observer;
use karpenter_simcloud::Plenty;
use karpenter_simcloud_alibabacloud::{ACCESS_KEY, ACCESS_SECRET, Instance, Service, World};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) const REGION: &str = "cn-hangzhou";
const BEGINNING: &str = "2026-11-17T06:00:00Z";

/// A region, and a cluster in it that Karpenter runs in until this is dropped.
pub(crate) struct Region {
    pub(crate) client: kube::Client,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) cloud: Service,
    pub(crate) provider: AlibabaCloud,
    observer: Observer,
    _stopping: watch::Sender<bool>,
}

/// A region with a cluster whose pods have addresses on machines of any size.
pub(crate) fn world(cluster: &str) -> World {
    let mut world = World::standard(REGION, cluster);
    world.use_flannel(cluster);
    world
}

impl Region {
    /// Karpenter in a cluster of this name, with an access key that may do anything.
    pub(crate) async fn new(cluster: &str) -> Self {
        let keys = Source::Keys(Credentials::fixed(ACCESS_KEY, ACCESS_SECRET));
        Self::with(cluster, world(cluster), keys).await
    }

    /// The same in a given world, with other credentials.
    pub(crate) async fn with(cluster: &str, world: World, credentials: Source) -> Self {
        let environment: Arc<dyn Environment> =
            Arc::new(SimulatedEnvironment::new(1, BEGINNING.parse().unwrap()));
        let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
        let client = kube::Client::new(server.clone(), "default");
        tokio::spawn(async move { server.run_collector().await });
        let rules = LabelRules::for_providers(&[Provider::AlibabaCloud]);
        for definition in crds(&rules).into_iter().chain(definitions()) {
            Api::all(client.clone()).create(&PostParams::default(), &definition).await.unwrap();
        }
        // A queue that is there is listened to.
        let interruption_queue = world.queues.keys().next().cloned();
        let (machines, player) = NodePlayer::new();
        let cloud = Service::with(world, environment.clone(), Arc::new(Plenty), Arc::new(machines));
        tokio::spawn(cloud.clone().drive());
        tokio::spawn(player.play(client.clone()));
        let wire = Client::new(
            Config::at("http://simulated", REGION, credentials),
            Arc::new(transport(cloud.clone())),
            environment.clone(),
        );
        let settings =
            Settings { cluster_id: Some(cluster.to_owned()), interruption_queue, ..Settings::default() };
        let provider = AlibabaCloud::new(wire, settings);
        let observer = Observer::begin(&client, &environment, SignedDuration::ZERO);
        let (stopping, stop) = watch::channel(false);
        let whole = Cluster {
            client: client.clone(),
            environment: environment.clone(),
            cloud: Cloud::alibabacloud(provider.clone()),
            models: ModelsConfig::default(),
            computing: Computing::InPlace,
            gates: FeatureGates::default(),
            karpenter: true,
        };
        whole.start(stop).await.unwrap();
        Self { client, environment, cloud, provider, observer, _stopping: stopping }
    }

    /// Creates objects from YAML.
    pub(crate) async fn apply(&self, text: &str) {
        for object in serde_saphyr::from_multiple::<Value>(text).unwrap() {
            self.create(&object).await;
        }
    }

    /// Creates a cluster-wide object.
    pub(crate) async fn create(&self, object: &Value) {
        let plural = match object["kind"].as_str().unwrap() {
            "ECSNodeClass" => "ecsnodeclasses",
            "NodePool" => "nodepools",
            other => panic!("what is the plural of {other}?"),
        };
        let uri = format!("/apis/{}/{plural}?fieldValidation=Strict", object["apiVersion"].as_str().unwrap());
        let request = Request::post(uri).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(object).unwrap()).unwrap();
        let _: Value = self.client.request(request).await.unwrap();
    }

    /// A Deployment whose pods tolerate every taint and go to one NodePool.
    pub(crate) async fn deploy(&self, name: &str, pool: &str, replicas: u32, cpu: &str) {
        let labels = json!({"app": name});
        let resources = json!({"requests": {"cpu": cpu, "memory": "1Gi"}});
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "containers": [{"name": "main", "image": "app", "resources": resources}],
                    "tolerations": [{"key": pool, "operator": "Exists"}],
                    "nodeSelector": {"karpenter.sh/nodepool": pool},
                }},
            },
        }))
        .unwrap();
        self.deployments().create(&PostParams::default(), &deployment).await.unwrap();
    }

    /// Ends a Deployment and its pods.
    pub(crate) async fn undeploy(&self, name: &str) {
        self.deployments().delete(name, &DeleteParams::background()).await.unwrap();
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn all<K>(&self) -> Vec<K>
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
    {
        Api::<K>::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn nodes(&self) -> Vec<Node> {
        self.all().await
    }

    pub(crate) async fn claims(&self) -> Vec<NodeClaim> {
        self.all().await
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.all().await
    }

    /// How many pods run.
    pub(crate) async fn running(&self) -> usize {
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        self.pods().await.iter().filter(|pod| phase(pod).as_deref() == Some("Running")).count()
    }

    /// What events and conditions say about classes, claims, nodes and pods, one a line.
    pub(crate) async fn said(&self) -> String {
        let events = self.all::<Event>().await.into_iter().map(|event| {
            format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
        });
        let mut lines: Vec<String> = events.collect();
        for claim in self.claims().await {
            for found in claim.status.iter().flat_map(|status| status.conditions.iter().flatten()) {
                lines.push(format!("{}={}: {} {}", found.type_, found.status, found.reason, found.message));
            }
        }
        lines.join("\n")
    }

    /// A class as it stands.
    pub(crate) async fn class(&self, group: &str, name: &str) -> Value {
        let uri = format!("/apis/{group}/v1alpha1/ecsnodeclasses/{name}");
        self.client.request(Request::get(uri).body(Vec::new()).unwrap()).await.unwrap()
    }

    /// Status, reason and message of a condition of a class.
    pub(crate) async fn condition(&self, group: &str, name: &str, type_: &str) -> (String, String) {
        let class = self.class(group, name).await;
        let conditions = class["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|found| found["type"] == type_).unwrap_or_default();
        let word = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (word("status"), format!("{} {}", word("reason"), word("message")))
    }

    pub(crate) async fn delete_class(&self, group: &str, name: &str) {
        let uri = format!("/apis/{group}/v1alpha1/ecsnodeclasses/{name}");
        let _: Value = self.client.request(Request::delete(uri).body(Vec::new()).unwrap()).await.unwrap();
    }

    pub(crate) async fn delete_pool(&self, name: &str) {
        let pools: Api<karpenter_api::NodePool> = Api::all(self.client.clone());
        pools.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// The machines the account pays for.
    pub(crate) fn instances(&self) -> Vec<Instance> {
        self.cloud.change(|world| world.instances.values().cloned().collect())
    }

    /// Deletes what is left and checks that nothing stays behind: no claim, no node, no machine.
    pub(crate) async fn leaves_nothing(&self) {
        for deployment in self.deployments().list(&ListParams::default()).await.unwrap().items {
            self.undeploy(&deployment.metadata.name.unwrap()).await;
        }
        let pools: Api<karpenter_api::NodePool> = Api::all(self.client.clone());
        for pool in pools.list(&ListParams::default()).await.unwrap().items {
            self.delete_pool(&pool.metadata.name.unwrap()).await;
        }
        until("everything is gone", || async {
            self.instances().is_empty() && self.claims().await.is_empty() && self.nodes().await.is_empty()
        })
        .await;
        let history = self.observer.history();
        let said = history.verdict().unwrap_or_else(|broken| panic!("the observer saw: {broken}"));
        // Past the test harness, which would keep it to itself: `cargo xtask test` adds these up.
        let _ = writeln!(std::io::stdout(), "{said}");
    }
}

/// In-process instead of over loopback: simulated time does not wait for sockets.
fn transport(
    cloud: Service,
) -> impl Fn(Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, TransportError>> {
    move |request| {
        let cloud = cloud.clone();
        async move { cloud.answer(request).await.map_err(|error| TransportError(error.to_string())) }.boxed()
    }
}

/// Lets simulated time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Lets simulated time pass until something holds; within an hour it must.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    for _ in 0..3600 {
        if holds().await {
            return;
        }
        pass(1).await;
    }
    panic!("an hour has passed before {what}");
}
