//! Profiles for `--enable-profiling`, at the paths Go programs have them: where processor time goes, and what memory is held.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use axum::Router;
use axum::extract::Query;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use pprof::{ProfilerGuardBuilder, Report};
use serde::Deserialize;

use super::profile_format::Profile;

/// Samples a second: enough to see anything that takes a hundredth of the time within a few seconds.
const FREQUENCY: i32 = 99;
/// Where a sample is taken at a bad moment for unwinding.
const BLOCKED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];
const SECONDS: u64 = 30;
const SECONDS_MOST: u64 = 600;

const INDEX: &str = "\
/debug/pprof/profile?seconds=30   processor time, for `go tool pprof`
/debug/pprof/profile?seconds=30&debug=1   the same as text: one line a stack, as flame graphs are made from
/debug/pprof/heap                 memory held, as text
/debug/pprof/cmdline              the command line
";

pub(super) fn router() -> Router {
    Router::new()
        .route("/debug/pprof/", get(|| async { INDEX }))
        .route("/debug/pprof/profile", get(profile))
        .route("/debug/pprof/heap", get(|| async { heap() }))
        .route("/debug/pprof/cmdline", get(|| async { command_line() }))
}

#[derive(Deserialize)]
struct Wish {
    seconds: Option<u64>,
    /// Not zero for text.
    debug: Option<u8>,
}

async fn profile(Query(wish): Query<Wish>) -> Response {
    let seconds = Duration::from_secs(wish.seconds.unwrap_or(SECONDS).clamp(1, SECONDS_MOST));
    let report = match sample(tokio::time::sleep(seconds)).await {
        Ok(report) => report,
        Err(error) => {
            let why = format!("no profile can be taken: {error}; only one can be taken at a time\n");
            return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
        }
    };
    if wish.debug.is_some_and(|debug| debug > 0) {
        return text(&report).into_response();
    }
    let name = "attachment; filename=\"profile\"";
    let headers = [(header::CONTENT_TYPE, "application/octet-stream"), (header::CONTENT_DISPOSITION, name)];
    (headers, encoded(&report, seconds)).into_response()
}

/// Takes samples until `end` is ready.
async fn sample(end: impl Future<Output = ()>) -> pprof::Result<Report> {
    let guard = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&BLOCKED).build()?;
    end.await;
    guard.report().build()
}

/// The stacks of a report, outermost function first, with how often each was seen.
fn stacks(report: &Report) -> BTreeMap<Vec<String>, u64> {
    let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for (frames, count) in &report.data {
        let names = frames.frames.iter().flat_map(|symbols| symbols.iter().map(pprof::Symbol::name));
        let mut stack: Vec<String> = names.collect();
        stack.reverse();
        *stacks.entry(stack).or_default() += u64::try_from(*count).unwrap_or_default();
    }
    stacks
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for (stack, count) in stacks(report) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} {count}", stack.join(";"));
    }
    text
}

fn encoded(report: &Report, time: Duration) -> Vec<u8> {
    let period = 1_000_000_000 / u64::from(FREQUENCY.unsigned_abs());
    let mut profile = Profile::new(period, time);
    for (stack, count) in stacks(report) {
        profile.add(&stack, count);
    }
    profile.encode()
}

/// What Linux says of this process' memory, in its words; the allocator asks for all of it.
fn heap() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines: Vec<&str> =
        status.lines().filter(|line| line.starts_with("Vm") || line.starts_with("Rss")).collect();
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    lines.extend(rollup.lines().skip(1));
    if lines.is_empty() {
        return "this system does not tell what memory a process holds\n".to_owned();
    }
    lines.join("\n") + "\n"
}

fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join("\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_profile_of_a_busy_process_names_what_keeps_it_busy() {
        // Samples are taken of processor time, so enough of that is enough.
        let work = || {
            let begun = crate::measure::cpu_time();
            while crate::measure::cpu_time() < begun + Duration::from_secs(1) {
                std::hint::black_box(karpenter_api::crds(&karpenter_api::LabelRules::default()));
            }
        };
        let busy = async { tokio::task::spawn_blocking(work).await.unwrap() };
        let report = sample(busy).await.unwrap();
        assert!(text(&report).contains("karpenter_api"), "{}", text(&report));
        assert!(!encoded(&report, Duration::from_secs(2)).is_empty());
    }

    #[test]
    fn memory_is_told() {
        assert!(heap().contains("VmRSS"), "{}", heap());
    }
}
