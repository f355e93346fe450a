//! A cluster in this process whose kubelets and scheduler are played by the test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_controllers::{Computing, Exporter, Exposure, Karpenter};
use karpenter_environment::{Environment, SimulatedEnvironment};
use karpenter_kwok::{KWOKNodeClass, Kwok, definition, generated_instance_types};
use karpenter_runtime::Runtime;
use karpenter_simcloud::{Market, Plenty, SimulatedCloud};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::observer::Observer;
use crate::provider::Double;

/// Every world is observed: when it ends, the observer says whether disruption kept to the rules.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) server: ApiServer,
    pub(crate) environment: Arc<SimulatedEnvironment>,
    /// What the test has the cloud say.
    pub(crate) cloud: Arc<crate::provider::Said>,
    pub(crate) observer: Option<Observer>,
    exporter: Mutex<Option<Exporter>>,
}

impl World {
    /// An empty cluster with Karpenter's definitions, a NodeClass and a NodePool.
    pub(crate) async fn new() -> Self {
        let environment =
            Arc::new(SimulatedEnvironment::new(1, "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap()));
        let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
        let client = Client::new(server.clone(), "default");
        let collector = server.clone();
        tokio::spawn(async move { collector.run_collector().await });
        let mut world = Self {
            client,
            server,
            environment,
            cloud: Arc::default(),
            observer: None,
            exporter: Mutex::default(),
        };
        let mut definitions = karpenter_api::crds(&LabelRules::default());
        definitions.push(definition());
        for crd in definitions {
            Api::all(world.client.clone()).create(&PostParams::default(), &crd).await.unwrap();
        }
        let class: KWOKNodeClass = serde_json::from_value(
            json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": "20s"}}),
        )
        .unwrap();
        Api::all(world.client.clone()).create(&PostParams::default(), &class).await.unwrap();
        let environment: Arc<dyn Environment> = world.environment.clone();
        world.observer = Some(Observer::begin(&world.client, &environment));
        world.create_pool("general").await;
        world
    }

    pub(crate) async fn create_pool(&self, name: &str) {
        self.create_pool_with(name, json!({})).await;
    }

    /// A pool with more in its `spec` than others have.
    pub(crate) async fn create_pool_with(&self, name: &str, spec: Value) {
        let mut pool: Value = json!({
            "metadata": {"name": name},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
                "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}],
            }}},
        });
        for (key, value) in spec.as_object().unwrap() {
            pool["spec"][key] = value.clone();
        }
        let pool: NodePool = serde_json::from_value(pool).unwrap();
        self.pools().create(&PostParams::default(), &pool).await.unwrap();
    }

    /// What kubelets do about nodes that have joined since.
    pub(crate) async fn make_new_nodes_ready(&self) {
        for node in self.list_nodes().await {
            let ready = node.status.as_ref().and_then(|status| status.conditions.as_ref()).is_some();
            if !ready {
                self.make_ready(node.metadata.name.as_deref().unwrap()).await;
            }
        }
    }

    /// The sum, rounded up, of the series of a metric whose labels include these, as `name="value"`.
    pub(crate) fn scraped(&self, metric: &str, labels: &[&str]) -> u64 {
        let text = self.exporter.lock().unwrap().as_ref().expect("Karpenter runs").text();
        let samples = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, pairs) = series.split_once('{').unwrap_or((series, ""));
            (name == metric && labels.iter().all(|label| pairs.contains(label)))
                .then(|| value.parse::<f64>().unwrap())
        });
        samples.sum::<f64>().ceil() as u64
    }

    /// A PodDisruptionBudget that lets no pod of the namespace go.
    pub(crate) async fn protect_everything(&self) {
        let budget: PodDisruptionBudget = serde_json::from_value(json!({
            "metadata": {"name": "all"},
            "spec": {"maxUnavailable": 0, "selector": {}},
        }))
        .unwrap();
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), "default");
        let created = budgets.create(&PostParams::default(), &budget).await.unwrap();
        let status = json!({"status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": created.metadata.generation}});
        let patch = Patch::Merge(status);
        budgets.patch_status("all", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Annotates a pool.
    pub(crate) async fn annotate_pool(&self, pool: &str, annotations: Value) {
        self.change_pool(pool, json!({"metadata": {"annotations": annotations}})).await;
    }

    /// The events with this reason.
    pub(crate) async fn events(&self, reason: &str) -> Vec<Event> {
        let events: Api<Event> = Api::all(self.client.clone());
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.into_iter().filter(|event| event.reason.as_deref() == Some(reason)).collect()
    }

    /// Their texts.
    pub(crate) async fn told(&self, reason: &str) -> Vec<String> {
        self.events(reason).await.into_iter().filter_map(|event| event.message).collect()
    }

    /// Starts Karpenter; it runs until the handle is aborted.
    pub(crate) fn start(&self) -> tokio::task::JoinHandle<()> {
        self.start_on(Arc::new(Plenty))
    }

    /// Starts Karpenter on a cloud with moods, given as JSON.
    pub(crate) fn start_on_cloud(&self, description: Value) -> tokio::task::JoinHandle<()> {
        let description = serde_json::from_value(description).unwrap();
        self.start_on(Arc::new(SimulatedCloud::new(description, 1, self.environment.now())))
    }

    fn start_on(&self, market: Arc<dyn Market>) -> tokio::task::JoinHandle<()> {
        self.start_as(market, |karpenter| karpenter)
    }

    /// Starts Karpenter, set up as the test likes.
    pub(crate) fn start_with(
        &self,
        set_up: impl FnOnce(Karpenter) -> Karpenter,
    ) -> tokio::task::JoinHandle<()> {
        self.start_as(Arc::new(Plenty), set_up)
    }

    fn start_as(
        &self,
        market: Arc<dyn Market>,
        set_up: impl FnOnce(Karpenter) -> Karpenter,
    ) -> tokio::task::JoinHandle<()> {
        let kwok = Kwok::new(
            self.client.clone(),
            self.environment.clone(),
            market,
            generated_instance_types(),
            Vec::new(),
        );
        let provider = Arc::new(Double { kwok: kwok.clone(), said: self.cloud.clone() });
        let karpenter = set_up(Karpenter { computing: Computing::InPlace, ..Karpenter::new(provider) });
        let mut runtime = Runtime::new(self.client.clone(), self.environment.clone());
        let state = karpenter.install::<KWOKNodeClass>(&mut runtime);
        let environment: Arc<dyn Environment> = self.environment.clone();
        let (metrics, provider) = (&karpenter.metrics, &*karpenter.provider);
        let exporter = Exporter::new(metrics, &state, provider, &environment, ("", ""), Exposure::default());
        *self.exporter.lock().unwrap() = Some(exporter);
        tokio::spawn(async move {
            kwok.resume().await.unwrap();
            runtime.run(std::future::pending()).await;
        })
    }

    /// A pod that the scheduler has given up on.
    pub(crate) async fn create_pending_pod(&self, name: &str, cpu: &str) {
        self.create_new_pod(name, cpu).await;
        self.give_up_on(name).await;
    }

    /// A pod its scheduler has yet to look at.
    pub(crate) async fn create_new_pod(&self, name: &str, cpu: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]},
        }))
        .unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// What the scheduler says of a pod it finds no node for.
    pub(crate) async fn give_up_on(&self, name: &str) {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        self.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// What the scheduler does once there is a node.
    pub(crate) async fn bind(&self, pod: &str, node: &str) {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
        let body = serde_json::to_vec(&binding).unwrap();
        let request = Self::pods_request("binding", pod, body);
        let _: Value = self.client.request(request).await.unwrap();
    }

    /// A pod that runs on a node.
    pub(crate) async fn create_bound_pod(&self, name: &str, cpu: &str, node: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]},
        }))
        .unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
        self.bind(name, node).await;
        let status = json!({"status": {"phase": "Running", "startTime": self.environment.now().to_string()}});
        let patch = Patch::Merge(status);
        self.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    fn pods_request(subresource: &str, pod: &str, body: Vec<u8>) -> http::Request<Vec<u8>> {
        let uri = format!("/api/v1/namespaces/default/pods/{pod}/{subresource}");
        http::Request::post(uri).header("content-type", "application/json").body(body).unwrap()
    }

    /// What a kubelet does once it runs.
    pub(crate) async fn make_ready(&self, node: &str) {
        let condition = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        self.nodes().patch_status(node, &PatchParams::default(), &patch).await.unwrap();
        let taints = Patch::Merge(json!({"spec": {"taints": null}}));
        self.nodes().patch(node, &PatchParams::default(), &taints).await.unwrap();
    }

    /// A node that is ready and has another condition as well.
    pub(crate) async fn set_condition(&self, node: &str, type_: &str, status: &str) {
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "Test", "lastTransitionTime": self.environment.now().to_string()});
        let ready = (type_ != "Ready").then(|| condition("Ready", "True"));
        let conditions: Vec<Value> = ready.into_iter().chain([condition(type_, status)]).collect();
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        self.nodes().patch_status(node, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn annotate_node(&self, node: &str, key: &str, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        self.nodes().patch(node, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.client.clone())
    }

    pub(crate) fn pools(&self) -> Api<NodePool> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn set_disruption(&self, pool: &str, disruption: Value) {
        self.change_pool(pool, json!({"spec": {"disruption": disruption}})).await;
    }

    pub(crate) async fn change_pool(&self, pool: &str, change: Value) {
        self.pools().patch(pool, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    /// Has the pool buy at list price only: spot nodes are not replaced by spot nodes.
    pub(crate) async fn buy_on_demand(&self, pool: &str) {
        let requirement =
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]});
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"requirements": [requirement]}}}}));
        self.pools().patch(pool, &PatchParams::default(), &patch).await.unwrap();
    }

    /// From now on machines take this long from their launch until their node appears.
    pub(crate) async fn set_boot_time(&self, delay: &str) {
        let patch = Patch::Merge(json!({"spec": {"nodeRegistrationDelay": delay}}));
        let classes: Api<KWOKNodeClass> = Api::all(self.client.clone());
        classes.patch("default", &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn list_claims(&self) -> Vec<NodeClaim> {
        self.claims().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn list_nodes(&self) -> Vec<Node> {
        self.nodes().list(&ListParams::default()).await.unwrap().items
    }
}

pub(crate) fn condition(claim: &NodeClaim, type_: &str) -> String {
    let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .find(|found| found.type_ == type_)
        .map_or("absent".to_owned(), |found| found.status.clone())
}

/// Why a condition of a claim is as it is.
pub(crate) fn reason(claim: &NodeClaim, type_: &str) -> String {
    let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut found = conditions.into_iter().filter(|found| found.type_ == type_);
    found.next().map_or("absent".to_owned(), |found| found.reason.clone())
}

/// Lets simulated time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
