//! The server in this very process, called without a network: time to ready, memory, lists.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use http_body_util::BodyExt;
use karpenter_apiserver::{ApiServer, Options, ResponseBody};
use serde_json::{Value, json};

use crate::Outcome;
use crate::objects::{node, pod};
use crate::phases::Load;

/// Fills a server and reports as it goes.
pub(crate) async fn run(load: Load) -> Outcome<()> {
    let Load { nodes, pods } = load;
    let start = Instant::now();
    let server = ApiServer::new(Options::default());
    send(&server, "GET", "/readyz", &Value::Null)?;
    report("ready", start.elapsed());
    let empty = resident();
    let start = Instant::now();
    for index in 0..nodes {
        send(&server, "POST", "/api/v1/nodes", &node(index))?;
    }
    report(&format!("{nodes} nodes created"), start.elapsed());
    let start = Instant::now();
    for index in 0..pods {
        send(&server, "POST", "/api/v1/namespaces/default/pods", &pod(index, nodes))?;
    }
    report(&format!("{pods} pods created"), start.elapsed());
    println!("resident: {} MiB empty, {} MiB full", empty / 1024, resident() / 1024);
    for (what, path) in [
        ("list all pods", "/api/v1/pods"),
        ("list all nodes", "/api/v1/nodes"),
        ("list the pods of a node", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-00007"),
        ("first page of 500 pods", "/api/v1/pods?limit=500"),
    ] {
        let start = Instant::now();
        let body = send(&server, "GET", path, &Value::Null)?.into_body().collect().await?.to_bytes();
        report(&format!("{what} ({} KiB)", body.len() / 1024), start.elapsed());
    }
    let start = Instant::now();
    let path = "/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1";
    let frame = send(&server, "GET", path, &Value::Null)?.into_body().frame().await.ok_or("no events")??;
    let body = frame.into_data().map_err(|_| "no events")?;
    report(&format!("watch from the start ({} KiB)", body.len() / 1024), start.elapsed());
    let start = Instant::now();
    for index in 0..pods.min(10_000) {
        let path = format!("/api/v1/namespaces/default/pods/pod-{index:06}/status");
        let status = json!({"status": {"phase": "Running"}});
        send(&server, "PATCH", &path, &status)?;
    }
    report(&format!("{} statuses patched", pods.min(10_000)), start.elapsed());
    println!("resident: {} MiB at the end", resident() / 1024);
    Ok(())
}

fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<Response<ResponseBody>, String> {
    let mut headers = HeaderMap::new();
    if method == "PATCH" {
        headers.insert("content-type", http::HeaderValue::from_static("application/merge-patch+json"));
    }
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let method: Method = method.parse().map_err(|_| "a method has a name".to_owned())?;
    let uri: Uri = path.parse().map_err(|error| format!("{path}: {error}"))?;
    let response = server.answer(&method, &uri, &headers, &body);
    if response.status().is_success() { Ok(response) } else { Err(format!("{path}: {}", response.status())) }
}

fn report(what: &str, took: Duration) {
    println!("{what}: {:.2} ms", took.as_secs_f64() * 1000.0);
}

/// Returns this process' resident size in KiB.
fn resident() -> u64 {
    crate::usage::resident(&[std::process::id()]) / 1024
}
