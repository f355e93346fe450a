//! What a message of the queue says: an event of Cloud Monitor, however it was wrapped on its way.
//!
//! Cloud Monitor writes JSON, which may come in base64; a topic between it and the queue wraps it once more, in JSON or XML; and
//! `EventBridge` has an envelope of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_alibabacloud_client::cms::SystemEvent;
use karpenter_transport::Element;
use serde_json::Value;

/// A message that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Neither JSON nor anything that holds it.
    #[error("it is neither the JSON of an event, nor base64 or a topic's notification that holds it")]
    Unreadable,
    /// JSON without the name of an event.
    #[error("it does not say which event it is about")]
    Nameless,
}

/// More than anybody wraps an event.
const MOST_WRAPPINGS: usize = 4;

enum Layer {
    Wrapping(String),
    Event(Value),
}

/// Reads a message.
///
/// # Errors
/// When there is no event in it.
pub fn read(body: &str) -> Result<SystemEvent, Malformed> {
    let mut text = body.to_owned();
    for _ in 0..MOST_WRAPPINGS {
        match layer(text.trim()).ok_or(Malformed::Unreadable)? {
            Layer::Wrapping(inside) => text = inside,
            Layer::Event(event) => return read_event(&event).ok_or(Malformed::Nameless),
        }
    }
    Err(Malformed::Unreadable)
}

fn layer(text: &str) -> Option<Layer> {
    if text.starts_with('<') {
        let notification = Element::parse(text).ok()?;
        return Some(Layer::Wrapping(notification.child_text("Message")?.to_owned()));
    }
    if text.starts_with('{') {
        let value: Value = serde_json::from_str(text).ok()?;
        let inside = value["Message"].as_str().map(str::to_owned);
        return Some(inside.map_or(Layer::Event(value), Layer::Wrapping));
    }
    let decoded = STANDARD.decode(text).ok().filter(|decoded| !decoded.is_empty())?;
    Some(Layer::Wrapping(String::from_utf8(decoded).ok()?))
}

/// The fields that count, in Cloud Monitor's words or in `EventBridge`'s.
fn read_event(event: &Value) -> Option<SystemEvent> {
    let text = |names: [&str; 2]| names.iter().find_map(|name| event[*name].as_str()).map(str::to_owned);
    let name = text(["name", "type"]).filter(|name| !name.is_empty())?;
    let content = ["content", "data"].iter().map(|name| &event[*name]).find(|content| !content.is_null());
    Some(SystemEvent {
        id: text(["id", "eventId"]),
        name: name.strip_prefix("ecs:").unwrap_or(&name).to_owned(),
        resource_id: text(["resourceId", "subject"]),
        content: content.map(|content| content.as_str().map_or_else(|| content.to_string(), str::to_owned)),
        ..SystemEvent::default()
    })
}

#[cfg(test)]
mod tests {
    use karpenter_provider::WarningKind;
    use serde_json::json;

    use super::*;
    use crate::interruption::events;

    fn monitor() -> String {
        json!({
            "ver": "1.0", "id": "E-1", "product": "ECS", "level": "WARN", "regionId": "cn-hangzhou",
            "resourceId": "acs:ecs:cn-hangzhou:1:instance/i-1", "eventTime": "20261117T060000.000+0800",
            "name": "Instance:PreemptibleInstanceInterruption", "content": {"instanceId": "i-1", "action": "delete"},
        })
        .to_string()
    }

    fn base64(text: &str) -> String {
        STANDARD.encode(text)
    }

    #[test]
    fn an_event_is_the_same_however_it_was_wrapped() {
        let bus = json!({
            "id": "E-1", "source": "acs.ecs", "specversion": "1.0", "subject": "acs:ecs:cn-hangzhou:1:instance/i-1",
            "type": "ecs:Instance:PreemptibleInstanceInterruption", "data": {"instanceId": "i-1", "action": "delete"},
        });
        let topic =
            |message: &str| json!({"TopicOwner": "1", "TopicName": "t", "Message": message}).to_string();
        let xml = format!(
            "<Notification><TopicName>t</TopicName><Message>{}</Message></Notification>",
            base64(&monitor())
        );
        for body in [
            monitor(),
            base64(&monitor()),
            format!("{}\n", base64(&monitor())),
            topic(&monitor()),
            topic(&base64(&monitor())),
            base64(&topic(&monitor())),
            xml,
            bus.to_string(),
        ] {
            let event = read(&body).unwrap();
            assert_eq!(event.id.as_deref(), Some("E-1"), "{body}");
            let said = events::of_event(&event);
            assert_eq!(said, Some(("i-1".to_owned(), WarningKind::SpotInterruption.into())), "{body}");
        }
    }

    #[test]
    fn the_kinds_that_are_understood_are_those_that_are_understood_when_asked_for() {
        let said = |name: &str, content: Value| {
            let body = json!({"name": name, "resourceId": "acs:ecs:r:1:instance/i-2", "content": content});
            events::of_event(&read(&body.to_string()).unwrap()).map(|(id, notice)| (id, notice.kind))
        };
        let ours = |kind| Some(("i-2".to_owned(), kind));
        assert_eq!(said("Instance:StateChange", json!({"state": "Stopping"})), ours(WarningKind::Stopping));
        assert_eq!(said("Instance:StateChange", json!({"state": "Running"})), None);
        assert_eq!(
            said("Instance:SystemFailure.Reboot:Executing", json!({})),
            ours(WarningKind::HostImpaired)
        );
        assert_eq!(said("Disk:DiskOperationCompleted", json!({})), None);
    }

    #[test]
    fn what_holds_no_event_is_malformed() {
        for body in
            ["", "hello there", "[1]", "7", "{", "<a>", "<a/>", "//8=", &base64("text"), &base64("<a/>")]
        {
            assert_eq!(read(body), Err(Malformed::Unreadable), "{body}");
        }
        for body in ["{}", r#"{"name": ""}"#, r#"{"name": 7, "content": {}}"#, &base64("{}")] {
            assert_eq!(read(body), Err(Malformed::Nameless), "{body}");
        }
        let endless = (0..MOST_WRAPPINGS).fold(monitor(), |inside, _| base64(&inside));
        assert_eq!(read(&endless), Err(Malformed::Unreadable));
    }
}
