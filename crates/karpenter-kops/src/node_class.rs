//! The EC2NodeClass of a group.

use std::collections::BTreeMap;

use crate::cloud::ImageReference;
use crate::complete::{CompleteGroup, SubnetType};
use crate::objects::{AmiTerm, BlockDeviceMapping, Ebs, Kubelet, NodeClassSpec, SelectorTerm};
use crate::validate::parse_taint;
use crate::wire::RootVolume;

const CLUSTER_TAG: &str = "KubernetesCluster";
const ROOT_VOLUME_GIB: i32 = 128;
const PROFILE_NAME_MAX: usize = 64;
const HASH_LENGTH: usize = 6;

/// Tags that Karpenter or EKS own; `EC2NodeClass`es must not set them.
const RESERVED_TAGS: [&str; 5] = [
    "",
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
];

/// Writes the spec of a group's EC2NodeClass.
pub(crate) fn node_class(group: &CompleteGroup<'_>, script: &str) -> NodeClassSpec {
    let cluster = group.cluster.name.as_str();
    let subnet_tag = format!("kops.k8s.io/instance-group/{}", group.spec.name);
    NodeClassSpec {
        ami_family: "Custom",
        ami_selector_terms: vec![ami_term(&group.image_name)],
        associate_public_ip_address: match group.subnet_type {
            SubnetType::Public => group.spec.associate_public_ip.unwrap_or(true),
            SubnetType::Private => false,
        },
        block_device_mappings: vec![BlockDeviceMapping {
            device_name: group.image.root_device_name.clone(),
            ebs: root_volume(group.spec.root_volume.as_ref()),
            root_volume: true,
        }],
        instance_profile: instance_profile(group),
        kubelet: kubelet(group),
        security_group_selector_terms: security_groups(group),
        subnet_selector_terms: vec![SelectorTerm::Tags(map([(CLUSTER_TAG, cluster), (&subnet_tag, "true")]))],
        tags: tags(group),
        user_data: script.strip_suffix('\n').unwrap_or(script).to_owned(),
    }
}

fn map<'t>(entries: impl IntoIterator<Item = (&'t str, &'t str)>) -> BTreeMap<String, String> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn ami_term(image: &str) -> AmiTerm {
    match ImageReference::parse(image) {
        ImageReference::Id(id) => AmiTerm::Id { id: id.to_owned() },
        ImageReference::SsmParameter(parameter) => {
            AmiTerm::SsmParameter { ssm_parameter: parameter.to_owned() }
        }
        ImageReference::Name { owner, name } => {
            AmiTerm::Name { name: name.to_owned(), owner: owner.to_owned() }
        }
    }
}

fn root_volume(volume: Option<&RootVolume>) -> Ebs {
    let volume = volume.cloned().unwrap_or_default();
    let kind = volume.kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| "gp3".to_owned());
    let at_least = |value: Option<i32>, floor: i32| Some(value.unwrap_or_default().max(floor));
    let (iops, throughput) = match kind.as_str() {
        "gp3" => (at_least(volume.iops, 3000), at_least(volume.throughput, 125)),
        "io1" | "io2" => (at_least(volume.iops, 100), None),
        _ => (None, None),
    };
    let size = volume.size.filter(|size| *size > 0).unwrap_or(ROOT_VOLUME_GIB);
    // A key counts only where encryption was asked for in so many words.
    let key = volume.encryption_key.filter(|key| volume.encryption == Some(true) && !key.is_empty());
    Ebs {
        delete_on_termination: true,
        encrypted: volume.encryption.unwrap_or(true),
        iops,
        kms_key_id: key,
        throughput,
        volume_size: format!("{size}Gi"),
        volume_type: kind,
    }
}

fn instance_profile(group: &CompleteGroup<'_>) -> String {
    match &group.spec.instance_profile {
        Some(arn) => arn.rsplit('/').next().unwrap_or(arn).to_owned(),
        None => shortened(&format!("nodes.{}", group.cluster.name)),
    }
}

/// A name of IAM: what is too long ends in a hash of the whole.
fn shortened(name: &str) -> String {
    if name.chars().count() <= PROFILE_NAME_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(PROFILE_NAME_MAX - HASH_LENGTH - 1).collect();
    format!("{kept}-{}", &hash(name)[..HASH_LENGTH])
}

/// FNV-1a of 32 bits, written with the digits of base 32.
fn hash(text: &str) -> String {
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let bits = u64::from(hash) << 3;
    let digit = |position: u32| b"0123456789abcdefghijklmnopqrstuv"[(bits >> (5 * position) & 31) as usize];
    (0..7).rev().map(|position| char::from(digit(position))).collect()
}

fn kubelet(group: &CompleteGroup<'_>) -> Option<Kubelet> {
    let kubelet = Kubelet {
        max_pods: group.kubelet.max_pods,
        system_reserved: group.kubelet.system_reserved.clone(),
        kube_reserved: group.kubelet.kube_reserved.clone(),
    };
    let says_nothing =
        kubelet.max_pods.is_none() && kubelet.system_reserved.is_empty() && kubelet.kube_reserved.is_empty();
    (!says_nothing).then_some(kubelet)
}

fn security_groups(group: &CompleteGroup<'_>) -> Vec<SelectorTerm> {
    let name = format!("nodes.{}", group.cluster.name);
    let first = match &group.spec.security_group_override {
        Some(id) => SelectorTerm::Id(id.clone()),
        None => SelectorTerm::Tags(map([(CLUSTER_TAG, group.cluster.name.as_str()), ("Name", &name)])),
    };
    let more = group.spec.additional_security_groups.iter().cloned().map(SelectorTerm::Id);
    std::iter::once(first).chain(more).collect()
}

fn tags(group: &CompleteGroup<'_>) -> BTreeMap<String, String> {
    let (spec, cluster) = (group.spec, group.cluster);
    let template = "k8s.io/cluster-autoscaler/node-template";
    let name = format!("{}.{}", spec.name, cluster.name);
    let mut tags = map([("Name", name.as_str()), (CLUSTER_TAG, &cluster.name)]);
    tags.extend(cluster.cloud_labels.clone());
    tags.extend(spec.cloud_labels.clone());
    for (key, value) in &group.node_labels {
        tags.insert(format!("{template}/label/{key}"), value.clone());
    }
    for (key, value, effect) in group.taints.iter().filter_map(|taint| parse_taint(taint)) {
        if !effect.is_empty() {
            tags.insert(format!("{template}/taint/{key}"), format!("{value}:{effect}"));
        }
    }
    tags.extend(map([("k8s.io/role/node", "1"), ("kops.k8s.io/instancegroup", spec.name.as_str())]));
    tags.retain(|key, _| !key.starts_with("kubernetes.io/cluster") && !RESERVED_TAGS.contains(&key.as_str()));
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_end_in_a_hash() {
        assert_eq!(shortened("nodes.short.example.com"), "nodes.short.example.com");
        let long = format!("nodes.{}.example.com", "a".repeat(60));
        let short = shortened(&long);
        assert_eq!(short.len(), PROFILE_NAME_MAX);
        assert!(short.starts_with(&format!("{}-", &long[..57])));
        // FNV-1a of the empty text is its offset, 0x811c9dc5; of "a" it is 0xe40c292c.
        assert_eq!(hash(""), "g4e9rh8");
        assert_eq!(hash("a"), "sg62ib0");
    }

    #[test]
    fn a_volume_gets_what_its_type_needs() {
        let ebs = |kind: &str, iops, throughput| {
            let volume =
                RootVolume { kind: Some(kind.to_owned()), iops, throughput, ..RootVolume::default() };
            let ebs = root_volume(Some(&volume));
            (ebs.iops, ebs.throughput)
        };
        assert_eq!(ebs("gp3", Some(100), Some(500)), (Some(3000), Some(500)));
        assert_eq!(ebs("io2", Some(50), Some(500)), (Some(100), None));
        assert_eq!(ebs("gp2", Some(50), Some(500)), (None, None));
        assert_eq!(root_volume(None).volume_size, "128Gi");
    }
}
