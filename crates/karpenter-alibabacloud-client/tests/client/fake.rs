//! Something that stands in for Alibaba Cloud: remembers requests and answers as a closure says.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use jiff::Timestamp;
use karpenter_alibabacloud_client::{Client, Config, Credentials, Source, Transport, TransportError};
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

    /// How many requests were for an action.
    pub(crate) fn of(&self, action: &str) -> Vec<Request<Bytes>> {
        self.all().into_iter().filter(|request| header(request, "x-acs-action") == action).collect()
    }
}

pub(crate) fn header<'r>(request: &'r Request<Bytes>, name: &str) -> &'r str {
    request.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

pub(crate) fn query(request: &Request<Bytes>) -> &str {
    request.uri().query().unwrap_or("")
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

pub(crate) fn refusal(status: u16, code: &str) -> Response<Bytes> {
    answer(status, format!(r#"{{"RequestId":"R","HostId":"h","Code":"{code}","Message":"no"}}"#))
}

pub(crate) fn start() -> Timestamp {
    "2026-11-17T06:00:00Z".parse().unwrap()
}

pub(crate) fn environment() -> Arc<SimulatedEnvironment> {
    Arc::new(SimulatedEnvironment::new(7, start()))
}

pub(crate) fn keys() -> Source {
    Source::Keys(Credentials::fixed("AK", "secret"))
}

pub(crate) fn client_with<F>(source: Source, answer: F) -> (Seen, Client)
where
    F: Fn(&Request<Bytes>, usize) -> Option<Response<Bytes>> + Send + Sync + 'static,
{
    let (seen, transport) = transport(answer);
    let config = Config::at("http://cloud", "cn-hangzhou", source).with_metadata("http://metadata");
    (seen, Client::new(config, transport, environment()))
}

/// A client with fixed keys for a cloud at `http://cloud`.
pub(crate) fn client<F>(answer: F) -> (Seen, Client)
where
    F: Fn(&Request<Bytes>, usize) -> Option<Response<Bytes>> + Send + Sync + 'static,
{
    client_with(keys(), answer)
}
