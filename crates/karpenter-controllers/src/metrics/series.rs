//! Series whose label names are declared once, beside the name of their metric.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// Label names and values of one series.
pub(crate) type Labels<const N: usize> = [(&'static str, String); N];

/// The label names of a metric.
pub(crate) type Names<const N: usize> = [&'static str; N];

/// What summaries tell: these shares of what was seen lately stayed below which value.
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];
/// What a summary regards as lately.
const LATELY: Duration = Duration::from_mins(10);
/// Of more than so many values lately, the oldest are forgotten.
const REMEMBERED: usize = 4096;

/// Writes the series of one summary.
pub(crate) type WriteSummary = Box<dyn Fn(&mut String) + Send + Sync>;

/// Everything a scrape is answered with.
#[derive(Default)]
pub(crate) struct Exposition {
    pub(crate) registry: Registry,
    /// The registry's library has no summaries; these write themselves.
    pub(crate) summaries: Vec<WriteSummary>,
}

/// A metric of the table.
pub(crate) trait Declared<const N: usize>: Clone {
    fn declare(names: Names<N>, buckets: &'static [f64]) -> Self;
    fn register(&self, name: &'static str, help: &'static str, exposition: &mut Exposition);
    /// Makes a series, so that the metric shows up.
    #[cfg(test)]
    fn touch(&self);
}

fn check<const N: usize>(names: &Names<N>, labels: &Labels<N>) {
    debug_assert!(
        labels.iter().map(|(name, _)| name).eq(names),
        "labels {labels:?} are given to a metric with {names:?}"
    );
}

#[cfg(test)]
fn blank<const N: usize>(names: &Names<N>) -> Labels<N> {
    names.map(|name| (name, String::new()))
}

/// Counts.
#[derive(Clone)]
pub(crate) struct Counters<const N: usize> {
    names: Names<N>,
    family: Family<Labels<N>, Counter>,
}

impl<const N: usize> Counters<N> {
    /// The count of one series.
    pub(crate) fn of(&self, labels: &Labels<N>) -> Counter {
        check(&self.names, labels);
        self.family.get_or_create_owned(labels)
    }
}

impl<const N: usize> Declared<N> for Counters<N> {
    fn declare(names: Names<N>, _: &'static [f64]) -> Self {
        Self { names, family: Family::default() }
    }

    fn register(&self, name: &'static str, help: &'static str, exposition: &mut Exposition) {
        let name = name.strip_suffix("_total").unwrap_or(name);
        exposition.registry.register(name, help, self.family.clone());
    }

    #[cfg(test)]
    fn touch(&self) {
        self.of(&blank(&self.names));
    }
}

/// Values that go up and down.
#[derive(Clone)]
pub(crate) struct Gauges<const N: usize> {
    names: Names<N>,
    family: Family<Labels<N>, Gauge<f64, AtomicU64>>,
}

impl<const N: usize> Gauges<N> {
    /// Sets these series, and forgets all others.
    pub(crate) fn replace(&self, series: impl IntoIterator<Item = (Labels<N>, f64)>) {
        self.family.clear();
        for (labels, value) in series {
            check(&self.names, &labels);
            self.family.get_or_create_owned(&labels).set(value);
        }
    }
}

impl<const N: usize> Declared<N> for Gauges<N> {
    fn declare(names: Names<N>, _: &'static [f64]) -> Self {
        Self { names, family: Family::default() }
    }

    fn register(&self, name: &'static str, help: &'static str, exposition: &mut Exposition) {
        exposition.registry.register(name, help, self.family.clone());
    }

    #[cfg(test)]
    fn touch(&self) {
        self.replace([(blank(&self.names), 0.0)]);
    }
}

/// A histogram with fixed buckets.
#[derive(Clone)]
pub(crate) struct Buckets(pub(crate) &'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Values sorted into buckets.
#[derive(Clone)]
pub(crate) struct Histograms<const N: usize> {
    names: Names<N>,
    family: Family<Labels<N>, Histogram, Buckets>,
}

impl<const N: usize> Histograms<N> {
    /// The histogram of one series.
    pub(crate) fn of(&self, labels: &Labels<N>) -> Histogram {
        check(&self.names, labels);
        self.family.get_or_create_owned(labels)
    }
}

impl<const N: usize> Declared<N> for Histograms<N> {
    fn declare(names: Names<N>, buckets: &'static [f64]) -> Self {
        Self { names, family: Family::new_with_constructor(Buckets(buckets)) }
    }

    fn register(&self, name: &'static str, help: &'static str, exposition: &mut Exposition) {
        exposition.registry.register(name, help, self.family.clone());
    }

    #[cfg(test)]
    fn touch(&self) {
        self.of(&blank(&self.names));
    }
}

/// Values of which quantiles are told.
#[derive(Clone)]
pub(crate) struct Summaries<const N: usize> {
    names: Names<N>,
    series: Arc<Mutex<Vec<(Labels<N>, Summary)>>>,
}

#[derive(Default)]
struct Summary {
    count: u64,
    sum: f64,
    lately: VecDeque<(Instant, f64)>,
}

impl Summary {
    fn observe(&mut self, value: f64, now: Instant) {
        self.count += 1;
        self.sum += value;
        self.lately.push_back((now, value));
        if self.lately.len() > REMEMBERED {
            self.lately.pop_front();
        }
        self.forget(now);
    }

    fn forget(&mut self, now: Instant) {
        while self.lately.front().is_some_and(|(at, _)| now.duration_since(*at) > LATELY) {
            self.lately.pop_front();
        }
    }

    /// What the quantiles are now; nobody knows where nothing was seen lately.
    fn quantiles(&mut self, now: Instant) -> [f64; QUANTILES.len()] {
        self.forget(now);
        let mut values: Vec<f64> = self.lately.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        QUANTILES.map(|quantile| {
            let rank = (quantile * values.len() as f64).ceil().max(1.0) as usize;
            values.get(rank - 1).copied().unwrap_or(f64::NAN)
        })
    }
}

impl<const N: usize> Summaries<N> {
    /// Takes note of a value.
    pub(crate) fn observe(&self, labels: &Labels<N>, value: f64) {
        check(&self.names, labels);
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some((_, summary)) = series.iter_mut().find(|(known, _)| known == labels) {
            return summary.observe(value, now);
        }
        let mut summary = Summary::default();
        summary.observe(value, now);
        series.push((labels.clone(), summary));
    }

    fn write(&self, name: &str, help: &str, text: &mut String) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if series.is_empty() {
            return;
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} summary");
        for (labels, summary) in series.iter_mut() {
            let mut pairs = String::new();
            for (name, value) in labels.iter() {
                let _ = write!(pairs, "{name}={value:?},");
            }
            for (quantile, value) in QUANTILES.iter().zip(summary.quantiles(Instant::now())) {
                let _ = writeln!(text, "{name}{{{pairs}quantile=\"{quantile}\"}} {value}");
            }
            pairs.pop();
            let _ = writeln!(text, "{name}_sum{{{pairs}}} {}", summary.sum);
            let _ = writeln!(text, "{name}_count{{{pairs}}} {}", summary.count);
        }
    }
}

impl<const N: usize> Declared<N> for Summaries<N> {
    fn declare(names: Names<N>, _: &'static [f64]) -> Self {
        Self { names, series: Arc::default() }
    }

    fn register(&self, name: &'static str, help: &'static str, exposition: &mut Exposition) {
        let summaries = self.clone();
        exposition.summaries.push(Box::new(move |text| summaries.write(name, help, text)));
    }

    #[cfg(test)]
    fn touch(&self) {
        self.observe(&blank(&self.names), 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_summary_tells_quantiles_of_what_was_seen_lately() {
        let summaries: Summaries<1> = Summaries::declare(["nodepool"], &[]);
        let labels = [("nodepool", "a".to_owned())];
        summaries.observe(&labels, 1000.0);
        tokio::time::advance(Duration::from_mins(11)).await;
        (1..=10).for_each(|value| summaries.observe(&labels, f64::from(value)));
        let mut text = String::new();
        summaries.write("took_seconds", "How long it took", &mut text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "# TYPE took_seconds summary");
        assert_eq!(lines[2], "took_seconds{nodepool=\"a\",quantile=\"0\"} 1");
        assert_eq!(lines[3], "took_seconds{nodepool=\"a\",quantile=\"0.5\"} 5");
        assert_eq!(lines[6], "took_seconds{nodepool=\"a\",quantile=\"1\"} 10");
        assert_eq!(lines[7], "took_seconds_sum{nodepool=\"a\"} 1055");
        assert_eq!(lines[8], "took_seconds_count{nodepool=\"a\"} 11");
    }
}
