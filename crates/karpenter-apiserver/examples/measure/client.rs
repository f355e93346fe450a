//! A client that costs as little as possible: it sends ready bytes and counts what comes back.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

use crate::Outcome;

/// What came back.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) body: Bytes,
}

/// A stream of watch events that goes on when the server ends it: a real server ends watches that cannot keep up, and every client
/// then asks again.
pub(crate) struct Events {
    http: Http,
    path: String,
    /// Where the watch began.
    version: String,
    body: Body,
    /// The last whole event and what has come of the next one.
    last: Vec<u8>,
    begun: Vec<u8>,
    pub(crate) seen: usize,
}

impl Events {
    /// Reads until `count` events have been seen.
    pub(crate) async fn read(&mut self, count: usize) -> Outcome<()> {
        while self.seen < count {
            match self.body.frame().await {
                Some(frame) => {
                    if let Some(data) = frame?.data_ref() {
                        self.take(data);
                    }
                }
                None => self.go_on().await?,
            }
        }
        Ok(())
    }

    /// Every event is one line.
    fn take(&mut self, data: &[u8]) {
        let mut lines = data.split(|byte| *byte == b'\n');
        let rest = lines.next_back().unwrap_or_default();
        let mut whole = 0;
        for line in lines {
            self.last.clear();
            self.last.append(&mut self.begun);
            self.last.extend_from_slice(line);
            whole += 1;
        }
        self.begun.extend_from_slice(rest);
        self.seen += whole;
    }

    /// Watches on after the last event; a watch that began with everything there is begins anew, as its first events have no order.
    async fn go_on(&mut self) -> Outcome<()> {
        eprintln!("{}: the server ended the watch after {} events", self.path, self.seen);
        if self.version == "0" {
            self.seen = 0;
        } else if self.seen > 0 {
            let last: Value = serde_json::from_slice(&self.last)?;
            let version = &last["object"]["metadata"]["resourceVersion"];
            version.as_str().ok_or("an event has a version")?.clone_into(&mut self.version);
        }
        self.body = self.http.open(&self.path, &self.version).await?;
        self.begun.clear();
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
}

impl Http {
    pub(crate) async fn connect(kubeconfig: &str) -> Outcome<Self> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.read_timeout = None;
        Ok(Self { client: Client::try_from(config)? })
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Outcome<http::Response<Body>> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        Ok(self.client.send(request.body(Body::from(body))?).await?)
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> Outcome<Answer> {
        let response = self.send(method, path, body).await?;
        let code = response.status();
        Ok(Answer { code, body: response.into_body().collect().await?.to_bytes() })
    }

    /// Asks for something that must work.
    pub(crate) async fn must(&self, method: Method, path: &str, body: Vec<u8>) -> Outcome<Bytes> {
        let answer = self.ask(method.clone(), path, body).await?;
        if answer.code.is_success() {
            return Ok(answer.body);
        }
        Err(format!("{method} {path}: {}: {}", answer.code, String::from_utf8_lossy(&answer.body)).into())
    }

    /// The version a list of `path` shows.
    pub(crate) async fn version(&self, path: &str) -> Outcome<String> {
        let list = self.must(Method::GET, &format!("{path}?limit=1"), Vec::new()).await?;
        let list: Value = serde_json::from_slice(&list)?;
        Ok(list["metadata"]["resourceVersion"].as_str().ok_or("a list has a version")?.to_owned())
    }

    pub(crate) async fn watch(&self, path: &str, version: &str) -> Outcome<Events> {
        Ok(Events {
            http: self.clone(),
            path: path.to_owned(),
            version: version.to_owned(),
            body: self.open(path, version).await?,
            last: Vec::new(),
            begun: Vec::new(),
            seen: 0,
        })
    }

    async fn open(&self, path: &str, version: &str) -> Outcome<Body> {
        let path = format!("{path}?watch=true&resourceVersion={version}");
        let response = self.send(Method::GET, &path, Vec::new()).await?;
        if !response.status().is_success() {
            return Err(format!("{path}: {}", response.status()).into());
        }
        Ok(response.into_body())
    }
}
