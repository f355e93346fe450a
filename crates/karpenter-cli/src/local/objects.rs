//! What a local cluster begins with: Karpenter's definitions, a NodeClass and a NodePool.

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::{LabelRules, NodePool, Provider};
use karpenter_kwok::KWOKNodeClass;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const MANAGER: &str = "karpenter-local";

/// Installs the definitions, and the default objects where a cluster has none of their kind.
pub(super) async fn install(client: &Client, boot_time: &str) -> anyhow::Result<()> {
    let mut definitions = karpenter_api::crds(&LabelRules::for_providers(&[Provider::Kwok]));
    definitions.push(karpenter_kwok::definition());
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition.meta().name.clone().unwrap_or_default();
        let apply = PatchParams::apply(MANAGER).force();
        let body = Patch::Apply(serde_json::to_value(&definition)?);
        api.patch(&name, &apply, &body).await.with_context(|| format!("installing the definition {name}"))?;
    }
    create_first::<KWOKNodeClass>(
        client,
        json!({
            "metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": boot_time},
        }),
    )
    .await
    .context("creating the KWOKNodeClass default")?;
    create_first::<NodePool>(
        client,
        json!({
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                ],
            }}},
        }),
    )
    .await
    .context("creating the NodePool default")
}

/// Creates an object unless there is one of its kind.
async fn create_first<K>(client: &Client, object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    if api.list(&kube::api::ListParams::default().limit(1)).await?.items.is_empty() {
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    Ok(())
}
