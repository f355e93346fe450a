//! In which of its two text formats a scrape is answered.
//!
//! Our metrics are written as OpenMetrics, which Prometheus asks for. Whoever does not ask gets the older format, as from every
//! Go program: readers of that one look for the type of a counter under the counter's whole name.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use axum::http::{HeaderMap, header};

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The content type and the text for whoever sends these headers.
pub(super) fn answer(headers: &HeaderMap, open_metrics: String) -> (&'static str, String) {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepted.any(|types| types.contains(OPEN_METRICS)) {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", open_metrics)
    } else {
        ("text/plain; version=0.0.4; charset=utf-8", older(&open_metrics))
    }
}

/// OpenMetrics in the older format: counters are described under their whole names, and there are neither units nor an end,
/// nor braces around no labels, which Go programs never write and some readers cannot stand.
fn older(open_metrics: &str) -> String {
    let described = |line| description(line).filter(|(_, _, text)| *text == "counter");
    let counters: BTreeSet<&str> =
        open_metrics.lines().filter_map(described).map(|(_, name, _)| name).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        // Writing to a string does not fail.
        let _ = match description(line) {
            Some(("EOF" | "UNIT", ..)) => Ok(()),
            Some((what, name, rest)) if counters.contains(name) => {
                writeln!(text, "# {what} {name}_total {rest}")
            }
            Some(("TYPE", name, "unknown")) => writeln!(text, "# TYPE {name} untyped"),
            Some(_) => writeln!(text, "{line}"),
            None => writeln!(text, "{}", line.replacen("{}", "", 1)),
        };
    }
    text
}

/// What a line that is no sample says, of which family, and the rest of it.
fn description(line: &str) -> Option<(&str, &str, &str)> {
    let mut words = line.strip_prefix("# ")?.splitn(3, ' ');
    Some((words.next()?, words.next().unwrap_or_default(), words.next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP pods_drained Pods drained, a counter.
# TYPE pods_drained counter
pods_drained_total{reason=\"drift\"} 2
# HELP wait_seconds How long.
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
wait_seconds_count{} 1
# EOF
";

    fn accepting(types: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, types.parse().unwrap())])
    }

    #[test]
    fn prometheus_gets_what_it_asks_for() {
        let asked =
            accepting("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4");
        let (kind, text) = answer(&asked, TEXT.to_owned());
        assert!(kind.starts_with(OPEN_METRICS));
        assert_eq!(text, TEXT);
    }

    #[test]
    fn everybody_else_finds_counters_described_under_their_whole_names() {
        for headers in [HeaderMap::new(), accepting("*/*")] {
            let (kind, text) = answer(&headers, TEXT.to_owned());
            assert!(kind.starts_with("text/plain; version=0.0.4"));
            let expected = "\
# HELP pods_drained_total Pods drained, a counter.
# TYPE pods_drained_total counter
pods_drained_total{reason=\"drift\"} 2
# HELP wait_seconds How long.
# TYPE wait_seconds histogram
wait_seconds_count 1
";
            assert_eq!(text, expected);
        }
    }
}
