//! Status conditions: set, cleared, and summed up in `Ready`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use karpenter_api::condition::{
    AWAITING_RECONCILIATION, READY, RECONCILING_DEPENDENTS, UNHEALTHY_DEPENDENTS,
};

/// The conditions of one object while it is being reconciled.
pub(crate) struct Conditions<'a> {
    list: &'a mut Vec<Condition>,
    dependents: &'static [&'static str],
    generation: Option<i64>,
    now: Timestamp,
}

impl<'a> Conditions<'a> {
    /// The conditions in `list`, of an object whose `Ready` rests on `dependents`.
    pub(crate) fn new(
        list: &'a mut Vec<Condition>,
        dependents: &'static [&'static str],
        generation: Option<i64>,
        now: Timestamp,
    ) -> Self {
        Self { list, dependents, generation, now }
    }

    /// Returns the condition of this type.
    pub(crate) fn get(&self, type_: &str) -> Option<&Condition> {
        self.list.iter().find(|condition| condition.type_ == type_)
    }

    /// Sets a condition true; its type is its reason.
    pub(crate) fn set_true(&mut self, type_: &str) {
        self.set(type_, "True", type_, "");
    }

    /// Sets a condition false.
    pub(crate) fn set_false(&mut self, type_: &str, reason: &str, message: &str) {
        self.set(type_, "False", reason, message);
    }

    /// Sets a condition unknown.
    pub(crate) fn set_unknown(&mut self, type_: &str, reason: &str, message: &str) {
        self.set(type_, "Unknown", reason, message);
    }

    /// Sets a condition. The time of its last transition moves only with its status.
    pub(crate) fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        self.put(type_, status, reason, message);
        if self.dependents.contains(&type_) {
            self.sum_up();
        }
    }

    /// Takes a condition away.
    pub(crate) fn clear(&mut self, type_: &str) {
        self.list.retain(|condition| condition.type_ != type_);
    }

    /// Adds what nobody has looked at yet, so that every object shows all its conditions from the beginning.
    pub(crate) fn begin(&mut self) {
        for type_ in self.dependents {
            if self.get(type_).is_none() {
                self.put(type_, "Unknown", AWAITING_RECONCILIATION, "object is awaiting reconciliation");
            }
        }
        self.sum_up();
    }

    fn put(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let transition = match self.get(type_) {
            Some(known) if known.status == status => known.last_transition_time.clone(),
            // The API keeps whole seconds; what is compared with it must do so too.
            _ => Time(Timestamp::from_second(self.now.as_second()).unwrap_or(self.now)),
        };
        let condition = Condition {
            last_transition_time: transition,
            message: message.to_owned(),
            observed_generation: self.generation,
            reason: reason.to_owned(),
            status: status.to_owned(),
            type_: type_.to_owned(),
        };
        match self.list.iter_mut().find(|known| known.type_ == type_) {
            Some(known) if same(known, &condition) => {}
            Some(known) => *known = condition,
            None => self.list.push(condition),
        }
    }

    fn sum_up(&mut self) {
        let state = |wanted: &str| -> Vec<&str> {
            let has = |type_: &&&str| {
                self.get(type_).map_or("Unknown", |condition| condition.status.as_str()) == wanted
            };
            self.dependents.iter().filter(has).copied().collect()
        };
        let (bad, open) = (state("False"), state("Unknown"));
        if !bad.is_empty() {
            let message = listed(&bad, "False");
            self.put(READY, "False", UNHEALTHY_DEPENDENTS, &message);
        } else if !open.is_empty() {
            let message = listed(&open, "Unknown");
            self.put(READY, "Unknown", RECONCILING_DEPENDENTS, &message);
        } else {
            self.put(READY, "True", READY, "");
        }
    }
}

/// A new generation alone does not make a condition new: writing it would only stir up watchers.
fn same(known: &Condition, other: &Condition) -> bool {
    (&known.status, &known.reason, &known.message) == (&other.status, &other.reason, &other.message)
}

fn listed(types: &[&str], status: &str) -> String {
    types.iter().map(|type_| format!("{type_}={status}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENTS: &[&str] = &["Launched", "Registered"];

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn ready_sums_up_what_it_rests_on() {
        let mut list = Vec::new();
        let mut conditions = Conditions::new(&mut list, DEPENDENTS, Some(1), at(10));
        conditions.begin();
        assert_eq!(conditions.get(READY).unwrap().message, "Launched=Unknown, Registered=Unknown");
        conditions.set_true("Launched");
        conditions.set_false("Registered", "MultipleNodesFound", "two nodes have this provider id");
        assert_eq!(conditions.get(READY).unwrap().status, "False");
        conditions.set_true("Registered");
        assert_eq!(conditions.get(READY).unwrap().status, "True");
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let mut list = Vec::new();
        Conditions::new(&mut list, DEPENDENTS, None, at(10)).set_unknown("Launched", "LaunchFailed", "a");
        Conditions::new(&mut list, DEPENDENTS, None, at(20)).set_unknown("Launched", "LaunchFailed", "b");
        let launched =
            |list: &[Condition]| list.iter().find(|found| found.type_ == "Launched").unwrap().clone();
        assert_eq!((launched(&list).last_transition_time.0, launched(&list).message.as_str()), (at(10), "b"));
        Conditions::new(&mut list, DEPENDENTS, None, at(30)).set_true("Launched");
        assert_eq!(launched(&list).last_transition_time.0, at(30));
    }
}
