//! What can go wrong with a call, by what the caller should do about it.

use std::fmt;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {}", describe(.code, .message))]
pub struct Error {
    /// The operation that was called.
    pub operation: &'static str,
    /// What to do about it.
    pub kind: ErrorKind,
    /// AWS's error code; empty when no answer was understood.
    pub code: String,
    /// AWS's message, or ours.
    pub message: String,
    /// The HTTP status; `None` when there was no answer.
    pub status: Option<u16>,
    /// What AWS's support asks for.
    pub request_id: Option<String>,
}

fn describe(code: &str, message: &str) -> impl fmt::Display {
    if code.is_empty() { message.to_owned() } else { format!("{code}: {message}") }
}

/// What a failed call means to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// Too many calls: slow down.
    Throttled,
    /// The cloud cannot supply this offering now: take another.
    InsufficientCapacity,
    /// What was asked for does not exist.
    NotFound,
    /// What was to be created exists.
    AlreadyExists,
    /// A dry run would have succeeded.
    DryRun,
    /// The credentials do not allow it.
    Unauthorized,
    /// The credentials have expired or cannot be had.
    Credentials,
    /// A condition on the request does not hold, say that an object has not changed.
    Precondition,
    /// A fault on the way or at the other end: trying again may help.
    Transient,
    /// The request itself is wrong, or the answer cannot be read: trying again will not help.
    Invalid,
}

impl ErrorKind {
    /// Whether trying again may help.
    pub(crate) fn is_retryable(self) -> bool {
        matches!(self, Self::Throttled | Self::Transient)
    }
}

impl Error {
    /// A failure before or instead of an answer of AWS.
    pub(crate) fn local(operation: &'static str, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { operation, kind, code: String::new(), message: message.into(), status: None, request_id: None }
    }

    /// Whether what was asked for does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }
}

/// Codes whose meaning neither their form nor the HTTP status tells.
const KINDS: &[(&str, ErrorKind)] = &[
    ("AccessDenied", ErrorKind::Unauthorized),
    ("AccessDeniedException", ErrorKind::Unauthorized),
    ("AuthFailure", ErrorKind::Unauthorized),
    ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", ErrorKind::Unauthorized),
    ("AuthorizationHeaderMalformed", ErrorKind::Invalid),
    ("BandwidthLimitExceeded", ErrorKind::Throttled),
    ("Blocked", ErrorKind::Unauthorized),
    ("DryRunOperation", ErrorKind::DryRun),
    ("EC2ThrottledException", ErrorKind::Throttled),
    ("EntityAlreadyExists", ErrorKind::AlreadyExists),
    ("ExpiredToken", ErrorKind::Credentials),
    ("ExpiredTokenException", ErrorKind::Credentials),
    ("IDPCommunicationError", ErrorKind::Transient),
    ("InsufficientFreeAddressesInSubnet", ErrorKind::InsufficientCapacity),
    ("InsufficientInstanceCapacity", ErrorKind::InsufficientCapacity),
    ("InvalidClientTokenId", ErrorKind::Credentials),
    ("InvalidLaunchTemplateName.AlreadyExistsException", ErrorKind::AlreadyExists),
    ("MaxFleetCountExceeded", ErrorKind::InsufficientCapacity),
    ("MaxSpotInstanceCountExceeded", ErrorKind::InsufficientCapacity),
    ("NoSuchBucket", ErrorKind::NotFound),
    ("NoSuchEntity", ErrorKind::NotFound),
    ("NoSuchKey", ErrorKind::NotFound),
    ("ParameterNotFound", ErrorKind::NotFound),
    ("PreconditionFailed", ErrorKind::Precondition),
    ("PriorRequestNotComplete", ErrorKind::Throttled),
    ("ProvisionedThroughputExceededException", ErrorKind::Throttled),
    ("QueueDoesNotExist", ErrorKind::NotFound),
    ("RequestExpired", ErrorKind::Credentials),
    ("RequestLimitExceeded", ErrorKind::Throttled),
    ("RequestThrottled", ErrorKind::Throttled),
    ("RequestThrottledException", ErrorKind::Throttled),
    ("RequestTimeout", ErrorKind::Transient),
    ("RequestTimeoutException", ErrorKind::Transient),
    ("ReservationCapacityExceeded", ErrorKind::InsufficientCapacity),
    ("ResourceNotFoundException", ErrorKind::NotFound),
    ("SlowDown", ErrorKind::Throttled),
    ("ThrottledException", ErrorKind::Throttled),
    ("Throttling", ErrorKind::Throttled),
    ("ThrottlingException", ErrorKind::Throttled),
    ("TooManyRequestsException", ErrorKind::Throttled),
    ("TransactionInProgressException", ErrorKind::Throttled),
    ("UnauthorizedOperation", ErrorKind::Unauthorized),
    ("UnfulfillableCapacity", ErrorKind::InsufficientCapacity),
    ("UnrecognizedClientException", ErrorKind::Credentials),
    ("Unsupported", ErrorKind::InsufficientCapacity),
    ("VcpuLimitExceeded", ErrorKind::InsufficientCapacity),
];

/// Says what an error code means; the status decides where the code is unknown.
///
/// Works for the errors inside a fleet's answer too, which have a code and no status.
pub fn classify(code: &str, status: Option<u16>) -> ErrorKind {
    if let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == code) {
        return *kind;
    }
    if code.ends_with(".NotFound") || code.ends_with(".NotFoundException") {
        return ErrorKind::NotFound;
    }
    if code.starts_with("AWS.SimpleQueueService.NonExistentQueue") {
        return ErrorKind::NotFound;
    }
    match status {
        Some(404) => ErrorKind::NotFound,
        Some(401 | 403) => ErrorKind::Unauthorized,
        Some(412) => ErrorKind::Precondition,
        Some(429) => ErrorKind::Throttled,
        Some(408 | 500..) => ErrorKind::Transient,
        _ => ErrorKind::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_says_each_code_once() {
        assert!(KINDS.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn codes_decide_before_the_status() {
        let cases = [
            ("RequestLimitExceeded", Some(503), ErrorKind::Throttled),
            ("InsufficientInstanceCapacity", Some(500), ErrorKind::InsufficientCapacity),
            ("InsufficientInstanceCapacity", None, ErrorKind::InsufficientCapacity),
            ("InvalidInstanceID.NotFound", Some(400), ErrorKind::NotFound),
            ("InvalidLaunchTemplateName.NotFoundException", Some(400), ErrorKind::NotFound),
            ("UnauthorizedOperation", Some(403), ErrorKind::Unauthorized),
            ("DryRunOperation", Some(412), ErrorKind::DryRun),
            ("ExpiredToken", Some(403), ErrorKind::Credentials),
            ("InternalError", Some(500), ErrorKind::Transient),
            ("Unavailable", Some(503), ErrorKind::Transient),
            ("", Some(429), ErrorKind::Throttled),
            ("", Some(404), ErrorKind::NotFound),
            ("InvalidParameterValue", Some(400), ErrorKind::Invalid),
            ("Whatever", None, ErrorKind::Invalid),
        ];
        for (code, status, kind) in cases {
            assert_eq!(classify(code, status), kind, "{code} {status:?}");
        }
    }

    #[test]
    fn only_faults_that_pass_are_retried() {
        assert!(ErrorKind::Throttled.is_retryable() && ErrorKind::Transient.is_retryable());
        assert!(!ErrorKind::InsufficientCapacity.is_retryable() && !ErrorKind::Invalid.is_retryable());
    }

    #[test]
    fn an_error_reads_as_a_sentence_with_the_operation() {
        let error = Error {
            code: "NoSuchKey".into(),
            ..Error::local("GetObject", ErrorKind::NotFound, "There is none.")
        };
        assert_eq!(error.to_string(), "GetObject: NoSuchKey: There is none.");
    }
}
