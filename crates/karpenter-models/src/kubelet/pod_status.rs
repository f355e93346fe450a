//! What a kubelet writes about a pod.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use super::addresses::{node_address, pod_address};
use crate::event::time;
use crate::pod::PodFacts;

/// Returns the status of a pod whose containers start.
pub(super) fn started(pod: &PodFacts, node: &str, ready: bool, now: Timestamp) -> Value {
    let host = node_address(node);
    let on_host = pod.template.spec.host_network == Some(true);
    let address = if on_host { host.clone() } else { pod_address(pod.uid()) };
    let mut conditions =
        vec![condition("PodReadyToStartContainers", true, now), condition("Initialized", true, now)];
    conditions.extend(readiness(pod, ready, now));
    let init = pod.template.spec.init_containers.iter().flatten();
    let init: Vec<Value> = init
        .map(|container| {
            if container.restart_policy.as_deref() == Some("Always") {
                running(container, ready, 0, None, now)
            } else {
                ended(container, 0, 0, now)
            }
        })
        .collect();
    let mut status = json!({
        "phase": "Running", "startTime": time(now), "conditions": conditions,
        "hostIP": host, "hostIPs": [{"ip": host}], "podIP": address, "podIPs": [{"ip": address}],
        "containerStatuses": containers(pod, |container| running(container, ready, 0, None, now)),
    });
    if !init.is_empty() {
        status["initContainerStatuses"] = init.into();
    }
    json!({"status": status})
}

/// Returns the status of a running pod that becomes ready.
pub(super) fn ready(pod: &PodFacts, now: Timestamp) -> Value {
    let since = pod.running_since.unwrap_or(now);
    let running = |container: &Container| running(container, true, pod.restarts, None, since);
    json!({"status": {"conditions": readiness(pod, true, now), "containerStatuses": containers(pod, running)}})
}

/// Returns the status of a pod whose containers ended and start again.
pub(super) fn restarted(pod: &PodFacts, exit_code: i32, now: Timestamp) -> Value {
    let restarts = pod.restarts + 1;
    let last = terminated(exit_code, pod.running_since.unwrap_or(now), now);
    let running = |container: &Container| running(container, true, restarts, Some(&last), now);
    json!({"status": {"containerStatuses": containers(pod, running)}})
}

/// Returns the status of a pod that came to its end.
pub(super) fn finished(pod: &PodFacts, exit_code: i32, now: Timestamp) -> Value {
    let reason = if exit_code == 0 { "PodCompleted" } else { "PodFailed" };
    let not_ready = |type_: &str| {
        let mut condition = condition(type_, false, now);
        condition["reason"] = reason.into();
        condition
    };
    let since = pod.running_since.unwrap_or(now);
    let ended = |container: &Container| {
        let mut status = ended(container, exit_code, pod.restarts, now);
        status["state"]["terminated"]["startedAt"] = time(since);
        status
    };
    json!({"status": {
        "phase": if exit_code == 0 { "Succeeded" } else { "Failed" },
        "conditions": [not_ready("Ready"), not_ready("ContainersReady")],
        "containerStatuses": containers(pod, ended),
    }})
}

fn readiness(pod: &PodFacts, ready: bool, now: Timestamp) -> Vec<Value> {
    let names: Vec<&str> =
        pod.template.spec.containers.iter().map(|container| container.name.as_str()).collect();
    ["ContainersReady", "Ready"]
        .into_iter()
        .map(|type_| {
            let mut condition = condition(type_, ready, now);
            if !ready {
                condition["reason"] = "ContainersNotReady".into();
                condition["message"] =
                    format!("containers with unready status: [{}]", names.join(" ")).into();
            }
            condition
        })
        .collect()
}

fn condition(type_: &str, status: bool, now: Timestamp) -> Value {
    json!({
        "type": type_, "status": if status { "True" } else { "False" }, "reason": null, "message": null,
        "lastProbeTime": null, "lastTransitionTime": time(now),
    })
}

fn containers(pod: &PodFacts, status: impl Fn(&Container) -> Value) -> Value {
    pod.template.spec.containers.iter().map(status).collect()
}

fn running(
    container: &Container,
    ready: bool,
    restarts: i32,
    last: Option<&Value>,
    since: Timestamp,
) -> Value {
    let mut status = json!({
        "name": container.name, "image": container.image, "imageID": "", "ready": ready, "started": true,
        "restartCount": restarts, "state": {"running": {"startedAt": time(since)}},
    });
    if let Some(last) = last {
        status["lastState"] = last.clone();
    }
    status
}

fn ended(container: &Container, exit_code: i32, restarts: i32, now: Timestamp) -> Value {
    json!({
        "name": container.name, "image": container.image, "imageID": "", "ready": false, "started": false,
        "restartCount": restarts, "state": terminated(exit_code, now, now),
    })
}

fn terminated(exit_code: i32, since: Timestamp, now: Timestamp) -> Value {
    json!({"terminated": {
        "exitCode": exit_code, "reason": if exit_code == 0 { "Completed" } else { "Error" },
        "startedAt": time(since), "finishedAt": time(now),
    }})
}
