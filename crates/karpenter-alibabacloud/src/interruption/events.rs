//! What the cloud's events mean for a node.

use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud_client::cms::SystemEvent;
use karpenter_alibabacloud_client::ecs::ScheduledSystemEvent;
use karpenter_provider::{Response, WarningKind};
use serde_json::Value;

/// What is said about a machine, and what is to be done; the more urgent is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// What is done.
    pub response: Response,
    /// What happens.
    pub kind: WarningKind,
}

impl From<WarningKind> for Notice {
    fn from(kind: WarningKind) -> Self {
        Self { response: kind.response(), kind }
    }
}

/// Planned work that concerns nodes.
pub const PLANNED: [&str; 8] = [
    "SystemMaintenance.Reboot",
    "SystemMaintenance.Stop",
    "SystemMaintenance.Redeploy",
    "SystemFailure.Reboot",
    "SystemFailure.Stop",
    "SystemFailure.Redeploy",
    "SystemFailure.Delete",
    "InstanceFailure.Reboot",
];

/// Work that is nearer than this is not waited for.
const NEAR: SignedDuration = SignedDuration::from_hours(1);

/// Reads an event of Cloud Monitor: which machine, and what it means. `None` if it is of no concern.
pub fn of_event(event: &SystemEvent) -> Option<(String, Notice)> {
    let content: Value =
        event.content.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    let notice = match event.name.strip_prefix("Instance:").unwrap_or(&event.name) {
        "PreemptibleInstanceInterruption" => WarningKind::SpotInterruption.into(),
        "StateChange" => state_change(content["state"].as_str().or(event.status.as_deref())?)?,
        name => {
            let (name, cycle) = name.rsplit_once(':').unwrap_or((name, ""));
            failure(name, cycle)?
        }
    };
    Some((instance_of(event, &content)?, notice))
}

fn state_change(state: &str) -> Option<Notice> {
    match state {
        "Stopping" | "Stopped" => Some(WarningKind::Stopping.into()),
        "Deleted" | "Released" => Some(WarningKind::Terminating.into()),
        _ => None,
    }
}

/// A failure of the machine or its host that is under way. Planned work is read from the machine's status, which knows when.
fn failure(name: &str, cycle: &str) -> Option<Notice> {
    let begun = matches!(cycle, "Executing" | "Scheduled" | "Inquiring");
    if name.starts_with("SystemFailure.") && begun {
        return Some(WarningKind::HostImpaired.into());
    }
    (name.starts_with("InstanceFailure.") && begun).then(|| WarningKind::MachineImpaired.into())
}

/// The machine an event is about: inside its content in either envelope, else at the end of the resource's name.
fn instance_of(event: &SystemEvent, content: &Value) -> Option<String> {
    let inside = ["/instanceId", "/resourceId", "/data/instanceId"];
    let inside = inside.iter().find_map(|path| content.pointer(path)).and_then(Value::as_str);
    let of_resource = event.resource_id.as_deref().or(event.instance_name.as_deref());
    let id = inside.or(of_resource)?.rsplit('/').next()?;
    id.starts_with("i-").then(|| id.to_owned())
}

/// Reads planned work on a machine: near or begun, the node is drained; far off, it is only told.
pub fn of_schedule(event: &ScheduledSystemEvent, now: Timestamp) -> Option<Notice> {
    let name = event.event_type.name.as_deref()?;
    if !PLANNED.contains(&name) {
        return None;
    }
    let over = matches!(
        event.event_cycle_status.name.as_deref(),
        Some("Executed" | "Canceled" | "Avoided" | "Failed")
    );
    if over {
        return None;
    }
    let begun = event.event_cycle_status.name.as_deref() == Some("Executing");
    if name.starts_with("SystemFailure.") || name.starts_with("InstanceFailure.") {
        return Some(WarningKind::HostImpaired.into());
    }
    let near = event.not_before.is_none_or(|begins| begins.duration_since(now) < NEAR);
    let response = if begun || near { Response::Replace } else { Response::Tell };
    Some(Notice { response, kind: WarningKind::ScheduledChange })
}

#[cfg(test)]
mod tests {
    use karpenter_alibabacloud_client::ecs::Named;

    use super::*;

    fn event(name: &str, resource: Option<&str>, content: &str) -> SystemEvent {
        SystemEvent {
            name: name.into(),
            resource_id: resource.map(str::to_owned),
            content: Some(content.into()),
            ..Default::default()
        }
    }

    #[test]
    fn events_are_read_in_either_envelope() {
        let spot = Notice::from(WarningKind::SpotInterruption);
        let name = "Instance:PreemptibleInstanceInterruption";
        let cases = [
            (event(name, None, r#"{"instanceId":"i-1","action":"delete"}"#), Some(("i-1".to_owned(), spot))),
            (event(name, None, r#"{"data":{"instanceId":"i-2"}}"#), Some(("i-2".to_owned(), spot))),
            (
                event(name, Some("acs:ecs:cn-hangzhou:1:instance/i-3"), "not JSON"),
                Some(("i-3".to_owned(), spot)),
            ),
            (event(name, Some("acs:ecs:cn-hangzhou:1:disk/d-3"), "{}"), None),
            (event("Instance:Unknown", None, r#"{"instanceId":"i-1"}"#), None),
            (
                event("Instance:StateChange", None, r#"{"resourceId":"i-4","state":"Stopped"}"#),
                Some(("i-4".to_owned(), WarningKind::Stopping.into())),
            ),
            (event("Instance:StateChange", None, r#"{"resourceId":"i-4","state":"Running"}"#), None),
            (
                event("Instance:SystemFailure.Reboot:Executing", None, r#"{"instanceId":"i-5"}"#),
                Some(("i-5".to_owned(), WarningKind::HostImpaired.into())),
            ),
            (event("Instance:SystemFailure.Reboot:Executed", None, r#"{"instanceId":"i-5"}"#), None),
        ];
        for (event, meaning) in cases {
            assert_eq!(of_event(&event), meaning, "{event:?}");
        }
    }

    #[test]
    fn work_that_is_far_off_is_only_told() {
        let now: Timestamp = "2026-11-17T06:00:00Z".parse().unwrap();
        let planned = |name: &str, cycle: &str, hours: i64| {
            let event = ScheduledSystemEvent {
                event_type: Named { name: Some(name.into()) },
                event_cycle_status: Named { name: Some(cycle.into()) },
                not_before: Some(now + SignedDuration::from_hours(hours)),
                ..Default::default()
            };
            of_schedule(&event, now).map(|notice| notice.response)
        };
        assert_eq!(planned("SystemMaintenance.Reboot", "Scheduled", 24), Some(Response::Tell));
        assert_eq!(planned("SystemMaintenance.Reboot", "Scheduled", 0), Some(Response::Replace));
        assert_eq!(planned("SystemMaintenance.Reboot", "Executing", 24), Some(Response::Replace));
        assert_eq!(planned("SystemMaintenance.Reboot", "Executed", 0), None);
        assert_eq!(planned("SystemFailure.Reboot", "Scheduled", 24), Some(Response::ReplaceAtOnce));
        assert_eq!(planned("InstanceExpiration.Stop", "Scheduled", 0), None);
    }
}
