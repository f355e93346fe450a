//! Who may call: roles, OIDC providers, access keys, and the nonces that were used.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::permissions::Policy;

/// A RAM role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Services that may take it, such as `ecs.aliyuncs.com`.
    #[serde(default)]
    pub services: Vec<String>,
    /// OIDC providers whose tokens may take it, by ARN.
    #[serde(default)]
    pub oidc_providers: Vec<String>,
    /// The subject a token must have; any when left out.
    #[serde(default)]
    pub subject: Option<String>,
    /// The longest session in seconds.
    pub max_session: u32,
    /// What it may do; anything when left out.
    #[serde(default)]
    pub policy: Option<Policy>,
}

/// An OIDC provider that RAM trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OidcProvider {
    /// Its ARN.
    pub arn: String,
    /// Who issues its tokens.
    pub issuer: String,
    /// Audiences its tokens may have.
    pub audiences: Vec<String>,
}

/// An access key: a user's, or one that STS gave out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessKey {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: String,
    /// The token that belongs to it, if it is temporary.
    #[serde(default)]
    pub token: Option<String>,
    /// When it ends, if it is temporary.
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// The role it stands for, if it is temporary.
    #[serde(default)]
    pub role: Option<String>,
    /// What it may do; anything when left out. A role's own policy counts as well.
    #[serde(default)]
    pub policy: Option<Policy>,
}

/// Nonces of requests, for at least as long as a request is valid.
#[derive(Debug, Default)]
pub(crate) struct Nonces {
    since: Timestamp,
    now: BTreeSet<String>,
    before: BTreeSet<String>,
}

impl Nonces {
    /// How long a generation is filled.
    const GENERATION: SignedDuration = SignedDuration::from_mins(30);

    /// Whether a nonce was not seen before.
    pub(crate) fn is_new(&mut self, nonce: String, now: Timestamp) -> bool {
        if now.duration_since(self.since) > Self::GENERATION {
            self.since = now;
            self.before = std::mem::take(&mut self.now);
        }
        !self.before.contains(&nonce) && self.now.insert(nonce)
    }
}
