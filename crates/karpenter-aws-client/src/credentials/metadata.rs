//! The instance metadata service, version 2: the machine's role and its region.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use karpenter_transport::{Transport, Variables};

use super::{Credentials, CredentialsError, Document};
use crate::error::{Error, ErrorKind};
use crate::wire;

const NAME: &str = "the instance metadata";
const TIMEOUT: Duration = Duration::from_secs(2);
const TOKEN_LIFETIME: &str = "21600";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// Where the service is; `None` when the user has switched it off.
#[derive(Clone, Debug)]
pub(crate) struct Metadata(Option<String>);

impl Metadata {
    pub(crate) fn new(variables: &Variables) -> Self {
        if variables.is_true("AWS_EC2_METADATA_DISABLED") {
            return Self(None);
        }
        let six = variables
            .get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")
            .is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
        let usual = if six { "http://[fd00:ec2::254]" } else { "http://169.254.169.254" };
        let url = variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(usual);
        Self(Some(url.trim_end_matches('/').to_owned()))
    }

    /// The region the machine is in.
    pub(crate) async fn region(&self, transport: &dyn Transport) -> Result<String, Error> {
        let token = self.token(transport).await?;
        let region = self.get(transport, &token, "/latest/meta-data/placement/region").await?;
        Ok(String::from_utf8_lossy(&region).trim().to_owned())
    }

    /// The credentials of the machine's role.
    pub(super) async fn credentials(
        &self,
        transport: &dyn Transport,
    ) -> Result<Credentials, CredentialsError> {
        let body = self.role_document(transport).await.map_err(|error| match error.kind {
            ErrorKind::NotFound => CredentialsError::None("this machine has no instance profile".into()),
            ErrorKind::Transient if error.status.is_none() => CredentialsError::None(error.message),
            _ => CredentialsError::Refused { source_name: NAME, error },
        })?;
        Document::read(NAME, &body)
    }

    async fn role_document(&self, transport: &dyn Transport) -> Result<Bytes, Error> {
        let token = self.token(transport).await?;
        let roles = self.get(transport, &token, ROLES).await?;
        let roles = String::from_utf8_lossy(&roles);
        let role = roles.lines().next().unwrap_or("").trim();
        self.get(transport, &token, &format!("{ROLES}{role}")).await
    }

    async fn token(&self, transport: &dyn Transport) -> Result<HeaderValue, Error> {
        let lifetime = ("x-aws-ec2-metadata-token-ttl-seconds", HeaderValue::from_static(TOKEN_LIFETIME));
        let token = self.ask(transport, Method::PUT, "/latest/api/token", lifetime).await?;
        HeaderValue::from_bytes(&token)
            .map_err(|error| Error::local("GetMetadata", ErrorKind::Invalid, error.to_string()))
    }

    async fn get(&self, transport: &dyn Transport, token: &HeaderValue, path: &str) -> Result<Bytes, Error> {
        self.ask(transport, Method::GET, path, ("x-aws-ec2-metadata-token", token.clone())).await
    }

    async fn ask(
        &self,
        transport: &dyn Transport,
        method: Method,
        path: &str,
        (name, value): (&'static str, HeaderValue),
    ) -> Result<Bytes, Error> {
        let Some(url) = &self.0 else {
            let message = "it is switched off by AWS_EC2_METADATA_DISABLED";
            return Err(Error::local("GetMetadata", ErrorKind::Transient, message));
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{url}{path}"))
            .header(name, value)
            .body(Bytes::new());
        let request =
            request.map_err(|error| Error::local("GetMetadata", ErrorKind::Invalid, error.to_string()))?;
        let answer = wire::exchange(transport, "GetMetadata", request, TIMEOUT).await?;
        Ok(wire::succeed("GetMetadata", answer)?.into_body())
    }
}
