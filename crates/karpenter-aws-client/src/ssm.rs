//! SSM: parameters, in which AWS publishes the ids of images.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::endpoint::Service;
use crate::error::{Error, ErrorKind};
use crate::json::{JsonCall, Protocol};

const SSM: Protocol =
    Protocol { service: Service::Ssm, prefix: "AmazonSSM", content_type: "application/x-amz-json-1.1" };

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GetParameter<'a> {
    name: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetParameterAnswer {
    parameter: Parameter,
}

/// A parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// How often it was written.
    pub version: u64,
}

/// SSM.
pub struct Ssm<'a> {
    client: &'a Client,
}

impl Client {
    /// SSM.
    pub fn ssm(&self) -> Ssm<'_> {
        Ssm { client: self }
    }
}

impl Ssm<'_> {
    /// The parameter with this name or ARN; `None` if there is none.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn parameter(&self, name: &str) -> Result<Option<Parameter>, Error> {
        let call = JsonCall {
            operation: "GetParameter",
            region: self.client.region(),
            request: &GetParameter { name },
            patience: Duration::ZERO,
        };
        match self.client.json::<_, GetParameterAnswer>(&SSM, &call).await {
            Ok(answer) => Ok(Some(answer.parameter)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
