//! What a message of the interruption queue says.
//!
//! `EventBridge` wraps what happened in an envelope; source, kind of detail and version say how its inside is read. A message that is of
//! no kind known here, or not about an instance, says nothing: it is taken from the queue and counted.

use jiff::Timestamp;
use karpenter_provider::WarningKind;
use serde::Deserialize;

/// What was said about which instances, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// `None` if it is nothing that concerns machines.
    pub kind: Option<WarningKind>,
    /// The instances it is about.
    pub instances: Vec<String>,
    /// When it happened.
    pub time: Option<Timestamp>,
}

/// The name of messages that say nothing, in metrics.
pub(crate) const NO_OP: &str = "no_op";

impl Said {
    /// Its name in metrics.
    pub(crate) fn metric(&self) -> &'static str {
        self.kind.map_or(NO_OP, WarningKind::metric)
    }
}

/// The envelope.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Envelope {
    version: String,
    source: String,
    detail_type: String,
    time: Option<Timestamp>,
    detail: serde_json::Value,
}

/// What the insides have in common.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Detail {
    instance_id: String,
    state: String,
    service: String,
    #[serde(rename = "eventTypeCategory")]
    category: String,
    #[serde(rename = "affectedEntities")]
    entities: Vec<Entity>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entity {
    entity_value: String,
}

/// The version of the envelopes that are understood.
const VERSION: &str = "0";

/// Reads a message. Whatever it holds, there is an answer.
pub fn read(body: &str) -> Said {
    let envelope: Envelope = serde_json::from_str(body).unwrap_or_default();
    let Envelope { version, source, detail_type, time, detail } = envelope;
    let nothing = Said { kind: None, instances: Vec::new(), time };
    if version != VERSION {
        return nothing;
    }
    let Ok(detail) = serde_json::from_value::<Detail>(detail) else { return nothing };
    let kind = kind(&source, &detail_type, &detail);
    let entities = detail.entities.into_iter().map(|entity| entity.entity_value);
    let instances: Vec<String> =
        entities.chain([detail.instance_id]).filter(|id| id.starts_with("i-")).collect();
    match kind {
        Some(kind) if !instances.is_empty() => Said { kind: Some(kind), instances, time },
        _ => nothing,
    }
}

fn kind(source: &str, detail_type: &str, detail: &Detail) -> Option<WarningKind> {
    match (source, detail_type) {
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => Some(WarningKind::SpotInterruption),
        ("aws.ec2", "EC2 Instance Rebalance Recommendation") => Some(WarningKind::RebalanceRecommendation),
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            Some(WarningKind::ReservationInterruption)
        }
        ("aws.ec2", "EC2 Instance State-change Notification") => {
            match detail.state.to_ascii_lowercase().as_str() {
                "stopping" | "stopped" => Some(WarningKind::Stopping),
                "shutting-down" | "terminated" => Some(WarningKind::Terminating),
                _ => None,
            }
        }
        ("aws.health", "AWS Health Event") => (detail.service == "EC2"
            && detail.category == "scheduledChange")
            .then_some(WarningKind::ScheduledChange),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(source: &str, detail_type: &str, detail: &serde_json::Value) -> String {
        json!({
            "version": "0", "id": "1", "account": "123456789012", "region": "us-west-2", "resources": [],
            "time": "2026-11-17T06:00:00Z", "source": source, "detail-type": detail_type, "detail": detail,
        })
        .to_string()
    }

    #[test]
    fn every_kind_of_message_is_understood() {
        let one = |state: &str| json!({"instance-id": "i-1", "state": state});
        let cases = [
            (
                "aws.ec2",
                "EC2 Spot Instance Interruption Warning",
                json!({"instance-id": "i-1", "instance-action": "terminate"}),
                "spot_interrupted",
            ),
            ("aws.ec2", "EC2 Instance Rebalance Recommendation", one(""), "rebalance_recommendation"),
            ("aws.ec2", "EC2 Instance State-change Notification", one("stopping"), "instance_stopped"),
            ("aws.ec2", "EC2 Instance State-change Notification", one("Stopped"), "instance_stopped"),
            (
                "aws.ec2",
                "EC2 Instance State-change Notification",
                one("shutting-down"),
                "instance_terminated",
            ),
            ("aws.ec2", "EC2 Instance State-change Notification", one("terminated"), "instance_terminated"),
            (
                "aws.ec2",
                "EC2 Capacity Reservation Instance Interruption Warning",
                json!({"instance-id": "i-1", "instance-action": "terminate"}),
                "capacity_reservation_interrupted",
            ),
            (
                "aws.health",
                "AWS Health Event",
                json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": "i-1"}]}),
                "scheduled_change",
            ),
        ];
        for (source, detail_type, detail, metric) in cases {
            let said = read(&message(source, detail_type, &detail));
            assert_eq!((said.metric(), said.instances.as_slice()), (metric, ["i-1".to_owned()].as_slice()));
            assert_eq!(said.time, "2026-11-17T06:00:00Z".parse().ok());
        }
    }

    #[test]
    fn one_message_may_be_about_several_instances() {
        let detail = json!({
            "service": "EC2", "eventTypeCategory": "scheduledChange",
            "affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "i-2"}, {"entityValue": "vol-3"}],
        });
        assert_eq!(read(&message("aws.health", "AWS Health Event", &detail)).instances, ["i-1", "i-2"]);
    }

    #[test]
    fn whatever_is_not_understood_says_nothing() {
        let running = json!({"instance-id": "i-1", "state": "running"});
        let rds = json!({"service": "RDS", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": "i-1"}]});
        let spot = "EC2 Spot Instance Interruption Warning";
        let nothing = [
            String::new(),
            "{".to_owned(),
            "null".to_owned(),
            "[1, 2]".to_owned(),
            "{}".to_owned(),
            json!({"version": 0, "detail": "i-1"}).to_string(),
            message("aws.ec2", "EC2 Instance State-change Notification", &running),
            message("aws.health", "AWS Health Event", &rds),
            message("aws.s3", "Object Created", &json!({"instance-id": "i-1"})),
            message("aws.ec2", spot, &json!("i-1")),
            message("aws.ec2", spot, &json!({"instance-id": 7})),
            message("aws.ec2", spot, &json!({})),
            message("aws.ec2", spot, &json!({"instance-id": "i-1"}))
                .replace(r#""version":"0""#, r#""version":"1""#),
        ];
        for body in nothing {
            let said = read(&body);
            assert_eq!((said.kind, said.instances.len(), said.metric()), (None, 0, NO_OP), "{body}");
        }
    }
}
