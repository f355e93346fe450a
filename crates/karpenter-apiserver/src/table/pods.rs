//! The cells of pods: what a person wants to know about one at a glance.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::pieces::{condition, count, items, or, size, text};

/// What the containers of a pod add up to.
struct Tally {
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: String,
    reason: String,
}

impl Tally {
    fn restarted(&mut self, status: &Value) {
        self.restarts += count(&status["restartCount"]);
        let finished = text(&status["lastState"]["terminated"]["finishedAt"]);
        if finished > self.last_restart.as_str() {
            finished.clone_into(&mut self.last_restart);
        }
    }
}

/// Returns the cells of a pod.
pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let tally = tally(pod);
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    let finished = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
    let shown = match (metadata["deletionTimestamp"].is_string(), text(&status["reason"])) {
        (true, "NodeLost") => "Unknown".to_owned(),
        (true, _) if !finished => "Terminating".to_owned(),
        _ => tally.reason,
    };
    let restarts = if tally.restarts != 0 && !tally.last_restart.is_empty() {
        format!("{} ({} ago)", tally.restarts, age(&tally.last_restart, now))
    } else {
        tally.restarts.to_string()
    };
    let gates = items(&spec["readinessGates"]);
    let open = gates.filter(|gate| condition(pod, text(&gate["conditionType"]))).count();
    let gates = match size(&spec["readinessGates"]) {
        0 => "<none>".to_owned(),
        total => format!("{open}/{total}"),
    };
    vec![
        metadata["name"].clone(),
        json!(format!("{}/{}", tally.ready, tally.total)),
        json!(shown),
        json!(restarts),
        json!(age(text(&metadata["creationTimestamp"]), now)),
        json!(or(&status["podIPs"][0]["ip"], or(&status["podIP"], "<none>"))),
        json!(or(&spec["nodeName"], "<none>")),
        json!(or(&status["nominatedNodeName"], "<none>")),
        json!(gates),
    ]
}

/// Returns what a row says about a pod that has ended.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod["status"]["phase"].as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn tally(pod: &Value) -> Tally {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let sidecars: Vec<&str> = items(&spec["initContainers"])
        .filter(|container| container["restartPolicy"] == "Always")
        .map(|container| text(&container["name"]))
        .collect();
    let mut reason = or(&status["reason"], text(&status["phase"])).to_owned();
    let gated =
        |condition: &Value| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated";
    if items(&status["conditions"]).any(gated) {
        "SchedulingGated".clone_into(&mut reason);
    }
    let total = size(&spec["containers"]) + sidecars.len();
    let mut all = Tally { ready: 0, total, restarts: 0, last_restart: String::new(), reason };
    let mut of_sidecars = Tally { reason: String::new(), last_restart: String::new(), ..all };
    let mut initializing = false;
    for (index, container) in items(&status["initContainerStatuses"]).enumerate() {
        let sidecar = sidecars.contains(&text(&container["name"]));
        all.restarted(container);
        if sidecar {
            of_sidecars.restarted(container);
        }
        let state = &container["state"];
        if state["terminated"].is_object() && count(&state["terminated"]["exitCode"]) == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            all.ready += usize::from(container["ready"] == true);
            continue;
        }
        all.reason = match text(&state["waiting"]["reason"]) {
            _ if state["terminated"].is_object() => format!("Init:{}", ending(&state["terminated"])),
            "" | "PodInitializing" => format!("Init:{index}/{}", size(&spec["initContainers"])),
            waiting => format!("Init:{waiting}"),
        };
        initializing = true;
        break;
    }
    if !initializing || condition(pod, "Initialized") {
        (all.restarts, all.last_restart) = (of_sidecars.restarts, of_sidecars.last_restart);
        tally_main(pod, &mut all);
    }
    all
}

fn tally_main(pod: &Value, all: &mut Tally) {
    let (mut running, mut error) = (false, String::new());
    for container in items(&pod["status"]["containerStatuses"]).rev() {
        all.restarted(container);
        let state = &container["state"];
        let waiting = text(&state["waiting"]["reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(&mut all.reason);
        } else if state["terminated"].is_object() {
            all.reason = ending(&state["terminated"]);
            if count(&state["terminated"]["exitCode"]) != 0 {
                error.clone_from(&all.reason);
            }
        } else if container["ready"] == true && state["running"].is_object() {
            running = true;
            all.ready += 1;
        }
    }
    // A pod of which one container has completed and another runs is running.
    if all.reason == "Completed" {
        if running && condition(pod, "Ready") {
            "Running".clone_into(&mut all.reason);
        } else if !error.is_empty() {
            all.reason = error;
        } else if running {
            "NotReady".clone_into(&mut all.reason);
        }
    }
}

/// How a container ended, in one word.
fn ending(terminated: &Value) -> String {
    let reason = text(&terminated["reason"]);
    match count(&terminated["signal"]) {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", count(&terminated["exitCode"])),
        signal => format!("Signal:{signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pod: &Value) -> Vec<String> {
        let texts = cells(pod, Timestamp::from_second(60).unwrap());
        texts[1..4].iter().map(|cell| text(cell).to_owned()).collect()
    }

    #[test]
    fn containers_decide_what_a_pod_shows() {
        let pod = |statuses: Value| {
            json!({
                "metadata": {"name": "a"}, "spec": {"containers": [{"name": "x"}, {"name": "y"}]},
                "status": {"phase": "Running", "containerStatuses": statuses},
            })
        };
        let running = json!({"ready": true, "restartCount": 0, "state": {"running": {}}});
        let back_off = json!({
            "ready": false, "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "1970-01-01T00:00:30Z"}},
        });
        let killed = json!({"restartCount": 0, "state": {"terminated": {"exitCode": 137, "signal": 9}}});
        assert_eq!(shown(&pod(json!([running, running]))), ["2/2", "Running", "0"]);
        assert_eq!(shown(&pod(json!([running, back_off]))), ["1/2", "CrashLoopBackOff", "2 (30s ago)"]);
        assert_eq!(shown(&pod(json!([running, killed]))), ["1/2", "Signal:9", "0"]);
    }

    #[test]
    fn init_containers_come_first() {
        let pod = json!({
            "metadata": {"name": "a"},
            "spec": {"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "x"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}},
            ]},
        });
        assert_eq!(shown(&pod), ["0/1", "Init:1/2", "0"]);
    }

    #[test]
    fn a_deleted_pod_is_terminating_unless_it_has_ended() {
        let pod = |phase: &str| {
            json!({
                "metadata": {"name": "a", "deletionTimestamp": "1970-01-01T00:00:00Z"}, "spec": {"containers": [{}]},
                "status": {"phase": phase},
            })
        };
        assert_eq!(shown(&pod("Running"))[1], "Terminating");
        assert_eq!(shown(&pod("Succeeded"))[1], "Succeeded");
    }
}
