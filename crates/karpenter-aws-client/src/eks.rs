//! EKS, and zonal shifts of an EKS cluster: two questions in the style of REST.

use jiff::Timestamp;
use karpenter_transport::encoding;
use serde::Deserialize;

use crate::client::Client;
use crate::endpoint::Service;
use crate::error::Error;

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cluster {
    /// Its ARN.
    pub arn: String,
    /// Its Kubernetes version, say `1.34`.
    pub version: String,
    /// The address of its API server.
    pub endpoint: String,
    /// Its networks.
    pub kubernetes_network_config: KubernetesNetworkConfig,
    /// How to trust its API server.
    pub certificate_authority: CertificateAuthority,
}

/// The networks of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubernetesNetworkConfig {
    /// Addresses of services, for IPv4 clusters.
    pub service_ipv4_cidr: Option<String>,
    /// Addresses of services, for IPv6 clusters.
    pub service_ipv6_cidr: Option<String>,
}

/// A certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CertificateAuthority {
    /// PEM in base64.
    pub data: Option<String>,
}

#[derive(Deserialize)]
struct DescribeClusterAnswer {
    cluster: Cluster,
}

/// EKS.
pub struct Eks<'a> {
    client: &'a Client,
}

impl Eks<'_> {
    /// Describes a cluster.
    ///
    /// # Errors
    /// Of kind [`crate::ErrorKind::NotFound`] when there is none.
    pub async fn describe_cluster(&self, name: &str) -> Result<Cluster, Error> {
        let path = format!("/clusters/{}", encoding::encode(name));
        let answer: DescribeClusterAnswer =
            self.client.json_get(Service::Eks, "DescribeCluster", &path).await?;
        Ok(answer.cluster)
    }
}

/// A resource that traffic can be moved away from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedResource {
    /// Its ARN.
    pub arn: String,
    /// Shifts that are in force or have been.
    pub zonal_shifts: Vec<ZonalShift>,
}

/// Traffic is moved away from a zone.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ZonalShift {
    /// Whether it is in force: `APPLIED` or not.
    pub applied_status: String,
    /// The id of the zone.
    pub away_from: String,
    /// When it ends.
    #[serde(deserialize_with = "seconds")]
    pub expiry_time: Option<Timestamp>,
}

/// Times in this dialect are seconds since 1970, perhaps with a fraction.
fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let seconds = Option::<f64>::deserialize(deserializer)?;
    Ok(seconds.and_then(|seconds| Timestamp::from_millisecond((seconds * 1000.0) as i64).ok()))
}

/// Zonal shifts.
pub struct ZonalShifts<'a> {
    client: &'a Client,
}

impl ZonalShifts<'_> {
    /// Describes the resource with this ARN.
    ///
    /// # Errors
    /// Of kind [`crate::ErrorKind::NotFound`] when it takes no part in zonal shifts.
    pub async fn managed_resource(&self, arn: &str) -> Result<ManagedResource, Error> {
        let path = format!("/managedresources/{}", encoding::encode(arn));
        self.client.json_get(Service::ArcZonalShift, "GetManagedResource", &path).await
    }
}

impl Client {
    /// EKS.
    pub fn eks(&self) -> Eks<'_> {
        Eks { client: self }
    }

    /// Zonal shifts.
    pub fn zonal_shifts(&self) -> ZonalShifts<'_> {
        ZonalShifts { client: self }
    }
}
