//! Who is calling: certificates, bearer tokens, and the identity they stand for.
//!
//! A request is whoever its TLS certificate says, else whoever its bearer token stands for. Tokens are configured, or
//! signed by the server for service accounts. A caller without credentials is the administrator when no tokens are
//! configured and nothing is restricted, which is what an in-process client is; `system:anonymous` under role-based
//! access control; and refused otherwise. `Impersonate-*` headers then turn a caller into somebody else.

mod certificate;
mod impersonation;
mod token;

use std::collections::BTreeMap;

use http::{HeaderMap, header};
use jiff::Timestamp;
use ring::hmac;
use serde_json::{Value, json};

use crate::authorization::Authorization;
use crate::error::ApiError;
use crate::server::Core;

pub(crate) use certificate::subject_user;
pub(crate) use token::TokenRequest;

/// What is known of a user: which credential they showed.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";
/// Whom tokens for this server are addressed to.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// A caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The user name.
    pub name: String,
    /// The unique id, when there is one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Builds a user with these groups and no others.
    pub fn new<'g>(name: &str, groups: impl IntoIterator<Item = &'g str>) -> Self {
        let groups = groups.into_iter().map(str::to_owned).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// The administrator.
    pub fn admin() -> Self {
        Self::new("kubernetes-admin", ["system:masters", AUTHENTICATED])
    }

    /// Somebody without credentials.
    fn anonymous() -> Self {
        Self::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// Adds the group of everybody with credentials.
    fn authenticated(mut self) -> Self {
        if !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Writes the user as `UserInfo` objects have it.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = json!({"username": self.name});
        if !self.uid.is_empty() {
            value["uid"] = self.uid.as_str().into();
        }
        if !self.groups.is_empty() {
            value["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            value["extra"] = json!(self.extra);
        }
        value
    }
}

/// What a connection's certificate says about who is at its other end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Peer {
    /// There is none.
    #[default]
    Unknown,
    /// A user whom the authority vouches for.
    User(User),
    /// The certificate is not the authority's, has expired or names nobody.
    Refused,
}

/// Decides who a request comes from.
#[derive(Debug)]
pub(crate) struct Authentication {
    tokens: BTreeMap<String, User>,
    key: hmac::Key,
    /// Who a caller without credentials is; `None` refuses them.
    nobody: Option<User>,
}

impl Authentication {
    /// Accepts `tokens`, and signs with `secret`.
    pub(crate) fn new(tokens: BTreeMap<String, User>, secret: &[u8], mode: Authorization) -> Self {
        let nobody = match mode {
            Authorization::Rbac => Some(User::anonymous()),
            Authorization::AlwaysAllow if tokens.is_empty() => Some(User::admin()),
            Authorization::AlwaysAllow => None,
        };
        Self { tokens, key: hmac::Key::new(hmac::HMAC_SHA256, secret), nobody }
    }

    fn configured(&self, token: &str) -> Option<User> {
        self.tokens.get(token).cloned().map(User::authenticated)
    }
}

impl Core {
    /// Returns the caller, or whom the caller impersonates.
    ///
    /// # Errors
    /// 401 for a wrong or expired token and for missing credentials, 403 for an impersonation that is not allowed.
    pub(crate) fn caller(&self, headers: &HeaderMap, peer: &Peer) -> Result<User, ApiError> {
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let scheme = authorization.and_then(|value| value.split_once(' '));
        let token = scheme.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let user = match (peer, token) {
            (Peer::User(peer), _) => Some(peer.clone()),
            (_, Some((_, token))) => {
                // A token for somebody else's server is worth nothing here.
                let ours = |audiences: &Vec<String>| {
                    audiences.is_empty() || audiences.iter().any(|to| to == AUDIENCE)
                };
                self.token_user(token.trim()).filter(|(_, audiences)| ours(audiences)).map(|(user, _)| user)
            }
            (Peer::Unknown, None) => self.authentication.nobody.clone(),
            (Peer::Refused, None) => None,
        };
        let user = user.ok_or_else(ApiError::unauthorized)?;
        self.impersonated(headers, user)
    }

    /// Returns whom a token stands for and the audiences it is for (none named means this server).
    pub(crate) fn token_user(&self, token: &str) -> Option<(User, Vec<String>)> {
        if let Some(user) = self.authentication.configured(token) {
            return Some((user, Vec::new()));
        }
        let account = self.authentication.verify(token, self.environment.now())?;
        // A token dies with its service account, even when another takes the name.
        let key = crate::store::Key::new(account.namespace.as_str(), account.name.as_str());
        let stored = self.store.get("serviceaccounts", &key)?;
        (*stored.uid == *account.uid).then(|| (account.user(), account.audiences))
    }
}

/// Reads a time as JWTs write it.
fn is_current(claims: &Value, now: Timestamp) -> bool {
    let second = now.as_second();
    claims["exp"].as_i64().is_some_and(|expires| expires > second)
        && claims["nbf"].as_i64().is_none_or(|begins| begins <= second)
}
