//! The domains of a topology key that pods can be spread over, whether or not a node is there yet.

use std::collections::BTreeMap;

use crate::labels::{Condition, NodeConditions, Present, States};
use crate::pod::{Taint, Toleration};
use crate::selector::untolerated;
use crate::world::World;

/// The values of one label that node pools can bring about.
pub(super) struct Universe<'w> {
    /// The taints of the pools behind each domain.
    taints: BTreeMap<String, Vec<&'w [Taint]>>,
}

impl<'w> Universe<'w> {
    pub(super) fn new(world: &'w World<'w>, key: &str) -> Self {
        let mut taints: BTreeMap<String, Vec<&'w [Taint]>> = BTreeMap::new();
        for pool in world.pools.values().filter(|p| p.pool.spec.replicas.is_none()) {
            let of_pool = pool.permitted.get(key);
            let of_types = world.types.values().map(|t| match (of_pool, t.labels.get(key)) {
                (Some(a), Some(b)) => a.intersection(b),
                (one, other) => one.or(other).unwrap_or(&world.absent).clone(),
            });
            for states in of_types.chain(of_pool.cloned()) {
                let Present::Only(values) = states.present else { continue };
                for value in values {
                    let known = taints.entry(value).or_default();
                    if !known.iter().any(|k| std::ptr::eq(*k, pool.taints)) {
                        known.push(pool.taints);
                    }
                }
            }
        }
        Universe { taints }
    }

    /// Returns the domains; with tolerations, those some tolerated pool can bring about.
    pub(super) fn domains<'u>(
        &'u self,
        tolerations: Option<&'u Vec<Toleration>>,
    ) -> impl Iterator<Item = &'u str> {
        let reachable = move |pools: &Vec<&[Taint]>| {
            tolerations.is_none_or(|t| pools.iter().any(|taints| untolerated(taints, t).is_none()))
        };
        self.taints.iter().filter(move |(_, pools)| reachable(pools)).map(|(domain, _)| domain.as_str())
    }
}

/// Returns what a pod's node requirements permit of a key: one set per node affinity term that may apply.
pub(super) fn permitted_domains(
    conditions: &NodeConditions,
    key: &str,
    applies: impl Fn(&[Condition]) -> bool,
) -> Vec<States> {
    let narrowed = |start: States, conditions: &[Condition]| {
        let on_key = conditions.iter().filter(|c| c.key == key);
        on_key.fold(start, |states, c| states.intersection(&c.permitted))
    };
    let selected = narrowed(States::anything(), &conditions.all);
    if conditions.any_term.is_empty() {
        return vec![selected];
    }
    let terms = conditions.any_term.iter().filter(|term| applies(term));
    terms.map(|term| narrowed(selected.clone(), term)).collect()
}
