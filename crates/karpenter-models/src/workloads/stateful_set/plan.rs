//! Which pods of a stateful set come and go next: pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_runtime::Key;

use crate::pod::PodFacts;

/// What a stateful set asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The lowest number.
    pub(super) first: i32,
    pub(super) replicas: i32,
    /// Whether pods need not wait for each other.
    pub(super) is_parallel: bool,
    /// Whether pods of an old template are replaced.
    pub(super) updates: bool,
    /// So many pods with the lowest numbers keep the old template.
    pub(super) partition: i32,
    pub(super) min_ready_seconds: i32,
}

/// A pod of the set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) ordinal: i32,
    pub(super) key: &'a Key,
    pub(super) pod: &'a PodFacts,
    /// Whether it is of the present template.
    pub(super) is_updated: bool,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Create {
        ordinal: i32,
        /// Whether it is made from the present template.
        is_updated: bool,
    },
    Delete {
        ordinal: i32,
    },
}

/// Returns what is to be done now.
///
/// In order, every pod waits for those before it to be available; going down, for those after it to be gone. Parallel sets do
/// everything at once, except updates, which go one by one from the highest number down.
pub(super) fn next_acts(rules: &Rules, members: &[Member<'_>], now: Timestamp) -> Vec<Act> {
    let by_ordinal: BTreeMap<i32, &Member<'_>> =
        members.iter().map(|member| (member.ordinal, member)).collect();
    let range = rules.first..rules.first.saturating_add(rules.replicas);
    let mut acts = Vec::new();
    for ordinal in range.clone() {
        match by_ordinal.get(&ordinal) {
            None => acts.push(Act::Create {
                ordinal,
                is_updated: !rules.updates || ordinal >= rules.first + rules.partition,
            }),
            Some(member) if member.pod.is_finished() && !member.pod.is_terminating() => {
                acts.push(Act::Delete { ordinal });
            }
            Some(member) if rules.is_parallel || is_settled(member, rules, now) => continue,
            Some(_) => return acts,
        }
        if !rules.is_parallel {
            return acts;
        }
    }
    let beyond: Vec<&&Member<'_>> =
        by_ordinal.values().filter(|member| !range.contains(&member.ordinal)).collect();
    for member in beyond.iter().rev() {
        if !member.pod.is_terminating() {
            acts.push(Act::Delete { ordinal: member.ordinal });
        }
        if !rules.is_parallel {
            return acts;
        }
    }
    if acts.is_empty() && rules.updates {
        acts.extend(update(rules, &by_ordinal, now));
    }
    acts
}

fn update(rules: &Rules, by_ordinal: &BTreeMap<i32, &Member<'_>>, now: Timestamp) -> Option<Act> {
    let range = rules.first + rules.partition..rules.first.saturating_add(rules.replicas);
    for ordinal in range.rev() {
        let member = by_ordinal.get(&ordinal)?;
        if !member.is_updated && !member.pod.is_terminating() {
            return Some(Act::Delete { ordinal });
        }
        if !is_settled(member, rules, now) {
            return None;
        }
    }
    None
}

fn is_settled(member: &Member<'_>, rules: &Rules, now: Timestamp) -> bool {
    !member.pod.is_terminating() && member.pod.is_available(rules.min_ready_seconds, now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::Templates;

    const RULES: Rules = Rules {
        first: 0,
        replicas: 3,
        is_parallel: false,
        updates: true,
        partition: 0,
        min_ready_seconds: 0,
    };

    fn pod(state: &str) -> PodFacts {
        let ready = if state == "waiting" { "False" } else { "True" };
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {
            "phase": if state == "failed" { "Failed" } else { "Running" },
            "conditions": [{"type": "Ready", "status": ready}]}});
        if state == "going" {
            pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
        }
        Templates::default().keep(serde_json::from_value(pod).unwrap())
    }

    #[track_caller]
    fn check(rules: &Rules, states: &[(i32, &str)], expected: &[Act]) {
        let key = Key::namespaced("default", "p");
        let pods: Vec<(i32, PodFacts, bool)> =
            states.iter().map(|(ordinal, state)| (*ordinal, pod(state), *state != "old")).collect();
        let members: Vec<Member<'_>> = pods
            .iter()
            .map(|(ordinal, pod, is_updated)| Member {
                ordinal: *ordinal,
                key: &key,
                pod,
                is_updated: *is_updated,
            })
            .collect();
        assert_eq!(next_acts(rules, &members, Timestamp::UNIX_EPOCH), expected);
    }

    fn create(ordinal: i32) -> Act {
        Act::Create { ordinal, is_updated: true }
    }

    fn delete(ordinal: i32) -> Act {
        Act::Delete { ordinal }
    }

    #[test]
    fn pods_come_one_after_the_other() {
        check(&RULES, &[], &[create(0)]);
        check(&RULES, &[(0, "waiting")], &[]);
        check(&RULES, &[(0, "ready")], &[create(1)]);
        check(&RULES, &[(0, "ready"), (2, "ready")], &[create(1)]);
        check(&Rules { is_parallel: true, ..RULES }, &[(1, "waiting")], &[create(0), create(2)]);
    }

    #[test]
    fn pods_go_from_the_highest_number_down() {
        let rules = Rules { replicas: 1, ..RULES };
        check(&rules, &[(0, "ready"), (1, "ready"), (2, "ready")], &[delete(2)]);
        check(&rules, &[(0, "ready"), (1, "ready"), (2, "going")], &[]);
        check(
            &Rules { is_parallel: true, ..rules },
            &[(0, "ready"), (1, "ready"), (2, "ready")],
            &[delete(2), delete(1)],
        );
    }

    #[test]
    fn updates_replace_one_pod_at_a_time_down_to_the_partition() {
        check(&RULES, &[(0, "old"), (1, "old"), (2, "old")], &[delete(2)]);
        check(&RULES, &[(0, "old"), (1, "old"), (2, "waiting")], &[]);
        check(&RULES, &[(0, "old"), (1, "old"), (2, "ready")], &[delete(1)]);
        check(&Rules { partition: 2, ..RULES }, &[(0, "old"), (1, "old"), (2, "ready")], &[]);
        check(&Rules { updates: false, ..RULES }, &[(0, "old"), (1, "old"), (2, "old")], &[]);
    }

    #[test]
    fn failed_pods_are_replaced() {
        check(&RULES, &[(0, "ready"), (1, "failed"), (2, "ready")], &[delete(1)]);
    }
}
