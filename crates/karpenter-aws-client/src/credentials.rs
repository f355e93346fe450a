//! Who signs: keys, where they come from, and when they are fetched anew.
//!
//! Which source applies is a pure decision over variables and profiles ([`Source::find`]); only loading touches files and the network.

mod cache;
mod container;
mod load;
mod metadata;
mod roles;
mod source;

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;

use crate::error::Error;
use crate::profile::ProfileError;

pub(crate) use cache::CredentialsCache;
pub(crate) use load::Loader;
pub(crate) use metadata::Metadata;
pub use source::{Source, TokenPlace};

/// Keys to sign with.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Names the keys; travels with every request.
    pub access_key_id: String,
    /// The secret; never leaves the process.
    pub secret_access_key: String,
    /// Marks temporary keys.
    pub session_token: Option<String>,
    /// When they stop working; `None` if never.
    pub expiration: Option<Timestamp>,
}

impl Credentials {
    /// Keys that do not expire.
    pub fn fixed(access_key_id: &str, secret_access_key: &str) -> Self {
        Self {
            access_key_id: access_key_id.to_owned(),
            secret_access_key: secret_access_key.to_owned(),
            session_token: None,
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
        "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, choose a profile with AWS_PROFILE, or run \
         with a role (IRSA, EKS Pod Identity, or an instance profile); the instance metadata said: {0}"
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
    /// The shared files are unusable.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A source was asked and refused.
    #[error("cannot get AWS credentials from {source_name}: {error}")]
    Refused {
        /// Which source.
        source_name: &'static str,
        /// What it said.
        error: Error,
    },
    /// A source answered something else.
    #[error("cannot get AWS credentials from {source_name}: its answer is not understood: {reason}")]
    Answer {
        /// Which source.
        source_name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// Credentials as the instance metadata and the container endpoint write them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<Timestamp>,
}

impl Document {
    fn read(source_name: &'static str, body: &[u8]) -> Result<Credentials, CredentialsError> {
        let document: Self = serde_json::from_slice(body)
            .map_err(|error| CredentialsError::Answer { source_name, reason: error.to_string() })?;
        Ok(Credentials {
            access_key_id: document.access_key_id,
            secret_access_key: document.secret_access_key,
            session_token: document.token,
            expiration: document.expiration,
        })
    }
}
