//! What a refused launch means: which offering to leave alone, or what to tell.

use jiff::Timestamp;
use karpenter_alibabacloud_client::{Error, ErrorKind, classify};
use karpenter_provider::LaunchError;

use super::candidates::Candidate;
use crate::market::Refusals;

/// What to do after a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is remembered what not to ask for: take the next candidate.
    Next,
    /// The disk's category is not for this type: take the next category.
    OtherDisk,
    /// The token was used for another request: look whether there is a machine already.
    LookUp,
    /// Nothing else will help.
    Fail(LaunchError),
}

/// Judges a refusal of one candidate and remembers what follows from it.
pub fn judge(error: &Error, candidate: &Candidate, refusals: &mut Refusals, now: Timestamp) -> Verdict {
    if error.code == "InvalidDiskCategory.NotSupported" {
        return Verdict::OtherDisk;
    }
    let kind = match error.kind {
        // A reservation that cannot be used, for whatever reason, is no reason to give up.
        ErrorKind::Invalid | ErrorKind::NotFound if candidate.reservation.is_some() => ErrorKind::NoStock,
        kind => kind,
    };
    match kind {
        ErrorKind::NoStock => refusals.refuse(candidate.key.clone(), now),
        ErrorKind::NoAddresses => refusals.refuse_v_switch(&candidate.v_switch, now),
        ErrorKind::Quota => refusals.refuse_capacity_type(&candidate.key.capacity_type, now),
        ErrorKind::TokenReused => return Verdict::LookUp,
        _ => return Verdict::Fail(failure(error)),
    }
    Verdict::Next
}

/// Remembers what a group's result says about the candidate it tried.
pub fn note(code: &str, candidate: &Candidate, refusals: &mut Refusals, now: Timestamp) {
    match classify(code, None) {
        ErrorKind::NoAddresses => refusals.refuse_v_switch(&candidate.v_switch, now),
        ErrorKind::Quota => refusals.refuse_capacity_type(&candidate.key.capacity_type, now),
        // Whatever else is wrong with it, asking for it again at once does not help.
        _ => refusals.refuse(candidate.key.clone(), now),
    }
}

/// A failure with one word for the condition and the remedy.
pub fn failure(error: &Error) -> LaunchError {
    let (reason, remedy) = match error.kind {
        ErrorKind::Throttled => {
            ("Throttled", "The launch is repeated; ask for a greater quota if this lasts.")
        }
        ErrorKind::Balance => ("InsufficientBalance", "Recharge the account; the launch is repeated."),
        ErrorKind::Denied => ("Denied", "The launch is repeated once the policy allows it."),
        ErrorKind::Credentials => {
            ("CredentialsRefused", "Check the RAM role, its OIDC provider and the token file, or the keys.")
        }
        ErrorKind::NotFound => {
            ("NotFound", "Something the ECSNodeClass resolved is gone; it is resolved anew within minutes.")
        }
        ErrorKind::Transient => {
            ("CloudUnavailable", "It is looked for the machine before the launch is repeated.")
        }
        _ => ("LaunchFailed", "Correct the ECSNodeClass if the message names one of its fields."),
    };
    LaunchError::Failed { reason: reason.to_owned(), message: format!("{error}. {remedy}") }
}
