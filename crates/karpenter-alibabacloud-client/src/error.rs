//! What can go wrong with a call, by what the caller should do about it.

use std::fmt;
use std::time::Duration;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", Described(self))]
pub struct Error {
    /// The operation that was called.
    pub operation: &'static str,
    /// What to do about it.
    pub kind: ErrorKind,
    /// The cloud's error code; empty when no answer was understood.
    pub code: String,
    /// The cloud's message, or ours.
    pub message: String,
    /// The HTTP status; `None` when there was no answer.
    pub status: Option<u16>,
    /// What the cloud's support asks for.
    pub request_id: Option<Box<str>>,
    /// The right that was missing, for [`ErrorKind::Denied`].
    pub missing_action: Option<Box<str>>,
    /// How long the cloud wants us to wait.
    pub retry_after: Option<Duration>,
}

struct Described<'a>(&'a Error);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { operation, code, message, request_id, missing_action, .. } = self.0;
        write!(f, "{operation}: ")?;
        if !code.is_empty() {
            write!(f, "{code}: ")?;
        }
        f.write_str(message)?;
        if let Some(action) = missing_action {
            write!(
                f,
                "; allow the action {action} in a RAM policy of the role or user that Karpenter runs as"
            )?;
        }
        if let Some(id) = request_id {
            write!(f, " (request {id})")?;
        }
        Ok(())
    }
}

/// What a failed call means to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// Too many calls: slow down.
    Throttled,
    /// This instance type is not to be had in this zone: take another.
    NoStock,
    /// The vSwitch has no free addresses: take another.
    NoAddresses,
    /// The account may not have more of this: ask for a greater quota, or take another capacity type.
    Quota,
    /// The account has no money.
    Balance,
    /// What was asked for does not exist.
    NotFound,
    /// The RAM policy does not allow it.
    Denied,
    /// The credentials have expired, are wrong or cannot be had.
    Credentials,
    /// It is in a state that does not allow this now: try again later.
    State,
    /// The client token was used for another request.
    TokenReused,
    /// A fault on the way or at the other end: trying again may help.
    Transient,
    /// The request itself is wrong, or the answer cannot be read: trying again will not help.
    Invalid,
}

impl ErrorKind {
    /// Whether trying again may help.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Throttled | Self::Transient)
    }
}

impl Error {
    /// A failure before or instead of an answer of the cloud.
    pub fn local(operation: &'static str, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            operation,
            kind,
            code: String::new(),
            message: message.into(),
            status: None,
            request_id: None,
            missing_action: None,
            retry_after: None,
        }
    }

    /// Whether what was asked for does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }

    /// Whether the request may have been carried out although it failed: nobody answered, or with a fault.
    pub fn is_undecided(&self) -> bool {
        self.kind == ErrorKind::Transient
    }
}

/// Codes whose meaning neither their form nor the HTTP status tells.
const KINDS: &[(&str, ErrorKind)] = &[
    ("AccessDenied", ErrorKind::Denied),
    ("EntityNotExist.Role", ErrorKind::NotFound),
    ("ErrorClusterNotFound", ErrorKind::NotFound),
    ("Forbidden", ErrorKind::Denied),
    ("IdempotenceParamNotMatch", ErrorKind::TokenReused),
    ("IdempotentParameterMismatch", ErrorKind::TokenReused),
    ("IdempotentProcessing", ErrorKind::Transient),
    ("IncompleteSignature", ErrorKind::Credentials),
    ("IncorrectInstanceStatus", ErrorKind::State),
    ("InsufficientBalance", ErrorKind::Balance),
    ("InternalError", ErrorKind::Transient),
    ("InvalidAccessKeyId", ErrorKind::Credentials),
    ("InvalidAccessKeyId.Inactive", ErrorKind::Credentials),
    ("InvalidAccessKeyId.NotFound", ErrorKind::Credentials),
    ("InvalidAccountStatus.NotEnoughBalance", ErrorKind::Balance),
    ("InvalidDiskCategory.NotSupported", ErrorKind::NoStock),
    ("InvalidInstanceType.NotSupported", ErrorKind::NoStock),
    ("InvalidInstanceType.ValueNotSupported", ErrorKind::NoStock),
    ("InvalidInstanceType.ZoneNotSupported", ErrorKind::NoStock),
    ("InvalidResourceType.NotSupported", ErrorKind::NoStock),
    ("InvalidSecurityToken", ErrorKind::Credentials),
    ("InvalidTimeStamp.Expired", ErrorKind::Credentials),
    ("InvalidVSwitchId.IpNotEnough", ErrorKind::NoAddresses),
    ("MissingSecurityToken", ErrorKind::Credentials),
    ("NoInstanceStock", ErrorKind::NoStock),
    ("NoPermission", ErrorKind::Denied),
    ("OperationDenied.DeletionProtection", ErrorKind::State),
    ("OperationDenied.NoStock", ErrorKind::NoStock),
    ("ServiceUnavailable", ErrorKind::Throttled),
    ("SignatureDoesNotMatch", ErrorKind::Credentials),
    ("SignatureNonceUsed", ErrorKind::Transient),
    ("StatusForbidden", ErrorKind::Denied),
    ("TimeExpired", ErrorKind::Credentials),
    ("UnauthorizedOperation", ErrorKind::Denied),
    ("Zone.NotOnSale", ErrorKind::NoStock),
    ("Zone.NotOpen", ErrorKind::NoStock),
];

/// What codes that begin so mean.
const PREFIXES: &[(&str, ErrorKind)] = &[
    ("AuthenticationFail", ErrorKind::Credentials),
    ("Forbidden.", ErrorKind::Denied),
    ("IncorrectInstanceStatus.", ErrorKind::State),
    // A reservation that has no room left, or cannot be used for this.
    ("InvalidPrivatePool", ErrorKind::NoStock),
    ("InvalidSecurityToken.", ErrorKind::Credentials),
    ("NoPermission.", ErrorKind::Denied),
    ("QuotaExceed.", ErrorKind::Quota),
    ("QuotaExceeded.", ErrorKind::Quota),
    ("Throttling", ErrorKind::Throttled),
];

/// Says what an error code means; the status decides where the code is unknown. Never the message: wording is no contract.
///
/// Works for the errors inside a group's launch results too, which have a code and no status.
pub fn classify(code: &str, status: Option<u16>) -> ErrorKind {
    if let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == code) {
        return *kind;
    }
    if let Some((_, kind)) = PREFIXES.iter().find(|(prefix, _)| code.starts_with(prefix)) {
        return *kind;
    }
    if code.ends_with(".NotFound") || code.ends_with("NotFoundException") {
        return ErrorKind::NotFound;
    }
    match status {
        Some(404) => ErrorKind::NotFound,
        Some(401 | 403) if code.is_empty() => ErrorKind::Denied,
        Some(429) => ErrorKind::Throttled,
        Some(408 | 500..) => ErrorKind::Transient,
        _ => ErrorKind::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted_and_say_each_code_once() {
        assert!(KINDS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(PREFIXES.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn codes_decide_before_the_status() {
        let cases = [
            ("OperationDenied.NoStock", Some(403), ErrorKind::NoStock),
            ("NoInstanceStock", None, ErrorKind::NoStock),
            ("InvalidDiskCategory.NotSupported", Some(403), ErrorKind::NoStock),
            ("InvalidVSwitchId.IpNotEnough", Some(403), ErrorKind::NoAddresses),
            ("QuotaExceed.ElasticQuota", Some(403), ErrorKind::Quota),
            ("InsufficientBalance", Some(400), ErrorKind::Balance),
            ("Throttling", Some(400), ErrorKind::Throttled),
            ("Throttling.User", Some(400), ErrorKind::Throttled),
            ("ServiceUnavailable", Some(503), ErrorKind::Throttled),
            ("Forbidden.RAM", Some(403), ErrorKind::Denied),
            ("Forbidden.RiskControl", Some(403), ErrorKind::Denied),
            ("InvalidSecurityToken.Expired", Some(403), ErrorKind::Credentials),
            ("InvalidInstanceId.NotFound", Some(404), ErrorKind::NotFound),
            ("InvalidImageId.NotFound", Some(404), ErrorKind::NotFound),
            ("IncorrectInstanceStatus.Initializing", Some(403), ErrorKind::State),
            ("IncorrectInstanceStatus", Some(403), ErrorKind::State),
            ("IdempotentProcessing", Some(403), ErrorKind::Transient),
            ("IdempotentParameterMismatch", Some(400), ErrorKind::TokenReused),
            ("MessageNotExist", Some(404), ErrorKind::NotFound),
            ("TimeExpired", Some(408), ErrorKind::Credentials),
            ("InternalError", Some(500), ErrorKind::Transient),
            ("InvalidParameter", Some(400), ErrorKind::Invalid),
            ("SomethingNew", Some(403), ErrorKind::Invalid),
            ("", Some(403), ErrorKind::Denied),
            ("", Some(502), ErrorKind::Transient),
        ];
        for (code, status, kind) in cases {
            assert_eq!(classify(code, status), kind, "{code} {status:?}");
        }
    }

    #[test]
    fn a_message_that_says_not_found_is_no_proof_of_absence() {
        assert_eq!(classify("InvalidParameter", Some(400)), ErrorKind::Invalid);
    }

    #[test]
    fn an_error_names_the_operation_the_right_that_is_missing_and_the_request() {
        let error = Error {
            code: "Forbidden.RAM".into(),
            missing_action: Some("ecs:RunInstances".into()),
            request_id: Some("0F".into()),
            ..Error::local("RunInstances", ErrorKind::Denied, "User not authorized.")
        };
        assert_eq!(
            error.to_string(),
            "RunInstances: Forbidden.RAM: User not authorized.; allow the action ecs:RunInstances in a RAM policy of the \
             role or user that Karpenter runs as (request 0F)"
        );
    }
}
