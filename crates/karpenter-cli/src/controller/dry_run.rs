//! What a dry run would have done: a line in the log for each effect when it first comes up, counts as metrics, and a summary as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use karpenter_controllers::{Comparison, Comparisons};
use karpenter_runtime::{Withheld, Witness};
use serde::Serialize;

/// Effects remembered one by one; of those that came up longest ago only the counts are kept.
const REMEMBERED: usize = 1000;

/// Keeps account of what was not done. Clones are one account.
#[derive(Clone)]
pub(crate) struct Ledger {
    book: Arc<Mutex<Book>>,
    comparisons: Comparisons,
}

struct Book {
    since: Timestamp,
    /// How often each sort of effect came up for the first time, by controller.
    counts: BTreeMap<(&'static str, String), u64>,
    effects: BTreeMap<(&'static str, String), Sightings>,
}

#[derive(Clone, Copy)]
struct Sightings {
    first: Timestamp,
    last: Timestamp,
    times: u64,
}

/// The account as people read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    since: Timestamp,
    /// What nodes cost, and what ours would for the same pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Comparison>,
    /// What that would save per hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    saving: Option<f64>,
    counts: Vec<Tally>,
    effects: Vec<Shown>,
}

#[derive(Serialize)]
struct Tally {
    controller: &'static str,
    effect: String,
    count: u64,
}

#[derive(Serialize)]
struct Shown {
    controller: &'static str,
    effect: String,
    first: Timestamp,
    last: Timestamp,
    times: u64,
}

impl Ledger {
    pub(super) fn new(comparisons: Comparisons) -> Self {
        let book = Book { since: Timestamp::now(), counts: BTreeMap::new(), effects: BTreeMap::new() };
        Self { book: Arc::new(Mutex::new(book)), comparisons }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account as JSON, the latest effects first.
    pub(super) fn summary(&self) -> String {
        let book = self.book();
        let counts = book.counts.iter().map(|((controller, effect), count)| {
            let (controller, effect, count) = (*controller, effect.clone(), *count);
            Tally { controller, effect, count }
        });
        let effects = book.effects.iter().map(|((controller, effect), times)| {
            let Sightings { first, last, times } = *times;
            let (controller, effect) = (*controller, effect.clone());
            Shown { controller, effect, first, last, times }
        });
        let mut effects: Vec<Shown> = effects.collect();
        effects.sort_by(|a, b| b.last.cmp(&a.last).then_with(|| a.effect.cmp(&b.effect)));
        let comparison = self.comparisons.latest();
        let saving = comparison.as_ref().map(|found| found.price - found.planned_price);
        let summary = Summary { since: book.since, comparison, saving, counts: counts.collect(), effects };
        serde_json::to_string_pretty(&summary).expect("a summary is JSON")
    }

    /// The account as metrics.
    pub(super) fn metrics(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "# HELP karpenter_dry_run_effects Effects that were shown and not performed.");
        let _ = writeln!(text, "# TYPE karpenter_dry_run_effects counter");
        for ((controller, effect), count) in &self.book().counts {
            let _ = writeln!(
                text,
                "karpenter_dry_run_effects_total{{controller=\"{controller}\",effect=\"{effect}\"}} {count}"
            );
        }
        let Some(found) = self.comparisons.latest() else { return text };
        let gauges = [
            ("karpenter_dry_run_price", "Price of nodes per hour", found.price, found.planned_price),
            ("karpenter_dry_run_nodes", "Nodes of the pools", found.nodes as f64, found.planned_nodes as f64),
        ];
        for (name, help, cluster, plan) in gauges {
            let _ = writeln!(
                text,
                "# HELP {name} {help}: of the cluster, and of our plan for its pods.\n# TYPE {name} gauge\n\
                 {name}{{of=\"cluster\"}} {cluster}\n{name}{{of=\"plan\"}} {plan}"
            );
        }
        text
    }
}

impl Witness for Ledger {
    fn withheld(&self, controller: &'static str, effect: Withheld<'_>) {
        let now = Timestamp::now();
        let mut book = self.book();
        let text = effect.to_string();
        if let Some(times) = book.effects.get_mut(&(controller, text.clone())) {
            *times = Sightings { last: now, times: times.times + 1, ..*times };
            return;
        }
        *book.counts.entry((controller, effect.sort())).or_default() += 1;
        if effect.is_about("Event") {
            // Each has a name of its own; what they would tell is in the log of the decisions.
            return;
        }
        tracing::info!(controller, effect = text, "would {effect}");
        if let Withheld::Write(write) = effect {
            tracing::debug!(controller, body = %write.body(), "would {effect}");
        }
        book.effects.insert((controller, text), Sightings { first: now, last: now, times: 1 });
        if book.effects.len() > REMEMBERED {
            let oldest = book.effects.iter().min_by_key(|(_, times)| times.last).map(|(key, _)| key.clone());
            if let Some(key) = oldest {
                book.effects.remove(&key);
            }
        }
    }
}
