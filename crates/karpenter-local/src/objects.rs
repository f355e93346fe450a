//! What a local cluster begins with: Karpenter's definitions, a NodeClass and NodePools.

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::{LabelRules, NodePool, Provider};
use karpenter_kwok::KWOKNodeClass;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const MANAGER: &str = "karpenter-local";

/// Which NodePools a new cluster gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pools {
    /// One named default, for anything.
    Default,
    /// The three of the demo.
    Demo,
}

/// Installs the definitions, and NodeClass and NodePools where a cluster has none.
///
/// # Errors
///
/// If the API server refuses one of them.
pub async fn install(client: &Client, boot_time: &str, pools: Pools) -> anyhow::Result<()> {
    let mut definitions = karpenter_api::crds(&LabelRules::for_providers(&[Provider::Kwok]));
    definitions.push(karpenter_kwok::definition());
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition.meta().name.clone().unwrap_or_default();
        let apply = PatchParams::apply(MANAGER).force();
        let body = Patch::Apply(serde_json::to_value(&definition)?);
        api.patch(&name, &apply, &body).await.with_context(|| format!("installing the definition {name}"))?;
    }
    let class = json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": boot_time}});
    create_first::<KWOKNodeClass>(client, vec![class]).await.context("creating the KWOKNodeClass")?;
    let pools = match pools {
        Pools::Default => vec![default_pool()],
        Pools::Demo => vec![airflow_worker(), trino_xsmall(), jupyterhub_small()],
    };
    create_first::<NodePool>(client, pools).await.context("creating the NodePools")
}

/// Creates objects unless there is one of their kind.
async fn create_first<K>(client: &Client, objects: Vec<Value>) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    if !api.list(&ListParams::default().limit(1)).await?.items.is_empty() {
        return Ok(());
    }
    for object in objects {
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    Ok(())
}

fn default_pool() -> Value {
    let requirements = json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
    ]);
    json!({
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"nodeClassRef": node_class(), "requirements": requirements}}},
    })
}

/// For Airflow's tasks: they come in waves, and an empty node goes after two minutes.
fn airflow_worker() -> Value {
    let mut pool = pool("airflow-worker", "arm64", &["s"]);
    pool["spec"]["template"]["spec"]["expireAfter"] = json!("720h");
    pool["spec"]["disruption"] = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "2m"});
    pool["spec"]["limits"] = json!({"cpu": "2000", "memory": "8000Gi"});
    pool
}

/// For Trino's coordinator and workers: much memory.
fn trino_xsmall() -> Value {
    let mut pool = pool("trino-xsmall", "arm64", &["m"]);
    pool["spec"]["weight"] = json!(50);
    pool["spec"]["disruption"] =
        json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5m"});
    pool["spec"]["limits"] = json!({"cpu": "1000", "memory": "4000Gi"});
    pool
}

/// For notebooks: one small pod for each user.
fn jupyterhub_small() -> Value {
    let mut pool = pool("jupyterhub-small", "amd64", &["c", "s"]);
    let sizes = json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8"]});
    if let Some(requirements) = pool["spec"]["template"]["spec"]["requirements"].as_array_mut() {
        requirements.push(sizes);
    }
    pool["spec"]["disruption"] =
        json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5m"});
    pool["spec"]["limits"] = json!({"cpu": "1600", "memory": "16000Gi"});
    pool
}

/// A pool whose taint, named as the pool, keeps everybody else away.
fn pool(name: &str, arch: &str, families: &[&str]) -> Value {
    let requirements = json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": [arch]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        {"key": "karpenter.kwok.sh/instance-family", "operator": "In", "values": families},
    ]);
    json!({
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "nodeClassRef": node_class(),
            "taints": [{"key": name, "effect": "NoSchedule"}],
            "requirements": requirements,
        }}},
    })
}

fn node_class() -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
}
