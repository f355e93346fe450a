//! How much a scrape shows: which families, and how many series of one at most.
//!
//! Some gauges have a series for every pod or node. On a large cluster these are most of a scrape, and whoever stores them pays for each.

use std::fmt::Write as _;

/// How much a scrape shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// Gauges about the state of pods, nodes and pools.
    pub cluster_state: bool,
    /// Among these, gauges with a series for every pod.
    pub pods: bool,
    /// Most series that one gauge shows; none means any number.
    pub most_series: Option<usize>,
}

impl Default for Exposure {
    fn default() -> Self {
        Self { cluster_state: true, pods: true, most_series: None }
    }
}

/// Tells how many series of a gauge were left out; shown only if some were.
const LEFT_OUT: &str = "karpenter_metrics_series_left_out";

/// The exposition with no more than `most` series of every gauge.
pub(super) fn bounded(text: &str, most: usize) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut left_out: Vec<(&str, usize)> = Vec::new();
    let (mut gauge, mut shown) = (None, 0);
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            gauge = declared.strip_suffix(" gauge");
            shown = 0;
        } else if !line.starts_with('#')
            && let Some(name) = gauge
        {
            shown += 1;
            if shown > most {
                match left_out.last_mut() {
                    Some((last, count)) if *last == name => *count += 1,
                    _ => left_out.push((name, 1)),
                }
                continue;
            }
        }
        kept.push_str(line);
        kept.push('\n');
    }
    if !left_out.is_empty() {
        let _ =
            writeln!(kept, "# HELP {LEFT_OUT} Series of a metric beyond the bound.\n# TYPE {LEFT_OUT} gauge");
    }
    for (metric, count) in left_out {
        let _ = writeln!(kept, "{LEFT_OUT}{{metric=\"{metric}\"}} {count}");
    }
    kept.push_str("# EOF\n");
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP a Pods.
# TYPE a gauge
a{pod=\"1\"} 1
a{pod=\"2\"} 1
a{pod=\"3\"} 1
# HELP b Times.
# TYPE b histogram
b_bucket{le=\"1\"} 1
b_bucket{le=\"2\"} 1
b_bucket{le=\"+Inf\"} 1
# TYPE c gauge
c 1
# EOF
";

    #[test]
    fn a_gauge_with_too_many_series_is_cut_and_says_by_how_much() {
        let text = bounded(TEXT, 1);
        assert!(text.contains("a{pod=\"1\"} 1\n") && !text.contains("pod=\"2\""), "{text}");
        assert!(text.contains("b_bucket{le=\"+Inf\"} 1\n") && text.contains("c 1\n"), "{text}");
        assert!(text.ends_with("karpenter_metrics_series_left_out{metric=\"a\"} 2\n# EOF\n"), "{text}");
    }

    #[test]
    fn an_exposition_within_the_bound_stays_as_it_is() {
        assert_eq!(bounded(TEXT, 3), TEXT);
    }
}
