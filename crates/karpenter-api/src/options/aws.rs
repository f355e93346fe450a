//! Options of the AWS provider, with upstream's names and rules.

use jiff::SignedDuration;

use super::OptionValue;
use crate::options_table;

/// Nothing is looked at more often than this.
const SHORTEST_REFRESH: SignedDuration = SignedDuration::from_mins(1);

options_table! {
    /// Options of the AWS provider.
    AwsOptions, table AWS_OPTIONS;

    /// Name of the cluster; machines, launch templates and instance profiles are tagged with it. Required.
    cluster_name: String = "", "cluster-name", "CLUSTER_NAME", "settings.clusterName";
    /// Address of the API server that new nodes join; EKS is asked if it is not given.
    cluster_endpoint: String = "", "cluster-endpoint", "CLUSTER_ENDPOINT", "settings.clusterEndpoint";
    /// Certificate by which nodes trust the API server, in base64; the controller's own if it is not given.
    cluster_ca_bundle: String = "", "cluster-ca-bundle", "CLUSTER_CA_BUNDLE", "settings.clusterCABundle";
    /// The VPC reaches neither Pricing nor IAM: prices stay as built in, and instance profiles are not cleaned up.
    isolated_vpc: bool = "false", "isolated-vpc", "ISOLATED_VPC", "settings.isolatedVPC";
    /// Asks EKS for the cluster's version instead of the API server.
    eks_control_plane: bool = "false", "eks-control-plane", "EKS_CONTROL_PLANE", "settings.eksControlPlane";
    /// Share of a machine's memory that the hypervisor keeps, until nodes of its type were seen.
    vm_memory_overhead_percent: f64 = "0.075", "vm-memory-overhead-percent", "VM_MEMORY_OVERHEAD_PERCENT",
        "settings.vmMemoryOverheadPercent";
    /// Name of the SQS queue with warnings about machines; without one only the status of machines is looked at.
    interruption_queue: String = "", "interruption-queue", "INTERRUPTION_QUEUE", "settings.interruptionQueue";
    /// Network interfaces that pods cannot use.
    reserved_enis: i64 = "0", "reserved-enis", "RESERVED_ENIS", "settings.reservedENIs";
    /// Does not try whether launches of an EC2NodeClass would be allowed.
    disable_dry_run: bool = "false", "disable-dry-run", "DISABLE_DRY_RUN", "settings.disableDryRun";
    /// Launches nothing in zones that a zonal shift moves traffic away from.
    enable_zonal_shift: bool = "false", "enable-zonal-shift", "ENABLE_ZONAL_SHIFT", "settings.enableZonalShift";
    /// How often images are looked up, at least every minute.
    ami_refresh_interval: SignedDuration = "1m", "ami-refresh-interval", "AMI_REFRESH_INTERVAL", "settings.amiRefreshInterval";
    /// How often subnets are looked up, at least every minute.
    subnet_refresh_interval: SignedDuration = "1m", "subnet-refresh-interval", "SUBNET_REFRESH_INTERVAL",
        "settings.subnetRefreshInterval";
    /// Gates of the AWS provider, as Name=true. The one gate, `NodeClassCEL`, allows expressions in an EC2NodeClass's kubelet.
    aws_feature_gates: AwsFeatureGates = "NodeClassCEL=false", "aws-feature-gates", "AWS_FEATURE_GATES", "settings.awsFeatureGates";
    /// Replaces spot machines already when EC2 recommends to rebalance them, not only when it takes them back. Ours alone.
    replace_on_rebalance: bool = "false", "replace-on-rebalance", "REPLACE_ON_REBALANCE", "settings.replaceOnRebalance";
}

/// Which optional features of the AWS provider are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwsFeatureGates {
    /// Expressions in an EC2NodeClass's kubelet.
    pub node_class_cel: bool,
}

impl OptionValue for AwsFeatureGates {
    fn from_flag(text: &str, remarks: &mut Vec<String>) -> Result<Self, String> {
        let mut gates = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not Name=true"))?;
            let value = super::value::parse_bool(value.trim())
                .ok_or_else(|| format!("the value of {name} must be true or false"))?;
            match name.trim() {
                "NodeClassCEL" => gates.node_class_cel = value,
                other => remarks.push(format!("there is no gate {other}; it is ignored")),
            }
        }
        Ok(gates)
    }
}

impl OptionValue for f64 {
    const ENV_FALLS_BACK: bool = true;

    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        text.parse().map_err(|_| "it must be a number".to_owned())
    }
}

impl AwsOptions {
    /// Says what in the options cannot be: all of it.
    ///
    /// # Errors
    /// A sentence for each mistake.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        let rules = [
            (!self.cluster_name.is_empty(), "--cluster-name is required: the name of the EKS cluster"),
            (
                self.cluster_endpoint.is_empty() || is_url(&self.cluster_endpoint),
                "--cluster-endpoint must be a whole URL, as in https://example.eks.amazonaws.com",
            ),
            (self.vm_memory_overhead_percent >= 0.0, "--vm-memory-overhead-percent must not be negative"),
            (self.reserved_enis >= 0, "--reserved-enis must not be negative"),
            (self.ami_refresh_interval >= SHORTEST_REFRESH, "--ami-refresh-interval must be at least 1m"),
            (
                self.subnet_refresh_interval >= SHORTEST_REFRESH,
                "--subnet-refresh-interval must be at least 1m",
            ),
        ];
        let mistakes: Vec<String> =
            rules.into_iter().filter(|(good, _)| !good).map(|(_, mistake)| mistake.to_owned()).collect();
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }
}

/// Whether there are a scheme and a host.
fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && rest.split('/').next().is_some_and(|host| !host.is_empty())
    })
}
