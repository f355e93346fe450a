//! Whatever users write as a schedule, a budget or a requirement is read or refused.

use jiff::Timestamp;
use karpenter_core::disruption::{BudgetNodes, MinimumSaving, Schedule};
use karpenter_core::requirements::{Operator, Requirement, RequirementSet};
use proptest::prelude::*;

/// Text as users might mean it, and text as nobody would.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[@*/?,0-9a-z -]{0,24}",
        "([0-9*/,-]{1,5} ){4}[0-9*/,a-z-]{1,5}",
        "@every [0-9]{1,20}[smh]"
    ]
}

proptest! {
    #[test]
    fn every_schedule_is_refused_or_has_a_next_time_that_is_later(text in text(), seconds in -62_000_000_000_i64..250_000_000_000) {
        let Ok(now) = Timestamp::from_second(seconds) else { return Ok(()) };
        if let Some(next) = Schedule::parse(&text).and_then(|schedule| schedule.next_after(now)) {
            prop_assert!(next > now, "{text:?} after {now} comes at {next}");
        }
    }

    #[test]
    fn every_budget_and_every_saving_is_read_or_refused(text in text()) {
        let _ = BudgetNodes::parse(&text);
        let _ = MinimumSaving::parse(&text);
    }

    #[test]
    fn requirements_of_any_text_combine_and_are_written_down_again(
        lines in prop::collection::vec((0_usize..3, text(), prop::collection::vec(text(), 0..4)), 0..8),
    ) {
        let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];
        let mut set = RequirementSet::default();
        for (key, word, values) in &lines {
            let operator = word.parse::<Operator>().or_else(|_| operators[word.len() % operators.len()].parse());
            let operator = operator.expect("one of the known words");
            let requirement = Requirement::new(["a", "b", "c"][*key], operator, values.iter().map(String::as_str));
            let _ = requirement.validate();
            set.require(&requirement);
        }
        let written = set.to_requirements();
        let again: RequirementSet = written.iter().collect();
        prop_assert_eq!(set.contradiction().is_some(), again.contradiction().is_some());
    }
}
