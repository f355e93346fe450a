//! Cron schedules: when something is due next.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

/// No schedule is followed further than this many steps; `0 0 30 2 *` never comes.
const STEPS_MAX: usize = 10_000;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// At minutes of the clock.
    Clock(Fields),
    /// After every such span.
    Every(SignedDuration),
}

/// The five fields of a schedule, each a set of numbers as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether days of the month or of the week are restricted; if both are, either will do.
    restricts: (bool, bool),
}

impl Schedule {
    /// Reads a schedule; `None` if it is not one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(every) = text.strip_prefix("@every ") {
            let span: SignedDuration = every.trim().parse().ok()?;
            return (span >= SignedDuration::from_secs(1)).then_some(Self::Every(span));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else { return None };
        let weekday_bits = field(weekdays, 0, 7, &DAYS)?;
        Some(Self::Clock(Fields {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            // Sunday is both 0 and 7.
            weekdays: (weekday_bits | (weekday_bits >> 7)) & 0x7f,
            restricts: (!days.starts_with(['*', '?']), !weekdays.starts_with(['*', '?'])),
        }))
    }

    /// Returns the first time after `time` at which something is due.
    pub(super) fn next_after(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Every(span) => time.checked_add(*span).ok(),
            Self::Clock(fields) => fields.next_after(time, zone),
        }
    }
}

impl Fields {
    fn next_after(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let local = time.to_zoned(zone.clone()).datetime();
        let mut at =
            local.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(1.minute()).ok()?;
        for _ in 0..STEPS_MAX {
            if let Some(later) = self.advance(at) {
                at = later?;
                continue;
            }
            let found = at.to_zoned(zone.clone()).ok()?.timestamp();
            // Clocks that are set back show an hour twice.
            if found > time {
                return Some(found);
            }
            at = at.checked_add(1.minute()).ok()?;
        }
        None
    }

    /// Returns the earliest time that may be due if `at` is not; `None` if it is.
    #[expect(clippy::option_option, reason = "not due with no later time differs from due")]
    fn advance(&self, at: DateTime) -> Option<Option<DateTime>> {
        let has = |bits: u64, number: i8| bits & (1 << number) != 0;
        let midnight = |at: DateTime| at.date().at(0, 0, 0, 0);
        if !has(self.months, at.month()) {
            let next = at.date().first_of_month().checked_add(1.month());
            return Some(next.ok().map(|date| date.at(0, 0, 0, 0)));
        }
        if !self.is_day(at) {
            return Some(midnight(at).checked_add(1.day()).ok());
        }
        if !has(self.hours, at.hour()) {
            let hour = at.with().minute(0).build().ok();
            return Some(hour.and_then(|hour| hour.checked_add(1.hour()).ok()));
        }
        if !has(self.minutes, at.minute()) {
            return Some(at.checked_add(1.minute()).ok());
        }
        None
    }

    fn is_day(&self, at: DateTime) -> bool {
        let of_month = self.days & (1 << at.day()) != 0;
        let of_week = self.weekdays & (1 << at.weekday().to_sunday_zero_offset()) != 0;
        match self.restricts {
            (true, true) => of_month || of_week,
            _ => of_month && of_week,
        }
    }
}

/// Reads one field into bits.
fn field(text: &str, lowest: u32, highest: u32, names: &[&str]) -> Option<u64> {
    let mut bits = 0_u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = if matches!(range, "*" | "?") {
            (lowest, highest)
        } else if let Some((from, to)) = range.split_once('-') {
            (number(from, lowest, names)?, number(to, lowest, names)?)
        } else {
            let from = number(range, lowest, names)?;
            // A step from one number runs to the end of the field.
            (from, if part.contains('/') { highest } else { from })
        };
        if from < lowest || to > highest || from > to {
            return None;
        }
        for number in (from..=to).step_by(step as usize) {
            bits |= 1 << number;
        }
    }
    Some(bits)
}

fn number(text: &str, lowest: u32, names: &[&str]) -> Option<u32> {
    let lower = text.to_lowercase();
    let place = names.iter().position(|name| *name == lower).and_then(|place| u32::try_from(place).ok());
    place.map(|place| place + lowest).or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schedule: &str, after: &str, expected: Option<&str>) {
        let after: Timestamp = after.parse().unwrap();
        let next = Schedule::parse(schedule).unwrap().next_after(after, &TimeZone::UTC);
        assert_eq!(next, expected.map(|time| time.parse().unwrap()));
    }

    #[test]
    fn schedules_are_followed() {
        let noon = "2030-01-01T12:00:30Z";
        check("* * * * *", noon, Some("2030-01-01T12:01:00Z"));
        check("*/15 * * * *", noon, Some("2030-01-01T12:15:00Z"));
        check("0 9-17/4 * * *", noon, Some("2030-01-01T13:00:00Z"));
        check("30 2 * * mon", noon, Some("2030-01-07T02:30:00Z"));
        check("0 0 29 feb *", noon, Some("2032-02-29T00:00:00Z"));
        check("0 0 13 * fri", noon, Some("2030-01-04T00:00:00Z"));
        check("@every 90s", noon, Some("2030-01-01T12:02:00Z"));
        check("0 0 30 2 *", noon, None);
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in ["", "* * * *", "60 * * * *", "* * 0 * *", "*/0 * * * *", "5-1 * * * *", "@every soon"] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
