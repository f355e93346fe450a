//! Keeps credentials and fetches new ones before they expire.

use jiff::{SignedDuration, Timestamp};
use karpenter_transport::RetryPolicy;
use tokio::sync::Mutex;

use super::{Credentials, CredentialsError, Loader, Source};

/// Credentials are renewed when less than this is left: long enough for several tries.
const EARLY: SignedDuration = SignedDuration::from_mins(15);
/// Replicas do not renew at the same moment.
const SPREAD_SECONDS: u64 = 120;
/// How long a failed renewal rests while the old credentials still work.
const REST: SignedDuration = SignedDuration::from_secs(30);

/// The credentials of one client. Callers that come while they are fetched wait for the same answer.
pub(crate) struct CredentialsCache {
    source: Source,
    loader: Loader,
    retry: RetryPolicy,
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    credentials: Credentials,
    /// When to fetch new ones; `None` if never.
    renew: Option<Timestamp>,
}

impl CredentialsCache {
    pub(crate) fn new(source: Source, loader: Loader, retry: RetryPolicy) -> Self {
        Self { source, loader, retry, kept: Mutex::new(None) }
    }

    /// Whether the source can give other credentials than it gave.
    pub(crate) fn is_renewable(&self) -> bool {
        !matches!(self.source, Source::Keys(_))
    }

    /// Credentials that work now.
    pub(crate) async fn get(&self) -> Result<Credentials, CredentialsError> {
        let mut kept = self.kept.lock().await;
        let now = self.loader.environment.now();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.renew.is_none_or(|renew| now < renew)) {
            return Ok(kept.credentials.clone());
        }
        match self.load().await {
            Ok(credentials) => {
                let renew = self.renewal(&credentials, now);
                *kept = Some(Kept { credentials: credentials.clone(), renew });
                Ok(credentials)
            }
            // What cannot be renewed yet may still be used for as long as it lasts.
            Err(error) => match kept.as_mut().filter(|kept| lasts(&kept.credentials, now)) {
                Some(kept) => {
                    kept.renew = Some(now.saturating_add(REST).unwrap_or(Timestamp::MAX));
                    Ok(kept.credentials.clone())
                }
                None => Err(error),
            },
        }
    }

    /// Forgets credentials that were refused, so that the next call fetches new ones.
    pub(crate) async fn forget(&self, refused: &Credentials) {
        let mut kept = self.kept.lock().await;
        if kept.as_ref().is_some_and(|kept| kept.credentials == *refused) {
            *kept = None;
        }
    }

    /// Early, but never at once: credentials that live shorter than that are renewed at half their life.
    fn renewal(&self, credentials: &Credentials, now: Timestamp) -> Option<Timestamp> {
        let expiration = credentials.expiration?;
        let life = expiration.duration_since(now);
        let early = EARLY + SignedDuration::from_secs(self.loader.environment.below(SPREAD_SECONDS) as i64);
        Some(now.saturating_add((life - early).max(life / 2)).unwrap_or(Timestamp::MAX))
    }

    async fn load(&self) -> Result<Credentials, CredentialsError> {
        let mut attempt = 1;
        loop {
            match self.loader.load(&self.source).await {
                Err(CredentialsError::Refused { error, .. })
                    if attempt < self.retry.max_attempts && error.kind.is_retryable() =>
                {
                    tokio::time::sleep(self.retry.pause(attempt, &*self.loader.environment)).await;
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }
}

fn lasts(credentials: &Credentials, now: Timestamp) -> bool {
    credentials.expiration.is_none_or(|expiration| now < expiration)
}
