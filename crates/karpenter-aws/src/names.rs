//! Keys of annotations and tags that the provider reads and writes, and the form of providerIDs.

/// Annotation: what the EC2NodeClass of a machine asked for when it was launched.
pub(crate) const CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// Annotation: how that was computed.
pub(crate) const CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// Annotation: the instance profile of a machine.
pub(crate) const INSTANCE_PROFILE: &str = "karpenter.k8s.aws/instance-profile-name";
/// Annotation: the machine has all its tags.
pub(crate) const TAGGED: &str = "karpenter.k8s.aws/tagged";
/// Annotation: it has the tag with the cluster's name too.
pub(crate) const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";

/// Tag: the cluster.
pub(crate) const EKS_CLUSTER: &str = "eks:eks-cluster-name";
/// Tag: the NodeClaim.
pub(crate) const NODE_CLAIM: &str = "karpenter.sh/nodeclaim";

/// What providerIDs begin with.
pub(crate) const PROVIDER_ID_PREFIX: &str = "aws:///";

/// The tag by which Kubernetes knows what belongs to a cluster.
pub(crate) fn cluster_tag(cluster: &str) -> String {
    format!("kubernetes.io/cluster/{cluster}")
}

/// The providerID of an instance.
pub(crate) fn provider_id(zone: &str, instance: &str) -> String {
    format!("{PROVIDER_ID_PREFIX}{zone}/{instance}")
}

/// The instance of a providerID.
pub(crate) fn instance_of(provider_id: &str) -> Option<&str> {
    let (_, instance) = provider_id.strip_prefix(PROVIDER_ID_PREFIX)?.split_once('/')?;
    (!instance.is_empty()).then_some(instance)
}

/// The zone of a providerID.
pub(crate) fn zone_of(provider_id: &str) -> Option<&str> {
    provider_id.strip_prefix(PROVIDER_ID_PREFIX)?.split_once('/').map(|(zone, _)| zone)
}
