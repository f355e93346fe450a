//! Keeps credentials and fetches new ones before they expire.

use jiff::{SignedDuration, Timestamp};
use karpenter_transport::RetryPolicy;
use tokio::sync::Mutex;

use super::{Credentials, CredentialsError, Loader, Source};
use crate::error::ErrorKind;

/// Credentials are renewed when less than this is left: long enough for several tries.
const EARLY: SignedDuration = SignedDuration::from_mins(5);

/// The credentials of one client. Callers that come while they are fetched wait for the same answer.
pub(crate) struct CredentialsCache {
    source: Source,
    loader: Loader,
    retry: RetryPolicy,
    kept: Mutex<Option<Credentials>>,
}

impl CredentialsCache {
    pub(crate) fn new(source: Source, loader: Loader, retry: RetryPolicy) -> Self {
        Self { source, loader, retry, kept: Mutex::new(None) }
    }

    /// Credentials that work now.
    pub(crate) async fn get(&self) -> Result<Credentials, CredentialsError> {
        let mut kept = self.kept.lock().await;
        let now = self.loader.environment.now();
        if let Some(credentials) = kept.as_ref().filter(|credentials| left(credentials, now) > EARLY) {
            return Ok(credentials.clone());
        }
        match self.load().await {
            Ok(credentials) => Ok(kept.insert(credentials).clone()),
            // What cannot be renewed yet may still be used for as long as it lasts.
            Err(error) => {
                match kept.as_ref().filter(|credentials| left(credentials, now) > SignedDuration::ZERO) {
                    Some(credentials) => Ok(credentials.clone()),
                    None => Err(error),
                }
            }
        }
    }

    /// Forgets credentials that were refused, so that the next call fetches new ones.
    pub(crate) async fn forget(&self, refused: &Credentials) {
        let mut kept = self.kept.lock().await;
        if kept.as_ref() == Some(refused) {
            *kept = None;
        }
    }

    async fn load(&self) -> Result<Credentials, CredentialsError> {
        let mut attempt = 1;
        loop {
            match self.loader.load(&self.source).await {
                Err(CredentialsError::Refused { error, .. })
                    if attempt < self.retry.max_attempts
                        && matches!(error.kind, ErrorKind::Transient | ErrorKind::Throttled) =>
                {
                    tokio::time::sleep(self.retry.pause(attempt, &*self.loader.environment)).await;
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }
}

fn left(credentials: &Credentials, now: Timestamp) -> SignedDuration {
    credentials.expiration.map_or(SignedDuration::MAX, |expiration| expiration.duration_since(now))
}
