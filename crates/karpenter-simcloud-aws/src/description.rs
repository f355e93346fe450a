//! What an account looks like before anybody calls.

use std::collections::BTreeMap;

use jiff::SignedDuration;

/// A zone of the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name in this account: `us-west-2a`.
    pub name: String,
    /// The same place in every account: `usw2-az1`.
    pub id: String,
}

/// A zone of its own near some city, which sells a few types only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalZone {
    /// The zone.
    pub zone: Zone,
    /// The types it sells.
    pub instance_types: Vec<String>,
}

/// An account with a cluster in it. Every zone gets a private and a public subnet, the cluster a security group for its nodes, a
/// role for them and a queue of its own name.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The region.
    pub region: String,
    /// The account's number.
    pub account: String,
    /// Keys that sign requests: access key ids and their secrets.
    pub access_keys: BTreeMap<String, String>,
    /// The cluster's name.
    pub cluster_name: String,
    /// Its Kubernetes version, say `1.34`.
    pub kubernetes_version: String,
    /// Where its API server is.
    pub cluster_endpoint: String,
    /// How to trust it: PEM in base64.
    pub certificate_authority: String,
    /// Addresses of its services.
    pub service_cidr: String,
    /// How many addresses a subnet has.
    pub subnet_addresses: u32,
    /// How long an instance is pending.
    pub start_time: SignedDuration,
    /// How long after its launch an instance's kubelet joins.
    pub boot_time: SignedDuration,
    /// How long an instance shuts down.
    pub stop_time: SignedDuration,
    /// How long a terminated instance can be seen.
    pub forget_time: SignedDuration,
    /// How long what was created stays unseen by those who describe: eventual consistency.
    pub settle_time: SignedDuration,
    /// Local zones of the region that the account takes part in.
    pub local_zones: Vec<LocalZone>,
    /// Virtual CPUs that on-demand instances may have together.
    pub on_demand_vcpus: Option<u32>,
    /// Spot instances there may be at once.
    pub spot_instances: Option<u32>,
}

impl Default for Description {
    fn default() -> Self {
        Self {
            region: "us-west-2".to_owned(),
            account: "123456789012".to_owned(),
            access_keys: [("AKIASIMULATED0000001".to_owned(), "simulated-secret".to_owned())].into(),
            cluster_name: "local".to_owned(),
            kubernetes_version: "1.34".to_owned(),
            cluster_endpoint: "https://local.example.com".to_owned(),
            certificate_authority: "c2ltdWxhdGVk".to_owned(),
            service_cidr: "10.100.0.0/16".to_owned(),
            subnet_addresses: 8187,
            start_time: SignedDuration::from_secs(5),
            boot_time: SignedDuration::from_secs(20),
            stop_time: SignedDuration::from_secs(10),
            forget_time: SignedDuration::from_hours(1),
            settle_time: SignedDuration::ZERO,
            local_zones: Vec::new(),
            on_demand_vcpus: None,
            spot_instances: None,
        }
    }
}

impl Description {
    /// `aws`, `aws-cn` or `aws-us-gov`.
    pub(crate) fn partition(&self) -> &'static str {
        match self.region.split('-').next() {
            Some("cn") => "aws-cn",
            Some("us") if self.region.starts_with("us-gov-") => "aws-us-gov",
            _ => "aws",
        }
    }

    /// The name of something in this account.
    pub(crate) fn arn(&self, service: &str, rest: &str) -> String {
        // IAM is the same in all regions.
        let region = if matches!(service, "iam" | "sts") { "" } else { &self.region };
        format!("arn:{}:{service}:{region}:{}:{rest}", self.partition(), self.account)
    }

    pub(crate) fn cluster_arn(&self) -> String {
        self.arn("eks", &format!("cluster/{}", self.cluster_name))
    }
}
