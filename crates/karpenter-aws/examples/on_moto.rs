//! One life of a machine with an account that somebody else simulates: `on_moto IMAGE`, where the environment names the account.
//!
//! A cluster's API and Karpenter run in this process; AWS is wherever `AWS_ENDPOINT_URL` points. Prints what it has seen, a line each: the
//! account, the instance profile, the machine, its end. Whoever reads these lines plays the rest of the world: it sends the warning that
//! ends the machine. `cargo xtask aws-moto` runs it on moto.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::options::{AWS_OPTIONS, AwsOptions, FeatureGates, OPTIONS, Source};
use karpenter_api::{LabelRules, NodeClaim, NodePool, Provider};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_aws::{Aws, EC2NodeClass, definition};
use karpenter_aws_client::{Client, Config, HttpTransport, Variables};
use karpenter_controllers::Karpenter;
use karpenter_environment::{Environment, SystemEnvironment};
use karpenter_runtime::Runtime;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The cluster, its queue and the tag of its subnets.
const NAME: &str = "on-moto";
const PATIENCE: Duration = Duration::from_mins(1);
const PACE: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<()> {
    let image = std::env::args().nth(1).context("say which image machines run")?;
    let kube = cluster().await?;
    let wire = wire().await?;
    let caller = wire.sts().caller_identity().await?;
    println!("account {}", caller.account);
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let provider = connect(&kube, wire, &environment).await?;
    let mut runtime = Runtime::new(kube.clone(), environment);
    Karpenter::new(Arc::new(provider.clone())).install::<EC2NodeClass>(&mut runtime);
    provider.install(&mut runtime);
    tokio::spawn(runtime.run(std::future::pending()));
    live(&kube, &image).await
}

/// An API server with Karpenter's definitions.
async fn cluster() -> Result<kube::Client> {
    let server = ApiServer::new(Options { environment: Arc::new(SystemEnvironment), ..Options::default() });
    let collector = server.clone();
    tokio::spawn(async move { collector.run_collector().await });
    let kube = kube::Client::new(server, "default");
    let rules = LabelRules::for_providers(&[Provider::Aws]);
    for crd in karpenter_api::crds(&rules).into_iter().chain([definition()]) {
        Api::all(kube.clone()).create(&PostParams::default(), &crd).await?;
    }
    Ok(kube)
}

/// A client with everything found as the program finds it.
async fn wire() -> Result<Client> {
    let variables = Variables::of_process();
    let transport = Arc::new(HttpTransport::new(None)?);
    let config = Config::load(&variables, &*transport).await?;
    Ok(Client::new(config, transport, Arc::new(SystemEnvironment)))
}

async fn connect(kube: &kube::Client, wire: Client, environment: &Arc<dyn Environment>) -> Result<Aws> {
    let flags = [
        format!("--cluster-name={NAME}"),
        format!("--interruption-queue={NAME}"),
        "--eks-control-plane=true".to_owned(),
    ];
    let options = AwsOptions::read(&mut Source::new(&flags, &|_| None, &[OPTIONS, AWS_OPTIONS])?)?;
    let gates = (FeatureGates::default(), false);
    let trust = Some("Y2E=".to_owned());
    Ok(Aws::connect(kube.clone(), wire, options, gates, trust, Arc::clone(environment)).await?)
}

/// From an EC2NodeClass to a node, and back to nothing.
async fn live(kube: &kube::Client, image: &str) -> Result<()> {
    create_objects(kube, image).await?;
    let class: EC2NodeClass = until(kube, "the class is ready", is_ready).await?;
    let profile = class.status.and_then(|status| status.instance_profile).unwrap_or_default();
    println!("profile {profile}");
    create_pod(kube).await?;
    let launched =
        |claim: &NodeClaim| claim.status.as_ref().is_some_and(|status| status.provider_id.is_some());
    let claim = until(kube, "a machine is launched", launched).await?;
    join(kube, &claim).await?;
    let tagged = |claim: &NodeClaim| {
        claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key("karpenter.k8s.aws/tagged"))
    };
    let claim = until(kube, "the machine is tagged with its node's name", tagged).await?;
    let id = claim.status.and_then(|status| status.provider_id).unwrap_or_default();
    println!("machine {}", id.rsplit('/').next().unwrap_or_default());
    // Nobody wants another one.
    Api::<Pod>::namespaced(kube.clone(), "default").delete("waiting", &DeleteParams::default()).await?;
    none::<NodeClaim>(kube, "the machine has been warned, and is gone").await?;
    println!("ended");
    Api::<NodePool>::all(kube.clone()).delete("general", &DeleteParams::default()).await?;
    Api::<EC2NodeClass>::all(kube.clone()).delete("default", &DeleteParams::default()).await?;
    none::<EC2NodeClass>(kube, "the class has cleaned up after itself").await?;
    println!("done");
    Ok(())
}

async fn create_objects(kube: &kube::Client, image: &str) -> Result<()> {
    let tags = json!([{"tags": {"karpenter.sh/discovery": NAME}}]);
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "amiFamily": "AL2023", "amiSelectorTerms": [{"id": image}], "role": "nodes",
            "subnetSelectorTerms": tags, "securityGroupSelectorTerms": tags, "tags": {"team": "web"},
        },
    });
    create::<EC2NodeClass>(Api::all(kube.clone()), class).await?;
    let requirements = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"]},
    ]);
    let pool = json!({"metadata": {"name": "general"}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": requirements,
    }}}});
    create::<NodePool>(Api::all(kube.clone()), pool).await
}

/// A pod that the scheduler has given up on.
async fn create_pod(kube: &kube::Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(kube.clone(), "default");
    let container = json!({"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}});
    create(pods.clone(), json!({"metadata": {"name": "waiting"}, "spec": {"containers": [container]}}))
        .await?;
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    pods.patch_status("waiting", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// What the machine's kubelet does.
async fn join(kube: &kube::Client, claim: &NodeClaim) -> Result<()> {
    let status = claim.status.clone().unwrap_or_default();
    let node = json!({
        "metadata": {"name": "ip-10-0-0-1", "labels": claim.metadata.labels},
        "spec": {
            "providerID": status.provider_id,
            "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
        },
        "status": {
            "capacity": status.capacity, "allocatable": status.allocatable,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    });
    create::<Node>(Api::all(kube.clone()), node).await
}

async fn create<K>(api: Api<K>, object: Value) -> Result<()>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

fn is_ready(class: &EC2NodeClass) -> bool {
    let conditions = class.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|found| found.type_ == "Ready" && found.status == "True")
}

/// Waits for an object that is as it should be.
async fn until<K>(kube: &kube::Client, what: &str, is: impl Fn(&K) -> bool) -> Result<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let began = tokio::time::Instant::now();
    loop {
        let all = Api::<K>::all(kube.clone()).list(&ListParams::default()).await?.items;
        match all.iter().find(|object| is(object)) {
            Some(found) => return Ok(found.clone()),
            None if began.elapsed() > PATIENCE => {
                bail!(
                    "{PATIENCE:?} have passed and it is not so that {what}: {}",
                    serde_json::to_string(&all)?
                )
            }
            None => tokio::time::sleep(PACE).await,
        }
    }
}

/// Waits until there is no object left.
async fn none<K>(kube: &kube::Client, what: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let began = tokio::time::Instant::now();
    loop {
        let left = Api::<K>::all(kube.clone()).list(&ListParams::default()).await?.items;
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            bail!("{PATIENCE:?} have passed and it is not so that {what}: {}", serde_json::to_string(&left)?);
        }
        tokio::time::sleep(PACE).await;
    }
}
