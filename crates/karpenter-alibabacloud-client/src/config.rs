//! What a client is told at start: region, endpoints, patience, rates, source of credentials.

use karpenter_transport::{Rate, Rates, RetryPolicy, Transport, Variables};

use crate::credentials::{CredentialsError, Metadata, Profile, Source};
use crate::endpoint::Endpoints;
use crate::error::Error;

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct Config {
    /// The region it works in.
    pub region: String,
    /// Where the services are.
    pub endpoints: Endpoints,
    /// How patiently it tries.
    pub retry: RetryPolicy,
    /// How fast it asks.
    pub rates: Rates,
    /// Where its credentials come from.
    pub credentials: Source,
    pub(crate) metadata: Metadata,
}

/// A client cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Nobody says which region to work in.
    #[error("no Alibaba Cloud region: set ALIBABA_CLOUD_REGION_ID; the instance metadata said: {0}")]
    Region(Error),
    /// A region with characters no host name has.
    #[error("the region {0:?} is not a region's name: use letters, digits and hyphens, as in cn-hangzhou")]
    MalformedRegion(String),
    /// The source of credentials is configured wrongly.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// Variables that name the region, the first that is set counts.
const REGION: [&str; 4] =
    ["ALIBABA_CLOUD_REGION_ID", "ALIBABA_CLOUD_REGION", "REGION_ID", "ALIBABA_CLOUD_STS_REGION"];

impl Config {
    /// Reads variables and the command line's file; asks the instance metadata for the region where nothing else names one.
    ///
    /// # Errors
    /// When there is no region, or when something is set to what cannot be.
    pub async fn load(variables: &Variables, transport: &dyn Transport) -> Result<Self, ConfigError> {
        let profile = Profile::load(variables)?;
        let metadata = Metadata::new(variables);
        let of_profile =
            profile.as_ref().map(|profile| profile.region_id.as_str()).filter(|region| !region.is_empty());
        let region = match REGION.iter().find_map(|name| variables.get(name)).or(of_profile) {
            Some(region) => region.to_owned(),
            None => metadata.region(transport).await.map_err(ConfigError::Region)?,
        };
        if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(ConfigError::MalformedRegion(region));
        }
        Ok(Self {
            region,
            endpoints: Endpoints::new(variables),
            retry: RetryPolicy::default(),
            rates: default_rates(),
            credentials: Source::find(variables, profile.as_ref())?,
            metadata,
        })
    }

    /// A configuration for a cloud at one address: the simulated cloud and tests.
    pub fn at(url: &str, region: &str, credentials: Source) -> Self {
        Self {
            region: region.to_owned(),
            endpoints: Endpoints::at(url),
            retry: RetryPolicy::default(),
            rates: default_rates(),
            credentials,
            metadata: Metadata::off(),
        }
    }

    /// With the instance metadata at `url`.
    #[must_use]
    pub fn with_metadata(mut self, url: &str) -> Self {
        self.metadata = Metadata::new(&Variables::from([("METADATA_ENDPOINT", url)]));
        self
    }
}

/// Rates well below what accounts usually have; the real ones stand in the account's quota centre only. An action over its threshold is
/// refused until the minute is over, so asking a little slower is faster.
fn default_rates() -> Rates {
    let rate = |per_second, burst| Rate { per_second, burst };
    Rates::new([
        // Two thousand launches, and what is refused of them, within the five minutes that a claim waits for its machine.
        ("RunInstances", rate(15.0, 100.0)),
        ("CreateAutoProvisioningGroup", rate(15.0, 100.0)),
        ("DescribeInstances", rate(10.0, 50.0)),
        ("DeleteInstances", rate(5.0, 50.0)),
        ("TagResources", rate(2.0, 20.0)),
        ("DescribeVSwitches", rate(5.0, 20.0)),
        ("DescribePrice", rate(5.0, 20.0)),
        ("DescribeSpotPriceHistory", rate(5.0, 20.0)),
        ("DescribeAvailableResource", rate(5.0, 20.0)),
        ("DescribeClusterAttachScripts", rate(2.0, 10.0)),
    ])
}
