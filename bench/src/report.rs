//! What is said of a run: tables of figures, how the cost grows, and whether the targets are met.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::bound::Bound;
use crate::catalogue::Step;
use crate::files;
use crate::generate::GROWTH;
use crate::measure::{Measured, Stats};
use crate::quiescence::Rest;
use crate::table::{Table, number, times};
use crate::targets;

/// Everything measured on one file.
pub(crate) struct Row {
    pub(crate) name: String,
    /// The error's text when the file was not solved.
    pub(crate) ours: Result<Stats, String>,
    pub(crate) upstream: Option<Result<Measured, String>>,
    pub(crate) bound: Option<Bound>,
    /// How a cluster came to rest when swept again and again.
    pub(crate) rest: Option<Rest>,
}

impl Row {
    pub(crate) fn upstream_stats(&self) -> Option<&Stats> {
        match &self.upstream {
            Some(Ok(Measured::Stats(stats))) => Some(stats),
            _ => None,
        }
    }
}

/// The whole report in Markdown.
pub(crate) fn render(
    rows: &[Row],
    catalogue: &[Step],
    instructions: &BTreeMap<String, u64>,
    baseline: &BTreeMap<String, u64>,
) -> String {
    let (disruption, rows): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| files::is_disruption(&row.name));
    let mut sections = vec![("Measured", figures(&rows)), ("Disruption, one sweep", sweeps(&disruption))];
    sections.push(("Disruption, until nothing more is saved", rests(&disruption)));
    if rows.iter().any(|row| row.upstream.is_some()) {
        sections.push(("Beside upstream, one worker, same run", comparison(&rows)));
    }
    sections.push(("Growth: CPU seconds ~ pods^exponent", growth(&rows)));
    sections.push(("What AWS sells, for 20 NodeClasses", steps(catalogue)));
    sections.push(("Instructions", instruction_table(instructions, baseline)));
    sections.push(("Targets", targets::table(&rows, &disruption, catalogue)));
    let mut report = String::from("# Benchmark report\n");
    for (title, table) in sections.into_iter().filter(|(_, table)| !table.is_empty()) {
        let _ = write!(report, "\n## {title}\n\n{}", table.render());
    }
    for row in rows.iter().chain(&disruption) {
        if let Err(message) = &row.ours {
            let _ = write!(report, "\n- `{}` was not solved: {message}", row.name);
        }
        if let Some(Err(message)) = &row.upstream {
            let _ = write!(report, "\n- upstream on `{}`: {message}", row.name);
        }
    }
    report.push('\n');
    report
}

/// What each step of the catalogue costs.
fn steps(steps: &[Step]) -> Table {
    let mut table = Table::new(["step", "ms", "MiB"]);
    for step in steps {
        table.add([step.what.clone(), number(step.milliseconds), number(step.mebibytes)]);
    }
    table
}

/// What one sweep over every node costs and what its best command saves.
fn sweeps(rows: &[&Row]) -> Table {
    let mut table = Table::new([
        "file",
        "nodes",
        "wall s",
        "CPU s",
        "peak MB",
        "saves $/h",
        "upstream CPU s",
        "upstream saves $/h",
    ]);
    for row in rows {
        let Ok(stats) = &row.ours else { continue };
        let theirs = |figure: fn(&Stats) -> String| row.upstream_stats().map_or_else(none, figure);
        table.add([
            row.name.clone(),
            stats.nodes.to_string(),
            number(stats.solve_wall_seconds),
            number(stats.solve_cpu_seconds),
            megabytes(stats),
            number(stats.savings),
            theirs(|stats| number(stats.solve_cpu_seconds)),
            theirs(|stats| number(stats.savings)),
        ]);
    }
    table
}

fn rests(rows: &[&Row]) -> Table {
    let mut table = Table::new([
        "file",
        "rounds",
        "at rest",
        "$/h before",
        "$/h after",
        "nodes after",
        "bound $/h",
        "gap %",
        "pods moved",
        "pods moved per $/h saved",
        "sweep at rest, wall s",
        "CPU s",
        "peak MB",
    ]);
    for (row, rest) in rows.iter().filter_map(|row| Some((row, row.rest.as_ref()?))) {
        let saved = rest.price_before - rest.price_after;
        table.add([
            row.name.clone(),
            rest.rounds.to_string(),
            if rest.reached { "yes" } else { "NO" }.to_owned(),
            number(rest.price_before),
            number(rest.price_after),
            rest.nodes_after.to_string(),
            rest.bound.map_or_else(none, number),
            rest.bound.map_or_else(none, |bound| gap(rest.price_after, bound)),
            rest.pods_moved.to_string(),
            if saved > 0.0 { number(rest.pods_moved as f64 / saved) } else { none() },
            rest.sweep.as_ref().map_or_else(none, |sweep| number(sweep.solve_wall_seconds)),
            rest.sweep.as_ref().map_or_else(none, |sweep| number(sweep.solve_cpu_seconds)),
            rest.sweep.as_ref().map_or_else(none, megabytes),
        ]);
    }
    table
}

fn figures(rows: &[&Row]) -> Table {
    let mut table = Table::new([
        "file",
        "pods",
        "CPU s",
        "wall s",
        "pods/CPU s",
        "nodes",
        "$/h",
        "types/claim",
        "peak MB",
        "no place",
        "bound $/h",
        "gap %",
        "by weight",
        "gap %",
    ]);
    for row in rows {
        let Ok(stats) = &row.ours else { continue };
        // A plan that leaves out pods which others place is not comparable.
        let bound = row.bound.filter(|bound| bound.unplaceable == stats.unschedulable);
        table.add([
            row.name.clone(),
            stats.pods.to_string(),
            number(stats.solve_cpu_seconds),
            number(stats.solve_wall_seconds),
            number(stats.pods as f64 / stats.solve_cpu_seconds.max(f64::MIN_POSITIVE)),
            stats.nodes.to_string(),
            number(stats.price),
            number(stats.types_per_claim_median),
            megabytes(stats),
            stats.unschedulable.to_string(),
            row.bound.map_or_else(none, |bound| number(bound.price)),
            bound.map_or_else(none, |bound| gap(stats.price, bound.price)),
            row.bound.map_or_else(none, |bound| number(bound.price_by_weight)),
            bound.map_or_else(none, |bound| gap(stats.price, bound.price_by_weight)),
        ]);
    }
    table
}

/// How far above a bound a price is.
fn gap(price: f64, bound: f64) -> String {
    if bound > 0.0 { format!("{:.1}", 100.0 * (price / bound - 1.0)) } else { none() }
}

fn comparison(rows: &[&Row]) -> Table {
    let mut table = Table::new([
        "file",
        "CPU s",
        "upstream",
        "times less",
        "$/h",
        "upstream",
        "nodes",
        "upstream",
        "peak MB",
        "upstream",
        "types/claim",
        "upstream",
        "no place",
        "upstream",
    ]);
    for row in rows {
        let (Ok(ours), Some(Ok(measured))) = (&row.ours, &row.upstream) else { continue };
        let (cpu, ratio) = match measured {
            Measured::Stats(upstream) => (
                number(upstream.solve_cpu_seconds),
                times(upstream.solve_cpu_seconds, ours.solve_cpu_seconds),
            ),
            Measured::TookLonger(limit) => longer(*limit),
        };
        let theirs = |figure: fn(&Stats) -> String| row.upstream_stats().map_or_else(none, figure);
        table.add([
            row.name.clone(),
            number(ours.solve_cpu_seconds),
            cpu,
            ratio,
            number(ours.price),
            theirs(|stats| number(stats.price)),
            ours.nodes.to_string(),
            theirs(|stats| stats.nodes.to_string()),
            megabytes(ours),
            theirs(megabytes),
            number(ours.types_per_claim_median),
            theirs(|stats| number(stats.types_per_claim_median)),
            ours.unschedulable.to_string(),
            theirs(|stats| stats.unschedulable.to_string()),
        ]);
    }
    table
}

fn longer(limit: Duration) -> (String, String) {
    (format!("stopped after {} s", limit.as_secs()), none())
}

fn none() -> String {
    "–".to_owned()
}

pub(crate) fn megabytes(stats: &Stats) -> String {
    format!("{:.0}", stats.peak_memory_bytes / 1e6)
}

/// Series of growing sizes that were measured whole, with the points (pods, CPU seconds).
pub(crate) fn series(rows: &[&Row]) -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let points = |name: &str| -> Option<Vec<(f64, f64)>> {
        let point = |pods: &usize| {
            let row = rows.iter().find(|row| row.name == format!("{name}-{pods}"))?;
            Some((*pods as f64, row.ours.as_ref().ok()?.solve_cpu_seconds))
        };
        GROWTH.iter().map(point).collect()
    };
    ["growth-mix", "growth-large"].into_iter().filter_map(|name| Some((name, points(name)?))).collect()
}

fn growth(rows: &[&Row]) -> Table {
    let mut table = Table::new(["series", "all sizes fitted", "first to last", "steepest step"]);
    for (name, points) in series(rows) {
        let ends = [points[0], points[points.len() - 1]];
        // A fixed cost of small batches flattens the whole series; the steepest step does not hide behind it.
        let steepest = points.windows(2).map(exponent).fold(f64::NEG_INFINITY, f64::max);
        let exponents = [exponent(&points), exponent(&ends), steepest].map(|value| format!("{value:.3}"));
        let [fitted, ends, steepest] = exponents;
        table.add([name.to_owned(), fitted, ends, steepest]);
    }
    table
}

/// The slope of the least-squares line through the logarithms.
pub(crate) fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> =
        points.iter().map(|(pods, seconds)| (pods.ln(), seconds.max(1e-9).ln())).collect();
    let count = logs.len() as f64;
    let (mean_x, mean_y) = (
        logs.iter().map(|log| log.0).sum::<f64>() / count,
        logs.iter().map(|log| log.1).sum::<f64>() / count,
    );
    let covariance: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    covariance / variance
}

fn instruction_table(counts: &BTreeMap<String, u64>, baseline: &BTreeMap<String, u64>) -> Table {
    let mut table = Table::new(["file", "instructions", "baseline", "ratio"]);
    for (name, count) in counts {
        let before = baseline.get(name);
        table.add([
            name.clone(),
            count.to_string(),
            before.map_or_else(none, u64::to_string),
            before.map_or_else(none, |before| format!("{:.3}", *count as f64 / *before as f64)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, stats: Stats) -> Row {
        Row { name: name.to_owned(), ours: Ok(stats), upstream: None, bound: None, rest: None }
    }

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        let points: Vec<(f64, f64)> = [1e3, 1e4, 1e5].map(|pods: f64| (pods, 2e-6 * pods.powf(1.07))).into();
        assert!((exponent(&points) - 1.07).abs() < 1e-9);
    }

    #[test]
    fn the_gap_is_shown_only_where_the_same_pods_are_placed() {
        let stats = Stats { price: 225.0, unschedulable: 1, ..Stats::default() };
        let mut rows = [row("x", stats)];
        rows[0].bound = Some(Bound { price: 200.0, price_by_weight: 200.0, unplaceable: 1 });
        assert!(figures(&rows.each_ref()).render().contains("12.5 |"));
        rows[0].bound = Some(Bound { price: 200.0, price_by_weight: 200.0, unplaceable: 0 });
        assert!(!figures(&rows.each_ref()).render().contains("12.5 |"));
    }
}
