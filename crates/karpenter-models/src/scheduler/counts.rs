//! How many pods of a kind are in each domain of a topology, with the smallest count at hand.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// A domain of a topology: one value of a label, as a small number.
pub(crate) type Domain = u32;

/// Counts per domain. A domain exists while nodes are in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomainCounts {
    pods: FxHashMap<Domain, u32>,
    nodes: FxHashMap<Domain, u32>,
    /// How many existing domains have each count.
    by_count: BTreeMap<u32, u32>,
    total: u64,
}

impl DomainCounts {
    pub(crate) fn pods(&self, domain: Domain) -> u32 {
        self.pods.get(&domain).copied().unwrap_or(0)
    }

    /// Returns the number of pods in all domains.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns how many domains exist.
    pub(crate) fn domains(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the smallest count of an existing domain; 0 when fewer than `domains_min` exist.
    pub(crate) fn smallest(&self, domains_min: usize) -> u32 {
        if self.domains() < domains_min {
            return 0;
        }
        self.by_count.keys().next().copied().unwrap_or(0)
    }

    /// Changes the number of pods in a domain.
    pub(crate) fn change(&mut self, domain: Domain, pods: i64) {
        if pods == 0 {
            return;
        }
        let before = self.pods(domain);
        let after = u32::try_from(i64::from(before) + pods).expect("no more pods leave than came");
        if after == 0 {
            self.pods.remove(&domain);
        } else {
            self.pods.insert(domain, after);
        }
        self.total = self.total.checked_add_signed(pods).expect("no more pods leave than came");
        if self.nodes.contains_key(&domain) {
            self.forget(before);
            *self.by_count.entry(after).or_default() += 1;
        }
    }

    /// Counts a node into a domain.
    pub(crate) fn node_joins(&mut self, domain: Domain) {
        let nodes = self.nodes.entry(domain).or_default();
        *nodes += 1;
        if *nodes == 1 {
            *self.by_count.entry(self.pods(domain)).or_default() += 1;
        }
    }

    /// Counts a node out of a domain. Its pods must have been counted out before.
    pub(crate) fn node_leaves(&mut self, domain: Domain) {
        let nodes = self.nodes.get_mut(&domain).expect("no more nodes leave than came");
        *nodes -= 1;
        if *nodes == 0 {
            self.nodes.remove(&domain);
            self.forget(self.pods(domain));
        }
    }

    fn forget(&mut self, count: u32) {
        let domains = self.by_count.get_mut(&count).expect("an existing domain is filed under its count");
        *domains -= 1;
        if *domains == 0 {
            self.by_count.remove(&count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_count_is_over_domains_that_have_nodes() {
        let mut counts = DomainCounts::default();
        counts.node_joins(0);
        counts.node_joins(1);
        counts.change(0, 2);
        counts.change(1, 1);
        assert_eq!((counts.smallest(1), counts.smallest(3), counts.total()), (1, 0, 3));
        counts.change(1, -1);
        counts.node_leaves(1);
        assert_eq!((counts.smallest(1), counts.domains()), (2, 1));
        counts.node_joins(2);
        assert_eq!(counts.smallest(1), 0);
    }
}
