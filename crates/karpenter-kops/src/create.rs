//! The changes that put Karpenter into a cluster: a group of its own, and the switches in the cluster.
//!
//! A new cluster is written whole. In a cluster that exists, fields are set one by one; everything else, comments included,
//! stays as it is.

mod new_cluster;

use serde_json::{Value, json};

use crate::cloud::Answers;
use crate::edit::{self, EditError};
use crate::field_error::{FieldError, Kind};
use crate::model::{Inventory, ReadError};
use crate::store::Change;
use crate::validate::{Source, validate};
use crate::yaml::parse;

/// What is to be created.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// The cluster's name.
    pub cluster: String,
    /// The state store's URL, which a new cluster notes.
    pub state: String,
    /// The group's name.
    pub group: String,
    /// Zones of the group; of all workers when there are none.
    pub zones: Vec<String>,
    /// A fixed number of nodes; zero lets Karpenter decide.
    pub node_count: i32,
    /// Machine types.
    pub node_sizes: Vec<String>,
    /// The image of the machines.
    pub image: Option<String>,
    /// Root volume in GiB.
    pub node_volume_size: Option<i32>,
    /// Type of the root volume.
    pub node_volume_type: Option<String>,
    /// Where the cluster publishes the keys of its service accounts.
    pub discovery_store: Option<String>,
    /// For new clusters: the Kubernetes version.
    pub kubernetes_version: Option<String>,
    /// For new clusters: the network.
    pub networking: String,
    /// For new clusters: machine type of the control plane.
    pub control_plane_size: String,
    /// Further fields of the cluster, as path and value.
    pub set: Vec<(Vec<String>, Value)>,
    /// Now, RFC 3339.
    pub now: String,
}

/// Why nothing is created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Something is missing or does not fit.
    #[error("{0}")]
    Options(String),
    /// The cluster cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The cluster's text cannot be edited.
    #[error("cluster {0}: {1}")]
    Edit(String, EditError),
    /// The result would be refused.
    #[error("kOps would refuse the result: {0}")]
    Refused(String),
}

/// Lists the texts to write. `existing` are the cluster and its groups as they are stored, if there is a cluster.
///
/// # Errors
///
/// Options are missing, or the result would be refused.
pub fn create(existing: &[(String, String)], options: &CreateOptions) -> Result<Vec<Change>, CreateError> {
    let changes =
        if existing.is_empty() { new_cluster::changes(options)? } else { changes_to(existing, options)? };
    check(existing, &changes)?;
    Ok(changes)
}

/// The result has to be valid as far as that can be said without a cloud.
fn check(existing: &[(String, String)], changes: &[Change]) -> Result<(), CreateError> {
    let untouched = existing.iter().filter(|(path, _)| !changes.iter().any(|change| change.path == *path));
    let texts = untouched.map(|(path, text)| (path.as_str(), text.as_str()));
    let written = changes.iter().map(|change| (change.path.as_str(), change.after.as_str()));
    let inventory = Inventory::read(texts.chain(written))?;
    // Nobody was asked about images and machine types, so their errors say nothing. How an image is written can be judged.
    let needs_cloud = |error: &FieldError| match error.path.as_str() {
        "spec.image" => error.kind == Kind::Forbidden,
        path => path.ends_with("machineType") || path.ends_with("image") || path.contains("instances["),
    };
    for refusal in validate(&inventory, &Answers::default(), Source::Files) {
        let errors: Vec<String> =
            refusal.errors.iter().filter(|error| !needs_cloud(error)).map(ToString::to_string).collect();
        if let Some(reason) = refusal.plain.or_else(|| (!errors.is_empty()).then(|| errors.join(", "))) {
            return Err(CreateError::Refused(format!("{}: {reason}", refusal.object)));
        }
    }
    Ok(())
}

fn changes_to(existing: &[(String, String)], options: &CreateOptions) -> Result<Vec<Change>, CreateError> {
    let inventory = Inventory::read(existing.iter().map(|(path, text)| (path.as_str(), text.as_str())))?;
    if inventory.groups.iter().any(|group| group.name == options.group) {
        let reason =
            format!("InstanceGroup {:?} is there already: choose another name with --group", options.group);
        return Err(CreateError::Options(reason));
    }
    let image = match &options.image {
        Some(image) => image.clone(),
        None => workers_image(&inventory)
            .ok_or_else(|| CreateError::Options("give --image: no other group has one".to_owned()))?,
    };
    let subnets = subnets(&inventory, &options.zones)?;
    let group = group(options, &image, &subnets);
    let mut changes = cluster_change(existing, &inventory, options)?;
    changes.push(Change {
        path: format!("{}/instancegroup/{}", options.cluster, options.group),
        before: None,
        after: karpenter_api::yaml::to_yaml(&group),
    });
    Ok(changes)
}

/// The image that other workers have; a control plane's will do.
fn workers_image(inventory: &Inventory) -> Option<String> {
    let groups = inventory.by_name();
    let named = groups.iter().filter(|group| !group.image().is_empty());
    named.min_by_key(|group| group.role != "Node").map(|group| group.image().to_owned())
}

/// The cluster's subnets for workers in these zones.
fn subnets(inventory: &Inventory, zones: &[String]) -> Result<Vec<String>, CreateError> {
    let workers: Vec<_> =
        inventory.cluster.subnets.iter().filter(|subnet| subnet.kind != "Utility").collect();
    if let Some(zone) = zones.iter().find(|zone| !workers.iter().any(|subnet| subnet.zone == **zone)) {
        return Err(CreateError::Options(format!(
            "cluster {} has no subnet in zone {zone}",
            inventory.cluster.name
        )));
    }
    let is_wanted = |zone: &String| zones.is_empty() || zones.contains(zone);
    Ok(workers.iter().filter(|subnet| is_wanted(&subnet.zone)).map(|subnet| subnet.name.clone()).collect())
}

/// The switches of the cluster, each set only where it is not.
fn cluster_change(
    existing: &[(String, String)],
    inventory: &Inventory,
    options: &CreateOptions,
) -> Result<Vec<Change>, CreateError> {
    let failed = |error| CreateError::Edit(options.cluster.clone(), error);
    let is_cluster = |value: &Value| value["kind"] == "Cluster";
    let mut found = None;
    for (path, text) in existing {
        let documents = parse(text).map_err(|error| failed(error.into()))?;
        let index =
            documents.iter().position(|document| document.value().is_ok_and(|value| is_cluster(&value)));
        found = found.or(index.map(|index| (path, text, index)));
    }
    let (path, text, index) = found.ok_or(ReadError::NoCluster)?;
    let mut edited = text.clone();
    for (field, value) in settings(inventory, options)? {
        let field: Vec<&str> = field.iter().map(String::as_str).collect();
        edited = edit::set(&edited, index, &field, &value).map_err(failed)?;
    }
    if edited == *text {
        return Ok(Vec::new());
    }
    Ok(vec![Change { path: path.clone(), before: Some(text.clone()), after: edited }])
}

type Setting = (Vec<String>, Value);

fn settings(inventory: &Inventory, options: &CreateOptions) -> Result<Vec<Setting>, CreateError> {
    let cluster = &inventory.cluster;
    let field = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
    let mut settings = vec![(field("spec.karpenter.enabled"), json!(true))];
    let gates = cluster.karpenter.as_ref().map_or("", |karpenter| karpenter.feature_gates.as_str());
    if options.node_count > 0 && !crate::validate::has_static_capacity(cluster) {
        let gates = format!("{},StaticCapacity=true", gates.trim()).trim_start_matches(',').to_owned();
        settings.push((field("spec.karpenter.featureGates"), Value::from(gates)));
    }
    settings.push((field("spec.iam.useServiceAccountExternalPermissions"), json!(true)));
    let discovery = cluster.issuer_discovery.clone().unwrap_or_default();
    let has_discovery = !discovery.discovery_store.is_empty() || discovery.discovery_service.is_some();
    match &options.discovery_store {
        Some(store) if !has_discovery => {
            let path = format!("{}/{}", store.trim_end_matches('/'), cluster.name);
            settings.push((field("spec.serviceAccountIssuerDiscovery.discoveryStore"), Value::from(path)));
        }
        None if !has_discovery => return Err(discovery_store_missing()),
        _ => {}
    }
    settings.push((field("spec.serviceAccountIssuerDiscovery.enableAWSOIDCProvider"), json!(true)));
    settings.extend(options.set.clone());
    Ok(settings)
}

fn discovery_store_missing() -> CreateError {
    let reason = "Karpenter gets its permissions as a service account, and the cluster publishes the keys of none: give \
                  --discovery-store URL";
    CreateError::Options(reason.to_owned())
}

/// The group that Karpenter will manage.
fn group(options: &CreateOptions, image: &str, subnets: &[String]) -> Value {
    let mut spec = json!({
        "image": image,
        "manager": "Karpenter",
        "nodeLabels": {"kops.k8s.io/instancegroup": options.group},
        "role": "Node",
        "subnets": subnets,
    });
    if options.node_count > 0 {
        spec["minSize"] = options.node_count.into();
    }
    if let Some(first) = options.node_sizes.first() {
        spec["machineType"] = Value::from(first.as_str());
    }
    if options.node_sizes.len() > 1 {
        spec["mixedInstancesPolicy"] = json!({"instances": options.node_sizes});
    }
    if let Some(size) = options.node_volume_size {
        spec["rootVolumeSize"] = size.into();
    }
    if let Some(kind) = &options.node_volume_type {
        spec["rootVolumeType"] = Value::from(kind.as_str());
    }
    instance_group(options, &options.group, &spec)
}

fn instance_group(options: &CreateOptions, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "kops.k8s.io/v1alpha2",
        "kind": "InstanceGroup",
        "metadata": {
            "creationTimestamp": options.now,
            "labels": {"kops.k8s.io/cluster": options.cluster},
            "name": name,
        },
        "spec": spec,
    })
}
