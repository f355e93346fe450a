//! The rules of voluntary disruption, restated over JSON.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Seen;

/// What was done that must not be done, in sentences.
pub(crate) fn violations(seen: &[Seen]) -> Vec<String> {
    let mut cluster = Cluster::default();
    let mut found = Vec::new();
    for event in seen {
        found.extend(cluster.judge(event).into_iter().map(|what| format!("{}: {what}", event.at)));
        cluster.take_in(event);
    }
    found
}

#[derive(Default)]
struct Cluster {
    objects: BTreeMap<(&'static str, String), Value>,
}

impl Cluster {
    fn take_in(&mut self, event: &Seen) {
        let key = (event.kind, name_of(&event.object));
        if event.gone {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, event.object.clone());
        }
    }

    fn of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |((found, _), _)| *found == kind).map(|(_, object)| object)
    }

    fn judge(&self, event: &Seen) -> Vec<String> {
        let old = self.objects.get(&(event.kind, name_of(&event.object)));
        match event.kind {
            "NodeClaim" if !event.gone => {
                let before = old.and_then(|old| condition(old, "DisruptionReason"));
                match condition(&event.object, "DisruptionReason") {
                    Some(reason) if before.is_none() => self.judge_start(&event.object, reason, event.at),
                    _ => Vec::new(),
                }
            }
            "Pod" if !event.gone => {
                let leaves = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
                if leaves(&event.object) && !old.is_some_and(leaves) {
                    self.judge_departure(&event.object, event.at)
                } else {
                    Vec::new()
                }
            }
            _ => Vec::new(),
        }
    }

    /// A claim begins to be disrupted.
    fn judge_start(&self, claim: &Value, reason: &str, now: Timestamp) -> Vec<String> {
        let claim_name = name_of(claim);
        let mut found = Vec::new();
        let node = self.node_of(claim);
        found.extend(self.over_budget(claim, reason, now));
        let bounded = !claim["spec"]["terminationGracePeriod"].is_null();
        if reason == "Unhealthy" || node.is_none() {
            return found;
        }
        if node.is_some_and(|node| annotation(node, "karpenter.sh/do-not-disrupt") == Some("true")) {
            found.push(format!("{claim_name} is disrupted although its node says do-not-disrupt"));
        }
        if reason == "Drifted" && bounded {
            return found;
        }
        let node_name = node.map(name_of).unwrap_or_default();
        for pod in self.of("Pod").filter(|pod| is_active(pod) && text(&pod["spec"]["nodeName"]) == node_name)
        {
            if refuses(pod, now) {
                found
                    .push(format!("{claim_name} is disrupted although {} says do-not-disrupt", name_of(pod)));
            }
            if stays(pod) {
                continue;
            }
            let tight = |budget: &&Value| budget["status"]["disruptionsAllowed"].as_i64() == Some(0);
            if let Some(budget) = self.covering(pod).find(tight) {
                let name = name_of(budget);
                found.push(format!("{claim_name} is disrupted although {name} lets no pod go"));
            }
        }
        found
    }

    /// A pod begins to leave.
    fn judge_departure(&self, pod: &Value, now: Timestamp) -> Vec<String> {
        let evicted = pod["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
            text(&condition["type"]) == "DisruptionTarget"
                && text(&condition["reason"]) == "EvictionByEvictionAPI"
        });
        if !evicted {
            return Vec::new();
        }
        let mut found = Vec::new();
        let claim = self
            .of("NodeClaim")
            .find(|claim| text(&claim["status"]["nodeName"]) == text(&pod["spec"]["nodeName"]));
        let deadline = claim
            .is_some_and(|claim| annotation(claim, "karpenter.sh/nodeclaim-termination-timestamp").is_some());
        if refuses(pod, now) && !deadline {
            found.push(format!("{} was evicted although it says do-not-disrupt", name_of(pod)));
        }
        for budget in self.covering(pod) {
            let Some(least) = budget["spec"]["minAvailable"].as_u64() else { continue };
            let others =
                |other: &&Value| name_of(other) != name_of(pod) && is_active(other) && selects(budget, other);
            if (self.of("Pod").filter(others).count() as u64) < least {
                found.push(format!("{} was evicted against {}", name_of(pod), name_of(budget)));
            }
        }
        found
    }

    fn node_of(&self, claim: &Value) -> Option<&Value> {
        self.of("Node").find(|node| name_of(node) == text(&claim["status"]["nodeName"]))
    }

    fn covering<'a>(&'a self, pod: &'a Value) -> impl Iterator<Item = &'a Value> {
        self.of("PodDisruptionBudget").filter(|budget| selects(budget, pod))
    }

    fn over_budget(&self, claim: &Value, reason: &str, now: Timestamp) -> Option<String> {
        let pool_name = label(claim, "karpenter.sh/nodepool")?;
        let pool = self.of("NodePool").find(|pool| name_of(pool) == pool_name)?;
        let own = self.node_of(claim)?;
        let up = |node: &Value| label(node, "karpenter.sh/initialized") == Some("true");
        if !up(own) {
            return None;
        }
        let (mut nodes, mut disrupting) = (0, 1);
        for other in self.of("NodeClaim") {
            let Some(node) = self.node_of(other) else { continue };
            let counts = label(other, "karpenter.sh/nodepool") == Some(pool_name)
                && (up(node) || condition(other, "Rebooting").is_some())
                && condition(other, "InstanceTerminating").is_none();
            if !counts {
                continue;
            }
            nodes += 1;
            let leaving = !other["metadata"]["deletionTimestamp"].is_null()
                || condition(other, "DisruptionReason").is_some()
                || condition(other, "Rebooting").is_some();
            let broken = reason != "Unhealthy" && condition(node, "Ready").is_none();
            disrupting += u64::from(name_of(other) != name_of(claim) && (leaving || broken));
        }
        let budgets = pool["spec"]["disruption"]["budgets"].as_array();
        let in_force = budgets.into_iter().flatten().filter(|budget| is_in_force(budget, reason, now));
        let allowed = in_force.map(|budget| allowed(text(&budget["nodes"]), nodes)).min()?;
        (disrupting > allowed).then(|| {
            format!(
                "{} is disrupted as {reason}: {disrupting} nodes of {pool_name} at once, {allowed} of {nodes} are allowed",
                name_of(claim)
            )
        })
    }
}

fn allowed(written: &str, nodes: u64) -> u64 {
    match written.strip_suffix('%') {
        Some(percent) => (nodes * percent.parse::<u64>().unwrap()).div_ceil(100),
        None => written.parse().unwrap(),
    }
}

/// Budgets with a schedule are understood where it is a time of every day.
fn is_in_force(budget: &Value, reason: &str, now: Timestamp) -> bool {
    let reasons = budget["reasons"].as_array();
    if reasons.is_some_and(|reasons| !reasons.iter().any(|listed| text(listed) == reason)) {
        return false;
    }
    let Some(schedule) = budget["schedule"].as_str() else { return true };
    let fields: Vec<&str> = schedule.split(' ').collect();
    let [minute, hour, "*", "*", "*"] = fields[..] else { panic!("the observer cannot read {schedule}") };
    let opens: i64 = hour.parse::<i64>().unwrap() * 60 + minute.parse::<i64>().unwrap();
    let lasts = duration(text(&budget["duration"])).unwrap().as_secs() / 60;
    let minute_of_day = now.as_second().rem_euclid(86_400) / 60;
    (minute_of_day - opens).rem_euclid(24 * 60) < lasts
}

fn selects(budget: &Value, pod: &Value) -> bool {
    let wanted = budget["spec"]["selector"]["matchLabels"].as_object();
    let same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"];
    same && wanted.is_some_and(|all| all.iter().all(|(key, value)| &pod["metadata"]["labels"][key] == value))
}

fn refuses(pod: &Value, now: Timestamp) -> bool {
    match annotation(pod, "karpenter.sh/do-not-disrupt") {
        None => false,
        Some("true") => true,
        Some(written) => {
            let Some(lasts) = duration(written) else { return false };
            let started = pod["status"]["startTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
            started.is_none_or(|started| now.duration_since(started) < lasts)
        }
    }
}

/// A Go duration of hours, minutes and seconds.
fn duration(written: &str) -> Option<SignedDuration> {
    let mut seconds = 0;
    let mut number = String::new();
    for letter in written.chars() {
        if letter.is_ascii_digit() {
            number.push(letter);
            continue;
        }
        let unit = match letter {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        seconds += std::mem::take(&mut number).parse::<i64>().ok()? * unit;
    }
    (seconds > 0).then(|| SignedDuration::from_secs(seconds))
}

/// Whether the pod goes down with its node.
fn stays(pod: &Value) -> bool {
    let tolerations = pod["spec"]["tolerations"].as_array();
    tolerations.into_iter().flatten().any(|toleration| {
        let key = text(&toleration["key"]);
        (key.is_empty() && text(&toleration["operator"]) == "Exists" || key == "karpenter.sh/disrupted")
            && matches!(text(&toleration["effect"]), "" | "NoSchedule")
    })
}

fn is_active(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && !matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed")
}

/// The reason of a condition that is true.
fn condition<'o>(object: &'o Value, type_: &str) -> Option<&'o str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found =
        conditions.iter().find(|found| text(&found["type"]) == type_ && text(&found["status"]) == "True")?;
    Some(text(&found["reason"]))
}

fn label<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["labels"][key].as_str()
}

fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["annotations"][key].as_str()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn name_of(object: &Value) -> String {
    let metadata = &object["metadata"];
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", text(&metadata["name"])),
        None => text(&metadata["name"]).to_owned(),
    }
}
