//! Who is calling: bearer tokens and the identity they stand for.
//!
//! Without configured tokens every caller is the cluster administrator, which is what an in-process client is.
//! Tokens of service accounts are signed by the server itself and accepted beside the configured ones.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::ApiError;

/// A caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
}

impl User {
    /// The administrator.
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
        }
    }
}

/// Decides who a request comes from.
#[derive(Debug)]
pub(crate) struct Authentication {
    tokens: BTreeMap<String, User>,
    key: hmac::Key,
}

impl Authentication {
    /// Accepts `tokens`, and signs with `secret`.
    pub(crate) fn new(tokens: BTreeMap<String, User>, secret: &[u8]) -> Self {
        Self { tokens, key: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    /// Returns the caller.
    ///
    /// # Errors
    /// 401 when tokens are configured and the request carries none of them.
    pub(crate) fn user(&self, headers: &HeaderMap, now: Timestamp) -> Result<User, ApiError> {
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = authorization.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
        match token {
            Some(token) => self.token_user(token, now).ok_or_else(ApiError::unauthorized),
            None if self.tokens.is_empty() => Ok(User::admin()),
            None => Err(ApiError::unauthorized()),
        }
    }

    /// Returns whom a token stands for.
    pub(crate) fn token_user(&self, token: &str, now: Timestamp) -> Option<User> {
        self.tokens.get(token).cloned().or_else(|| self.service_account(token, now))
    }

    /// Signs a token for a service account.
    pub(crate) fn sign(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        audiences: &Value,
        now: i64,
        expires: i64,
    ) -> String {
        let claims = json!({
            "iss": "https://kubernetes.default.svc", "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "aud": audiences, "iat": now, "nbf": now, "exp": expires,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        });
        let header = json!({"alg": "HS256", "typ": "JWT"});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(&header), encode(&claims));
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, text.as_bytes()));
        format!("{text}.{signature}")
    }

    /// Returns the service account of a token this server signed and that has not expired.
    fn service_account(&self, token: &str, now: Timestamp) -> Option<User> {
        let (text, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, text.as_bytes(), &signature).ok()?;
        let claims = URL_SAFE_NO_PAD.decode(text.split_once('.')?.1).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        let namespace = claims["kubernetes.io"]["namespace"].as_str()?;
        (claims["exp"].as_i64()? > now.as_second()).then(|| User {
            name: claims["sub"].as_str().unwrap_or_default().to_owned(),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_token(token: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        headers
    }

    #[test]
    fn tokens_are_required_once_configured() {
        let tokens = BTreeMap::from([("secret".to_owned(), User::admin())]);
        let authentication = Authentication::new(tokens, b"key");
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(authentication.user(&with_token("secret"), now), Ok(User::admin()));
        assert!(authentication.user(&with_token("wrong"), now).is_err());
        assert!(authentication.user(&HeaderMap::new(), now).is_err());
        assert!(Authentication::new(BTreeMap::new(), b"key").user(&HeaderMap::new(), now).is_ok());
    }

    #[test]
    fn service_account_tokens_are_accepted_until_they_expire() {
        let authentication = Authentication::new(BTreeMap::new(), b"key");
        let token = authentication.sign("ns", "bot", "uid", &json!([]), 0, 100);
        let user = authentication.user(&with_token(&token), Timestamp::from_second(50).unwrap()).unwrap();
        assert_eq!(user.name, "system:serviceaccount:ns:bot");
        assert!(authentication.user(&with_token(&token), Timestamp::from_second(100).unwrap()).is_err());
        let other = Authentication::new(BTreeMap::new(), b"other");
        assert!(other.user(&with_token(&token), Timestamp::UNIX_EPOCH).is_err());
    }
}
