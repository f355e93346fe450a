//! The cluster that objects are applied to.

use kube::api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;

use super::{ApplyPlan, Live, identity};

/// Who manages the fields we apply.
const MANAGER: &str = "karpenter-kops";
const POOL_LABEL: &str = "karpenter.sh/nodepool";

/// Kinds that Karpenter v0.x had, with their plurals.
const LEGACY: [(&str, &str, &str, &str); 3] = [
    ("karpenter.sh", "v1alpha5", "Provisioner", "provisioners"),
    ("karpenter.sh", "v1alpha5", "Machine", "machines"),
    ("karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate", "awsnodetemplates"),
];

/// A cluster that could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The definitions are not installed.
    #[error(
        "the cluster knows no {0}: install the CRDs first (karpenter crds | kubectl apply --server-side -f -)"
    )]
    NoDefinition(String),
    /// The API server said no, or did not answer.
    #[error("{action} failed: {reason}")]
    Failed {
        /// What was tried.
        action: String,
        /// What the server said.
        reason: String,
    },
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is new.
    Created,
    /// It was changed.
    Configured,
    /// It was as it should be.
    Unchanged,
    /// It is gone, or goes when its nodes are gone.
    Pruned,
}

/// A client of a cluster.
#[derive(Clone)]
pub struct LiveCluster {
    client: Client,
}

impl LiveCluster {
    /// The cluster of this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The cluster of the kubeconfig, or the one whose pod this is.
    ///
    /// # Errors
    ///
    /// There is none.
    pub async fn connect() -> Result<Self, ApplyError> {
        let client = Client::try_default().await.map_err(|error| ApplyError::Failed {
            action: "finding a cluster (KUBECONFIG, ~/.kube/config, or a pod's service account)".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { client })
    }

    /// Looks at everything that matters for a plan.
    ///
    /// # Errors
    ///
    /// The cluster does not answer, or lacks the definitions.
    pub async fn look(&self) -> Result<Live, ApplyError> {
        let mut live = Live::default();
        for (group, kind, plural) in [
            ("karpenter.k8s.aws", "EC2NodeClass", "ec2nodeclasses"),
            ("karpenter.sh", "NodePool", "nodepools"),
        ] {
            let listed = self.list((group, "v1", kind, plural), "").await?;
            live.objects.extend(listed.ok_or_else(|| ApplyError::NoDefinition(kind.to_owned()))?);
        }
        for node in self.list(("", "v1", "Node", "nodes"), POOL_LABEL).await?.unwrap_or_default() {
            let pool = node["metadata"]["labels"][POOL_LABEL].as_str().unwrap_or_default();
            live.nodes.entry(pool.to_owned()).or_default().push(identity(&node).1.to_owned());
        }
        for kind in LEGACY {
            let objects = self.list(kind, "").await?.unwrap_or_default();
            live.legacy.extend(objects.iter().map(|object| format!("{}/{}", kind.2, identity(object).1)));
        }
        Ok(live)
    }

    /// Objects of a kind; `None` when the cluster does not know it.
    async fn list(
        &self,
        (group, version, kind, plural): (&str, &str, &str, &str),
        selector: &str,
    ) -> Result<Option<Vec<Value>>, ApplyError> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        match api.list(&ListParams::default().labels(selector)).await {
            Ok(list) => Ok(Some(list.items.into_iter().map(|object| json(object, kind)).collect())),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(failed(format!("listing {plural}"), &error)),
        }
    }

    /// What each object of a plan would be after it was applied. Nothing is changed; what the server refuses shows here.
    ///
    /// # Errors
    ///
    /// The server refuses an object.
    pub async fn preview(&self, plan: &ApplyPlan) -> Result<Vec<Value>, ApplyError> {
        let mut results = Vec::new();
        for object in &plan.apply {
            results.push(self.patch(object, &PatchParams::apply(MANAGER).force().dry_run()).await?);
        }
        Ok(results)
    }

    /// Applies and prunes. Every object is tried before the first one is changed.
    ///
    /// # Errors
    ///
    /// The server refuses an object: then nothing was changed, unless it changed its mind between trial and deed.
    pub async fn carry_out(
        &self,
        plan: &ApplyPlan,
        live: &Live,
    ) -> Result<Vec<((String, String), Outcome)>, ApplyError> {
        self.preview(plan).await?;
        let mut outcomes = Vec::new();
        for object in &plan.apply {
            let applied = self.patch(object, &PatchParams::apply(MANAGER).force()).await?;
            let before = live.objects.iter().find(|before| identity(before) == identity(object));
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            let outcome = match before {
                None => Outcome::Created,
                Some(before) if version(before) == version(&applied) => Outcome::Unchanged,
                Some(_) => Outcome::Configured,
            };
            outcomes.push((owned(identity(object)), outcome));
        }
        for prune in &plan.prune {
            self.delete(&prune.object).await?;
            outcomes.push((owned(identity(&prune.object)), Outcome::Pruned));
        }
        Ok(outcomes)
    }

    async fn patch(&self, object: &Value, parameters: &PatchParams) -> Result<Value, ApplyError> {
        let (kind, name) = identity(object);
        let applied = self.api(kind).patch(name, parameters, &Patch::Apply(object)).await;
        applied
            .map(|object| json(object, kind))
            .map_err(|error| failed(format!("applying {kind} {name}"), &error))
    }

    /// Removes an object if it is still the one that was looked at.
    async fn delete(&self, object: &Value) -> Result<(), ApplyError> {
        let (kind, name) = identity(object);
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let preconditions = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let deleted = self.api(kind).delete(name, &parameters).await;
        let is_gone = matches!(&deleted, Err(kube::Error::Api(status)) if status.code == 404);
        match deleted {
            Err(error) if !is_gone => Err(failed(format!("removing {kind} {name}"), &error)),
            _ => Ok(()),
        }
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, plural) = if kind == "NodePool" {
            ("karpenter.sh", "nodepools")
        } else {
            ("karpenter.k8s.aws", "ec2nodeclasses")
        };
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
        Api::all_with(self.client.clone(), &resource)
    }
}

fn owned((kind, name): (&str, &str)) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

/// Objects of a list do not say their kind.
fn json(object: DynamicObject, kind: &str) -> Value {
    let mut value = serde_json::to_value(object).expect("an API object is JSON");
    value["kind"] = Value::from(kind);
    value
}

fn failed(action: String, error: &kube::Error) -> ApplyError {
    let reason = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    ApplyError::Failed { action, reason }
}
