//! The rules that bind every InstanceGroup.

use std::collections::{BTreeMap, BTreeSet};

use crate::cloud::Answers;
use crate::field_error::FieldError;
use crate::model::{Cluster, InstanceGroup, KARPENTER};
use crate::wire::{UserData, WarmPool};

const ROLES: &[&str] =
    &["ControlPlane", "Node", "Bastion", "APIServer", "Etcd", "Scheduler", "KubeControllerManager"];
const TENANCIES: &[&str] = &["default", "dedicated", "host"];
const VOLUME_TYPES: &[&str] = &["standard", "gp3", "gp2", "io1", "io2"];
const USER_DATA_TYPES: &[&str] = &[
    "text/x-include-once-url",
    "text/x-include-url",
    "text/cloud-config-archive",
    "text/upstart-job",
    "text/cloud-config",
    "text/part-handler",
    "text/x-shellscript",
    "text/cloud-boothook",
];
const GROUP_LABEL: &str = "kops.k8s.io/instancegroup";

/// What can be said of a group by itself.
pub(super) fn errors(group: &InstanceGroup) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if group.name.is_empty() {
        errors.push(FieldError::required("objectMeta.name", "the group needs a name"));
    }
    errors.extend(role_errors(group));
    if !group.tenancy.is_empty() {
        errors.extend(FieldError::unsupported("spec.tenancy", &group.tenancy, TENANCIES));
    }
    if let (Some(min), Some(max)) = (group.min_size, group.max_size)
        && max < min
    {
        errors.push(FieldError::forbidden(
            "spec.maxSize",
            "maxSize is below minSize: raise it or lower minSize",
        ));
    }
    if group.gvisor && group.role != "Node" {
        errors
            .push(FieldError::forbidden("spec.containerd.gvisor", "gVisor runs only where the role is Node"));
    }
    let root_volume = group.root_volume.iter();
    for (field, value) in root_volume.flat_map(|root| [("iops", root.iops), ("throughput", root.throughput)])
    {
        if let Some(value) = value.filter(|value| *value < 0) {
            errors.push(FieldError::invalid(
                format!("spec.rootVolume.{field}"),
                value,
                "it cannot be negative",
            ));
        }
    }
    errors.extend(group.additional_user_data.iter().flat_map(user_data_errors));
    errors.extend(volume_errors(group));
    errors.extend(profile_error(group));
    for (index, parameter) in group.sysctl_parameters.iter().enumerate() {
        if !parameter.contains('=') {
            let path = format!("spec.sysctlParameters[{index}]");
            errors.push(FieldError::invalid(path, parameter.as_str(), "write it as name=value"));
        }
    }
    errors.extend(label_errors(group));
    if let Some(policy) = &group.update_policy {
        errors.extend(FieldError::unsupported("spec.updatePolicy", policy, &["automatic", "external"]));
    }
    errors.extend(taint_errors(&group.taints));
    errors
}

fn role_errors(group: &InstanceGroup) -> Vec<FieldError> {
    if group.role.is_empty() {
        return vec![FieldError::required("spec.role", "the group needs a role")];
    }
    let mut errors: Vec<FieldError> =
        FieldError::unsupported("spec.role", &group.role, ROLES).into_iter().collect();
    if group.role == "ControlPlane" {
        if group.subnets.is_empty() {
            errors.push(FieldError::required("spec.subnets", "a control plane needs a subnet"));
        }
        for (path, size) in [("spec.minSize", group.min_size), ("spec.maxSize", group.max_size)] {
            if let Some(size) = size.filter(|size| *size > 1) {
                let reason = "a group of the control plane has one node: add groups for more";
                errors.push(FieldError::invalid(path, size, reason));
            }
        }
    }
    errors
}

fn user_data_errors(data: &UserData) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, text) in [("name", &data.name), ("content", &data.content)] {
        if text.is_empty() {
            errors.push(FieldError::required(format!("additionalUserData.{field}"), "it cannot be empty"));
        }
    }
    errors.extend(FieldError::unsupported("additionalUserData.type", &data.kind, USER_DATA_TYPES));
    errors
}

fn volume_errors(group: &InstanceGroup) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, volume) in group.volumes.iter().enumerate() {
        if volume.device.is_empty() {
            errors.push(FieldError::required(format!("spec.volumes[{index}].device"), "name the device"));
        }
        if volume.size <= 0 {
            let path = format!("spec.volumes[{index}].size");
            errors.push(FieldError::invalid(path, volume.size, "it has to be above zero"));
        }
    }
    errors
}

fn profile_error(group: &InstanceGroup) -> Option<FieldError> {
    let profile = group.instance_profile.as_deref()?;
    let parts: Vec<&str> = profile.splitn(6, ':').collect();
    let is_profile = parts.len() == 6 && parts[0] == "arn" && parts[5].starts_with("instance-profile/");
    (!is_profile).then(|| {
        let reason =
            "give the ARN of an instance profile, such as arn:aws:iam::123456789012:instance-profile/nodes";
        FieldError::invalid("spec.iam.profile", profile, reason)
    })
}

fn label_errors(group: &InstanceGroup) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = group
        .node_labels
        .keys()
        .filter(|key| key.matches('/').count() > 1)
        .map(|key| FieldError::invalid("spec.nodeLabels", key.as_str(), "a label has one slash at most"))
        .collect();
    let mut labels = group.cloud_labels.clone();
    if let Some(value) = labels.remove(GROUP_LABEL)
        && value != group.name
    {
        let path = format!("spec.cloudLabels.{GROUP_LABEL}");
        errors.push(FieldError::invalid(path, GROUP_LABEL, "its value can only be the name of the group"));
    }
    errors.extend(reserved_cloud_labels(&labels));
    errors
}

/// Tags that are kOps' own.
pub(super) fn reserved_cloud_labels(labels: &BTreeMap<String, String>) -> Vec<FieldError> {
    let prefixes = ["kubernetes.io/cluster/", "k8s.io/role/", "kops.k8s.io/"];
    let is_reserved = |key: &&String| {
        ["Name", "KubernetesCluster"].contains(&key.as_str())
            || prefixes.iter().any(|prefix| key.starts_with(prefix))
    };
    let refused = |key| FieldError::forbidden(format!("spec.cloudLabels.{key}"), "kOps sets this tag itself");
    labels.keys().filter(is_reserved).map(refused).collect()
}

fn taint_errors(taints: &[String]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = format!("spec.taints[{index}]");
        if parse_taint(taint).is_none() {
            let reason = "write it as key, key:effect or key=value:effect";
            errors.push(FieldError::invalid(path.clone(), taint.as_str(), reason));
        }
        if !seen.insert(taint) {
            errors.push(FieldError::duplicate(path, taint));
        }
    }
    errors
}

/// A taint's key, value and effect; without a colon everything is key.
pub(crate) fn parse_taint(taint: &str) -> Option<(&str, &str, &str)> {
    let Some((identity, effect)) = taint.split_once(':') else {
        return Some((taint, "", ""));
    };
    let (key, value) = identity.split_once('=').unwrap_or((identity, ""));
    (!effect.contains(':') && !value.contains('=')).then_some((key, value, effect))
}

/// What needs the cluster to be known.
pub(super) fn errors_in_cluster(
    group: &InstanceGroup,
    cluster: &Cluster,
    answers: &Answers,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if group.image().is_empty() && answers.default_images.is_empty() && group.manager == KARPENTER {
        let reason = "the channel's image is not known here: name an image";
        errors.push(FieldError::forbidden("spec.image", reason));
    }
    if group.role == "APIServer" && cluster.has_no_dns {
        errors.push(FieldError::forbidden(
            "spec.role",
            "API servers of their own need DNS: topology.dns is None",
        ));
    }
    if group.role == "ControlPlane" {
        errors.extend(etcd_errors(group, cluster));
    }
    for (index, subnet) in group.subnets.iter().enumerate() {
        if !cluster.subnets.iter().any(|known| known.name == *subnet) {
            errors.push(FieldError::not_found(format!("spec.networking.subnets[{index}]"), subnet));
        }
    }
    if cluster.is_aws() {
        if let Some(kind) = group.root_volume.as_ref().and_then(|root| root.kind.as_deref()) {
            errors.extend(FieldError::unsupported("spec.rootVolume.type", kind, VOLUME_TYPES));
        }
        errors.extend(warm_pool_errors(group, cluster));
    }
    if !cluster.is_aws() && !group.volumes.is_empty() {
        errors.push(FieldError::forbidden("spec.volumes", "volumes of groups exist only on AWS"));
    }
    errors
}

fn etcd_errors(group: &InstanceGroup, cluster: &Cluster) -> Vec<FieldError> {
    let missing = cluster
        .etcd_clusters
        .iter()
        .filter(|etcd| !etcd.etcd_members.iter().any(|member| member.instance_group == group.name));
    let refused = |name: &str| {
        let reason =
            format!("group {:?} of the control plane has no member in etcd cluster {name:?}", group.name);
        FieldError::forbidden("spec.metadata.name", reason)
    };
    missing.map(|etcd| refused(&etcd.name)).collect()
}

fn warm_pool_errors(group: &InstanceGroup, cluster: &Cluster) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let pool = warm_pool(group, cluster);
    if pool.max_size != Some(0) {
        if !["Node", "APIServer"].contains(&group.role.as_str()) {
            let reason = "warm pools exist only for the roles Node and APIServer";
            errors.push(FieldError::forbidden("spec.warmPool", reason));
        }
        if group.max_price.is_some() {
            errors.push(FieldError::forbidden("spec.warmPool", "a warm pool cannot hold spot instances"));
        }
    }
    if let Some(max) = pool.max_size
        && (max < 0 || pool.min_size > max)
    {
        errors.push(FieldError::invalid("spec.warmPool.maxSize", max, "it is negative or below minSize"));
    }
    if pool.min_size < 0 {
        errors.push(FieldError::invalid("spec.warmPool.minSize", pool.min_size, "it cannot be negative"));
    }
    errors
}

/// The pool a group has: its own over the cluster's; without any it has the size zero.
fn warm_pool(group: &InstanceGroup, cluster: &Cluster) -> WarmPool {
    let takes_part = !["ControlPlane", "Bastion"].contains(&group.role.as_str());
    match (&group.warm_pool, cluster.warm_pool.as_ref().filter(|_| takes_part)) {
        (None, None) => WarmPool { min_size: 0, max_size: Some(0) },
        (None, Some(shared)) => shared.clone(),
        (Some(own), None) => own.clone(),
        (Some(own), Some(shared)) => WarmPool {
            min_size: if own.min_size == 0 { shared.min_size } else { own.min_size },
            max_size: own.max_size.or(shared.max_size),
        },
    }
}
