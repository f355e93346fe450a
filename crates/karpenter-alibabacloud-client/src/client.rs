//! Sends signed requests and tries again where that helps.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use jiff::SignedDuration;
use karpenter_environment::Environment;
use karpenter_transport::{
    HttpTransport, RemoteClock, RetryBudget, RetryPolicy, Transport, TransportSetupError, Variables, encoding,
};
use serde_json::Value;

use crate::config::{Config, ConfigError};
use crate::credentials::{Credentials, CredentialsCache, CredentialsError, Loader};
use crate::endpoint::Service;
use crate::error::{Error, ErrorKind};
use crate::operation::{Operation, PagedOperation, Pages, Route};
use crate::sign::{Seal, UnusableCredentials, sign, sign_mns};
use crate::wire;

const USER_AGENT: &str = concat!("karpenter.sh-", env!("CARGO_PKG_VERSION"));
/// No answer takes longer.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Signatures are good for fifteen minutes; a clock that is off by less needs no correction.
const TOLERATED_SKEW: SignedDuration = SignedDuration::from_mins(10);
/// Longer than the cloud itself asks for is never waited.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// More pages than any account fills; an answer that never ends is a fault.
const MOST_PAGES: u32 = 10_000;

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

/// Speaks to Alibaba Cloud. Clones share connections, credentials, rates and the budget of retries.
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
}

/// A request, to be signed for every attempt.
struct Call {
    service: Service,
    operation: &'static str,
    ram_action: &'static str,
    method: Method,
    url: String,
    body: Bytes,
}

/// A failed attempt.
struct Failure {
    error: Error,
    /// The headers of the answer, if there was one.
    headers: HeaderMap,
    /// What the request was signed with, if it was sent.
    credentials: Option<Credentials>,
}

impl From<Error> for Box<Failure> {
    fn from(error: Error) -> Self {
        Self::new(Failure { error, headers: HeaderMap::new(), credentials: None })
    }
}

impl Client {
    /// A client as the process's variables, the command line's file and the machine describe it.
    ///
    /// # Errors
    /// When there is no region, or when something is set to what cannot be. Missing credentials show at the first call.
    pub async fn from_process(environment: Arc<dyn Environment>) -> Result<Self, ClientError> {
        let variables = Variables::of_process();
        let transport = Arc::new(HttpTransport::new(None)?);
        let config = Config::load(&variables, &*transport).await?;
        Ok(Self::new(config, transport, environment))
    }

    /// A client with its parts given.
    pub fn new(config: Config, transport: Arc<dyn Transport>, environment: Arc<dyn Environment>) -> Self {
        let loader = Loader {
            transport: Arc::clone(&transport),
            environment: Arc::clone(&environment),
            metadata: config.metadata.clone(),
            sts: config.endpoints.resolve(Service::Sts, &config.region),
        };
        let clock = RemoteClock::new(Arc::clone(&environment), TOLERATED_SKEW);
        let shared = Shared {
            credentials: CredentialsCache::new(config.credentials.clone(), loader, config.retry),
            config,
            transport,
            environment,
            budget: RetryBudget::default(),
            clock,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The region it works in.
    pub fn region(&self) -> &str {
        &self.shared.config.region
    }

    /// Time and chance, as the client was given them.
    pub fn environment(&self) -> &Arc<dyn Environment> {
        &self.shared.environment
    }

    /// The credentials it would sign with now: whether there are any, before the first call.
    ///
    /// # Errors
    /// When there are none.
    pub async fn credentials(&self) -> Result<Credentials, CredentialsError> {
        self.shared.credentials.get().await
    }

    /// Sends a request.
    ///
    /// # Errors
    /// What the cloud says, or what happened on the way.
    pub async fn call<O: Operation>(&self, request: &O) -> Result<O::Answer, Error> {
        self.send(request, &[], self.shared.config.retry).await
    }

    /// Sends a request once: for callers that have better to do than to wait.
    ///
    /// # Errors
    /// What the cloud says, or what happened on the way.
    pub async fn call_once<O: Operation>(&self, request: &O) -> Result<O::Answer, Error> {
        self.send(request, &[], RetryPolicy::once()).await
    }

    /// Sends a request for each page and gathers what they hold.
    ///
    /// # Errors
    /// What the cloud says, or what happened on the way.
    pub async fn list<O: PagedOperation>(&self, request: &O) -> Result<Vec<O::Item>, Error> {
        match O::PAGES {
            Pages::Token(parameter) => self.list_by_token(request, parameter).await,
            Pages::Numbers(size) => self.list_by_number(request, size).await,
        }
    }

    async fn list_by_token<O: PagedOperation>(
        &self,
        request: &O,
        parameter: &str,
    ) -> Result<Vec<O::Item>, Error> {
        let mut items = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let more: Vec<(&str, String)> = token.iter().map(|token| (parameter, token.clone())).collect();
            let page = O::page(self.send(request, &more, self.shared.config.retry).await?);
            items.extend(page.items);
            match page.next.filter(|next| !next.is_empty()) {
                // A page that points at itself would never end.
                Some(next) if token.as_ref() == Some(&next) => {
                    let message = "the answer points to the same page again";
                    return Err(Error::local(O::NAME, ErrorKind::Invalid, message));
                }
                Some(next) => token = Some(next),
                None => return Ok(items),
            }
        }
    }

    async fn list_by_number<O: PagedOperation>(&self, request: &O, size: u32) -> Result<Vec<O::Item>, Error> {
        let mut items = Vec::new();
        for number in 1..=MOST_PAGES {
            let more = [("PageNumber", number.to_string()), ("PageSize", size.to_string())];
            let page = O::page(self.send(request, &more, self.shared.config.retry).await?);
            let (count, total) = (page.items.len(), page.total);
            items.extend(page.items);
            let complete = total.is_some_and(|total| items.len() as u64 >= total);
            // A short page is the last only where nobody says how many there are: the cloud may cap pages lower than we ask.
            if count == 0 || complete || (total.is_none() && count < size as usize) {
                return Ok(items);
            }
        }
        Err(Error::local(O::NAME, ErrorKind::Invalid, "the pages never end"))
    }

    /// Sends `request` until it succeeds, cannot succeed, or has been tried often enough; `more` are parameters besides its own.
    async fn send<O: Operation>(
        &self,
        request: &O,
        more: &[(&str, String)],
        policy: RetryPolicy,
    ) -> Result<O::Answer, Error> {
        let call = self.compose(request, more)?;
        let mut attempt = 1;
        // What a wrong clock or an expired token costs is mended at once, and only once.
        let mut mended = false;
        loop {
            self.shared.config.rates.take(O::NAME, O::URGENCY).await;
            let failure = match self.attempt(&call).await {
                Ok(response) => {
                    self.shared.budget.refund(attempt > 1);
                    return O::read(response.body()).map_err(|reason| {
                        Error::local(
                            O::NAME,
                            ErrorKind::Invalid,
                            format!("the answer is not understood: {reason}"),
                        )
                    });
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
                return Err(failure.error);
            }
            let pause = policy.pause(attempt, &*self.shared.environment);
            let asked = failure.error.retry_after.unwrap_or_default().min(LONGEST_WAIT);
            tokio::time::sleep(pause.saturating_add(asked)).await;
            attempt += 1;
        }
    }

    fn compose<O: Operation>(&self, request: &O, more: &[(&str, String)]) -> Result<Call, Error> {
        let invalid = |message: String| Error::local(O::NAME, ErrorKind::Invalid, message);
        let value = serde_json::to_value(request).map_err(|error| invalid(error.to_string()))?;
        let endpoints = &self.shared.config.endpoints;
        let address = match request.account() {
            Some(account) => endpoints.queues(self.region(), account),
            None => endpoints.resolve(O::SERVICE, self.region()),
        };
        let mut pairs: Vec<(String, String)> =
            more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let (method, path, body) = match request.route() {
            Route::Rpc => {
                if O::SERVICE.is_told_the_region() {
                    pairs.push(("RegionId".to_owned(), self.region().to_owned()));
                }
                flatten("", &value, &mut pairs);
                (Method::POST, "/".to_owned(), Bytes::new())
            }
            Route::Roa { method: method @ (Method::GET | Method::DELETE), path } => {
                flatten("", &value, &mut pairs);
                (method, path, Bytes::new())
            }
            Route::Roa { method, path } => {
                let body =
                    serde_json::to_vec(&without_nulls(value)).map_err(|error| invalid(error.to_string()))?;
                (method, path, Bytes::from(body))
            }
        };
        let query = wire::query(pairs);
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{address}{path}{mark}{query}");
        Ok(Call { service: O::SERVICE, operation: O::NAME, ram_action: O::RAM_ACTION, method, url, body })
    }

    async fn attempt(&self, call: &Call) -> Result<Response<Bytes>, Box<Failure>> {
        let failed = |kind, message: String| Error::local(call.operation, kind, message);
        let credentials = self.shared.credentials.get().await;
        let credentials = credentials.map_err(|error| failed(ErrorKind::Credentials, error.to_string()))?;
        let request = Request::builder().method(&call.method).uri(&call.url).body(call.body.clone());
        let mut request = request.map_err(|error| failed(ErrorKind::Invalid, error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if !call.body.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        }
        self.sign(&mut request, call, &credentials)
            .map_err(|error| failed(ErrorKind::Credentials, error.to_string()))?;
        let answer = wire::exchange(&*self.shared.transport, call.operation, request, TIMEOUT).await?;
        let headers = answer.headers().clone();
        wire::succeed(call.operation, Some(call.ram_action), answer)
            .map_err(|error| Box::new(Failure { error, headers, credentials: Some(credentials) }))
    }

    fn sign(
        &self,
        request: &mut Request<Bytes>,
        call: &Call,
        credentials: &Credentials,
    ) -> Result<(), UnusableCredentials> {
        let (version, time) = (call.service.version(), self.shared.clock.now());
        if call.service == Service::Mns {
            return sign_mns(request, credentials, version, time);
        }
        let nonce = encoding::hex(&self.shared.environment.entropy());
        sign(request, Some(credentials), &Seal { action: call.operation, version, time, nonce: &nonce })
    }

    /// Whether the reason for a refusal could be taken away: our clock was wrong, or the keys had expired.
    async fn mend(&self, failure: &Failure) -> bool {
        if failure.error.kind != ErrorKind::Credentials {
            return false;
        }
        if self.shared.clock.correct(&failure.headers) {
            return true;
        }
        match &failure.credentials {
            Some(refused) if self.shared.credentials.is_renewable() => {
                self.shared.credentials.forget(refused).await;
                true
            }
            _ => false,
        }
    }
}

/// Writes nested values as the RPC style wants them: members after dots, elements numbered from one.
fn flatten(name: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Bool(flag) => pairs.push((name.to_owned(), flag.to_string())),
        Value::Number(number) => pairs.push((name.to_owned(), number.to_string())),
        Value::String(text) => pairs.push((name.to_owned(), text.clone())),
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                flatten(&format!("{name}.{}", index + 1), element, pairs);
            }
        }
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                flatten(&name, value, pairs);
            }
        }
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect())
        }
        other => other,
    }
}
