//! Small languages: quantities, durations, cron expressions, options.

use jiff::Timestamp;
use karpenter_api::options::{FeatureGates, Options, SchedulerConfig};
use karpenter_api::{GoDuration, NillableDuration};
use karpenter_core::disruption::Schedule;
use karpenter_quantity::Quantity;

pub(crate) fn quantities(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(quantity) = text.parse::<Quantity>() else { return };
    let again: Quantity = quantity.to_string().parse().expect("what is printed can be read");
    assert_eq!(again.to_string(), quantity.to_string(), "printing settles the form");
    let _ = (quantity.ceil_units(), quantity.ceil_milli(), quantity.saturating_add(again));
}

pub(crate) fn durations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(duration) = GoDuration::parse(text) {
        let again = GoDuration::parse(&duration.to_string()).expect("what is printed can be read");
        assert_eq!(again.value(), duration.value());
    }
    let _ = NillableDuration::parse(text);
}

pub(crate) fn schedules(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(schedule) = Schedule::parse(text) else { return };
    let from = Timestamp::UNIX_EPOCH;
    assert!(schedule.next_after(from).is_none_or(|next| next > from), "the next time lies ahead");
}

pub(crate) fn options(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let arguments: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let _ = Options::parse(&arguments, &|_| None);
    let _ = Options::parse(&[], &|_| Some(text.to_owned()));
    let _ = FeatureGates::parse(text);
    let _ = SchedulerConfig::parse(text);
}
