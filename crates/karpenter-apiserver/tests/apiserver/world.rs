//! A server and clients for it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use karpenter_apiserver::{ApiServer, Options, SeededEnvironment};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

/// A server whose clock and randomness the test controls.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) environment: Arc<SeededEnvironment>,
    pub(crate) client: Client,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let environment = Arc::new(SeededEnvironment::new(1, start));
        let mut options = Options { environment: environment.clone(), ..Options::default() };
        change(&mut options);
        Self::on(ApiServer::new(options), environment)
    }

    pub(crate) fn on(server: ApiServer, environment: Arc<SeededEnvironment>) -> Self {
        let client = Client::new(server.clone(), "default");
        Self { server, environment, client }
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a pod, bound to a node when one is named.
    pub(crate) async fn pod(&self, name: &str, labels: Value, node: Option<&str>) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app:1"}]},
        });
        self.pods().create(&PostParams::default(), &from(pod)).await.unwrap()
    }

    /// Sends a request and returns the status code and the answer's JSON, whatever it is.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let (code, text) = self.raw_bytes(method, path, headers, body).await;
        (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn raw_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (u16, String) {
        let (code, body) = self.bytes(method, path, headers, body).await;
        (code, String::from_utf8(body).unwrap())
    }

    pub(crate) async fn bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (u16, Vec<u8>) {
        use http_body_util::BodyExt;
        let response = self.response(method, path, headers, body).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, body.to_vec())
    }

    /// Sends an object and returns the warnings that come with the answer.
    pub(crate) async fn warnings(&self, method: &str, path: &str, object: &Value) -> Vec<String> {
        let response = self.response(method, path, &[], object.to_string().into_bytes()).await;
        let warnings = response.headers().get_all("warning").iter();
        warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect()
    }

    async fn response(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> http::Response<karpenter_apiserver::ResponseBody> {
        use tower_service::Service;
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(http_body_util::Full::new(bytes::Bytes::from(body))).unwrap();
        self.server.clone().call(request).await.unwrap()
    }
}

/// Reads a typed object from JSON.
pub(crate) fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns the code and message of an API error.
pub(crate) fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("expected an API error, got {other:?}"),
    }
}
