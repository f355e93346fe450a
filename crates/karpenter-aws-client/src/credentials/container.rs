//! The endpoint beside a container that hands out its role: EKS Pod Identity and ECS.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use karpenter_transport::Transport;

use super::load::read_file;
use super::{Credentials, CredentialsError, Document, TokenPlace};
use crate::error::{Error, ErrorKind};
use crate::wire;

const NAME: &str = "the container credentials endpoint";
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn load(
    transport: &dyn Transport,
    url: &str,
    token: Option<&TokenPlace>,
) -> Result<Credentials, CredentialsError> {
    let mut request = Request::get(url);
    if let Some(place) = token {
        let token = match place {
            TokenPlace::File(path) => read_file(path, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")?,
            TokenPlace::Value(value) => value.clone(),
        };
        request = request.header(header::AUTHORIZATION, token.trim_end());
    }
    let refused = |error| CredentialsError::Refused { source_name: NAME, error };
    let request = request
        .body(Bytes::new())
        .map_err(|error| refused(Error::local("GetCredentials", ErrorKind::Invalid, error.to_string())))?;
    let answer = wire::exchange(transport, "GetCredentials", request, TIMEOUT).await.map_err(refused)?;
    let answer = wire::succeed("GetCredentials", answer).map_err(refused)?;
    Document::read(NAME, answer.body())
}
