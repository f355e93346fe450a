//! Whether this process may change anything now: a leader may while its lease surely lasts, a dry run never.
//!
//! The permit stands at the wire: a client made with it as its innermost layer sends no write that the permit does not cover, whoever asked for
//! it, however long it waited for its turn, and drops one whose answer is still out when the permit ends.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The Lease is how a permit is had, so it needs none.
const LEASES: &str = "/apis/coordination.k8s.io/";

/// A permit to change things. Clones are one permit.
#[derive(Clone, Debug)]
pub struct Permit {
    lasts: Arc<Mutex<Lasts>>,
}

#[derive(Clone, Copy, Debug)]
enum Lasts {
    Always,
    Until(Instant),
    Never,
}

/// A write was not sent because this process may not change anything (any more).
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this process may not write: it does not lead, or only shows what it would do")]
pub struct NotPermitted;

impl Permit {
    /// For a process that shares its work with nobody.
    pub fn always() -> Self {
        Self::new(Lasts::Always)
    }

    /// For a process that only looks, or that has yet to be elected.
    pub fn never() -> Self {
        Self::new(Lasts::Never)
    }

    fn new(lasts: Lasts) -> Self {
        Self { lasts: Arc::new(Mutex::new(lasts)) }
    }

    fn lasts(&self) -> Lasts {
        *self.lasts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, lasts: Lasts) {
        *self.lasts.lock().unwrap_or_else(PoisonError::into_inner) = lasts;
    }

    /// Lets it last until `end`.
    pub(crate) fn extend(&self, end: Instant) {
        self.set(Lasts::Until(end));
    }

    /// Ends it now.
    pub(crate) fn end(&self) {
        self.set(Lasts::Never);
    }

    /// Whether anything may be changed now.
    pub fn is_valid(&self) -> bool {
        match self.lasts() {
            Lasts::Always => true,
            Lasts::Until(end) => Instant::now() < end,
            Lasts::Never => false,
        }
    }

    /// Waits for its end. One that ends early is noticed when it would have ended.
    async fn ended(&self) {
        loop {
            match self.lasts() {
                Lasts::Always => return std::future::pending().await,
                Lasts::Until(end) if Instant::now() < end => tokio::time::sleep_until(end).await,
                Lasts::Until(_) | Lasts::Never => return,
            }
        }
    }
}

impl<S> Layer<S> for Permit {
    type Service = Permitted<S>;

    fn layer(&self, inner: S) -> Permitted<S> {
        Permitted { inner, permit: self.clone() }
    }
}

/// A service whose writes need a [`Permit`].
#[derive(Debug)]
pub struct Permitted<S> {
    inner: S,
    permit: Permit,
}

impl<S, B> Service<Request<B>> for Permitted<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let only_reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let needs_none = only_reads || request.uri().path().starts_with(LEASES);
        // Nothing is sent before the answer is awaited.
        let answer = self.inner.call(request);
        if needs_none {
            return Box::pin(async move { answer.await.map_err(Into::into) });
        }
        let permit = self.permit.clone();
        Box::pin(async move {
            tokio::select! {
                biased;
                () = permit.ended() => Err(NotPermitted.into()),
                answer = answer => answer.map_err(Into::into),
            }
        })
    }
}
