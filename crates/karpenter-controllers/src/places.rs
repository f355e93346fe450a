//! Where waiting pods were planned to go, and who gets which place once schedulers have decided otherwise.
//!
//! A scheduler fills whatever node is ready first, with whichever pod it looks at first. A pod that comes to another node than it was planned for
//! takes the room of one like it; that one then has the place which was left free, and needs no machine of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::cluster::PodSpec;

use crate::state::unfile;

/// Places are names of nodes, or of claims that will become nodes; pods are known by UID.
#[derive(Debug, Default)]
pub(crate) struct Places {
    of: BTreeMap<Arc<str>, Place>,
    at: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

#[derive(Clone, Debug)]
struct Place {
    name: Arc<str>,
    /// What the pod asks of a node, which the place therefore has.
    spec: Arc<PodSpec>,
}

impl Places {
    /// A pod was planned to go to a place.
    pub(crate) fn give(&mut self, pod: &Arc<str>, place: &Arc<str>, spec: &Arc<PodSpec>) {
        self.put(pod, Place { name: place.clone(), spec: spec.clone() });
    }

    /// The place of a pod.
    pub(crate) fn of(&self, pod: &str) -> Option<&Arc<str>> {
        self.of.get(pod).map(|place| &place.name)
    }

    /// Every place that is meant for somebody.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<str>> {
        self.at.keys()
    }

    /// A pod needs its place no longer.
    pub(crate) fn release(&mut self, pod: &str) {
        self.take(pod);
    }

    /// A pod has come to the node with these names. Where it had another place, a pod like it that was to come here has that now.
    pub(crate) fn arrive(&mut self, pod: &str, node: &[&str]) {
        let Some(left) = self.take(pod) else { return };
        if node.contains(&&*left.name) {
            return;
        }
        let meant_for = node.iter().filter_map(|name| self.at.get(*name)).flatten();
        let ousted = meant_for.into_iter().find(|other| self.of[*other].spec == left.spec).cloned();
        if let Some(ousted) = ousted {
            self.put(&ousted, left);
        }
    }

    fn put(&mut self, pod: &Arc<str>, place: Place) {
        self.take(pod);
        self.at.entry(place.name.clone()).or_default().insert(pod.clone());
        self.of.insert(pod.clone(), place);
    }

    fn take(&mut self, pod: &str) -> Option<Place> {
        let place = self.of.remove(pod)?;
        unfile(&mut self.at, &place.name, pod);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods with their places, all alike unless the name begins with a capital letter.
    fn places(pods: &[(&str, &str)]) -> Places {
        let usual = Arc::new(PodSpec::default());
        let special = Arc::new(PodSpec { uses_dynamic_resources: true, ..PodSpec::default() });
        let mut places = Places::default();
        for (pod, place) in pods {
            let spec = if pod.starts_with(char::is_uppercase) { &special } else { &usual };
            places.give(&Arc::from(*pod), &Arc::from(*place), spec);
        }
        places
    }

    fn place<'a>(places: &'a Places, pod: &str) -> Option<&'a str> {
        places.of(pod).map(|place| &**place)
    }

    #[test]
    fn whose_node_was_taken_has_the_place_of_who_took_it() {
        let mut places = places(&[("a", "slow"), ("b", "quick")]);
        places.arrive("a", &["node-of-quick", "quick"]);
        assert_eq!((place(&places, "a"), place(&places, "b")), (None, Some("slow")));
    }

    #[test]
    fn a_place_left_free_is_handed_on_until_it_is_taken() {
        let mut places = places(&[("a", "slow"), ("b", "quick"), ("c", "quickest")]);
        places.arrive("b", &["quickest"]);
        places.arrive("a", &["quick"]);
        assert_eq!(place(&places, "c"), Some("slow"));
    }

    #[test]
    fn who_comes_where_it_was_expected_ousts_nobody() {
        let mut places = places(&[("a", "shared"), ("b", "shared")]);
        places.arrive("a", &["shared"]);
        assert_eq!(place(&places, "b"), Some("shared"));
        assert_eq!(places.all().count(), 1);
    }

    #[test]
    fn who_asks_for_something_else_does_not_get_the_place() {
        let mut places = places(&[("a", "slow"), ("B", "quick")]);
        places.arrive("a", &["quick"]);
        assert_eq!(place(&places, "B"), Some("quick"));
    }

    #[test]
    fn a_place_nobody_waits_for_is_forgotten() {
        let mut places = places(&[("a", "slow")]);
        places.release("a");
        assert_eq!(places.all().count(), 0);
    }
}
