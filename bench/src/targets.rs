//! What the project promises of its speed and prices, judged on what a run measured.
//!
//! Promises that hold for every file are listed only where they are broken.

use crate::catalogue::Step;
use crate::measure::Stats;
use crate::report::{Row, exponent, megabytes, series};
use crate::table::{Table, number};

/// How many times less CPU than upstream, by file.
const TIMES_LESS: [(&str, f64); 4] =
    [("bench-5000", 100.0), ("bench-20000", 300.0), ("large-10000", 100.0), ("large-30000", 200.0)];
const LARGE_PRICE_MAX: f64 = 110.9;
const UNIQUE_LABELS_TIMES_MAX: f64 = 1.5;
const WARM_CPU_SECONDS_MAX: f64 = 0.2;
const GROWTH_EXPONENT_MAX: f64 = 1.15;

/// One promise: what it is about, what is wanted, what was seen.
struct Judged {
    target: String,
    wanted: String,
    seen: String,
    met: bool,
}

impl Judged {
    fn at_most(target: impl Into<String>, wanted: f64, seen: f64) -> Self {
        let met = seen <= wanted * (1.0 + 1e-9);
        Self { target: target.into(), wanted: format!("≤ {}", number(wanted)), seen: number(seen), met }
    }

    fn at_least(target: impl Into<String>, wanted: f64, seen: f64) -> Self {
        let met = seen >= wanted * (1.0 - 1e-9);
        Self { target: target.into(), wanted: format!("≥ {}", number(wanted)), seen: number(seen), met }
    }
}

/// The longest a sweep over so many nodes may take on two cores, in seconds.
const SWEEP_SECONDS_MAX: [(&str, f64); 3] =
    [("disruption-1000", 1.0), ("disruption-5000", 10.0), ("disruption-10000", 30.0)];
const SWEEP_MEGABYTES_MAX: f64 = 600.0;

/// The longest it may take to work out what twenty NodeClasses can buy, the memory of that, and the longest when nothing has changed.
const CATALOGUE_MILLISECONDS_MAX: f64 = 1000.0;
const CATALOGUE_MEBIBYTES_MAX: f64 = 300.0;
const CATALOGUE_AGAIN_MILLISECONDS_MAX: f64 = 1.0;

/// The promises that this run can judge.
pub(crate) fn table(rows: &[&Row], sweeps: &[&Row], catalogue: &[Step]) -> Table {
    let mut table = Table::new(["target", "wanted", "seen", "met"]);
    let broken = rows.iter().flat_map(|row| of_every_file(row)).filter(|judged| !judged.met);
    let judged = speed(rows)
        .into_iter()
        .chain(of_named_files(rows))
        .chain(of_sweeps(sweeps))
        .chain(of_catalogue(catalogue));
    for judged in judged.chain(broken) {
        let met = if judged.met { "yes" } else { "NO" };
        table.add([judged.target, judged.wanted, judged.seen, met.to_owned()]);
    }
    table
}

/// Time and memory of sweeps, and that nothing saves less than upstream.
fn of_sweeps(rows: &[&Row]) -> Vec<Judged> {
    let mut judged = Vec::new();
    for row in rows {
        let (name, Ok(ours)) = (&row.name, &row.ours) else { continue };
        if let Some((_, most)) = SWEEP_SECONDS_MAX.iter().find(|(known, _)| known == name) {
            judged.push(Judged::at_most(format!("{name}: wall s"), *most, ours.solve_wall_seconds));
            let memory = ours.peak_memory_bytes / 1e6;
            judged.push(Judged::at_most(format!("{name}: peak MB"), SWEEP_MEGABYTES_MAX, memory));
            if let Some(sweep) = row.rest.as_ref().and_then(|rest| rest.sweep.as_ref()) {
                let seen = sweep.solve_wall_seconds;
                judged.push(Judged::at_most(format!("{name}: wall s at rest"), *most, seen));
            }
        }
        if let Some(upstream) = row.upstream_stats() {
            judged.push(Judged::at_least(
                format!("{name}: saves $/h, upstream's"),
                upstream.savings,
                ours.savings,
            ));
        }
    }
    judged
}

/// Time and memory of the AWS catalogue.
fn of_catalogue(steps: &[Step]) -> Vec<Judged> {
    let of = |what: &str| steps.iter().find(|step| step.what == what);
    let mut judged = Vec::new();
    if let Some(step) = of("20 different classes") {
        let (time, memory) = (CATALOGUE_MILLISECONDS_MAX, CATALOGUE_MEBIBYTES_MAX);
        judged.push(Judged::at_most("aws-catalogue: ms for 20 classes", time, step.milliseconds));
        judged.push(Judged::at_most("aws-catalogue: MiB for 20 classes", memory, step.mebibytes));
    }
    if let Some(step) = of("20 different classes again") {
        let most = CATALOGUE_AGAIN_MILLISECONDS_MAX;
        judged.push(Judged::at_most("aws-catalogue: ms when nothing changed", most, step.milliseconds));
    }
    judged
}

fn ours<'a>(rows: &[&'a Row], name: &str) -> Option<&'a Stats> {
    rows.iter().find(|row| row.name == name)?.ours.as_ref().ok()
}

fn speed(rows: &[&Row]) -> Vec<Judged> {
    let judge = |(name, wanted): (&str, f64)| {
        let row = rows.iter().find(|row| row.name == name)?;
        let seen = row.upstream_stats()?.solve_cpu_seconds / row.ours.as_ref().ok()?.solve_cpu_seconds;
        Some(Judged::at_least(format!("{name}: times less CPU than upstream"), wanted, seen))
    };
    TIMES_LESS.into_iter().filter_map(judge).collect()
}

fn of_named_files(rows: &[&Row]) -> Vec<Judged> {
    let mut judged = Vec::new();
    if let Some(large) = ours(rows, "large-10000") {
        judged.push(Judged::at_most("large-10000: $/h", LARGE_PRICE_MAX, large.price));
    }
    if let (Some(labelled), Some(plain)) = (ours(rows, "unique-labels"), ours(rows, "unlabelled")) {
        let seen = labelled.solve_cpu_seconds / plain.solve_cpu_seconds;
        judged.push(Judged::at_most(
            "unique-labels: times the CPU of unlabelled",
            UNIQUE_LABELS_TIMES_MAX,
            seen,
        ));
    }
    if let Some(warm) = ours(rows, "warm") {
        judged.push(Judged::at_most("warm: CPU s", WARM_CPU_SECONDS_MAX, warm.solve_cpu_seconds));
    }
    for (name, points) in series(rows) {
        let seen = exponent(&[points[0], points[points.len() - 1]]);
        judged.push(Judged::at_most(format!("{name}: exponent"), GROWTH_EXPONENT_MAX, seen));
    }
    judged
}

fn of_every_file(row: &Row) -> Vec<Judged> {
    let mut judged = Vec::new();
    let (name, Ok(ours)) = (&row.name, &row.ours) else { return judged };
    if let Some(bound) = row.bound.filter(|bound| bound.unplaceable == ours.unschedulable) {
        // Below it the plan does not place what it says, or the bound is wrong.
        judged.push(Judged::at_least(format!("{name}: $/h, lower bound"), bound.price, ours.price));
    }
    let Some(upstream) = row.upstream_stats() else { return judged };
    let (without, theirs) = (ours.unschedulable as f64, upstream.unschedulable as f64);
    judged.push(Judged::at_most(format!("{name}: pods without a place"), theirs, without));
    if without >= theirs {
        judged.push(Judged::at_most(format!("{name}: $/h, upstream's"), upstream.price, ours.price));
    }
    let memory = |stats| megabytes(stats).parse().unwrap_or(f64::NAN);
    judged.push(Judged::at_most(format!("{name}: peak MB"), memory(upstream), memory(ours)));
    let (wanted, seen) = (upstream.types_per_claim_median, ours.types_per_claim_median);
    judged.push(Judged::at_least(format!("{name}: types per claim"), wanted, seen));
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measured;

    fn row(name: &str, ours: Stats, upstream: Option<Stats>) -> Row {
        let upstream = upstream.map(|stats| Ok(Measured::Stats(stats)));
        Row { name: name.to_owned(), ours: Ok(ours), upstream, bound: None, rest: None }
    }

    #[test]
    fn a_missed_target_is_marked() {
        let report =
            table(&[&row("warm", Stats { solve_cpu_seconds: 0.3, ..Stats::default() }, None)], &[], &[])
                .render();
        assert!(report.contains("warm: CPU s") && report.contains("NO"), "{report}");
    }

    #[test]
    fn a_price_above_upstreams_is_a_broken_promise_and_one_below_is_not_mentioned() {
        let at = |price| Stats { price, ..Stats::default() };
        let dearer = table(&[&row("x", at(2.0), Some(at(1.0)))], &[], &[]);
        assert!(dearer.render().contains("x: $/h, upstream's"), "{}", dearer.render());
        assert!(table(&[&row("x", at(1.0), Some(at(2.0)))], &[], &[]).is_empty());
    }
}
