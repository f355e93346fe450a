//! What a client is told at start: region, endpoints, patience, source of credentials.

use std::path::PathBuf;

use karpenter_transport::{RetryPolicy, Transport, Variables};

use crate::credentials::{CredentialsError, Metadata, Source};
use crate::endpoint::Endpoints;
use crate::error::Error;
use crate::profile::{ProfileError, Profiles};

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct Config {
    /// The region it works in.
    pub region: String,
    /// Where the services are.
    pub endpoints: Endpoints,
    /// How patiently it tries.
    pub retry: RetryPolicy,
    /// Where its credentials come from.
    pub credentials: Source,
    pub(crate) metadata: Metadata,
}

/// A client cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Nobody says which region to work in.
    #[error("no AWS region: set AWS_REGION, or region in the profile; the instance metadata said: {0}")]
    Region(Error),
    /// A region with characters no host name has.
    #[error(
        "the AWS region {0:?} is not a region's name: use letters, digits and hyphens, as in eu-central-1"
    )]
    MalformedRegion(String),
    /// The number of attempts makes no sense.
    #[error("AWS_MAX_ATTEMPTS is {0:?}: give a number from 1 on")]
    MaxAttempts(String),
    /// The shared files are unusable.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The source of credentials is configured wrongly.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

impl Config {
    /// Reads variables and shared files; asks the instance metadata for the region where nothing else names one.
    ///
    /// # Errors
    /// When there is no region, or when something is set to what cannot be.
    pub async fn load(variables: &Variables, transport: &dyn Transport) -> Result<Self, ConfigError> {
        let profiles = Profiles::load(variables)?;
        let metadata = Metadata::new(variables);
        let named = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| variables.get(name));
        let region = match named.or_else(|| profiles.setting("region")) {
            Some(region) => region.to_owned(),
            None => metadata.region(transport).await.map_err(ConfigError::Region)?,
        };
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(ConfigError::MalformedRegion(region));
        }
        let mut retry = RetryPolicy::default();
        if let Some(text) = variables.get("AWS_MAX_ATTEMPTS").or_else(|| profiles.setting("max_attempts")) {
            let attempts = text.parse().ok().filter(|attempts| *attempts > 0);
            retry.max_attempts = attempts.ok_or_else(|| ConfigError::MaxAttempts(text.to_owned()))?;
        }
        Ok(Self {
            region,
            endpoints: Endpoints::new(variables, &profiles),
            retry,
            credentials: Source::find(variables, &profiles)?,
            metadata,
        })
    }

    /// A configuration for a cloud at one address, with fixed keys: the simulated cloud and tests.
    pub fn at(url: &str, region: &str, credentials: Source) -> Self {
        Self {
            region: region.to_owned(),
            endpoints: Endpoints::at(url),
            retry: RetryPolicy::default(),
            credentials,
            metadata: Metadata::new(&Variables::from([("AWS_EC2_METADATA_DISABLED", "true")])),
        }
    }

    /// The file of further certificates to trust, if the user names one.
    pub fn ca_bundle(variables: &Variables) -> Option<PathBuf> {
        variables.get("AWS_CA_BUNDLE").map(PathBuf::from)
    }
}
