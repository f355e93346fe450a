//! What a group is when defaults and the cluster's own settings are taken into account.

use std::collections::BTreeMap;

use crate::cloud::{Answers, Image};
use crate::model::{Cluster, InstanceGroup};
use crate::validate::image_of;
use crate::wire::{Kubelet, Subnet};

const NODE_ROLE_LABEL: &str = "node-role.kubernetes.io/node";
const GPU_TAINT: &str = "nvidia.com/gpu";

/// A group with everything that was left out.
pub(crate) struct CompleteGroup<'a> {
    pub(crate) spec: &'a InstanceGroup,
    pub(crate) cluster: &'a Cluster,
    /// How the image is named.
    pub(crate) image_name: String,
    pub(crate) image: &'a Image,
    /// The group's subnets; there is at least one, and all have one type.
    pub(crate) subnet_type: SubnetType,
    pub(crate) kubelet: Kubelet,
    /// Every label the nodes get, also those that a NodePool must not set.
    pub(crate) node_labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubnetType {
    /// Machines may have public addresses.
    Public,
    Private,
}

/// Completes a group.
pub(crate) fn complete<'a>(
    group: &'a InstanceGroup,
    cluster: &'a Cluster,
    answers: &'a Answers,
) -> Result<CompleteGroup<'a>, String> {
    let image = image_of(group, answers)?;
    if image.root_device_name.is_empty() {
        return Err(format!("image {} has no root device: the root volume cannot be mapped", image.id));
    }
    let has_gpu = has_gpu(group, cluster, answers)?;
    let mut taints = group.taints.clone();
    if has_gpu && !taints.iter().any(|taint| taint.starts_with(GPU_TAINT)) {
        taints.push(format!("{GPU_TAINT}:NoSchedule"));
    }
    let kubelet = merged(&cluster.kubelet, &group.kubelet);
    let mut node_labels = kubelet.node_labels.clone();
    node_labels.insert(NODE_ROLE_LABEL.to_owned(), String::new());
    node_labels.extend(group.node_labels.clone());
    for (label, is_set) in [("kops.k8s.io/gpu", has_gpu), ("kops.k8s.io/gvisor", group.gvisor)] {
        if is_set {
            node_labels.insert(label.to_owned(), "1".to_owned());
        }
    }
    Ok(CompleteGroup {
        spec: group,
        cluster,
        image_name: answers.image_name(group)?,
        image,
        subnet_type: subnet_type(&subnets(group, cluster)?)?,
        kubelet,
        node_labels,
        taints,
    })
}

/// Whether the machines are GPU machines that are to be set up as such. The type is looked up as it is written.
fn has_gpu(group: &InstanceGroup, cluster: &Cluster, answers: &Answers) -> Result<bool, String> {
    if !cluster.nvidia_gpu && !group.nvidia_gpu {
        return Ok(false);
    }
    let machine = answers.machine_types.get(&group.machine_type);
    machine.map(|machine| machine.has_gpu).ok_or_else(|| {
        format!(
            "containerd.nvidiaGPU is enabled, which needs exactly one machineType that exists, not {:?}",
            group.machine_type
        )
    })
}

/// The cluster's settings with the group's over them; maps are merged key by key.
fn merged(cluster: &Kubelet, group: &Kubelet) -> Kubelet {
    let over = |below: &BTreeMap<String, String>, above: &BTreeMap<String, String>| {
        below.iter().chain(above).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    Kubelet {
        max_pods: group.max_pods.or(cluster.max_pods),
        system_reserved: over(&cluster.system_reserved, &group.system_reserved),
        kube_reserved: over(&cluster.kube_reserved, &group.kube_reserved),
        node_labels: over(&cluster.node_labels, &group.node_labels),
    }
}

/// The subnets a group names, or those it gets when it names none.
fn subnets<'a>(group: &InstanceGroup, cluster: &'a Cluster) -> Result<Vec<&'a Subnet>, String> {
    let found: Vec<&Subnet> = if group.subnets.is_empty() {
        let except = |types: &[&str]| -> Vec<&Subnet> {
            cluster.subnets.iter().filter(|subnet| !types.contains(&subnet.kind.as_str())).collect()
        };
        let inner = except(&["DualStack", "Utility"]);
        if inner.is_empty() { except(&["Utility"]) } else { inner }
    } else {
        let named = |name: &String| {
            let mut named = cluster.subnets.iter().filter(|subnet| subnet.name == *name);
            match (named.next(), named.next()) {
                (Some(subnet), None) => Ok(subnet),
                (None, _) => Err(format!("the cluster has no subnet {name:?}")),
                (Some(_), Some(_)) => Err(format!("the cluster has two subnets named {name:?}")),
            }
        };
        group.subnets.iter().map(named).collect::<Result<_, _>>()?
    };
    if found.is_empty() {
        return Err("the cluster has no subnets that it could use: name some".to_owned());
    }
    Ok(found)
}

fn subnet_type(subnets: &[&Subnet]) -> Result<SubnetType, String> {
    let first = subnets[0];
    if let Some(other) = subnets.iter().find(|subnet| subnet.kind != first.kind) {
        return Err(format!(
            "its subnets have different types: {:?} is {:?}, {:?} is {:?}; name subnets of one type",
            first.name, first.kind, other.name, other.kind
        ));
    }
    match first.kind.as_str() {
        "Public" | "Utility" => Ok(SubnetType::Public),
        "Private" | "DualStack" => Ok(SubnetType::Private),
        unknown => Err(format!("subnet {:?} has the unknown type {unknown:?}", first.name)),
    }
}
