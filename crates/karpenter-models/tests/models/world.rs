//! A cluster in this process on simulated time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::serde::Serialize;
use karpenter_apiserver::{ApiServer, Options};
use karpenter_environment::SimulatedEnvironment;
use karpenter_models::{Models, ModelsConfig};
use karpenter_runtime::Runtime;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::objects::{merge, read};

/// An API server with the models running on it.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
}

impl World {
    /// Starts the models; call it inside a paused tokio runtime.
    pub(crate) fn start(config: ModelsConfig) -> Self {
        Self::seeded(7, config)
    }

    pub(crate) fn seeded(seed: u64, config: ModelsConfig) -> Self {
        let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let environment = Arc::new(SimulatedEnvironment::new(seed, start));
        let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
        let client = Client::new(server.clone(), "default");
        let mut runtime = Runtime::new(client.clone(), environment);
        Models::new(config).add_to(&mut runtime);
        let collector = server.clone();
        tokio::spawn(async move { collector.run_collector().await });
        tokio::spawn(runtime.run(std::future::pending()));
        Self { server, client }
    }

    /// Lets simulated time pass.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn cluster_api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Creates an object of namespace `default`.
    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Serialize
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.api::<K>().create(&PostParams::default(), &read(object)).await.unwrap()
    }

    /// Merges a patch into an object of namespace `default`.
    pub(crate) async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    pub(crate) async fn get<K>(&self, name: &str) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.api::<K>().get(name).await.unwrap()
    }

    /// Creates a node with 4 cpus, 16 GiB and room for 10 pods.
    pub(crate) async fn add_node(&self, name: &str, zone: &str, extra: Value) {
        let mut node = json!({
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone,
            }},
            "status": {
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "10"},
                "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "10"},
            },
        });
        merge(&mut node, extra);
        self.cluster_api::<Node>().create(&PostParams::default(), &read(node)).await.unwrap();
    }

    /// Creates a pod that asks for some cpu.
    pub(crate) async fn add_pod(&self, name: &str, cpu: &str, extra: Value) {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]},
        });
        merge(&mut pod, extra);
        self.create::<Pod>(pod).await;
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.unwrap().items
    }

    /// Returns the pods as lines: name, phase, readiness and node, in the order of names.
    pub(crate) async fn pod_lines(&self) -> Vec<String> {
        self.pods().await.iter().map(pod_line).collect()
    }

    pub(crate) async fn ready_pods(&self) -> usize {
        self.pods().await.iter().filter(|pod| is_ready(pod)).count()
    }
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(crate) fn pod_line(pod: &Pod) -> String {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("-");
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("-");
    let ready = if is_ready(pod) { "ready" } else { "unready" };
    let going = if pod.metadata.deletion_timestamp.is_some() { " going" } else { "" };
    format!("{} {phase} {ready} {node}{going}", pod.metadata.name.as_deref().unwrap_or_default())
}
