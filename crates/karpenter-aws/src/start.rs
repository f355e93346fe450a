//! What must be right before anything is launched, and what is looked up once at the start.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use karpenter_api::options::{AwsOptions, FeatureGates};
use karpenter_aws_bootstrap::Cluster;
use karpenter_aws_client::ec2::DescribeInstanceTypes;
use karpenter_aws_client::{Client, Error, ErrorKind};
use karpenter_environment::Environment;
use kube::Api;

use crate::provider::{Aws, Settings};

/// Why the provider cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Options that cannot be.
    #[error("{}", .0.join("; "))]
    Options(Vec<String>),
    /// EC2 cannot be asked.
    #[error("EC2 cannot be reached: {0}; check the region, the network and the controller's credentials")]
    NoConnection(Error),
    /// The cluster's address is not known.
    #[error("the cluster's address is not known: {0}; set --cluster-endpoint, or allow eks:DescribeCluster")]
    NoEndpoint(Error),
    /// The cluster takes no part in zonal shifts.
    #[error(
        "zonal shifts cannot be followed: {0}; enable zonal shift for the cluster, or unset --enable-zonal-shift"
    )]
    NoZonalShift(String),
    /// What is sold is not known.
    #[error("instance types cannot be listed: {0}")]
    NoTypes(Error),
}

impl Aws {
    /// Checks that the account and the cluster can be worked with, and starts a provider that knows what the region sells. `ca_bundle` is
    /// the certificate that the controller itself trusts the API server by, in base64, for when the options name none.
    ///
    /// # Errors
    /// What stands in the way: then Karpenter should not be started.
    pub async fn connect(
        client: kube::Client,
        aws: Client,
        options: AwsOptions,
        (gates, min_values_best_effort): (FeatureGates, bool),
        ca_bundle: Option<String>,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, StartError> {
        options.validate().map_err(StartError::Options)?;
        probe(&aws).await?;
        let (endpoint, arn) = cluster(&aws, &options).await?;
        let bundle =
            Some(options.cluster_ca_bundle.clone()).filter(|bundle| !bundle.is_empty()).or(ca_bundle);
        let cluster = Cluster {
            name: options.cluster_name.clone(),
            endpoint,
            ca_bundle: bundle,
            service_cidr: None,
            dns: dns(client.clone()).await,
        };
        let settings = Settings { options, gates, min_values_best_effort, cluster, cluster_arn: arn };
        let provider = Self::new(client, aws, settings, environment);
        provider.learn_types().await.map_err(StartError::NoTypes)?;
        Ok(provider)
    }
}

/// Asks EC2 something that costs nothing.
async fn probe(aws: &Client) -> Result<(), StartError> {
    let request = DescribeInstanceTypes { dry_run: Some(true), ..DescribeInstanceTypes::default() };
    match aws.ec2().call_once(&request).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind == ErrorKind::DryRun => Ok(()),
        Err(error) => Err(StartError::NoConnection(error)),
    }
}

/// The cluster's address and, if zonal shifts are followed, its ARN.
async fn cluster(aws: &Client, options: &AwsOptions) -> Result<(String, Option<String>), StartError> {
    let given = Some(options.cluster_endpoint.clone()).filter(|endpoint| !endpoint.is_empty());
    if let (Some(endpoint), false) = (&given, options.enable_zonal_shift) {
        return Ok((endpoint.clone(), None));
    }
    let found = aws.eks().describe_cluster(&options.cluster_name).await.map_err(StartError::NoEndpoint)?;
    if options.enable_zonal_shift {
        let shifts = aws.zonal_shifts().managed_resource(&found.arn).await;
        shifts.map_err(|error| StartError::NoZonalShift(error.to_string()))?;
    }
    let arn = options.enable_zonal_shift.then_some(found.arn);
    Ok((given.unwrap_or(found.endpoint), arn))
}

/// The address of the cluster's DNS, if it has one where EKS puts it.
async fn dns(client: kube::Client) -> Option<String> {
    let services: Api<Service> = Api::namespaced(client, "kube-system");
    let found = services.get_opt("kube-dns").await.ok().flatten();
    found.and_then(|service| service.spec).and_then(|spec| spec.cluster_ip)
}
