//! Sends signed requests and tries again where that helps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use jiff::{SignedDuration, Timestamp};
use karpenter_environment::Environment;

use crate::config::{Config, ConfigError};
use crate::credentials::{Credentials, CredentialsCache, CredentialsError, Loader, Source};
use crate::endpoint::{Endpoint, Service};
use crate::error::{Error, ErrorKind};
use crate::retry::{RetryBudget, RetryPolicy, is_retryable};
use crate::sign::{Scope, sign};
use crate::transport::{HttpTransport, Transport, TransportSetupError};
use crate::variables::Variables;
use crate::wire;

const USER_AGENT: &str = concat!("karpenter.sh-", env!("CARGO_PKG_VERSION"));
/// No answer takes longer; long polls say how much longer.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// Signatures are good for five minutes; a clock that is off by less needs no correction.
const TOLERATED_SKEW: SignedDuration = SignedDuration::from_mins(4);

/// A client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Transport(#[from] TransportSetupError),
}

/// Speaks to AWS. Clones share connections, credentials and the budget of retries.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    transport: Arc<dyn Transport>,
    environment: Arc<dyn Environment>,
    credentials: CredentialsCache,
    budget: RetryBudget,
    /// How far the clocks of AWS are ahead of ours, in seconds; zero until a signature was refused for it.
    skew: AtomicI64,
    /// Where buckets turned out to be.
    bucket_regions: Mutex<BTreeMap<String, String>>,
}

/// A request, to be signed for every attempt.
pub(crate) struct Call {
    pub(crate) service: Service,
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) signing_region: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    pub(crate) timeout: Duration,
    /// `None` is the client's own.
    pub(crate) retry: Option<RetryPolicy>,
}

/// A failed attempt.
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The headers of the answer, if there was one.
    pub(crate) headers: HeaderMap,
    /// What the request was signed with, if it was sent.
    credentials: Option<Credentials>,
}

impl From<Error> for Box<Failure> {
    fn from(error: Error) -> Self {
        Self::new(Failure { error, headers: HeaderMap::new(), credentials: None })
    }
}

impl Client {
    /// A client as the process's variables, the shared files and the machine describe it.
    ///
    /// # Errors
    /// When there is no region, or when something is set to what cannot be. Missing credentials show at the first call.
    pub async fn from_process(environment: Arc<dyn Environment>) -> Result<Self, ClientError> {
        let variables = Variables::of_process();
        let transport = Arc::new(HttpTransport::new(Config::ca_bundle(&variables).as_deref())?);
        let config = Config::load(&variables, &*transport).await?;
        Ok(Self::new(config, transport, environment))
    }

    /// A client with its parts given.
    pub fn new(config: Config, transport: Arc<dyn Transport>, environment: Arc<dyn Environment>) -> Self {
        let loader = Loader {
            transport: Arc::clone(&transport),
            environment: Arc::clone(&environment),
            metadata: config.metadata.clone(),
            roles: config.endpoints.resolve(Service::Sts, &config.region),
        };
        let shared = Shared {
            credentials: CredentialsCache::new(config.credentials.clone(), loader, config.retry),
            config,
            transport,
            environment,
            budget: RetryBudget::default(),
            skew: AtomicI64::new(0),
            bucket_regions: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The region it works in.
    pub fn region(&self) -> &str {
        &self.shared.config.region
    }

    /// The credentials it would sign with now: whether there are any, before the first call.
    ///
    /// # Errors
    /// When there are none.
    pub async fn credentials(&self) -> Result<Credentials, CredentialsError> {
        self.shared.credentials.get().await
    }

    pub(crate) fn endpoint(&self, service: Service, region: &str) -> Endpoint {
        self.shared.config.endpoints.resolve(service, region)
    }

    pub(crate) fn environment(&self) -> &dyn Environment {
        &*self.shared.environment
    }

    pub(crate) fn bucket_regions(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.shared.bucket_regions.lock().expect("no code panics while holding the buckets")
    }

    /// Sends `call` until it succeeds, cannot succeed, or has been tried often enough.
    pub(crate) async fn send(&self, call: &Call) -> Result<Response<Bytes>, Box<Failure>> {
        let policy = call.retry.unwrap_or(self.shared.config.retry);
        let mut attempt = 1;
        // What a wrong clock or an expired token costs is mended at once, and only once.
        let mut mended = false;
        loop {
            let failure = match self.attempt(call).await {
                Ok(response) => {
                    self.shared.budget.refund(attempt > 1);
                    return Ok(response);
                }
                Err(failure) => {
                    if !mended && self.mend(&failure).await {
                        mended = true;
                        continue;
                    }
                    failure
                }
            };
            let again = is_retryable(failure.error.kind) && attempt < policy.max_attempts;
            if !again || !self.shared.budget.take() {
                return Err(failure);
            }
            tokio::time::sleep(policy.pause(attempt, self.environment())).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Response<Bytes>, Box<Failure>> {
        let failed = |kind, message: String| Error::local(call.operation, kind, message);
        let credentials = self.shared.credentials.get().await;
        let credentials = credentials.map_err(|error| failed(ErrorKind::Credentials, error.to_string()))?;
        let request = Request::builder().method(&call.method).uri(&call.url).body(call.body.clone());
        let mut request = request.map_err(|error| failed(ErrorKind::Invalid, error.to_string()))?;
        request.headers_mut().extend(call.headers.iter().cloned());
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        let service = call.service.signing_name();
        let scope = Scope { region: &call.signing_region, service, time: self.time() };
        sign(&mut request, &credentials, &scope)
            .map_err(|error| failed(ErrorKind::Credentials, error.to_string()))?;
        let answer = wire::exchange(&*self.shared.transport, call.operation, request, call.timeout).await?;
        let headers = answer.headers().clone();
        wire::succeed(call.operation, answer)
            .map_err(|error| Box::new(Failure { error, headers, credentials: Some(credentials) }))
    }

    /// The time by AWS's clocks, as far as we know them.
    fn time(&self) -> Timestamp {
        let skew = SignedDuration::from_secs(self.shared.skew.load(Ordering::Relaxed));
        self.shared.environment.now().saturating_add(skew).unwrap_or(Timestamp::MAX)
    }

    /// Whether the reason for a refusal could be taken away: our clock was wrong, or the keys had expired.
    async fn mend(&self, failure: &Failure) -> bool {
        if !matches!(failure.error.kind, ErrorKind::Unauthorized | ErrorKind::Credentials) {
            return false;
        }
        if let Some(theirs) = date(&failure.headers) {
            let off = theirs.duration_since(self.time());
            if off.abs() > TOLERATED_SKEW {
                let skew = theirs.duration_since(self.shared.environment.now()).as_secs();
                self.shared.skew.store(skew, Ordering::Relaxed);
                return true;
            }
        }
        let renewable = !matches!(self.shared.config.credentials, Source::Keys(_));
        match &failure.credentials {
            Some(refused) if failure.error.kind == ErrorKind::Credentials && renewable => {
                self.shared.credentials.forget(refused).await;
                true
            }
            _ => false,
        }
    }
}

/// When the other end answered, by its own clock.
fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(header::DATE)?.to_str().ok()?;
    Some(jiff::fmt::rfc2822::parse(text).ok()?.timestamp())
}
