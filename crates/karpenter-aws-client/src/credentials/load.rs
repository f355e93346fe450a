//! Fetches credentials from the source that applies.

use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use karpenter_environment::Environment;
use karpenter_transport::Transport;

use super::roles::Assume;
use super::{Credentials, CredentialsError, Metadata, Source, container};
use crate::endpoint::Endpoint;

/// What loading needs of the world.
pub(crate) struct Loader {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) metadata: Metadata,
    /// STS.
    pub(crate) roles: Endpoint,
}

impl Loader {
    pub(crate) fn load<'a>(
        &'a self,
        source: &'a Source,
    ) -> BoxFuture<'a, Result<Credentials, CredentialsError>> {
        Box::pin(async move {
            match source {
                Source::Keys(keys) => Ok(keys.clone()),
                Source::InstanceMetadata => self.metadata.credentials(&*self.transport).await,
                Source::Container { url, token } => {
                    container::load(&*self.transport, url, token.as_ref()).await
                }
                Source::WebIdentity { role_arn, token_file, session_name } => {
                    let token = read_file(token_file, "AWS_WEB_IDENTITY_TOKEN_FILE")?;
                    let session = self.session(session_name.as_deref());
                    let parameters = vec![
                        ("RoleArn", role_arn.as_str()),
                        ("RoleSessionName", session.as_str()),
                        ("WebIdentityToken", token.trim_end()),
                    ];
                    self.assume(Assume { operation: "AssumeRoleWithWebIdentity", parameters, signer: None })
                        .await
                }
                Source::Role { base, role_arn, session_name, external_id } => {
                    let signer = Some(self.load(base).await?);
                    let session = self.session(session_name.as_deref());
                    let mut parameters =
                        vec![("RoleArn", role_arn.as_str()), ("RoleSessionName", session.as_str())];
                    parameters.extend(external_id.as_deref().map(|id| ("ExternalId", id)));
                    self.assume(Assume { operation: "AssumeRole", parameters, signer }).await
                }
            }
        })
    }

    async fn assume(&self, assume: Assume<'_>) -> Result<Credentials, CredentialsError> {
        assume.send(&*self.transport, &self.roles, self.environment.now()).await
    }

    /// The session's name, which shows up in the account's audit trail.
    fn session(&self, name: Option<&str>) -> String {
        name.map_or_else(|| format!("karpenter-{}", self.environment.now().as_second()), str::to_owned)
    }
}

pub(super) fn read_file(path: &Path, setting: &'static str) -> Result<String, CredentialsError> {
    std::fs::read_to_string(path).map_err(|error| CredentialsError::File {
        path: path.display().to_string(),
        setting,
        reason: error.to_string(),
    })
}
