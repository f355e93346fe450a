//! Taking on a role at STS: with a web identity token, or with other credentials.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use jiff::Timestamp;
use karpenter_transport::{Element, Transport, encoding};

use super::{Credentials, CredentialsError};
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind};
use crate::sign::{Scope, sign};
use crate::wire;

const NAME: &str = "STS";
const VERSION: &str = "2011-06-15";
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request to take on a role.
pub(super) struct Assume<'a> {
    pub(super) operation: &'static str,
    /// Parameters besides action and version.
    pub(super) parameters: Vec<(&'static str, &'a str)>,
    /// Who asks; a web identity needs nobody.
    pub(super) signer: Option<Credentials>,
}

impl Assume<'_> {
    pub(super) async fn send(
        self,
        transport: &dyn Transport,
        endpoint: &Endpoint,
        time: Timestamp,
    ) -> Result<Credentials, CredentialsError> {
        let refused = |error| CredentialsError::Refused { source_name: NAME, error };
        let invalid = |message: String| refused(Error::local(self.operation, ErrorKind::Invalid, message));
        let fixed = [("Action", self.operation), ("Version", VERSION)];
        let body = encoding::encode_pairs(fixed.into_iter().chain(self.parameters));
        let mut request = Request::post(format!("{}/", endpoint.url))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8")
            .body(Bytes::from(body))
            .map_err(|error| invalid(error.to_string()))?;
        if let Some(signer) = &self.signer {
            let scope = Scope { region: &endpoint.signing_region, service: "sts", time };
            sign(&mut request, signer, &scope).map_err(|error| invalid(error.to_string()))?;
        }
        let answer = wire::exchange(transport, self.operation, request, TIMEOUT).await.map_err(refused)?;
        let answer = wire::succeed(self.operation, answer).map_err(refused)?;
        read(&String::from_utf8_lossy(answer.body()))
            .map_err(|reason| CredentialsError::Answer { source_name: NAME, reason })
    }
}

fn read(text: &str) -> Result<Credentials, String> {
    let root = Element::parse(text).map_err(|error| error.to_string())?;
    let found = root.find("Credentials").ok_or("it holds no credentials")?;
    let field = |name: &str| found.child_text(name).map(str::to_owned).ok_or(format!("{name} is missing"));
    let expiration = field("Expiration")?.parse().map_err(|error: jiff::Error| error.to_string())?;
    Ok(Credentials {
        access_key_id: field("AccessKeyId")?,
        secret_access_key: field("SecretAccessKey")?,
        session_token: Some(field("SessionToken")?),
        expiration: Some(expiration),
    })
}
