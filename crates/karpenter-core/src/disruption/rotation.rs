//! Rotation: nodes that are old enough are replaced like drifted ones, within budgets and not all at once.

use jiff::{SignedDuration, Timestamp};

use crate::cluster::Node;

/// From which age on nodes of a pool are replaced when that suits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The age.
    pub after: SignedDuration,
    /// Over how long the nodes are spread after that, so that nodes made together do not go together.
    pub jitter: SignedDuration,
}

impl Rotation {
    /// When the node is old enough.
    pub fn due(&self, node: &Node) -> Timestamp {
        let share = f64::from(spread(&node.name)) / f64::from(u32::MAX);
        let jitter = self.jitter.mul_f64(share);
        let age = self.after.saturating_add(jitter);
        node.created.saturating_add(age).unwrap_or(Timestamp::MAX)
    }
}

/// A number that differs from name to name and is always the same for one: FNV-1a, its bits mixed once more, because names differ at their ends.
fn spread(name: &str) -> u32 {
    let sum =
        name.bytes().fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let mixed = (sum ^ (sum >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 16)
}

/// Since when the node is to be replaced although it is well: it has drifted, or is old enough.
pub(crate) fn replaceable_since(
    node: &Node,
    rotation: Option<&Rotation>,
    now: Timestamp,
) -> Option<Timestamp> {
    let old = rotation.map(|rotation| rotation.due(node)).filter(|due| *due <= now);
    node.life.drifted.into_iter().chain(old).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_age_are_spread_over_the_jitter_and_each_keeps_its_time() {
        let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let rotation =
            Rotation { after: SignedDuration::from_hours(100), jitter: SignedDuration::from_hours(10) };
        let due: Vec<Timestamp> =
            (0..20).map(|number| rotation.due(&Node::sample(&format!("node-{number}"), created))).collect();
        let (first, last) = (due.iter().min().unwrap(), due.iter().max().unwrap());
        assert!(*first >= created + SignedDuration::from_hours(100));
        assert!(*last <= created + SignedDuration::from_hours(110));
        assert!(last.duration_since(*first) > SignedDuration::from_hours(5));
        assert_eq!(rotation.due(&Node::sample("node-0", created)), due[0]);
        let node = Node::sample("node-0", created);
        assert_eq!(replaceable_since(&node, Some(&rotation), created), None);
        assert_eq!(replaceable_since(&node, Some(&rotation), due[0]), Some(due[0]));
        assert_eq!(replaceable_since(&node, None, due[0]), None);
    }
}
