//! A cluster and an AWS account in this process, in simulated time. Kubelets follow from what machines were told when they booted. The
//! test plays the scheduler, unless [`World::run_machinery`] has the models of a cluster do it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use karpenter_api::options::{AWS_OPTIONS, AwsOptions, FeatureGate, FeatureGates, OPTIONS, Source};
use karpenter_api::{LabelRules, NodeClaim, NodePool, Provider};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_aws::{Aws, EC2NodeClass, StartError, definition};
use karpenter_aws_client::{Client, Config, TransportError, Variables};
use karpenter_controllers::{Computing, Exporter, Exposure, Karpenter};
use karpenter_environment::{Environment, SimulatedEnvironment};
use karpenter_models::config::EventDetail;
use karpenter_models::{Models, ModelsConfig};
use karpenter_runtime::Runtime;
use karpenter_simcloud::{Boot, MachineEvent, Market, Watcher};
use karpenter_simcloud_aws::{Description, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How the queue is named that EC2 leaves its messages in.
pub(crate) const QUEUE: &[&str] = &["--interruption-queue=local"];

pub(crate) struct World {
    pub(crate) kube: kube::Client,
    pub(crate) environment: Arc<SimulatedEnvironment>,
    pub(crate) cloud: Service,
    exporter: Mutex<Option<Exporter>>,
    gates: FeatureGates,
}

/// Hears what happens to machines.
struct Ear(mpsc::UnboundedSender<MachineEvent>);

impl Watcher for Ear {
    fn happened(&self, event: MachineEvent) {
        // Nobody listens once the test has ended.
        let _ = self.0.send(event);
    }
}

impl World {
    pub(crate) async fn new(market: Arc<dyn Market>) -> Self {
        Self::described(Description::default(), market).await
    }

    /// A cluster in an account that is not as usual.
    pub(crate) async fn described(description: Description, market: Arc<dyn Market>) -> Self {
        let start = "2026-12-01T00:00:00Z".parse().unwrap();
        let environment = Arc::new(SimulatedEnvironment::new(7, start));
        let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
        let collector = server.clone();
        tokio::spawn(async move { collector.run_collector().await });
        let kube = kube::Client::new(server, "default");
        let rules = LabelRules::for_providers(&[Provider::Aws]);
        for crd in karpenter_api::crds(&rules).into_iter().chain([definition()]) {
            Api::all(kube.clone()).create(&PostParams::default(), &crd).await.unwrap();
        }
        let (ear, heard) = mpsc::unbounded_channel();
        let cloud = Service::new(description, market, Arc::new(Ear(ear)), environment.clone());
        let running = cloud.clone();
        tokio::spawn(async move { running.run().await });
        tokio::spawn(play_kubelets(kube.clone(), heard));
        Self { kube, environment, cloud, exporter: Mutex::default(), gates: FeatureGates::default() }
    }

    /// Turns a feature on, as `--feature-gates` does.
    #[must_use]
    pub(crate) fn with(mut self, gate: FeatureGate) -> Self {
        self.gates.set(gate, true);
        self
    }

    /// Runs what every cluster has: a scheduler, kubelets and the controllers of workloads.
    pub(crate) fn run_machinery(&self) {
        let mut machinery = Runtime::new(self.kube.clone(), self.environment.clone());
        let config = ModelsConfig { events: EventDetail::Silent, ..ModelsConfig::default() };
        Models::new(config).add_to(&mut machinery);
        tokio::spawn(machinery.run(std::future::pending()));
    }

    /// Connects a provider as the program does.
    pub(crate) async fn connect(&self, flags: &[&str]) -> Result<Aws, StartError> {
        let mut args: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        args.push("--cluster-name=local".to_owned());
        args.push("--eks-control-plane=true".to_owned());
        let mut source = Source::new(&args, &|_| None, &[OPTIONS, AWS_OPTIONS]).unwrap();
        let options = AwsOptions::read(&mut source).unwrap();
        let environment: Arc<dyn Environment> = self.environment.clone();
        let gates = (self.gates, false);
        let aws = self.client().await;
        Aws::connect(self.kube.clone(), aws, options, gates, Some("Y2E=".to_owned()), environment).await
    }

    /// Somebody else in the account.
    pub(crate) async fn client(&self) -> Client {
        let cloud = self.cloud.clone();
        let transport = move |request| -> BoxFuture<'static, Result<_, TransportError>> {
            let cloud = cloud.clone();
            async move { cloud.handle(request).await.map_err(|error| TransportError(error.to_string())) }
                .boxed()
        };
        let variables = Variables::from_iter([
            ("AWS_REGION", "us-west-2"),
            ("AWS_ACCESS_KEY_ID", "AKIASIMULATED0000001"),
            ("AWS_SECRET_ACCESS_KEY", "simulated-secret"),
        ]);
        let config = Config::load(&variables, &transport).await.unwrap();
        Client::new(config, Arc::new(transport), self.environment.clone())
    }

    /// Starts Karpenter.
    pub(crate) async fn start(&self, flags: &[&str]) -> JoinHandle<()> {
        self.start_with(&self.connect(flags).await.unwrap())
    }

    /// Starts Karpenter on a provider that somebody else asks as well.
    pub(crate) fn start_with(&self, aws: &Aws) -> JoinHandle<()> {
        self.start_as(aws, |karpenter| karpenter)
    }

    /// The same, set up as the test likes.
    pub(crate) fn start_as(&self, aws: &Aws, set_up: impl FnOnce(Karpenter) -> Karpenter) -> JoinHandle<()> {
        let provider = Arc::new(aws.clone());
        let karpenter = set_up(Karpenter {
            computing: Computing::InPlace,
            gates: self.gates,
            ..Karpenter::new(provider)
        });
        let mut runtime = Runtime::new(self.kube.clone(), self.environment.clone());
        let state = karpenter.install::<EC2NodeClass>(&mut runtime);
        aws.install(&mut runtime);
        let environment: Arc<dyn Environment> = self.environment.clone();
        let (metrics, provider) = (&karpenter.metrics, &*karpenter.provider);
        let exporter = Exporter::new(metrics, &state, provider, &environment, ("", ""), Exposure::default());
        *self.exporter.lock().unwrap() = Some(exporter);
        tokio::spawn(runtime.run(std::future::pending()))
    }

    /// What a scrape shows.
    pub(crate) fn exposition(&self) -> String {
        self.exporter.lock().unwrap().as_ref().expect("Karpenter runs").text()
    }

    /// The value of a series.
    pub(crate) fn scraped(&self, series: &str) -> f64 {
        let text = self.exposition();
        let line = text.lines().find(|line| line.starts_with(series));
        line.and_then(|line| line.rsplit_once(' ')).map_or(0.0, |(_, value)| value.parse().unwrap())
    }

    /// A class and a pool.
    pub(crate) async fn create_pool(&self, class: &Value, requirements: &Value) {
        self.create_class(class).await;
        self.create_named_pool("general", &json!({}), requirements).await;
    }

    /// The class `default`, with changes to what is usual; a field that is null is left out.
    pub(crate) async fn create_class(&self, changes: &Value) {
        let mut spec = json!({
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "local"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
            "role": "KarpenterNodeRole-local",
        });
        for (name, value) in changes.as_object().unwrap() {
            spec[name] = value.clone();
        }
        spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": spec,
        });
        let class: EC2NodeClass = serde_json::from_value(class).unwrap();
        self.classes().create(&PostParams::default(), &class).await.unwrap();
    }

    /// Changes the class `default`.
    pub(crate) async fn change_class(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.classes().patch("default", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Status and message of a condition of the class `default`.
    pub(crate) async fn class_condition(&self, type_: &str) -> (String, String) {
        let status = self.classes().get("default").await.unwrap().status.unwrap_or_default();
        let found = status.conditions.into_iter().flatten().find(|found| found.type_ == type_);
        found.map_or_else(|| ("absent".to_owned(), String::new()), |found| (found.status, found.message))
    }

    /// A pool of the class `default`; `spec` is merged into what is usual.
    pub(crate) async fn create_named_pool(&self, name: &str, spec: &Value, requirements: &Value) {
        let mut pool = json!({
            "metadata": {"name": name},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": requirements,
            }}},
        });
        for (name, value) in spec.as_object().unwrap() {
            pool["spec"][name] = value.clone();
        }
        let pool: NodePool = serde_json::from_value(pool).unwrap();
        self.pools().create(&PostParams::default(), &pool).await.unwrap();
    }

    /// Pods that come back when they are deleted; `spec` is added to theirs.
    pub(crate) async fn deploy(&self, name: &str, replicas: usize, requests: &Value, spec: &Value) {
        let mut pod = json!({"containers": [
            {"name": "main", "image": "app", "resources": {"requests": requests, "limits": limits(requests)}},
        ]});
        for (name, value) in spec.as_object().unwrap() {
            pod[name] = value.clone();
        }
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            },
        }))
        .unwrap();
        let deployments: Api<Deployment> = Api::namespaced(self.kube.clone(), "default");
        deployments.create(&PostParams::default(), &deployment).await.unwrap();
    }

    /// Asks for so many pods of a deployment.
    pub(crate) async fn scale(&self, name: &str, replicas: usize) {
        let deployments: Api<Deployment> = Api::namespaced(self.kube.clone(), "default");
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The nodes that the running pods of a deployment are on.
    pub(crate) async fn nodes_of(&self, app: &str) -> Vec<Node> {
        let pods = self.pods().list(&ListParams::default().labels(&format!("app={app}"))).await.unwrap();
        let running = pods.items.into_iter().filter(|pod| {
            pod.metadata.deletion_timestamp.is_none()
                && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
        });
        let names: Vec<String> = running.filter_map(|pod| pod.spec.and_then(|spec| spec.node_name)).collect();
        let nodes = self.nodes().await;
        let node =
            |name: &String| nodes.iter().find(|node| node.metadata.name.as_ref() == Some(name)).cloned();
        names.iter().filter_map(node).collect()
    }

    /// A pod that the scheduler has given up on.
    pub(crate) async fn create_pending_pod(&self, name: &str, cpu: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]},
        }))
        .unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        self.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// What the scheduler does once there is a node.
    pub(crate) async fn bind(&self, pod: &str, node: &str) {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
        let uri = format!("/api/v1/namespaces/default/pods/{pod}/binding");
        let request = http::Request::post(uri).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&binding).unwrap()).unwrap();
        let _: Value = self.kube.request(request).await.unwrap();
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(name, &now).await.unwrap();
    }

    pub(crate) fn classes(&self) -> Api<EC2NodeClass> {
        Api::all(self.kube.clone())
    }

    pub(crate) fn pools(&self) -> Api<NodePool> {
        Api::all(self.kube.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.kube.clone(), "default")
    }

    pub(crate) async fn claims(&self) -> Vec<NodeClaim> {
        Api::all(self.kube.clone()).list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn nodes(&self) -> Vec<Node> {
        Api::all(self.kube.clone()).list(&ListParams::default()).await.unwrap().items
    }

    /// The reasons of all events.
    pub(crate) async fn told(&self) -> Vec<String> {
        let events: Api<Event> = Api::all(self.kube.clone());
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.into_iter().filter_map(|event| event.reason).collect()
    }

    /// All events, and what pods wait for: to be told when a test fails.
    pub(crate) async fn story(&self) -> String {
        let events: Api<Event> = Api::all(self.kube.clone());
        let events = events.list(&ListParams::default()).await.unwrap().items.into_iter();
        let event = |event: Event| {
            let name = event.involved_object.name.unwrap_or_default();
            format!("{name}: {}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
        };
        let pods = self.pods().list(&ListParams::default()).await.unwrap().items;
        let waiting =
            pods.into_iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()));
        let waiting: Vec<String> = waiting.filter_map(|pod| pod.metadata.name).collect();
        let told: Vec<String> = events.map(event).collect();
        format!("waiting: {waiting:?}\n{}\n{:?}", told.join("\n"), self.cloud.records().counts())
    }

    /// Status of a condition of a claim.
    pub(crate) fn condition(claim: &NodeClaim, type_: &str) -> String {
        let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let found = conditions.into_iter().find(|found| found.type_ == type_);
        found.map_or("absent".to_owned(), |found| found.status.clone())
    }
}

/// Resources other than CPU and memory must be limited to what is requested.
fn limits(requests: &Value) -> Value {
    let own = |name: &str| matches!(name, "cpu" | "memory");
    let limits = requests.as_object().unwrap().iter().filter(|(name, _)| !own(name));
    limits.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The value of a label of a node, or nothing.
pub(crate) fn label<'n>(node: &'n Node, key: &str) -> &'n str {
    node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

/// Creates and deletes Nodes as kubelets and the cloud's controller do.
async fn play_kubelets(kube: kube::Client, mut heard: mpsc::UnboundedReceiver<MachineEvent>) {
    let nodes: Api<Node> = Api::all(kube);
    while let Some(event) = heard.recv().await {
        match event {
            MachineEvent::Booted(boot) => {
                nodes.create(&PostParams::default(), &node(&boot)).await.unwrap();
            }
            MachineEvent::Lost { provider_id, why } => panic!("{provider_id} never joins: {why}"),
            MachineEvent::Gone { node_name, .. } => {
                let _ = nodes.delete(&node_name, &DeleteParams::default()).await;
            }
        }
    }
}

fn node(boot: &Boot) -> Node {
    let taints: Vec<Value> = boot
        .taints
        .iter()
        .map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": boot.node_name, "labels": boot.labels},
        "spec": {"providerID": boot.provider_id, "taints": taints},
        "status": {
            "capacity": boot.capacity, "allocatable": boot.allocatable,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }))
    .unwrap()
}

/// Requirements that name ways to buy.
pub(crate) fn capacity_type(values: &[&str]) -> Value {
    json!([one_of("karpenter.sh/capacity-type", values)])
}

/// A requirement that names values.
pub(crate) fn one_of(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// Lets simulated time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// How many launches a storm has: few, unless `KARPENTER_TEST_STORM` says otherwise.
pub(crate) fn storm(few: usize) -> usize {
    std::env::var("KARPENTER_TEST_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(few)
}
