//! The server as a value: state, options, and the `tower` service that answers requests.
//!
//! Requests are answered synchronously from memory; only reading a request's body and following a watch await.
//! Start at [`Core::answer`].

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};

use crate::admission::{Admission, Question, ROUNDS_MAX, Session};
use crate::authentication::{Authentication, Peer, User};
use crate::authorization::{Action, Attributes, Authorization, Authorizer};
use crate::data_dir::{DataDir, DataDirError};
use crate::discovery;
use crate::error::ApiError;
use crate::kinds::{DEFINITIONS, format};
use crate::openapi::Documents;
use crate::registry::{Registry, Resource, Subresource};
use crate::store::{Disk, DiskError, ResourceName, Stopped, Store};
use crate::wire::{
    BoxError, Call, Offer, Query, ResponseBody, Route, Target, Unread, add_warnings, bytes_response,
    check_accepted, into_yaml, page_not_found, prefers_yaml, read_body, rendering,
};
use karpenter_environment::{Environment, SystemEnvironment};

/// The file in a data directory with the key that signs tokens of service accounts.
const SIGNING_SECRET: &str = "service-account.key";

/// How a server is set up.
#[derive(Clone)]
pub struct Options {
    /// Where time and randomness come from.
    pub environment: Arc<dyn Environment>,
    /// How many events of each resource a watch can catch up on before it gets 410 Gone.
    pub history_limit: usize,
    /// Bearer tokens and whom they stand for; with none, every caller is the administrator.
    pub tokens: BTreeMap<String, User>,
    /// Whether roles restrict what callers may do.
    pub authorization: Authorization,
    /// The largest request body in bytes.
    pub body_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            environment: Arc::new(SystemEnvironment),
            history_limit: 10_000,
            tokens: BTreeMap::new(),
            authorization: Authorization::default(),
            body_limit: 3 * 1024 * 1024,
        }
    }
}

/// An API server. Clones share one state.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) core: Arc<Core>,
    /// Who makes the requests that reach this handle.
    peer: Peer,
}

/// The state behind all clones of a server.
pub(crate) struct Core {
    pub(crate) store: Store,
    registry: RwLock<Arc<Registry>>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) authentication: Authentication,
    pub(crate) authorizer: Authorizer,
    pub(crate) admission: Admission,
    documents: Documents,
    body_limit: usize,
}

impl ApiServer {
    /// Builds a server with the namespaces and priority classes every cluster has.
    pub fn new(options: Options) -> Self {
        let secret = options.environment.entropy();
        let store = Store::new(options.history_limit);
        let core = Core::new(options, store, &secret);
        core.bootstrap();
        Self { core: Arc::new(core), peer: Peer::Unknown }
    }

    /// Returns a handle to the same server whose requests are those of `user`.
    #[must_use]
    pub fn acting_as(&self, user: User) -> Self {
        self.facing(Peer::User(user))
    }

    /// Returns a handle to the same server for what a connection showed of its peer.
    pub(crate) fn facing(&self, peer: Peer) -> Self {
        Self { core: Arc::clone(&self.core), peer }
    }

    /// Builds a server that goes on where the last one on this directory stopped, and that answers a write only when
    /// it survives a crash.
    ///
    /// # Errors
    /// Returns why the directory cannot be used.
    pub fn open(options: Options, data_dir: &DataDir) -> Result<Self, DataDirError> {
        let environment = Arc::clone(&options.environment);
        let secret = data_dir.secret(SIGNING_SECRET, || environment.entropy().to_vec())?;
        let disk = Arc::new(data_dir.disk()?);
        let damage = |error| data_dir.disk_error(error);
        let store = Store::open(options.history_limit, Arc::clone(&disk)).map_err(damage)?;
        let core = Core::new(options, store, &secret);
        core.restore(&disk).map_err(damage)?;
        core.bootstrap();
        futures::executor::block_on(core.store.flushed())
            .map_err(|stopped| damage(std::io::Error::other(stopped).into()))?;
        Ok(Self { core: Arc::new(core), peer: Peer::Unknown })
    }

    /// Returns the latest resource version that clients may see.
    pub fn resource_version(&self) -> u64 {
        self.core.store.visible_revision()
    }

    /// Forgets the watch history, as a compaction of etcd does: watches from before get 410 Gone.
    pub fn compact(&self) {
        self.core.store.compact();
    }

    /// Does the garbage collection and namespace deletion that is due, and returns how many writes that took.
    ///
    /// Writes of one step may make more due; a caller that wants a settled state steps until 0 is returned.
    pub fn step(&self) -> usize {
        self.core.collect()
    }

    /// Steps until nothing is due.
    pub fn settle(&self) {
        while self.step() > 0 {}
    }

    /// Collects garbage whenever something was written, until the server is closed.
    pub async fn run_collector(&self) {
        let mut progress = self.core.store.progress();
        loop {
            progress.seen();
            while self.step() > 0 {
                // Emptying a large namespace must not keep requests from being answered.
                tokio::task::yield_now().await;
            }
            if !progress.changed().await {
                return;
            }
        }
    }

    /// Ends all watches and, with a data directory, commits what was written and closes it. Later writes are refused.
    pub fn close(&self) {
        self.core.store.close();
    }

    /// Waits until the server is closed or its data directory fails.
    ///
    /// # Errors
    /// Returns why the directory takes no more writes; the server must be built anew, nothing acknowledged is lost.
    pub async fn stopped(&self) -> Result<(), Stopped> {
        self.core.store.progress().stopped().await
    }

    /// Answers one request whose body has been read. With a data directory this blocks while a write becomes durable.
    /// A write that an admission webhook must see fails: those are asked only when the server is used as a service.
    pub fn answer(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Response<ResponseBody> {
        let incoming = Incoming { method, uri, headers, body, peer: &self.peer };
        let response = Core::answer(&self.core, &incoming, &Session::default());
        if self.core.store.is_durable() {
            return futures::executor::block_on(self.core.acknowledged(method, response));
        }
        response
    }
}

/// A request whose body has been read.
struct Incoming<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    body: &'r Bytes,
    /// Whom the connection or the process vouches for.
    peer: &'r Peer,
}

impl Incoming<'_> {
    /// Whether nothing says who asks.
    fn is_nameless(&self) -> bool {
        matches!(self.peer, Peer::Unknown) && !self.headers.contains_key(header::AUTHORIZATION)
    }
}

impl<B> tower_service::Service<Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (core, peer) = (Arc::clone(&self.core), self.peer.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let limit = core.body_limit;
            let response = match read_body(body, limit).await {
                Ok(body) => {
                    let incoming = Incoming {
                        method: &parts.method,
                        uri: &parts.uri,
                        headers: &parts.headers,
                        body: &body,
                        peer: &peer,
                    };
                    let response = core.respond(&incoming).await;
                    let response = core.acknowledged(&parts.method, response).await;
                    if prefers_yaml(&parts.headers) { into_yaml(response).await } else { response }
                }
                Err(Unread::TooLarge) => ApiError::too_large(limit).into_response(),
                Err(Unread::Broken(error)) => {
                    ApiError::bad_request(format!("cannot read the body: {error}")).into_response()
                }
            };
            Ok(response)
        })
    }
}

impl Core {
    fn new(options: Options, store: Store, secret: &[u8]) -> Self {
        Self {
            store,
            registry: RwLock::new(Arc::new(Registry::built_in())),
            authentication: Authentication::new(options.tokens, secret, options.authorization),
            authorizer: Authorizer::new(options.authorization),
            admission: Admission::new(),
            documents: Documents::default(),
            environment: options.environment,
            body_limit: options.body_limit,
        }
    }

    /// Reads everything back: definitions first, because the fields of other objects depend on them.
    fn restore(&self, disk: &Disk) -> Result<(), DiskError> {
        let restore = |resource: &ResourceName| -> Result<(), DiskError> {
            let registry = self.registry();
            let fields = registry.find_stored(resource).map(|resource| resource.selectable_fields.clone());
            self.store.restore(disk, resource, &fields.unwrap_or_default())?;
            self.reform(resource);
            Ok(())
        };
        let definitions = ResourceName::from(DEFINITIONS);
        restore(&definitions)?;
        if let Some(resource) = self.registry().find_stored(DEFINITIONS) {
            let page = self.store.list(DEFINITIONS, None, None, None);
            for (_, definition) in page.map(|page| page.objects).unwrap_or_default() {
                self.written(resource, &definition.value());
            }
        }
        for (resource, _) in disk.resources()?.iter().filter(|(resource, _)| *resource != definitions) {
            restore(resource)?;
        }
        Ok(())
    }

    /// Holds an answer back until what it says survives a crash.
    ///
    /// Reads show only what does. Every other answer may rest on writes that are still on their way to the disk: its
    /// own, or the one that made it a conflict.
    async fn acknowledged(
        &self,
        method: &Method,
        response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        if matches!(*method, Method::GET | Method::HEAD) {
            return response;
        }
        match self.store.flushed().await {
            Ok(()) => response,
            Err(stopped) => ApiError::unavailable(stopped).into_response(),
        }
    }

    /// Returns the resources served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the resources served.
    pub(crate) fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        let mut current = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut registry = (**current).clone();
        change(&mut registry);
        *current = Arc::new(registry);
    }

    /// Returns the current time as Kubernetes writes it.
    pub(crate) fn now(&self) -> String {
        karpenter_environment::format_time(self.environment.now())
    }

    /// Answers a request, asking the webhooks it meets.
    async fn respond(self: &Arc<Self>, incoming: &Incoming<'_>) -> Response<ResponseBody> {
        let session = Session::default();
        for _ in 0..ROUNDS_MAX {
            let mut response = self.answer(incoming, &session);
            let questions = session.take_questions();
            if questions.is_empty() {
                add_warnings(&mut response, session.take_warnings());
                return response;
            }
            drop(response);
            for (key, verdict) in join_all(questions.into_iter().map(Question::ask)).await {
                session.learn(key, verdict);
            }
        }
        ApiError::internal("the object kept changing while admission webhooks were asked about it")
            .into_response()
    }

    /// Answers a request as far as the session's verdicts reach.
    fn answer(self: &Arc<Self>, incoming: &Incoming<'_>, session: &Session) -> Response<ResponseBody> {
        let route = Route::parse(incoming.uri.path());
        let query = || Query::parse(incoming.uri.query());
        let public = match &route {
            Route::Health(health) if health.check.is_none() => Some(health),
            _ => None,
        };
        let user = match (self.caller(incoming.headers, incoming.peer), public) {
            // Whoever does not say who it is may still ask whether the server is there.
            (Err(error), Some(health))
                if error.code == StatusCode::UNAUTHORIZED && incoming.is_nameless() =>
            {
                return health.answer(&query());
            }
            (Err(error), _) => return error.into_response(),
            (Ok(_), Some(health)) => return health.answer(&query()),
            (Ok(user), None) => user,
        };
        let registry = self.registry();
        if let Route::Resource(target) = &route {
            let answer = self.resource(&registry, incoming, target, &user, session);
            return answer.unwrap_or_else(ApiError::into_response);
        }
        let verb = incoming.method.as_str().to_lowercase();
        let asked = Attributes { verb: &verb, action: Action::Path(incoming.uri.path()) };
        if let Err(error) = self.authorize(&user, &asked) {
            return error.into_response();
        }
        match route {
            Route::Health(health) => health.answer(&query()),
            Route::OpenApi(path) => self.documents.version3(&registry, &path, &query(), incoming.headers),
            Route::OpenApiV2 => self.documents.version2(&registry, incoming.headers),
            Route::Unknown => page_not_found(),
            Route::Unclear => unclear(incoming.uri.path()),
            other => discovery::answer(&registry, &other, incoming.headers),
        }
    }

    fn resource(
        self: &Arc<Self>,
        registry: &Registry,
        incoming: &Incoming<'_>,
        target: &Target,
        user: &User,
        session: &Session,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let Incoming { method, headers, body, .. } = *incoming;
        let query = &Query::parse(incoming.uri.query());
        self.authorize(user, &Attributes::of_request(method, target, query))?;
        if let Some(answer) = self.review(method, target, query, headers, body, user) {
            return answer.map(crate::wire::Answer::into_response);
        }
        let resource = match find(registry, target) {
            Err(_) if !registry.is_built_in_group(&target.group) => return Ok(page_not_found()),
            found => found?,
        };
        let named = target.name.is_some();
        let misused = match *method {
            Method::POST => named && target.subresource.is_none(),
            Method::PUT => !named,
            Method::PATCH => !named || !is_patch(headers),
            Method::GET | Method::DELETE => false,
            _ => true,
        };
        check_accepted(headers, offer(&resource, method, target))?;
        let warned = resource.is_custom() || (!misused && target.subresource.is_none());
        if let Some(warning) = resource.deprecation().filter(|_| warned) {
            session.warn(warning.to_owned());
        }
        let rendering = rendering(headers, has_table(&resource, target))?;
        let call = Call { method, resource, target, query, headers, body, rendering, user, session };
        if target.watch && target.subresource.is_some() {
            return Err(ApiError::unknown_resource());
        }
        if target.subresource.is_some() {
            return self.subresource(&call).map(crate::wire::Answer::into_response);
        }
        check_name(target)?;
        let watches = target.watches(query);
        let answer = match (method.as_str(), named) {
            // A stream of YAML has no ends of lines to tell events by.
            ("GET", _) if watches && prefers_yaml(headers) => Err(ApiError::not_a_stream()),
            ("GET", _) if watches => return self.watch(&call),
            _ if target.watch => Err(ApiError::method_not_allowed()),
            ("GET", true) => self.get(&call),
            ("GET", false) => self.list(&call),
            ("POST", false) => self.create(&call),
            ("PUT", true) => self.update(&call),
            ("PATCH", true) => self.patch(&call),
            ("DELETE", true) => self.delete(&call),
            ("DELETE", false) => self.delete_collection(&call),
            _ => Err(ApiError::method_not_allowed()),
        };
        answer.map(crate::wire::Answer::into_response)
    }
}

/// Refuses a name in a path that no object can have.
fn check_name(target: &Target) -> Result<(), ApiError> {
    let name = target.name.as_deref().unwrap_or_default();
    let wrong = format::path_segment(name);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("Name parameter invalid: {name:?}: {}", wrong.join(";"))))
}

/// What can be offered to a request for a resource.
fn offer(resource: &Resource, method: &Method, target: &Target) -> Offer {
    match *method {
        _ if resource.is_custom() => Offer::Custom,
        Method::GET if target.watch || target.name.is_none() => Offer::List,
        _ => Offer::Object,
    }
}

/// Whether the answer to a request can be shown in a table.
fn has_table(resource: &Resource, target: &Target) -> bool {
    let subresource = target.subresource.as_deref().and_then(|name| resource.subresource(name));
    subresource.is_none_or(|part| matches!(part, Subresource::Status | Subresource::Scale(_)))
}

/// The answer for a path that begins like that of a watch and ends there.
fn unclear(path: &str) -> Response<ResponseBody> {
    let text = format!(
        "Internal Server Error: {path:?}: failed to create RequestInfo: unable to determine kind and namespace from url, \
         {path}\n"
    );
    bytes_response(StatusCode::INTERNAL_SERVER_ERROR, text.into(), "text/plain; charset=utf-8")
}

/// Whether a body is said to be a patch of some kind.
fn is_patch(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.contains("patch+")
}

fn find(registry: &Registry, target: &Target) -> Result<Arc<Resource>, ApiError> {
    let resource = registry
        .find(&target.group, &target.version, &target.plural)
        .cloned()
        .ok_or_else(ApiError::unknown_resource)?;
    let misplaced = if resource.namespaced {
        target.namespace.is_none() && target.name.is_some()
    } else {
        target.namespace.is_some()
    };
    if misplaced {
        return Err(ApiError::unknown_resource());
    }
    Ok(resource)
}
