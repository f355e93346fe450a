//! Who hears how busy a runtime is: looks at keys and how they ended, requests and how they were answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// How a look at a key ended, with everything it wanted done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// There is nothing more to do.
    Done,
    /// The key will be looked at again.
    Again,
    /// Something could not be done; it will be tried again.
    Failed,
}

/// What a request was about, in the words of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'p> {
    /// The API group; empty for core kinds and for paths that name no kind.
    pub group: &'p str,
    /// The version within the group.
    pub version: &'p str,
    /// The kind, as paths name it.
    pub resource: &'p str,
    /// The part of an object; empty for the whole.
    pub subresource: &'p str,
}

impl<'p> Target<'p> {
    /// Reads a path of the Kubernetes API.
    pub fn of(path: &'p str) -> Self {
        let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
        let (group, version, rest) = match words.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => ("", "", &[] as &[&str]),
        };
        let (resource, subresource) = match rest {
            ["namespaces", _, resource, _, subresource, ..] => (*resource, *subresource),
            // Either an object in a namespace or a part of the namespace; the parts are known.
            ["namespaces", _, part @ ("status" | "finalize")] => ("namespaces", *part),
            ["namespaces", _, resource, ..] => (*resource, ""),
            [resource, _, subresource, ..] => (*resource, *subresource),
            [resource, ..] => (*resource, ""),
            [] => ("", ""),
        };
        Self { group, version, resource, subresource }
    }
}

/// Takes note of the work of a runtime and of the requests of a client.
pub trait Meter: Send + Sync + 'static {
    /// Who takes note of the work of one controller.
    fn of_controller(&self, name: &'static str) -> Box<dyn LookMeter>;
    /// A request was answered; without a code the server could not be reached.
    fn answered(&self, method: &str, target: &Target<'_>, code: Option<u16>, took: Duration);
}

/// Takes note of the work of one controller.
pub trait LookMeter: Send {
    /// It was asked to look at a key.
    fn asked(&self);
    /// It looked at a key; `took` lasts until its effects came to an end.
    fn ended(&self, ending: Ending, took: Duration);
}

/// Nobody who would listen.
pub(crate) struct Unheard;

impl LookMeter for Unheard {
    fn asked(&self) {}
    fn ended(&self, _: Ending, _: Duration) {}
}

impl Meter for Unheard {
    fn of_controller(&self, _: &'static str) -> Box<dyn LookMeter> {
        Box::new(Self)
    }
    fn answered(&self, _: &str, _: &Target<'_>, _: Option<u16>, _: Duration) {}
}

/// Has a [`Meter`] hear of every request of a client.
#[derive(Clone)]
pub struct Metering(Arc<dyn Meter>);

impl Metering {
    /// Tells this meter.
    pub fn new(meter: Arc<dyn Meter>) -> Self {
        Self(meter)
    }
}

impl<S> Layer<S> for Metering {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Metered<S> {
        Metered { inner, meter: Arc::clone(&self.0) }
    }
}

/// A service whose answers a [`Meter`] hears of.
pub struct Metered<S> {
    inner: S,
    meter: Arc<dyn Meter>,
}

impl<S, B, A> Service<Request<B>> for Metered<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let meter = Arc::clone(&self.meter);
        let (method, uri): (Method, Uri) = (request.method().clone(), request.uri().clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let sent = Instant::now();
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            meter.answered(method.as_str(), &Target::of(uri.path()), code, sent.elapsed());
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: [&str; 4]) {
        let Target { group, version, resource, subresource } = Target::of(path);
        assert_eq!([group, version, resource, subresource], expected, "{path}");
    }

    #[test]
    fn paths_name_group_version_kind_and_part() {
        check("/api/v1/nodes", ["", "v1", "nodes", ""]);
        check("/api/v1/nodes/n", ["", "v1", "nodes", ""]);
        check("/api/v1/nodes/n/status", ["", "v1", "nodes", "status"]);
        check("/api/v1/namespaces/a/pods/p/eviction", ["", "v1", "pods", "eviction"]);
        check("/api/v1/namespaces/a/pods", ["", "v1", "pods", ""]);
        check("/api/v1/namespaces/a", ["", "v1", "namespaces", ""]);
        check("/api/v1/namespaces/a/status", ["", "v1", "namespaces", "status"]);
        let claims = "/apis/karpenter.sh/v1/nodeclaims";
        check(claims, ["karpenter.sh", "v1", "nodeclaims", ""]);
        check(&format!("{claims}/c/status"), ["karpenter.sh", "v1", "nodeclaims", "status"]);
        check("/readyz", ["", "", "", ""]);
    }
}
