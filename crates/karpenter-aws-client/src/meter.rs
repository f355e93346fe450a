//! Who is told how calls went.

use std::time::Duration;

use http::StatusCode;

use crate::endpoint::Service;
use crate::error::Error;

/// A call, or one attempt of it, that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The service, as AWS's SDKs name it.
    pub service: &'static str,
    /// The operation.
    pub operation: &'static str,
    /// The HTTP status; zero if there was no answer.
    pub status: u16,
    /// How long it took.
    pub took: Duration,
}

impl Measured {
    pub(crate) fn new<T>(
        service: Service,
        operation: &'static str,
        result: &Result<T, &Error>,
        took: Duration,
    ) -> Self {
        let status = match result {
            Ok(_) => StatusCode::OK.as_u16(),
            Err(error) => error.status.unwrap_or_default(),
        };
        Self { service: service.sdk_name(), operation, status, took }
    }
}

/// Counts calls.
pub trait Meter: Send + Sync {
    /// An attempt has ended.
    fn attempt(&self, attempt: &Measured);

    /// A call has ended, after so many attempts more than one.
    fn call(&self, call: &Measured, retries: u32);
}
