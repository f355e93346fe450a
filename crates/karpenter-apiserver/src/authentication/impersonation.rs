//! Acting as somebody else: `Impersonate-*` headers, each part of which the caller must be allowed to take on.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use crate::authorization::{Action, Attributes};
use crate::error::ApiError;
use crate::kinds::format;
use crate::server::Core;
use crate::wire::unescape;

const EXTRA: &str = "impersonate-extra-";
const GROUP: &str = "authentication.k8s.io";

impl Core {
    /// Returns whom a caller wants to be.
    ///
    /// # Errors
    /// 400 when groups are named without a user, 403 when the caller may not be that.
    pub(super) fn impersonated(&self, headers: &HeaderMap, caller: User) -> Result<User, ApiError> {
        let Some(wanted) = read(headers)? else { return Ok(caller) };
        let may = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
            let action = Action::Resource { group, resource, subresource, namespace, name };
            self.authorize(&caller, &Attributes { verb: "impersonate", action })
        };
        match service_account(&wanted.name) {
            Some((namespace, name)) => may("", "serviceaccounts", "", namespace, name)?,
            None => may("", "users", "", "", &wanted.name)?,
        }
        for group in &wanted.groups {
            may("", "groups", "", "", group)?;
        }
        for (key, value) in wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |v| (key, v)))
        {
            may(GROUP, "userextras", key, "", value)?;
        }
        if !wanted.uid.is_empty() {
            may(GROUP, "uids", "", "", &wanted.uid)?;
        }
        Ok(completed(wanted))
    }
}

/// Reads the headers; `None` when there are none.
fn read(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let groups = headers.get_all("impersonate-group").iter().filter_map(|value| value.to_str().ok());
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) {
            extra.entry(unescape(key)).or_default().push(value.to_owned());
        }
    }
    let mut user = User::new(text("impersonate-user"), groups);
    text("impersonate-uid").clone_into(&mut user.uid);
    user.extra = extra;
    let more = !user.groups.is_empty() || !user.extra.is_empty() || !user.uid.is_empty();
    match (user.name.is_empty(), more) {
        (true, false) => Ok(None),
        (true, true) => {
            let shown = shown(&user);
            Err(ApiError::bad_request(format!("requested {shown} without impersonating a user name")))
        }
        (false, _) => Ok(Some(user)),
    }
}

/// Writes a user without a name as Go prints one.
fn shown(user: &User) -> String {
    let texts = |texts: &[String]| {
        let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { texts(&user.groups) };
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key:?}:{}", texts(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    format!(
        "&user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{groups}, Extra:map[string][]string{extra}}}",
        user.uid
    )
}

/// The namespace and name of the account that a user name stands for.
fn service_account(name: &str) -> Option<(&str, &str)> {
    let (namespace, account) = name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let proper = format::dns_label(namespace).is_empty() && format::dns_subdomain(account).is_empty();
    proper.then_some((namespace, account))
}

/// Adds the groups that go without saying.
fn completed(mut user: User) -> User {
    if let (Some((namespace, _)), true) = (service_account(&user.name), user.groups.is_empty()) {
        user.groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    let implied = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    let named = user.groups.iter().any(|group| group == implied || group == UNAUTHENTICATED);
    if !named {
        user.groups.push(implied.to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn service_accounts_have_their_groups() {
        let wanted = read(&headers(&[("impersonate-user", "system:serviceaccount:ns:bot")])).unwrap();
        assert_eq!(
            completed(wanted.unwrap()).groups,
            ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
        );
    }

    #[test]
    fn named_groups_and_extras_are_taken() {
        let wanted = read(&headers(&[
            ("impersonate-user", "jane"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-extra-acme%2fscope", "x"),
        ]));
        let user = completed(wanted.unwrap().unwrap());
        assert_eq!(user.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(user.extra["acme/scope"], ["x"]);
    }

    #[test]
    fn groups_need_a_user() {
        assert_eq!(read(&headers(&[])).unwrap(), None);
        assert!(read(&headers(&[("impersonate-group", "dev")])).is_err());
    }
}
