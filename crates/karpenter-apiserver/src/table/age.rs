//! How long ago something was, as kubectl prints it: `45s`, `3m20s`, `5h`, `2d3h`, `400d`.

use jiff::Timestamp;

/// Returns the time since `time`, or `<unknown>` when it is no time.
pub(super) fn age(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => duration(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Writes a number of seconds in at most two units.
pub(super) fn duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |major: i64, unit: &str, minor: i64, small: &str| match minor {
        0 => format!("{major}{unit}"),
        minor => format!("{major}{unit}{minor}{small}"),
    };
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn ages_have_at_most_two_units() {
        let ages = [45, 119, 200, 540, 3600, 3 * 3600 + 60, 9 * 3600, 50 * 3600, 10 * 86_400, 800 * 86_400];
        let shown: Vec<String> = ages.into_iter().map(duration).collect();
        assert_eq!(shown, ["45s", "119s", "3m20s", "9m", "60m", "3h1m", "9h", "2d2h", "10d", "2y70d"]);
    }
}
