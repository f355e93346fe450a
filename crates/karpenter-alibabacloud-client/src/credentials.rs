//! Who signs: keys, where they come from, and when they are fetched anew.
//!
//! Which source applies is a pure decision over variables and the command line's file ([`Source::find`]); only loading touches files and
//! the network.

mod cache;
mod load;
mod metadata;
mod source;

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;

use crate::error::Error;

pub(crate) use cache::CredentialsCache;
pub(crate) use load::Loader;
pub(crate) use metadata::Metadata;
pub use source::{Profile, Source};

/// Keys to sign with.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Names the keys; travels with every request.
    pub access_key_id: String,
    /// The secret; never leaves the process.
    pub access_key_secret: String,
    /// Marks temporary keys.
    pub security_token: Option<String>,
    /// When they stop working; `None` if never.
    pub expiration: Option<Timestamp>,
}

impl Credentials {
    /// Keys that do not expire.
    pub fn fixed(access_key_id: &str, access_key_secret: &str) -> Self {
        Self {
            access_key_id: access_key_id.to_owned(),
            access_key_secret: access_key_secret.to_owned(),
            security_token: None,
            expiration: None,
        }
    }
}

/// Secrets stay out of logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .field("expiration", &self.expiration)
            .finish_non_exhaustive()
    }
}

/// Credentials cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// No source is configured and the machine has none.
    #[error(
        "no Alibaba Cloud credentials: give the pod a RAM role (RRSA: ALIBABA_CLOUD_ROLE_ARN, ALIBABA_CLOUD_OIDC_PROVIDER_ARN and \
         ALIBABA_CLOUD_OIDC_TOKEN_FILE), set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, or run on an ECS instance \
         with a RAM role; the instance metadata said: {0}"
    )]
    None(String),
    /// A source is configured incompletely.
    #[error("{0}")]
    Configuration(String),
    /// A file that a source needs cannot be read.
    #[error("cannot read {path}, which {setting} names: {reason}")]
    File {
        /// The file.
        path: String,
        /// What names it.
        setting: &'static str,
        /// Why not.
        reason: String,
    },
    /// A source was asked and refused.
    #[error("cannot get Alibaba Cloud credentials from {source_name}: {error}")]
    Refused {
        /// Which source.
        source_name: &'static str,
        /// What it said.
        error: Box<Error>,
    },
    /// A source answered something else.
    #[error(
        "cannot get Alibaba Cloud credentials from {source_name}: its answer is not understood: {reason}"
    )]
    Answer {
        /// Which source.
        source_name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// Temporary credentials as STS and the instance metadata write them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    access_key_id: String,
    access_key_secret: String,
    security_token: String,
    expiration: Timestamp,
}

impl Document {
    fn read(
        source_name: &'static str,
        body: &[u8],
        inside: Option<&str>,
    ) -> Result<Credentials, CredentialsError> {
        let wrong = |reason: String| CredentialsError::Answer { source_name, reason };
        let whole: serde_json::Value =
            serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        let part = inside.map_or(&whole, |field| &whole[field]);
        let document = Self::deserialize(part).map_err(|error| wrong(error.to_string()))?;
        Ok(Credentials {
            access_key_id: document.access_key_id,
            access_key_secret: document.access_key_secret,
            security_token: Some(document.security_token),
            expiration: Some(document.expiration),
        })
    }
}
