//! Fetches credentials from the source that applies.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use karpenter_environment::Environment;
use karpenter_transport::{Transport, encoding};

use super::{Credentials, CredentialsError, Document, Metadata, Source};
use crate::endpoint::Service;
use crate::error::{Error, ErrorKind};
use crate::wire;

const NAME: &str = "STS";
const OPERATION: &str = "AssumeRoleWithOIDC";
const TIMEOUT: Duration = Duration::from_secs(10);
const LIFETIME_SECONDS: &str = "3600";

/// What loading needs of the world.
pub(crate) struct Loader {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) metadata: Metadata,
    /// The address of STS.
    pub(crate) sts: String,
}

impl Loader {
    pub(crate) async fn load(&self, source: &Source) -> Result<Credentials, CredentialsError> {
        match source {
            Source::Keys(keys) => Ok(keys.clone()),
            Source::InstanceMetadata { role } => {
                self.metadata.credentials(&*self.transport, role.as_deref()).await
            }
            Source::Oidc { role_arn, provider_arn, token_file, session_name } => {
                let token = std::fs::read_to_string(token_file).map_err(|error| CredentialsError::File {
                    path: token_file.display().to_string(),
                    setting: "ALIBABA_CLOUD_OIDC_TOKEN_FILE",
                    reason: error.to_string(),
                })?;
                self.assume(vec![
                    ("RoleArn", role_arn),
                    ("OIDCProviderArn", provider_arn),
                    ("OIDCToken", token.trim()),
                    ("RoleSessionName", session_name),
                    ("DurationSeconds", LIFETIME_SECONDS),
                ])
                .await
            }
        }
    }

    /// The token proves who asks, so this one call is not signed.
    async fn assume(&self, parameters: Vec<(&str, &str)>) -> Result<Credentials, CredentialsError> {
        let refused = |error| CredentialsError::Refused { source_name: NAME, error: Box::new(error) };
        let date = self.environment.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let nonce = encoding::hex(&self.environment.entropy());
        let version = Service::Sts.version();
        let fixed = [
            ("Action", OPERATION),
            ("Version", version),
            ("Format", "JSON"),
            ("Timestamp", &date),
            ("SignatureNonce", &nonce),
        ];
        let pairs = fixed.iter().chain(&parameters);
        let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let request = Request::post(format!("{}/?{}", self.sts, wire::query(pairs)))
            .header("x-acs-action", OPERATION)
            .header("x-acs-version", version)
            .body(Bytes::new())
            .map_err(|error| refused(Error::local(OPERATION, ErrorKind::Invalid, error.to_string())))?;
        let answer = wire::exchange(&*self.transport, OPERATION, request, TIMEOUT).await.map_err(refused)?;
        let answer = wire::succeed(OPERATION, None, answer).map_err(refused)?;
        Document::read(NAME, answer.body(), Some("Credentials"))
    }
}
