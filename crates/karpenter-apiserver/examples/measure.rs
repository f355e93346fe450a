//! Measures the server: time to ready, and memory and list times with many nodes and pods.
//!
//! `cargo run --release -p karpenter-apiserver --example measure -- [NODES] [PODS]`

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use http_body_util::BodyExt;
use karpenter_apiserver::{ApiServer, Options, ResponseBody};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let nodes: usize = arguments.next().map_or(Ok(10_000), |count| count.parse())?;
    let pods: usize = arguments.next().map_or(Ok(100_000), |count| count.parse())?;
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

/// Returns the resident size in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn node(index: usize) -> Value {
    let resources = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "KubeletReady", "message": "kubelet is posting ready status",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "metadata": {"name": format!("node-{index:05}"), "labels": {
            "kubernetes.io/hostname": format!("node-{index:05}"), "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m5.4xlarge",
            "topology.kubernetes.io/zone": format!("zone-{}", index % 3), "karpenter.sh/nodepool": "default",
            "karpenter.sh/capacity-type": "spot",
        }},
        "spec": {"providerID": format!("sim:///{index}")},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [condition("Ready", "True"), condition("MemoryPressure", "False"),
                condition("DiskPressure", "False"), condition("PIDPressure", "False")],
        },
    })
}

fn pod(index: usize, nodes: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("pod-{index:06}"),
            "labels": {"app": format!("app-{}", index % 100), "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [{
                "apiVersion": "example.com/v1", "kind": "Set", "name": format!("set-{}", index % 100),
                "uid": format!("{:08x}-0000-4000-8000-000000000000", index % 100), "controller": true,
            }],
        },
        "spec": {
            "nodeName": format!("node-{:05}", index % nodes.max(1)),
            "containers": [{
                "name": "main", "image": "registry.example.com/team/app:1.2.3",
                "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
                "env": [{"name": "MODE", "value": "production"}, {"name": "REGION", "value": "one"}],
                "ports": [{"containerPort": 8080}],
            }],
        },
    })
}
