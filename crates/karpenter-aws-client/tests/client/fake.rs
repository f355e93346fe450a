//! Something that stands in for AWS: remembers requests and answers as a closure says.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use jiff::Timestamp;
use karpenter_aws_client::{Client, Config, Credentials, Source, Transport, TransportError};
use karpenter_environment::SimulatedEnvironment;

/// Requests in the order they came.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<Request<Bytes>>>>);

impl Seen {
    pub(crate) fn all(&self) -> Vec<Request<Bytes>> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Method and address of every request.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.all().iter().map(|request| format!("{} {}", request.method(), request.uri())).collect()
    }
}

/// A transport that answers with what `answer` returns for the request and the number of requests before it; `None` breaks the line.
pub(crate) fn transport<F>(answer: F) -> (Seen, Arc<dyn Transport>)
where
    F: Fn(&Request<Bytes>, usize) -> Option<Response<Bytes>> + Send + Sync + 'static,
{
    let seen = Seen::default();
    let kept = seen.clone();
    let transport = move |request: Request<Bytes>| {
        let number = kept.count();
        let response = answer(&request, number);
        kept.0.lock().unwrap().push(request);
        let response = response.ok_or_else(|| TransportError("connection reset".into()));
        Box::pin(std::future::ready(response)) as BoxFuture<'static, _>
    };
    (seen, Arc::new(transport))
}

pub(crate) fn answer(status: u16, body: impl Into<Bytes>) -> Response<Bytes> {
    Response::builder().status(status).body(body.into()).unwrap()
}

pub(crate) fn start() -> Timestamp {
    "2026-11-17T06:00:00Z".parse().unwrap()
}

pub(crate) fn environment() -> Arc<SimulatedEnvironment> {
    Arc::new(SimulatedEnvironment::new(7, start()))
}

pub(crate) fn keys() -> Source {
    Source::Keys(Credentials::fixed("AKID", "secret"))
}

/// A client with fixed keys for a cloud at `http://cloud`.
pub(crate) fn client<F>(answer: F) -> (Seen, Client)
where
    F: Fn(&Request<Bytes>, usize) -> Option<Response<Bytes>> + Send + Sync + 'static,
{
    let (seen, transport) = transport(answer);
    (seen, Client::new(Config::at("http://cloud", "us-west-2", keys()), transport, environment()))
}
