//! Sends signed requests and tries again where that helps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use jiff::SignedDuration;
use karpenter_environment::Environment;
use karpenter_transport::{
    HttpTransport, RemoteClock, RetryBudget, RetryPolicy, Transport, TransportSetupError, Variables,
};
use tokio::time::Instant;

use crate::config::{Config, ConfigError};
use crate::credentials::{Credentials, CredentialsCache, CredentialsError, Loader, Source};
use crate::endpoint::{Endpoint, Service};
use crate::error::{Error, ErrorKind};
use crate::meter::{Measured, Meter};
use crate::sign::{Scope, sign};
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
    clock: RemoteClock,
    /// Where buckets turned out to be.
    bucket_regions: Mutex<BTreeMap<String, String>>,
    /// Who counts calls.
    meter: OnceLock<Arc<dyn Meter>>,
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
        let clock = RemoteClock::new(Arc::clone(&environment), TOLERATED_SKEW);
        let shared = Shared {
            credentials: CredentialsCache::new(config.credentials.clone(), loader, config.retry),
            config,
            transport,
            environment,
            budget: RetryBudget::default(),
            clock,
            bucket_regions: Mutex::default(),
            meter: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Tells `meter` of every call from now on. Only the first meter counts.
    pub fn measure_with(&self, meter: Arc<dyn Meter>) {
        let _ = self.shared.meter.set(meter);
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
        let (begun, mut attempts) = (Instant::now(), 0);
        let result = self.send_often(call, &mut attempts).await;
        if let Some(meter) = self.shared.meter.get() {
            meter.call(&measured(call, &result, begun), attempts.saturating_sub(1));
        }
        result
    }

    async fn send_often(&self, call: &Call, attempts: &mut u32) -> Result<Response<Bytes>, Box<Failure>> {
        let policy = call.retry.unwrap_or(self.shared.config.retry);
        let mut attempt = 1;
        // What a wrong clock or an expired token costs is mended at once, and only once.
        let mut mended = false;
        loop {
            let begun = Instant::now();
            let result = self.attempt(call).await;
            *attempts += 1;
            if let Some(meter) = self.shared.meter.get() {
                meter.attempt(&measured(call, &result, begun));
            }
            let failure = match result {
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
            let again = failure.error.kind.is_retryable() && attempt < policy.max_attempts;
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
        let scope = Scope { region: &call.signing_region, service, time: self.shared.clock.now() };
        sign(&mut request, &credentials, &scope)
            .map_err(|error| failed(ErrorKind::Credentials, error.to_string()))?;
        let answer = wire::exchange(&*self.shared.transport, call.operation, request, call.timeout).await?;
        let headers = answer.headers().clone();
        wire::succeed(call.operation, answer)
            .map_err(|error| Box::new(Failure { error, headers, credentials: Some(credentials) }))
    }

    /// Whether the reason for a refusal could be taken away: our clock was wrong, or the keys had expired.
    async fn mend(&self, failure: &Failure) -> bool {
        if !matches!(failure.error.kind, ErrorKind::Unauthorized | ErrorKind::Credentials) {
            return false;
        }
        if self.shared.clock.correct(&failure.headers) {
            return true;
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

fn measured(call: &Call, result: &Result<Response<Bytes>, Box<Failure>>, begun: Instant) -> Measured {
    let result = result.as_ref().map_err(|failure| &failure.error);
    Measured::new(call.service, call.operation, &result, begun.elapsed())
}
