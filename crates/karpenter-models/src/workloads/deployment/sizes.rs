//! How large each replica set of a deployment should be next: pure arithmetic of rollouts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

/// How pods of the old template give way to new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// All old pods go before new ones come.
    Recreate,
    /// A few at a time.
    Rolling {
        /// How many pods there may be beyond the wanted number.
        surge: i32,
        /// How many may be missing.
        unavailable: i32,
    },
}

/// What a deployment asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub(super) replicas: i32,
    pub(super) strategy: Strategy,
}

impl Goal {
    /// The most pods there may be.
    pub(super) fn most(&self) -> i32 {
        match self.strategy {
            Strategy::Rolling { surge, .. } => self.replicas + surge,
            Strategy::Recreate => self.replicas,
        }
    }

    /// The fewest pods that must be available.
    pub(super) fn fewest(&self) -> i32 {
        match self.strategy {
            Strategy::Rolling { unavailable, .. } => self.replicas - unavailable.min(self.replicas),
            Strategy::Recreate => self.replicas,
        }
    }
}

/// A replica set as far as rollouts look at it.
#[derive(Clone, Debug)]
pub(super) struct SetSize {
    pub(super) name: String,
    /// `spec.replicas`.
    pub(super) size: i32,
    pub(super) available: i32,
    pub(super) created: Timestamp,
    /// The most pods there might be when it was last sized, by its annotation.
    pub(super) most_then: Option<i32>,
}

/// New sizes by name of set.
pub(super) type Sizes = BTreeMap<String, i32>;

/// Returns the size of the new set, given that of all sets together.
pub(super) fn new_set_size(goal: &Goal, new: i32, all: i32) -> i32 {
    match goal.strategy {
        Strategy::Recreate => goal.replicas,
        Strategy::Rolling { .. } if new > goal.replicas => goal.replicas,
        Strategy::Rolling { .. } => new + (goal.most() - all).max(0).min(goal.replicas - new),
    }
}

/// Returns the next step of a rolling update: the new set grows first, then old ones shrink.
pub(super) fn roll(goal: &Goal, new: &SetSize, old: &[SetSize]) -> Sizes {
    let all: i32 = old.iter().map(|set| set.size).sum::<i32>() + new.size;
    let grown = new_set_size(goal, new.size, all);
    if grown != new.size {
        return Sizes::from([(new.name.clone(), grown)]);
    }
    shrink_old(goal, new, old, all)
}

fn shrink_old(goal: &Goal, new: &SetSize, old: &[SetSize], all: i32) -> Sizes {
    let mut sizes = Sizes::new();
    // Pods of the new set that are not available yet must not make way for old ones to go.
    let spare = all - goal.fewest() - (new.size - new.available);
    if spare <= 0 {
        return sizes;
    }
    let mut by_age: Vec<&SetSize> = old.iter().collect();
    by_age.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
    let mut left: BTreeMap<&str, i32> = by_age.iter().map(|set| (set.name.as_str(), set.size)).collect();
    let mut unhealthy_allowed = spare;
    for set in &by_age {
        let unhealthy = (set.size - set.available).max(0).min(unhealthy_allowed);
        unhealthy_allowed -= unhealthy;
        *left.entry(&set.name).or_default() -= unhealthy;
    }
    let available: i32 = old.iter().map(|set| set.available).sum::<i32>() + new.available;
    let mut removable = available - goal.fewest();
    for set in &by_age {
        let size = left.get_mut(set.name.as_str()).expect("every set was entered above");
        let removed = (*size).min(removable.max(0));
        *size -= removed;
        removable -= removed;
    }
    for set in by_age {
        let size = left[set.name.as_str()];
        if size != set.size {
            sizes.insert(set.name.clone(), size);
        }
    }
    sizes
}

/// Returns sizes after the deployment was scaled: one set takes it all, several share in proportion.
pub(super) fn scale(goal: &Goal, new: Option<&SetSize>, old: &[SetSize]) -> Sizes {
    let active: Vec<&SetSize> = old.iter().chain(new).filter(|set| set.size > 0).collect();
    let only = match active[..] {
        [] => new.or_else(|| old.iter().max_by_key(|set| (set.created, &set.name))),
        [only] => Some(only),
        _ => None,
    };
    if let Some(only) = only {
        return differing(&[(only, goal.replicas)]);
    }
    if active.is_empty() {
        return Sizes::new();
    }
    if new.is_some_and(|new| new.size == goal.replicas && new.available == goal.replicas) {
        let empty: Vec<(&SetSize, i32)> = old.iter().map(|set| (set, 0)).collect();
        return differing(&empty);
    }
    if goal.strategy == Strategy::Recreate {
        return Sizes::new();
    }
    in_proportion(goal, active)
}

fn in_proportion(goal: &Goal, mut sets: Vec<&SetSize>) -> Sizes {
    let allowed = if goal.replicas > 0 { goal.most() } else { 0 };
    let to_add = allowed - sets.iter().map(|set| set.size).sum::<i32>();
    if to_add > 0 {
        sets.sort_by_key(|set| (Reverse(set.size), Reverse(set.created), set.name.clone()));
    } else {
        sets.sort_by_key(|set| (Reverse(set.size), set.created, set.name.clone()));
    }
    let mut added = 0;
    let mut sized: Vec<(&SetSize, i32)> = Vec::new();
    for set in sets {
        let share = fraction(goal, set);
        let left = to_add - added;
        let share = if to_add > 0 { share.min(left) } else { share.max(left) };
        let share = if to_add == 0 || left == 0 { 0 } else { share };
        added += share;
        sized.push((set, set.size + share));
    }
    if let Some((_, size)) = sized.first_mut() {
        *size = (*size + to_add - added).max(0);
    }
    differing(&sized)
}

/// Returns by how much a set changes to keep its share of all pods.
fn fraction(goal: &Goal, set: &SetSize) -> i32 {
    if goal.replicas == 0 {
        return -set.size;
    }
    let before = set.most_then.filter(|most| *most > 0).unwrap_or_else(|| goal.most());
    let scaled = i64::from(set.size) * i64::from(goal.most());
    // Halves round up, as the original rounds.
    let rounded = (2 * scaled + i64::from(before)) / (2 * i64::from(before));
    i32::try_from(rounded).unwrap_or(i32::MAX) - set.size
}

fn differing(sized: &[(&SetSize, i32)]) -> Sizes {
    let changed = sized.iter().filter(|(set, size)| set.size != *size);
    changed.map(|(set, size)| (set.name.clone(), *size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, size: i32, available: i32) -> SetSize {
        let created = Timestamp::from_second(i64::from(name.as_bytes()[0])).unwrap();
        SetSize { name: name.to_owned(), size, available, created, most_then: None }
    }

    fn rolling(replicas: i32, surge: i32, unavailable: i32) -> Goal {
        Goal { replicas, strategy: Strategy::Rolling { surge, unavailable } }
    }

    fn sizes(pairs: &[(&str, i32)]) -> Sizes {
        pairs.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
    }

    #[test]
    fn a_rolling_update_never_exceeds_the_surge_or_the_unavailability() {
        let goal = rolling(10, 3, 2);
        let (mut new, mut old) = (set("n", 0, 0), set("a", 10, 10));
        for _ in 0..100 {
            let step = roll(&goal, &new, std::slice::from_ref(&old));
            new.size = step.get("n").copied().unwrap_or(new.size);
            old.size = step.get("a").copied().unwrap_or(old.size);
            old.available = old.available.min(old.size);
            assert!(new.size + old.size <= 13 && old.available + new.available >= 8, "{new:?} {old:?}");
            if step.is_empty() {
                new.available = (new.available + 1).min(new.size);
            }
        }
        assert_eq!((new.size, old.size), (10, 0));
    }

    #[test]
    fn unhealthy_old_pods_go_first() {
        let step = roll(&rolling(4, 0, 1), &set("n", 0, 0), &[set("a", 2, 2), set("b", 2, 0)]);
        assert_eq!(step, sizes(&[("b", 1)]));
    }

    #[test]
    fn scaling_one_set_is_simple_and_scaling_several_keeps_their_shares() {
        assert_eq!(scale(&rolling(7, 1, 1), Some(&set("n", 3, 3)), &[set("a", 0, 0)]), sizes(&[("n", 7)]));
        let sized = |name: &str, size: i32| SetSize { most_then: Some(13), ..set(name, size, size) };
        let grown = scale(&rolling(20, 6, 5), Some(&sized("n", 5)), &[sized("a", 8)]);
        assert_eq!(grown, sizes(&[("a", 16), ("n", 10)]));
        let gone = scale(&rolling(0, 0, 1), Some(&sized("n", 5)), &[sized("a", 8)]);
        assert_eq!(gone, sizes(&[("a", 0), ("n", 0)]));
    }
}
