//! Finds the node for a pod: enough nodes that would take it, then the best of them.
//!
//! As in kube-scheduler, large clusters are searched in part, starting where the last search stopped.

use super::attempt::Attempt;
use super::cluster::Cluster;
use super::reason::{Diagnosis, Reason, Rejection};
use super::score::best_node;

/// Clusters up to this size are searched whole, and at least so many nodes are always found.
const FOUND_MIN: usize = 100;
const PERCENT_MIN: usize = 5;

/// Why a pod has no place now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    pub(crate) diagnosis: Diagnosis,
    /// Nodes that might take the pod if others left.
    pub(crate) preemptible: Vec<u32>,
}

/// Where the next search starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    start: usize,
}

impl Search {
    /// Returns the best node for a pod, or why there is none.
    pub(crate) fn find(&mut self, cluster: &mut Cluster, attempt: &Attempt) -> Result<u32, Failure> {
        let nodes = cluster.nodes.order().to_vec();
        let wanted = nodes_to_find(nodes.len());
        let mut found = Vec::with_capacity(wanted.min(nodes.len()));
        let mut tried = 0;
        while tried < nodes.len() && found.len() < wanted {
            let node = nodes[(self.start + tried) % nodes.len()];
            tried += 1;
            if cluster.classes.get(attempt.class).refused_by.contains(node as usize) {
                continue;
            }
            if attempt.check_alone(cluster, node).is_err() {
                let refused_by = &mut cluster.classes.get_mut(attempt.class).refused_by;
                refused_by.grow(node as usize + 1);
                refused_by.insert(node as usize);
            } else if attempt.check_together(cluster, node).is_ok() {
                found.push(node);
            }
        }
        if found.is_empty() {
            return Err(explain(cluster, attempt, None));
        }
        self.start = (self.start + tried) % nodes.len();
        Ok(if let [only] = found[..] { only } else { best_node(cluster, attempt.class, &found) })
    }

    /// Returns the node a pod is pinned to if it takes the pod.
    pub(crate) fn find_pinned(cluster: &Cluster, attempt: &Attempt, name: &str) -> Result<u32, Failure> {
        let node = cluster.nodes.find(name).filter(|node| cluster.nodes.get(*node).is_there);
        match node.filter(|node| attempt.check(cluster, *node).is_ok()) {
            Some(node) => Ok(node),
            None => Err(explain(cluster, attempt, Some(name))),
        }
    }
}

/// Returns how many nodes that would take a pod are enough to choose from.
fn nodes_to_find(nodes: usize) -> usize {
    let percent = 50_usize.saturating_sub(nodes / 125).max(PERCENT_MIN);
    (nodes * percent / 100).max(FOUND_MIN)
}

/// Asks every node why it refuses.
fn explain(cluster: &Cluster, attempt: &Attempt, pin: Option<&str>) -> Failure {
    let mut failure = Failure::default();
    for (id, node) in cluster.nodes.iter() {
        let verdict = if pin.is_none_or(|pin| pin == node.name) {
            attempt.check(cluster, id)
        } else {
            Err(Rejection::because(Reason::NotNamed))
        };
        if let Err(rejection) = verdict {
            for reason in &rejection.reasons {
                failure.diagnosis.add(reason, 1);
            }
            if !rejection.is_final {
                failure.preemptible.push(id);
            }
        }
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_clusters_are_searched_in_part() {
        assert_eq!(nodes_to_find(50), 100);
        assert_eq!(nodes_to_find(1_000), 420);
        assert_eq!(nodes_to_find(10_000), 500);
    }
}
