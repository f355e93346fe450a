//! One of the two clusters that are compared: what it is given and what its scheduler says.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::hearing::{Hearing, Verdict, name_of, node_of};

/// How long between looks at something that is about to be so.
const GLANCE: Duration = Duration::from_millis(20);

/// Anything that goes wrong besides a difference.
pub(crate) type Trouble = Box<dyn Error + Send + Sync>;

/// One of the two clusters.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    pub(crate) hearing: Hearing,
}

impl Side {
    /// Starts to follow a cluster.
    pub(crate) fn new(name: &'static str, client: Client) -> Self {
        Self { name, hearing: Hearing::start(client.clone()), client }
    }

    /// Creates everything a cluster has before its pods come.
    pub(crate) async fn set_up(&self, cluster: &Cluster) -> Result<(), Trouble> {
        for object in crate::cluster::priority_classes() {
            // They outlive clusters.
            if let Err(error) = self.create_global::<PriorityClass>(&object).await
                && !error.to_string().contains("already exists")
            {
                return Err(error);
            }
        }
        for object in &cluster.namespaces {
            self.create_global::<Namespace>(object).await?;
        }
        for object in &cluster.storage_classes {
            self.create_global::<StorageClass>(object).await?;
        }
        for object in &cluster.nodes {
            self.create_global::<Node>(object).await?;
            // The API server taints new nodes until somebody finds them ready.
            let taints = json!({"spec": {"taints": object["spec"]["taints"]}});
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let nodes: Api<Node> = Api::all(self.client.clone());
            nodes.patch(name, &PatchParams::default(), &Patch::Merge(taints)).await?;
        }
        for object in &cluster.csi_nodes {
            self.create_global::<CSINode>(object).await?;
        }
        for object in &cluster.claim_objects {
            self.create::<PersistentVolumeClaim>(object).await?;
        }
        for object in &cluster.volumes {
            self.create_global::<PersistentVolume>(object).await?;
        }
        for object in &cluster.budgets {
            self.create::<PodDisruptionBudget>(object).await?;
            let api = self.api::<PodDisruptionBudget>(object);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let status = Patch::Merge(json!({"status": object["status"]}));
            api.patch_status(name, &PatchParams::default(), &status).await?;
        }
        self.settle(cluster).await
    }

    /// Waits until volumes and claims that belong together have found each other.
    async fn settle(&self, cluster: &Cluster) -> Result<(), Trouble> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &cluster.name);
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.client.clone(), &format!("{}-other", cluster.name));
        let prefix = format!("{}-v", cluster.name);
        loop {
            let list = volumes.list(&ListParams::default()).await?;
            let own = list
                .items
                .iter()
                .filter(|volume| volume.metadata.name.as_ref().is_some_and(|name| name.starts_with(&prefix)));
            let mut are_settled = accounts.get_opt("default").await?.is_some();
            for volume in own {
                let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
                let has_claim = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some());
                are_settled &= phase == Some(if has_claim { "Bound" } else { "Available" });
            }
            for claim in claims.list(&ListParams::default()).await?.items {
                let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
                let exists =
                    |name: &str| list.items.iter().any(|held| held.metadata.name.as_deref() == Some(name));
                let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
                are_settled &= volume.is_none_or(|name| !exists(name) || phase == Some("Bound"));
            }
            if are_settled {
                return Ok(());
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Creates a pod and waits for what the scheduler says.
    pub(crate) async fn ask(&self, pod: &Value) -> Result<Verdict, Trouble> {
        self.create::<Pod>(pod).await?;
        Ok(self.hearing.of(&name_in(pod), false).await)
    }

    /// Opens a pod's gates and waits for what the scheduler says.
    pub(crate) async fn open(&self, pod: &Value) -> Result<Verdict, Trouble> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let patch = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
        self.api::<Pod>(pod).patch(name, &PatchParams::default(), &patch).await?;
        Ok(self.hearing.of(&name_in(pod), true).await)
    }

    /// Removes a pod at once.
    pub(crate) async fn remove(&self, pod: &Value) -> Result<(), Trouble> {
        self.delete(pod, &DeleteParams::default().grace_period(0)).await?;
        self.hearing.of_end(&name_in(pod)).await;
        Ok(())
    }

    /// Asks a pod to go; without a kubelet it stays and is on its way out.
    pub(crate) async fn begin_removal(&self, pod: &Value) -> Result<(), Trouble> {
        self.delete(pod, &DeleteParams::default().grace_period(600)).await
    }

    async fn delete(&self, pod: &Value, how: &DeleteParams) -> Result<(), Trouble> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        match self.api::<Pod>(pod).delete(name, how).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Removes nodes and pods.
    pub(crate) async fn clear(&self) -> Result<(), Trouble> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        for pod in pods.list(&ListParams::default()).await?.items {
            self.remove(&serde_json::to_value(&pod)?).await?;
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        Ok(())
    }

    /// Says when a pod started, as its kubelet would.
    pub(crate) async fn start(&self, pod: &Value, time: &str) -> Result<(), Trouble> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let patch = Patch::Merge(json!({"status": {"startTime": time}}));
        self.api::<Pod>(pod).patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Returns all pods.
    pub(crate) async fn pods(&self) -> Result<Vec<Pod>, Trouble> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        Ok(pods.list(&ListParams::default()).await?.items)
    }

    /// Returns all pods with their nodes.
    pub(crate) async fn placements(&self) -> Result<BTreeMap<String, String>, Trouble> {
        let pods = self.pods().await?;
        Ok(pods.iter().map(|pod| (name_of(pod), node_of(pod).unwrap_or_default())).collect())
    }

    pub(crate) async fn create<K>(&self, object: &Value) -> Result<(), Trouble>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Serialize
            + Clone
            + Debug,
    {
        let typed: K = serde_json::from_value(object.clone())?;
        let created = self.api::<K>(object).create(&PostParams::default(), &typed).await;
        created.map(drop).map_err(|error| format!("{}: {error} creating {object}", self.name).into())
    }

    async fn create_global<K>(&self, object: &Value) -> Result<(), Trouble>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + DeserializeOwned
            + Serialize
            + Clone
            + Debug,
    {
        let typed: K = serde_json::from_value(object.clone())?;
        let created = Api::<K>::all(self.client.clone()).create(&PostParams::default(), &typed).await;
        created.map(drop).map_err(|error| format!("{}: {error} creating {object}", self.name).into())
    }

    pub(crate) fn api<K>(&self, object: &Value) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), object["metadata"]["namespace"].as_str().unwrap_or_default())
    }
}

/// Returns the namespace and name of a pod as the hearing knows it.
pub(crate) fn name_in(pod: &Value) -> String {
    let part = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    format!("{}/{}", part("namespace"), part("name"))
}
