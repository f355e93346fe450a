//! Cron schedules of budgets: five fields in UTC, or one of the usual `@` names.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

/// When something happens, to the minute, in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether the day of the month is left open: then the day of the week alone decides, otherwise either may.
    any_day: bool,
    any_weekday: bool,
    /// `@every`: a fixed distance instead of fields.
    every: Option<SignedDuration>,
}

/// Days searched for the next time: every pattern that ever occurs does so within five years.
const DAYS_MAX: i32 = 5 * 366;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Reads a cron expression; `None` when it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix('@') {
            return Self::named(name);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else { return None };
        Some(Self {
            minutes: field(minute, 0, 59, &[])?,
            hours: field(hour, 0, 23, &[])?,
            days: field(day, 1, 31, &[])?,
            months: field(month, 1, 12, &MONTHS)?,
            weekdays: field(weekday, 0, 6, &WEEKDAYS)?,
            any_day: is_open(day),
            any_weekday: is_open(weekday),
            every: None,
        })
    }

    fn named(name: &str) -> Option<Self> {
        let fields = match name {
            "yearly" | "annually" => "0 0 1 1 *",
            "monthly" => "0 0 1 * *",
            "weekly" => "0 0 * * 0",
            "daily" | "midnight" => "0 0 * * *",
            "hourly" => "0 * * * *",
            _ => {
                let distance: SignedDuration = name.strip_prefix("every ")?.trim().parse().ok()?;
                let seconds = SignedDuration::from_secs(distance.as_secs().max(1));
                return Some(Self { every: Some(seconds), ..Self::parse("* * * * *")? });
            }
        };
        Self::parse(fields)
    }

    /// The first time after `instant`, if there is one within five years.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        if let Some(distance) = self.every {
            return instant.checked_add(distance).ok();
        }
        let start = minute_after(instant)?;
        let mut date = start.date();
        for _ in 0..DAYS_MAX {
            if self.includes(date)
                && let Some(time) = self.first_time(date, start)
            {
                return TimeZone::UTC.to_timestamp(DateTime::from_parts(date, time)).ok();
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn includes(&self, date: Date) -> bool {
        let has = |bits: u64, value: i8| bits & (1 << value) != 0;
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let fits = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        has(self.months, date.month()) && fits
    }

    /// The first time of the day that is not before `start`.
    fn first_time(&self, date: Date, start: DateTime) -> Option<Time> {
        let earliest = if date == start.date() { start.time() } else { Time::midnight() };
        (earliest.hour()..24).filter(|hour| self.hours & (1 << hour) != 0).find_map(|hour| {
            let from = if hour == earliest.hour() { earliest.minute() } else { 0 };
            let minute = (from..60).find(|minute| self.minutes & (1 << minute) != 0)?;
            Time::new(hour, minute, 0, 0).ok()
        })
    }
}

/// The first whole minute after an instant.
fn minute_after(instant: Timestamp) -> Option<DateTime> {
    let local = TimeZone::UTC.to_datetime(instant);
    let minute = Time::new(local.hour(), local.minute(), 0, 0).ok()?;
    DateTime::from_parts(local.date(), minute).checked_add(1.minute()).ok()
}

fn is_open(text: &str) -> bool {
    text == "*" || text == "?" || text.starts_with("*/") || text.starts_with("?/")
}

/// A comma-separated field as a set of bits.
fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Option<u64> {
    text.split(',').try_fold(0, |bits, part| Some(bits | range(part, low, high, names)?))
}

fn range(text: &str, low: u32, high: u32, names: &[&str]) -> Option<u64> {
    let (span, step) = match text.split_once('/') {
        Some((span, step)) => (span, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
        None => (text, None),
    };
    let value = |word: &str| {
        let lower = word.to_lowercase();
        let position = names.iter().position(|name| **name == lower);
        position.map(|position| position as u32 + low).or_else(|| word.parse().ok())
    };
    let (first, last) = match span.split_once('-') {
        _ if span == "*" || span == "?" => (low, high),
        Some((first, last)) => (value(first)?, value(last)?),
        // A single value with a step runs to the end of the field.
        None if step.is_some() => (value(span)?, high),
        None => (value(span)?, value(span)?),
    };
    if first < low || last > high || first > last {
        return None;
    }
    Some((first..=last).step_by(step.unwrap_or(1) as usize).fold(0, |bits, value| bits | (1 << value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let schedule = Schedule::parse(schedule).expect("the schedule can be read");
        let found = schedule.next_after(after.parse().expect("the instant can be read"));
        found.map_or_else(|| "never".to_owned(), |instant| instant.to_string())
    }

    #[test]
    fn the_next_time_is_after_the_instant_never_at_it() {
        assert_eq!(next("0 9 * * *", "2026-01-01T08:59:59Z"), "2026-01-01T09:00:00Z");
        assert_eq!(next("0 9 * * *", "2026-01-01T09:00:00Z"), "2026-01-02T09:00:00Z");
        assert_eq!(next("*/20 * * * *", "2026-01-01T09:40:00Z"), "2026-01-01T10:00:00Z");
        assert_eq!(next("@daily", "2026-12-31T12:00:00Z"), "2027-01-01T00:00:00Z");
    }

    #[test]
    fn day_of_month_and_day_of_week_are_alternatives_when_both_are_given() {
        // 2026-01-01 is a Thursday.
        assert_eq!(next("0 0 * * mon-fri", "2026-01-02T00:00:00Z"), "2026-01-05T00:00:00Z");
        assert_eq!(next("0 0 10 * sat", "2026-01-01T00:00:00Z"), "2026-01-03T00:00:00Z");
        assert_eq!(next("0 0 10 * sat", "2026-01-03T00:00:00Z"), "2026-01-10T00:00:00Z");
        assert_eq!(next("0 0 29 feb *", "2026-01-01T00:00:00Z"), "2028-02-29T00:00:00Z");
        assert_eq!(next("0 0 31 2 *", "2026-01-01T00:00:00Z"), "never");
    }

    #[test]
    fn what_is_not_a_schedule_is_refused() {
        for wrong in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "5-2 * * * *",
            "*/0 * * * *",
            "@sometimes",
            "a * * * *",
        ] {
            assert!(Schedule::parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
