//! The instance metadata service, with its token: the machine's role and its region.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use karpenter_transport::{Transport, Variables};

use super::{Credentials, CredentialsError, Document};
use crate::error::{Error, ErrorKind};
use crate::wire;

const NAME: &str = "the instance metadata";
const OPERATION: &str = "GetMetadata";
const ADDRESS: &str = "http://100.100.100.200";
const TIMEOUT: Duration = Duration::from_secs(2);
const TOKEN_LIFETIME: &str = "21600";
const ROLES: &str = "/latest/meta-data/ram/security-credentials/";

/// Where the service is; `None` when the user has switched it off.
#[derive(Clone, Debug)]
pub(crate) struct Metadata(Option<String>);

impl Metadata {
    pub(crate) fn new(variables: &Variables) -> Self {
        if variables.is_true("ALIBABA_CLOUD_ECS_METADATA_DISABLED") {
            return Self(None);
        }
        let url = variables.get("METADATA_ENDPOINT").unwrap_or(ADDRESS);
        Self(Some(url.trim_end_matches('/').to_owned()))
    }

    pub(crate) fn off() -> Self {
        Self(None)
    }

    /// The region the machine is in.
    pub(crate) async fn region(&self, transport: &dyn Transport) -> Result<String, Error> {
        let token = self.token(transport).await?;
        let region = self.get(transport, &token, "/latest/meta-data/region-id").await?;
        Ok(String::from_utf8_lossy(&region).trim().to_owned())
    }

    /// The credentials of the machine's role.
    pub(super) async fn credentials(
        &self,
        transport: &dyn Transport,
        role: Option<&str>,
    ) -> Result<Credentials, CredentialsError> {
        let body = self.role_document(transport, role).await.map_err(|error| match error.kind {
            ErrorKind::NotFound => CredentialsError::None("this machine has no RAM role".into()),
            ErrorKind::Transient if error.status.is_none() => CredentialsError::None(error.message),
            _ => CredentialsError::Refused { source_name: NAME, error: Box::new(error) },
        })?;
        Document::read(NAME, &body, None)
    }

    async fn role_document(&self, transport: &dyn Transport, role: Option<&str>) -> Result<Bytes, Error> {
        let token = self.token(transport).await?;
        let role = if let Some(role) = role {
            role.to_owned()
        } else {
            let roles = self.get(transport, &token, ROLES).await?;
            String::from_utf8_lossy(&roles).lines().next().unwrap_or("").trim().to_owned()
        };
        self.get(transport, &token, &format!("{ROLES}{role}")).await
    }

    async fn token(&self, transport: &dyn Transport) -> Result<HeaderValue, Error> {
        let lifetime = ("x-aliyun-ecs-metadata-token-ttl-seconds", HeaderValue::from_static(TOKEN_LIFETIME));
        let token = self.ask(transport, Method::PUT, "/latest/api/token", lifetime).await?;
        HeaderValue::from_bytes(token.trim_ascii())
            .map_err(|error| Error::local(OPERATION, ErrorKind::Invalid, error.to_string()))
    }

    async fn get(&self, transport: &dyn Transport, token: &HeaderValue, path: &str) -> Result<Bytes, Error> {
        self.ask(transport, Method::GET, path, ("x-aliyun-ecs-metadata-token", token.clone())).await
    }

    async fn ask(
        &self,
        transport: &dyn Transport,
        method: Method,
        path: &str,
        (name, value): (&'static str, HeaderValue),
    ) -> Result<Bytes, Error> {
        let Some(url) = &self.0 else {
            let message = "it is switched off by ALIBABA_CLOUD_ECS_METADATA_DISABLED";
            return Err(Error::local(OPERATION, ErrorKind::Transient, message));
        };
        let request = Request::builder().method(method).uri(format!("{url}{path}")).header(name, value);
        let request = request
            .body(Bytes::new())
            .map_err(|error| Error::local(OPERATION, ErrorKind::Invalid, error.to_string()))?;
        let answer = wire::exchange(transport, OPERATION, request, TIMEOUT).await?;
        Ok(wire::succeed(OPERATION, None, answer)?.into_body())
    }
}
