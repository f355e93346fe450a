//! What `EventBridge` leaves in the cluster's queue.

use jiff::Timestamp;
use karpenter_environment::format_time;
use serde_json::{Value, json};

use crate::world::World;

fn envelope(
    world: &World,
    source: &str,
    detail_type: &str,
    resources: &[String],
    now: Timestamp,
    detail: &Value,
) -> Value {
    json!({
        "version": "0",
        "id": world.environment.uid(),
        "detail-type": detail_type,
        "source": source,
        "account": world.description.account,
        "time": format_time(now),
        "region": world.description.region,
        "resources": resources,
        "detail": detail,
    })
}

fn instance_arn(world: &World, id: &str) -> String {
    world.description.arn("ec2", &format!("instance/{id}"))
}

/// A spot instance will be taken back in two minutes.
pub(crate) fn spot_interruption(world: &World, id: &str, now: Timestamp) -> Value {
    let detail = json!({"instance-id": id, "instance-action": "terminate"});
    envelope(
        world,
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
        &[instance_arn(world, id)],
        now,
        &detail,
    )
}

/// A spot instance is at a higher risk than others.
pub(crate) fn rebalance(world: &World, id: &str, now: Timestamp) -> Value {
    let detail = json!({"instance-id": id});
    envelope(
        world,
        "aws.ec2",
        "EC2 Instance Rebalance Recommendation",
        &[instance_arn(world, id)],
        now,
        &detail,
    )
}

/// An instance has a new state.
pub(crate) fn state_change(world: &World, id: &str, state: &str, now: Timestamp) -> Value {
    let detail = json!({"instance-id": id, "state": state});
    envelope(
        world,
        "aws.ec2",
        "EC2 Instance State-change Notification",
        &[instance_arn(world, id)],
        now,
        &detail,
    )
}

/// An instance of an interruptible reservation will be taken back.
pub(crate) fn reservation_interruption(world: &World, id: &str, now: Timestamp) -> Value {
    let detail = json!({"instance-id": id, "instance-action": "terminate"});
    let kind = "EC2 Capacity Reservation Instance Interruption Warning";
    envelope(world, "aws.ec2", kind, &[instance_arn(world, id)], now, &detail)
}

/// AWS plans maintenance of instances.
pub(crate) fn scheduled_change(world: &World, ids: &[String], code: &str, now: Timestamp) -> Value {
    let entities: Vec<Value> = ids.iter().map(|id| json!({"entityValue": id})).collect();
    let detail = json!({
        "eventArn": format!("arn:aws:health:{}::event/EC2/{code}/simulated", world.description.region),
        "service": "EC2",
        "eventTypeCode": code,
        "eventTypeCategory": "scheduledChange",
        "startTime": format_time(now),
        "eventDescription": [{"language": "en_US", "latestDescription": "Simulated maintenance."}],
        "affectedEntities": entities,
    });
    envelope(world, "aws.health", "AWS Health Event", ids, now, &detail)
}
