//! What EC2's own checks of instances say.
//!
//! A failed check counts once it has lasted; a scheduled event counts at once. Checks of volumes are not heeded: a machine with a slow
//! disk still drains better than it dies.

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_client::ec2::{DescribeInstanceStatus, Filter, InstanceStatus, StatusSummary};
use karpenter_provider::WarningKind;

/// For how long a check must have failed.
const TOLERATED: SignedDuration = SignedDuration::from_secs(120);
/// The check that tells whether an instance or its host can be reached.
const REACHABILITY: &str = "reachability";
const IMPAIRED: &str = "impaired";
const EVENTS: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];
/// The most instances one answer holds.
const PAGE: u32 = 1000;

/// What is asked: instances that fail a check, hosts that do, and scheduled events.
pub(crate) fn questions() -> [DescribeInstanceStatus; 3] {
    [
        Filter::new("instance-status.status", [IMPAIRED]),
        Filter::new("system-status.status", [IMPAIRED]),
        Filter::new("event.code", EVENTS),
    ]
    .map(|filter| DescribeInstanceStatus { filters: vec![filter], max_results: Some(PAGE) })
}

/// What is wrong with an instance at `now`, the gravest first.
pub(crate) fn ailments(status: &InstanceStatus, now: Timestamp) -> Vec<WarningKind> {
    let host = failed(status.system_status.as_ref(), now).then_some(WarningKind::HostImpaired);
    let machine = failed(status.instance_status.as_ref(), now).then_some(WarningKind::MachineImpaired);
    let scheduled = status.events.iter().any(|event| {
        // EC2 keeps events that are over for a while, and says so in their description.
        let over = event
            .description
            .as_deref()
            .is_some_and(|text| text.starts_with("[Completed]") || text.starts_with("[Canceled]"));
        EVENTS.contains(&event.code.as_str()) && !over
    });
    [host, machine, scheduled.then_some(WarningKind::ScheduledEvent)].into_iter().flatten().collect()
}

fn failed(summary: Option<&StatusSummary>, now: Timestamp) -> bool {
    let Some(summary) = summary.filter(|summary| summary.status == IMPAIRED) else { return false };
    summary.details.iter().any(|detail| {
        detail.name == REACHABILITY
            && detail.impaired_since.is_some_and(|since| now.duration_since(since) >= TOLERATED)
    })
}

#[cfg(test)]
mod tests {
    use karpenter_aws_client::ec2::{ScheduledEvent, StatusDetail};

    use super::*;

    fn now() -> Timestamp {
        "2026-11-17T06:00:00Z".parse().unwrap()
    }

    fn check(status: &str, name: &str, seconds: i64) -> StatusSummary {
        let impaired_since = Some(now() - SignedDuration::from_secs(seconds));
        let detail = StatusDetail { name: name.into(), status: "failed".into(), impaired_since };
        StatusSummary { status: status.into(), details: vec![detail] }
    }

    #[test]
    fn a_check_counts_once_it_has_failed_for_two_minutes() {
        let machine =
            |summary| InstanceStatus { instance_status: Some(summary), ..InstanceStatus::default() };
        let host = |summary| InstanceStatus { system_status: Some(summary), ..InstanceStatus::default() };
        let cases = [
            (machine(check("impaired", "reachability", 120)), vec![WarningKind::MachineImpaired]),
            (machine(check("impaired", "reachability", 119)), vec![]),
            (machine(check("ok", "reachability", 600)), vec![]),
            (machine(check("impaired", "attached-ebs", 600)), vec![]),
            (host(check("impaired", "reachability", 600)), vec![WarningKind::HostImpaired]),
            (InstanceStatus::default(), vec![]),
        ];
        for (status, expected) in cases {
            assert_eq!(ailments(&status, now()), expected, "{status:?}");
        }
    }

    #[test]
    fn an_event_counts_at_once_unless_it_is_over() {
        let event = |code: &str, description: &str| InstanceStatus {
            events: vec![ScheduledEvent {
                code: code.into(),
                description: Some(description.into()),
                ..ScheduledEvent::default()
            }],
            ..InstanceStatus::default()
        };
        let announced = [WarningKind::ScheduledEvent];
        assert_eq!(ailments(&event("instance-retirement", "The instance will be stopped"), now()), announced);
        assert_eq!(ailments(&event("system-reboot", "[Completed] Reboot"), now()), []);
        assert_eq!(ailments(&event("something-else", ""), now()), []);
    }
}
