//! The cluster as scenarios see it: objects to create, things to wait for.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_kwok::KWOKNodeClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::controller::{Controller, Program};

/// How often the API is asked while something is waited for.
const LOOK: Duration = Duration::from_millis(200);
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A cluster and the program that runs on it.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) program: Program,
    pub(crate) kubeconfig: PathBuf,
}

impl Cluster {
    pub(crate) async fn connect(kubeconfig: &Path, program: Program) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).context("reading the kubeconfig")?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Self { client: Client::try_from(config)?, program, kubeconfig: kubeconfig.to_owned() })
    }

    /// Everything of one kind, in namespace default where kinds have namespaces.
    pub(crate) fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn budgets(&self) -> Api<PodDisruptionBudget> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Removes what a scenario leaves behind. No controller runs, so finalizers are taken off by hand.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        self.budgets().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        self.deployments().delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        if self.has_definitions().await? {
            self.remove_all::<NodePool>().await?;
            self.remove_all::<NodeClaim>().await?;
            self.remove_all::<KWOKNodeClass>().await?;
        }
        self.remove_all::<Node>().await?;
        eventually("the last pods are gone", || async {
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            self.pods().delete_collection(&now, &ListParams::default()).await?;
            Ok(self.pods().list(&ListParams::default()).await?.items.is_empty())
        })
        .await
    }

    async fn remove_all<K>(&self) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = self.all::<K>();
        eventually(&format!("the last {} is gone", K::kind(&())), || async {
            let objects = api.list(&ListParams::default()).await?.items;
            for object in &objects {
                let name = object.meta().name.clone().unwrap_or_default();
                let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                tolerate_missing(api.patch(&name, &PatchParams::default(), &patch).await.map(drop))?;
                tolerate_missing(api.delete(&name, &DeleteParams::default()).await.map(drop))?;
            }
            Ok(objects.is_empty())
        })
        .await
    }

    async fn has_definitions(&self) -> anyhow::Result<bool> {
        let definitions = self.all::<CustomResourceDefinition>();
        Ok(definitions.get_opt("nodeclaims.karpenter.sh").await?.is_some())
    }

    /// Installs what `karpenter crds` prints.
    pub(crate) async fn install_definitions(&self) -> anyhow::Result<()> {
        self.install(&[self.program.crds().await?]).await
    }

    /// Installs the definitions of some texts.
    pub(crate) async fn install(&self, texts: &[String]) -> anyhow::Result<()> {
        let definitions = self.all::<CustomResourceDefinition>();
        for document in texts.iter().flat_map(|text| text.split("\n---\n")) {
            let object: Value = kube_yaml(document)?;
            let Some(name) = object["metadata"]["name"].as_str() else { continue };
            let apply = PatchParams::apply("karpenter-e2e").force();
            definitions.patch(name, &apply, &Patch::Apply(&object)).await?;
            eventually("the definition is established", || async {
                let found = definitions.get(name).await?;
                let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
                Ok(conditions.iter().any(|found| found.type_ == "Established" && found.status == "True"))
            })
            .await?;
        }
        Ok(())
    }

    /// A NodeClass whose machines take a while, and a NodePool that sells 2 to 16 cores.
    pub(crate) async fn create_pool(&self, boot_time: &str) -> anyhow::Result<()> {
        self.create_class("default", boot_time).await?;
        self.create::<NodePool>(pool()).await
    }

    pub(crate) async fn create_class(&self, name: &str, boot_time: &str) -> anyhow::Result<()> {
        let class = json!({"metadata": {"name": name}, "spec": {"nodeRegistrationDelay": boot_time}});
        self.create::<KWOKNodeClass>(class).await
    }

    pub(crate) async fn create<K>(&self, object: Value) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
    {
        let kind = K::kind(&());
        let object: K = serde_json::from_value(object).with_context(|| format!("writing a {kind}"))?;
        let created = self.all::<K>().create(&PostParams::default(), &object).await;
        created.map(drop).with_context(|| format!("creating a {kind}"))
    }

    /// A Deployment of pods that ask for this much cpu.
    pub(crate) async fn deploy(&self, name: &str, replicas: u32, cpu: &str) -> anyhow::Result<()> {
        self.deploy_with(name, replicas, cpu, json!({})).await
    }

    /// As [`Cluster::deploy`], with further fields of the pods' spec.
    pub(crate) async fn deploy_with(
        &self,
        name: &str,
        replicas: u32,
        cpu: &str,
        fields: Value,
    ) -> anyhow::Result<()> {
        let requests = json!({"cpu": cpu, "memory": "64Mi"});
        let mut spec = json!({
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
        });
        if let (Some(spec), Some(fields)) = (spec.as_object_mut(), fields.as_object()) {
            spec.extend(fields.clone());
        }
        let labels = json!({"app": name});
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }))?;
        self.deployments()
            .create(&PostParams::default(), &deployment)
            .await
            .context("creating a Deployment")?;
        Ok(())
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.deployments().patch_scale(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub(crate) async fn claims(&self) -> anyhow::Result<Vec<NodeClaim>> {
        Ok(self.all::<NodeClaim>().list(&ListParams::default()).await?.items)
    }

    pub(crate) async fn nodes(&self) -> anyhow::Result<Vec<Node>> {
        Ok(self.all::<Node>().list(&ListParams::default()).await?.items)
    }

    /// Waits until this many pods run and none waits.
    pub(crate) async fn pods_run(&self, count: usize) -> anyhow::Result<()> {
        eventually(&format!("{count} pods run"), || async {
            let pods = self.pods().list(&ListParams::default()).await?.items;
            let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
            let running = pods.iter().filter(|pod| phase(pod).as_deref() == Some("Running")).count();
            Ok(running == count && pods.len() == count)
        })
        .await
    }

    /// Waits until no machine is left.
    pub(crate) async fn machines_are_gone(&self) -> anyhow::Result<()> {
        eventually("the last machine is gone", || async {
            Ok(self.claims().await?.is_empty() && self.nodes().await?.is_empty())
        })
        .await
    }

    /// Starts a controller and waits until it is ready.
    pub(crate) async fn start(&self) -> anyhow::Result<Controller> {
        let controller = self.program.start()?;
        eventually("the controller is ready", || async { Ok(controller.is_ready().await) })
            .await
            .map_err(|error| anyhow::anyhow!("{error}; its log: {}", controller.log()))?;
        Ok(controller)
    }
}

/// A NodePool that sells 2 to 16 cores and gives empty nodes back at once.
pub(crate) fn pool() -> Value {
    json!({
        "metadata": {"name": "default"},
        "spec": {
            "disruption": {
                "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}],
            },
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8", "16"]},
                ],
            }},
        },
    })
}

/// The status of a condition of a NodeClaim.
pub(crate) fn condition(claim: &NodeClaim, type_: &str) -> String {
    let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let found = conditions.into_iter().find(|found| found.type_ == type_);
    found.map_or_else(|| "absent".to_owned(), |found| found.status.clone())
}

/// Asks again and again until the answer is yes.
pub(crate) async fn eventually<F>(what: &str, mut ask: impl FnMut() -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<bool>>,
{
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut last = None;
    while tokio::time::Instant::now() < deadline {
        match ask().await {
            Ok(true) => return Ok(()),
            Ok(false) => last = None,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(LOOK).await;
    }
    match last {
        Some(error) => Err(error.context(format!("waiting until {what}"))),
        None => bail!("it never came about that {what}"),
    }
}

fn tolerate_missing(answer: kube::Result<()>) -> kube::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => answer,
    }
}

/// YAML as kubectl would read it.
fn kube_yaml(text: &str) -> anyhow::Result<Value> {
    serde_saphyr::from_str(text).context("reading a definition")
}
