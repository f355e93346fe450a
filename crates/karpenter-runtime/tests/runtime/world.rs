//! A cluster in this process on simulated time, and ways to disturb the road to it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_apiserver::{ApiServer, Options, ResponseBody};
use karpenter_environment::SimulatedEnvironment;
use karpenter_runtime::{Key, Permit, Runtime};
use kube::client::{Body, ClientBuilder};
use kube::{Api, Client};

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) environment: Arc<SimulatedEnvironment>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let environment = Arc::new(SimulatedEnvironment::new(seed, Timestamp::UNIX_EPOCH));
        let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
        let client = Client::new(server.clone(), "default");
        Self { server, client, environment }
    }

    pub(crate) fn runtime(&self) -> Runtime {
        Runtime::new(self.client.clone(), self.environment.clone())
    }

    /// A runtime whose road to the server fails `failures` times in a row for requests that `when` picks.
    pub(crate) fn troubled_runtime(&self, failures: u32, when: fn(&Request<Body>) -> bool) -> Runtime {
        let road = Road { server: self.server.clone(), failures: Arc::new(AtomicU32::new(failures)), when };
        Runtime::new(Client::new(road, "default"), self.environment.clone())
    }

    /// A client whose writes need `permit`, and how many requests of each method reach the server.
    pub(crate) fn counted_client(&self, permit: &Permit) -> (Client, Counts) {
        let counts = Counts::default();
        let counter = Counter { server: self.server.clone(), counts: counts.clone(), sticks: false };
        (ClientBuilder::new(counter, "default").with_layer(permit).build(), counts)
    }

    /// A client whose requests never arrive, and whose writes need `permit`.
    pub(crate) fn stuck_client(&self, permit: &Permit) -> Client {
        let counter = Counter { server: self.server.clone(), counts: Counts::default(), sticks: true };
        ClientBuilder::new(counter, "default").with_layer(permit).build()
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        let list = self.config_maps().list(&kube::api::ListParams::default()).await.unwrap();
        list.items.iter().map(|object| Key::of(object).name().to_owned()).collect()
    }
}

/// Runs `runtime` for some simulated seconds.
pub(crate) async fn run_for(runtime: Runtime, seconds: u64) {
    runtime.run(tokio::time::sleep(Duration::from_secs(seconds))).await;
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some("default".into());
    object.metadata.name = Some(name.into());
    object
}

#[derive(Clone)]
struct Road {
    server: ApiServer,
    failures: Arc<AtomicU32>,
    when: fn(&Request<Body>) -> bool,
}

impl tower_service::Service<Request<Body>> for Road {
    type Response = Response<ResponseBody>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fails = (self.when)(&request)
            && self
                .failures
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok();
        if fails {
            return Box::pin(async { Err(std::io::Error::other("the road is closed")) });
        }
        let mut server = self.server.clone();
        Box::pin(async move {
            match server.call(request).await {
                Ok(response) => Ok(response),
                Err(never) => match never {},
            }
        })
    }
}

pub(crate) type Counts = Arc<Mutex<BTreeMap<String, usize>>>;

/// Counts what arrives at the server.
#[derive(Clone)]
struct Counter {
    server: ApiServer,
    counts: Counts,
    sticks: bool,
}

impl tower_service::Service<Request<Body>> for Counter {
    type Response = Response<ResponseBody>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { mut server, counts, sticks } = self.clone();
        Box::pin(async move {
            if sticks {
                std::future::pending::<()>().await;
            }
            *counts.lock().unwrap().entry(request.method().to_string()).or_default() += 1;
            match server.call(request).await {
                Ok(response) => Ok(response),
                Err(never) => match never {},
            }
        })
    }
}
