//! What a local cluster begins with: Karpenter's definitions, a NodeClass and NodePools.

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_alibabacloud::node_class::container_service::ECSNodeClass;
use karpenter_api::{LabelRules, NodePool, Provider};
use karpenter_aws::EC2NodeClass;
use karpenter_kwok::KWOKNodeClass;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::accounts::CLUSTER_NAME;

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
pub async fn install(
    client: &Client,
    provider: Provider,
    boot_time: &str,
    pools: Pools,
) -> anyhow::Result<()> {
    let mut definitions = karpenter_api::crds(&LabelRules::for_providers(&[provider]));
    match provider {
        Provider::Kwok => definitions.push(karpenter_kwok::definition()),
        Provider::Aws => definitions.push(karpenter_aws::definition()),
        Provider::AlibabaCloud => definitions.extend(karpenter_alibabacloud::node_class::definitions()),
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition.meta().name.clone().unwrap_or_default();
        let apply = PatchParams::apply(MANAGER).force();
        let body = Patch::Apply(serde_json::to_value(&definition)?);
        api.patch(&name, &apply, &body).await.with_context(|| format!("installing the definition {name}"))?;
    }
    match provider {
        Provider::Kwok => {
            let class =
                json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": boot_time}});
            create_first::<KWOKNodeClass>(client, vec![class]).await.context("creating the KWOKNodeClass")?;
        }
        Provider::Aws => {
            let classes = vec![ec2_node_class()];
            create_first::<EC2NodeClass>(client, classes).await.context("creating the EC2NodeClass")?;
        }
        Provider::AlibabaCloud => {
            let classes = vec![ecs_node_class()];
            create_first::<ECSNodeClass>(client, classes).await.context("creating the ECSNodeClass")?;
        }
    }
    let families = Families::of(provider);
    let pools = match pools {
        Pools::Default => vec![families.default_pool()],
        Pools::Demo => {
            vec![families.airflow_worker(), families.trino_xsmall(), families.jupyterhub_small()]
        }
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

/// The NodeClass of the simulated AWS account.
fn ec2_node_class() -> Value {
    let ours = json!([{"tags": {"karpenter.sh/discovery": CLUSTER_NAME}}]);
    let volume =
        json!({"volumeSize": "100Gi", "volumeType": "gp3", "encrypted": true, "deleteOnTermination": true});
    json!({
        "metadata": {"name": "default"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": format!("{CLUSTER_NAME}-karpenter-node-role"),
            "subnetSelectorTerms": ours,
            "securityGroupSelectorTerms": ours,
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": volume}],
        },
    })
}

/// The NodeClass of the simulated region of Alibaba Cloud.
fn ecs_node_class() -> Value {
    let ours = json!([{"tags": {"karpenter.sh/discovery": CLUSTER_NAME}}]);
    json!({
        "metadata": {"name": "default"},
        "spec": {
            "vSwitchSelectorTerms": ours,
            "securityGroupSelectorTerms": ours,
            "imageSelectorTerms": [{"imageFamily": "acs:alibaba_cloud_linux_3_2104_lts_x64"}],
            "systemDisk": {"category": "cloud_essd", "size": 100},
        },
    })
}

/// A provider's machines, as far as the demo is particular about them.
struct Families {
    node_class: Value,
    /// The label of a machine's family.
    family: &'static str,
    /// Families for Airflow, Trino and notebooks, and the architecture of each.
    airflow: (&'static [&'static str], &'static str),
    trino: (&'static [&'static str], &'static str),
    notebooks: (&'static [&'static str], &'static str),
    /// The label of a machine's cores.
    cpu: &'static str,
}

impl Families {
    fn of(provider: Provider) -> Self {
        let class = |group: &str, kind: &str| json!({"group": group, "kind": kind, "name": "default"});
        match provider {
            Provider::Kwok => Self {
                node_class: class("karpenter.kwok.sh", "KWOKNodeClass"),
                family: "karpenter.kwok.sh/instance-family",
                airflow: (&["s"], "arm64"),
                trino: (&["m"], "arm64"),
                notebooks: (&["c", "s"], "amd64"),
                cpu: "karpenter.kwok.sh/instance-cpu",
            },
            Provider::Aws => Self {
                node_class: class("karpenter.k8s.aws", "EC2NodeClass"),
                family: "karpenter.k8s.aws/instance-family",
                airflow: (&["m7g"], "arm64"),
                trino: (&["r8g"], "arm64"),
                notebooks: (&["t3"], "amd64"),
                cpu: "karpenter.k8s.aws/instance-cpu",
            },
            Provider::AlibabaCloud => Self {
                node_class: class("karpenter.alibabacloud.com", "ECSNodeClass"),
                family: "karpenter.alibabacloud.com/instance-family",
                airflow: (&["ecs.g7"], "amd64"),
                trino: (&["ecs.r7"], "amd64"),
                notebooks: (&["ecs.t6"], "amd64"),
                cpu: "karpenter.alibabacloud.com/instance-cpu",
            },
        }
    }

    fn default_pool(&self) -> Value {
        let requirements = json!([
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        ]);
        json!({
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"nodeClassRef": self.node_class, "requirements": requirements}}},
        })
    }

    /// For Airflow's tasks: they come in waves, and an empty node goes after two minutes.
    fn airflow_worker(&self) -> Value {
        let mut pool = self.pool("airflow-worker", self.airflow);
        pool["spec"]["template"]["spec"]["expireAfter"] = json!("720h");
        pool["spec"]["disruption"] = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "2m"});
        pool["spec"]["limits"] = json!({"cpu": "2000", "memory": "8000Gi"});
        pool
    }

    /// For Trino's coordinator and workers: much memory.
    fn trino_xsmall(&self) -> Value {
        let mut pool = self.pool("trino-xsmall", self.trino);
        pool["spec"]["weight"] = json!(50);
        pool["spec"]["disruption"] =
            json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5m"});
        pool["spec"]["limits"] = json!({"cpu": "1000", "memory": "4000Gi"});
        pool
    }

    /// For notebooks: one small pod for each user.
    fn jupyterhub_small(&self) -> Value {
        let mut pool = self.pool("jupyterhub-small", self.notebooks);
        let sizes = json!({"key": self.cpu, "operator": "In", "values": ["2", "4", "8"]});
        if let Some(requirements) = pool["spec"]["template"]["spec"]["requirements"].as_array_mut() {
            requirements.push(sizes);
        }
        pool["spec"]["disruption"] =
            json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5m"});
        pool["spec"]["limits"] = json!({"cpu": "1600", "memory": "16000Gi"});
        pool
    }

    /// A pool whose taint, named as the pool, keeps everybody else away.
    fn pool(&self, name: &str, (families, arch): (&[&str], &str)) -> Value {
        let requirements = json!([
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": [arch]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
            {"key": self.family, "operator": "In", "values": families},
        ]);
        json!({
            "metadata": {"name": name},
            "spec": {"template": {"spec": {
                "nodeClassRef": self.node_class,
                "taints": [{"key": name, "effect": "NoSchedule"}],
                "requirements": requirements,
            }}},
        })
    }
}
