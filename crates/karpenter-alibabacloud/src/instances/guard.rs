//! What may be stopped: machines that carry our tags, and orphans only once they are old enough to be orphans for sure.

use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud_client::ecs::Instance;

use crate::ownership;

/// A machine without a claim is left alone for this long: its claim may not have been written down yet. ECS writes down only the minute in
/// which a machine was started, so a minute is added.
const ORPHAN_GRACE: SignedDuration = SignedDuration::from_mins(6);

/// Says why a machine must not be stopped; `orphan` if no claim asks for it.
///
/// # Errors
/// The reason.
pub fn may_be_stopped(
    instance: &Instance,
    clusters: &[String],
    orphan: bool,
    now: Timestamp,
) -> Result<(), String> {
    let id = &instance.instance_id;
    if !ownership::is_ours(instance, clusters) {
        return Err(format!(
            "{id} does not carry the tags of this cluster ({}) and of a NodePool, so it is left alone: restore the tags or remove the \
             instance by hand",
            clusters.join(", ")
        ));
    }
    if !orphan {
        return Ok(());
    }
    match instance.creation_time {
        Some(created) if now.duration_since(created) >= ORPHAN_GRACE => Ok(()),
        Some(_) => Err(format!(
            "{id} has no NodeClaim and is too young to be sure that it never will: it is looked at again"
        )),
        None => Err(format!("{id} has no NodeClaim, and nobody says when it was started: it is left alone")),
    }
}

#[cfg(test)]
mod tests {
    use karpenter_alibabacloud_client::ecs::{TagDescription, parse_time};
    use karpenter_api::labels::NODEPOOL;

    use super::*;

    fn instance(tags: &[(&str, &str)], created: Option<&str>) -> Instance {
        let tags =
            tags.iter().map(|(key, value)| TagDescription { key: (*key).into(), value: (*value).into() });
        Instance {
            instance_id: "i-1".into(),
            tags: tags.collect(),
            creation_time: created.and_then(parse_time),
            ..Default::default()
        }
    }

    const OURS: [(&str, &str); 2] = [("kubernetes.io/cluster/c1", "owned"), (NODEPOOL, "default")];

    #[test]
    fn what_is_not_ours_is_never_stopped() {
        let now = "2026-11-17T07:00:00Z".parse().unwrap();
        let clusters = ["c1".to_owned()];
        for tags in [&[][..], &OURS[..1], &OURS[1..]] {
            for orphan in [false, true] {
                let refused =
                    may_be_stopped(&instance(tags, Some("2026-11-17T06:00Z")), &clusters, orphan, now);
                assert!(refused.unwrap_err().contains("left alone"));
            }
        }
        assert!(may_be_stopped(&instance(&OURS, None), &clusters, false, now).is_ok());
    }

    #[test]
    fn a_machine_started_late_in_its_minute_is_no_orphan_yet() {
        let clusters = ["c1".to_owned()];
        let born = instance(&OURS, Some("2026-11-17T06:00Z"));
        let at = |time: &str| may_be_stopped(&born, &clusters, true, time.parse().unwrap());
        assert!(at("2026-11-17T06:00:59Z").is_err());
        assert!(at("2026-11-17T06:05:59Z").is_err(), "it may have been born at 06:00:59");
        assert!(at("2026-11-17T06:06:00Z").is_ok());
        assert!(may_be_stopped(&instance(&OURS, None), &clusters, true, Timestamp::MAX).is_err());
    }
}
