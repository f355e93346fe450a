//! Writes down everything that happens in the API, in the order in which it is told.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use futures::AsyncBufReadExt as _;
use futures::StreamExt as _;
use kube::Client;
use serde::Deserialize;

/// What is followed: the kinds that Karpenter and the models write.
const FOLLOWED: [&str; 13] = [
    "/api/v1/events",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/persistentvolumeclaims",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/jobs",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
    "/apis/karpenter.sh/v1/nodeclaims",
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/storage.k8s.io/v1/volumeattachments",
];

/// A log that several watches write to.
pub(crate) type Log = Arc<Mutex<dyn FnMut(&str) + Send>>;

/// A log that goes to `out`, one event a line, and counts its lines.
pub(crate) fn log(mut out: impl Write + Send + 'static) -> (Log, Arc<Mutex<Count>>) {
    let count = Arc::new(Mutex::new(Count::default()));
    let counted = Arc::clone(&count);
    let write = move |line: &str| {
        let mut count = counted.lock().unwrap_or_else(PoisonError::into_inner);
        count.lines += 1;
        if let Err(error) = writeln!(out, "{line}") {
            count.failure.get_or_insert(error.to_string());
        }
    };
    (Arc::new(Mutex::new(write)), count)
}

/// How much was written.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) lines: u64,
    pub(crate) failure: Option<String>,
}

/// Follows every kind for as long as the tasks live.
pub(crate) fn record(client: &Client, log: &Log) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for path in FOLLOWED {
        tasks.spawn(follow(client.clone(), path, Arc::clone(log)));
    }
    tasks
}

/// A watch that ends is begun again where it ended.
async fn follow(client: Client, path: &'static str, log: Log) {
    let mut version = String::from("0");
    loop {
        let uri = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
        let request = http::Request::get(uri).body(Vec::new()).expect("paths are URIs");
        let Ok(stream) = client.request_stream(request).await else { return };
        let mut lines = std::pin::pin!(stream.lines());
        let mut last = String::new();
        while let Some(Ok(line)) = lines.next().await {
            log.lock().unwrap_or_else(PoisonError::into_inner)(&line);
            last = line;
        }
        version = version_of(&last).unwrap_or(version);
    }
}

/// Of an event, what says where to go on.
#[derive(Deserialize)]
struct Told {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

fn version_of(line: &str) -> Option<String> {
    Some(serde_json::from_str::<Told>(line).ok()?.object.metadata.resource_version)
}
