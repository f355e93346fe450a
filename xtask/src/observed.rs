//! Adds up what the observer of disruption said about the clusters of a run.

use std::fmt;

/// What every verdict of the observer begins with; see `crates/karpenter-observer`.
const MARK: &str = "observed: ";

/// The sum of all verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    clusters: u64,
    events: u64,
    disruptions: u64,
    evictions: u64,
    broken: u64,
}

impl Observed {
    /// Adds what a line says, if it is a verdict. The test harness writes dots in front of it.
    pub(crate) fn add(&mut self, line: &str) {
        let Some((_, verdict)) = line.split_once(MARK) else { return };
        let count = |what: &str| {
            let found = verdict
                .split(", ")
                .find_map(|part| part.split_once(' ').filter(|(_, rest)| rest.starts_with(what)));
            found.and_then(|(count, _)| count.parse::<u64>().ok()).unwrap_or_default()
        };
        self.clusters += 1;
        self.events += count("events");
        self.disruptions += count("disruptions");
        self.evictions += count("evictions");
        self.broken += count("broken");
    }
}

/// Nothing where nothing was observed.
impl fmt::Display for Observed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clusters, events, disruptions, evictions, broken } = self;
        if *clusters == 0 {
            return Ok(());
        }
        write!(
            formatter,
            "{clusters} clusters observed: {events} events, {disruptions} disruptions, {evictions} evictions, {broken} broken promises"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_added_up_wherever_they_stand_in_a_line() {
        let mut observed = Observed::default();
        assert_eq!(observed.to_string(), "");
        observed.add("running 3 tests");
        observed.add("..observed: 100 events, 2 disruptions, 3 evictions, 0 broken rules");
        observed.add("    observed: 11 events, 1 disruptions, 0 evictions, 0 broken rules");
        assert_eq!(
            observed.to_string(),
            "2 clusters observed: 111 events, 3 disruptions, 3 evictions, 0 broken promises"
        );
    }
}
