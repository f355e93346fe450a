//! Tokens of service accounts: signed by the server, accepted until they expire.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use serde_json::{Value, json};

use super::{AUDIENCE, AUTHENTICATED, Authentication, CREDENTIAL, User, is_current};

/// What a token is to say.
#[derive(Debug, Clone)]
pub(crate) struct TokenRequest<'r> {
    pub(crate) namespace: &'r str,
    pub(crate) name: &'r str,
    pub(crate) uid: &'r str,
    pub(crate) audiences: &'r Value,
    /// The object the token ends with: its kind in lower case, its name and uid.
    pub(crate) bound: Option<(String, Value)>,
    pub(crate) issued: i64,
    pub(crate) expires: i64,
    /// Identifies this token.
    pub(crate) id: String,
}

/// What a genuine token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccountToken {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) audiences: Vec<String>,
    id: String,
}

impl AccountToken {
    /// Returns the user a service account is.
    pub(crate) fn user(&self) -> User {
        let (namespace, name) = (&self.namespace, &self.name);
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            AUTHENTICATED.to_owned(),
        ];
        let mut user = User::new(
            &format!("system:serviceaccount:{namespace}:{name}"),
            groups.iter().map(String::as_str),
        );
        user.uid.clone_from(&self.uid);
        if !self.id.is_empty() {
            let id = vec![format!("JTI={}", self.id)];
            user.extra.insert(CREDENTIAL.to_owned(), id);
        }
        user
    }
}

impl Authentication {
    /// Signs a token for a service account.
    pub(crate) fn sign(&self, request: &TokenRequest<'_>) -> String {
        let TokenRequest { namespace, name, uid, audiences, bound, issued, expires, id } = request;
        let mut claims = json!({
            "iss": AUDIENCE, "sub": format!("system:serviceaccount:{namespace}:{name}"), "aud": audiences,
            "iat": issued, "nbf": issued, "exp": expires, "jti": id,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        });
        if let Some((kind, identity)) = bound {
            claims["kubernetes.io"][kind.as_str()] = identity.clone();
        }
        let header = json!({"alg": "HS256", "typ": "JWT"});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(&header), encode(&claims));
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, text.as_bytes()));
        format!("{text}.{signature}")
    }

    /// Returns what a token says that this server signed and that has not expired.
    pub(super) fn verify(&self, token: &str, now: Timestamp) -> Option<AccountToken> {
        let (text, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, text.as_bytes(), &signature).ok()?;
        let claims = URL_SAFE_NO_PAD.decode(text.split_once('.')?.1).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        if !is_current(&claims, now) {
            return None;
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let account = &claims["kubernetes.io"]["serviceaccount"];
        Some(AccountToken {
            namespace: text(&claims["kubernetes.io"]["namespace"])?,
            name: text(&account["name"])?,
            uid: text(&account["uid"])?,
            audiences: claims["aud"].as_array().into_iter().flatten().filter_map(text).collect(),
            id: text(&claims["jti"]).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::authorization::Authorization;

    #[test]
    fn tokens_are_genuine_until_they_expire() {
        let signer = |key: &[u8]| Authentication::new(BTreeMap::new(), key, Authorization::AlwaysAllow);
        let audiences = json!(["a"]);
        let token = signer(b"key").sign(&TokenRequest {
            namespace: "ns",
            name: "bot",
            uid: "u",
            audiences: &audiences,
            bound: None,
            issued: 10,
            expires: 100,
            id: "1".into(),
        });
        let at = |key: &[u8], second| signer(key).verify(&token, Timestamp::from_second(second).unwrap());
        let read = at(b"key", 50).unwrap();
        assert_eq!((read.user().name.as_str(), read.uid.as_str()), ("system:serviceaccount:ns:bot", "u"));
        assert_eq!(at(b"key", 100), None);
        assert_eq!(at(b"key", 9), None);
        assert_eq!(at(b"other", 50), None);
    }
}
