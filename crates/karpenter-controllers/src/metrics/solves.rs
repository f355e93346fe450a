//! Plans being computed right now: how many pods wait in each, and for how long it has been at it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::time::Instant;

use super::cluster::gauges;

/// The plans under way. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Solves(Arc<Mutex<UnderWay>>);

#[derive(Debug, Default)]
struct UnderWay {
    last: u64,
    solves: BTreeMap<u64, Solve>,
}

#[derive(Clone, Copy, Debug)]
struct Solve {
    controller: &'static str,
    pods: usize,
    begun: Instant,
}

/// A plan under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Solving {
    solves: Solves,
    number: u64,
}

impl Solves {
    /// Takes note that `controller` begins to plan for so many pods.
    pub(crate) fn begin(&self, controller: &'static str, pods: usize) -> Solving {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.last += 1;
        let number = under_way.last;
        under_way.solves.insert(number, Solve { controller, pods, begun: Instant::now() });
        Solving { solves: self.clone(), number }
    }
}

impl Drop for Solving {
    fn drop(&mut self) {
        let mut under_way = self.solves.0.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.solves.remove(&self.number);
    }
}

impl Collector for Solves {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let solves = self.0.lock().unwrap_or_else(PoisonError::into_inner).solves.clone();
        let labels = |number: u64, solve: &Solve| {
            vec![
                ("controller".into(), solve.controller.to_owned()),
                ("scheduling_id".into(), number.to_string()),
            ]
        };
        let depths = solves.iter().map(|(number, solve)| (labels(*number, solve), solve.pods as f64));
        let help = "Pods waiting in a plan being computed";
        gauges(&mut encoder, "karpenter_scheduler_queue_depth", help, depths)?;
        let times = solves.iter().map(|(number, solve)| {
            let time = Instant::now().duration_since(solve.begun);
            (labels(*number, solve), time.as_secs_f64())
        });
        let help = "How long a plan has been in the making";
        gauges(&mut encoder, "karpenter_scheduler_unfinished_work_seconds", help, times)
    }
}
