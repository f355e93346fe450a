//! What users and clients send: scenario files, our resources, whole requests to the embedded API server.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, Request};
use karpenter_api::validation::{validate_capacitybuffer, validate_nodeoverlay, validate_nodepool};
use karpenter_api::{CapacityBuffer, LabelRules, NodeClaim, NodeOverlay, NodePool};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_core::plan_provisioning;
use karpenter_kube::scenario::{load, outcome};
use tokio::runtime::Runtime;
use tower_service::Service as _;

/// More pods than this make a run slow without reaching anything new.
const LONGEST_SCENARIO: usize = 4096;

pub(crate) fn scenarios(data: &[u8]) {
    if data.len() > LONGEST_SCENARIO {
        return;
    }
    let Ok(problem) = load(data) else { return };
    if problem.snapshot.pending.len() > 200 || problem.snapshot.nodes.len() > 200 {
        return;
    }
    let plan = plan_provisioning(&problem.snapshot, &problem.catalog, &problem.options);
    serde_json::to_string(&outcome(&problem, &plan)).expect("every plan can be printed");
}

pub(crate) fn resources(data: &[u8]) {
    static RULES: LazyLock<LabelRules> = LazyLock::new(LabelRules::default);
    if let Ok(pool) = serde_json::from_slice::<NodePool>(data) {
        let _ = validate_nodepool(&pool, &RULES);
    }
    if let Ok(overlay) = serde_json::from_slice::<NodeOverlay>(data) {
        let _ = validate_nodeoverlay(&overlay, &RULES);
    }
    if let Ok(buffer) = serde_json::from_slice::<CapacityBuffer>(data) {
        let _ = validate_capacitybuffer(&buffer);
    }
    let _ = serde_json::from_slice::<NodeClaim>(data);
}

/// The first line is method, path and content type, the rest the body; the server is the same one from run to run.
pub(crate) fn api_requests(data: &[u8]) {
    static SERVER: LazyLock<(Runtime, ApiServer)> = LazyLock::new(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        (runtime.expect("a runtime starts"), ApiServer::new(Options::default()))
    });
    let (line, body) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len()));
    let Ok(line) = std::str::from_utf8(line) else { return };
    let mut words = line.split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return };
    let Ok(method) = Method::from_bytes(method.as_bytes()) else { return };
    // A watch never ends.
    if path.contains("watch") {
        return;
    }
    let request = Request::builder().method(method).uri(path).header("accept", "application/json");
    let request = request.header("content-type", words.next().unwrap_or("application/json"));
    let body = http_body_util::Full::new(Bytes::copy_from_slice(body.get(1..).unwrap_or_default()));
    let Ok(request) = request.body(body) else { return };
    let (runtime, server) = &*SERVER;
    // Even a 500 is an answer: Kubernetes gives it to an apply with fields it does not know, and so do we.
    runtime.block_on(server.clone().call(request)).expect("the server always answers");
}
