//! `karpenter kops create`: Karpenter for a new cluster of kOps or for one that exists.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use karpenter_kops::{CreateOptions, StoreError, create, read_cluster, write_all};
use serde_json::Value;

use super::input::StoreArguments;

#[derive(Args, Debug)]
pub(crate) struct CreateArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Who makes the nodes
    #[arg(long, value_enum, default_value_t = InstanceManager::Karpenter)]
    instance_manager: InstanceManager,
    /// The InstanceGroup's name
    #[arg(long, value_name = "GROUP", default_value = "nodes")]
    group: String,
    /// Zones of the nodes; without them every zone of an existing cluster
    #[arg(long, value_name = "ZONES", value_delimiter = ',')]
    zones: Vec<String>,
    /// A fixed number of nodes; without it Karpenter decides
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    node_count: i32,
    /// Machine types; without them Karpenter chooses among all
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    node_size: Vec<String>,
    /// The image of the machines: ami-…, ssm:PARAMETER, NAME or OWNER/NAME
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Size of the root volume in GiB
    #[arg(long, value_name = "GIB")]
    node_volume_size: Option<i32>,
    /// Type of the root volume, such as gp3
    #[arg(long, value_name = "TYPE")]
    node_volume_type: Option<String>,
    /// Where the cluster publishes the keys of its service accounts, which Karpenter's permissions need
    #[arg(long, value_name = "URL", env = "KOPS_DISCOVERY_STORE")]
    discovery_store: Option<String>,
    /// Kubernetes version of a new cluster
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<String>,
    /// Network of a new cluster
    #[arg(long, value_name = "NAME", default_value = "cilium")]
    networking: String,
    /// Machine type of a new cluster's control plane
    #[arg(long, value_name = "TYPE", default_value = "t3.medium")]
    control_plane_size: String,
    /// Set a field of the cluster, such as spec.karpenter.logLevel=info; give the option again for more
    #[arg(long, value_name = "PATH=VALUE", value_parser = setting)]
    set: Vec<(Vec<String>, Value)>,
    /// Print the objects instead of writing them to the state store
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InstanceManager {
    /// Auto Scaling groups, which kops create cluster makes
    Cloudgroups,
    Karpenter,
}

/// A path and a value; what reads as a number or as true and false is one.
fn setting(text: &str) -> Result<(Vec<String>, Value), String> {
    let (path, value) = text.split_once('=').ok_or("write it as PATH=VALUE")?;
    let path = path.strip_prefix("cluster.").unwrap_or(path);
    if !path.starts_with("spec.") {
        return Err("the path begins with spec.".to_owned());
    }
    let value = match value.parse::<bool>() {
        Ok(value) => Value::from(value),
        Err(_) => value.parse::<i64>().map_or_else(|_| Value::from(value), Value::from),
    };
    Ok((path.split('.').map(str::to_owned).collect(), value))
}

pub(super) async fn run(arguments: &CreateArguments) -> anyhow::Result<ExitCode> {
    if arguments.instance_manager != InstanceManager::Karpenter {
        bail!("groups of the cloud are kOps' own: use kops create cluster");
    }
    let store = arguments.store.open().await?.context("give --state URL, or set KOPS_STATE_STORE")?;
    let name = arguments.store.name.as_deref().context("give --name CLUSTER")?;
    let existing = match read_cluster(store.as_ref(), name).await {
        Ok(stored) => stored.objects,
        Err(StoreError::Missing(..)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let changes = create(&existing, &options(arguments, name, store.url()))?;
    if arguments.dry_run {
        let documents: Vec<String> = changes.iter().map(|change| format!("---\n{}", change.after)).collect();
        return crate::print(documents.concat().as_bytes());
    }
    write_all(store.as_ref(), &changes).await?;
    let mut lines: Vec<String> = changes.iter().map(|change| format!("{}/{change}\n", store.url())).collect();
    lines.push(format!("next: kops update cluster --name {name} --yes\n"));
    crate::print(lines.concat().as_bytes())
}

fn options(arguments: &CreateArguments, name: &str, state: &str) -> CreateOptions {
    CreateOptions {
        cluster: name.to_owned(),
        state: state.to_owned(),
        group: arguments.group.clone(),
        zones: arguments.zones.clone(),
        node_count: arguments.node_count,
        node_sizes: arguments.node_size.clone(),
        image: arguments.image.clone(),
        node_volume_size: arguments.node_volume_size,
        node_volume_type: arguments.node_volume_type.clone(),
        discovery_store: arguments.discovery_store.clone(),
        kubernetes_version: arguments.kubernetes_version.clone(),
        networking: arguments.networking.clone(),
        control_plane_size: arguments.control_plane_size.clone(),
        set: arguments.set.clone(),
        now: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }
}
