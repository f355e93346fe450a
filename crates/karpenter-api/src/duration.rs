//! Durations as Kubernetes users write them: Go's notation (`1h30m`, `720h`), kept verbatim.
//!
//! Rewriting `60m` as `1h0m0s` would look like drift to GitOps tools, so [`GoDuration`] remembers the text
//! it was read from and writes exactly that text back. [`NillableDuration`] adds the word `Never`.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The word that switches an expiry or a consolidation delay off.
pub const NEVER: &str = "Never";

/// The longest duration Go can hold: the largest signed 64-bit number of nanoseconds, about 292 years.
pub const DURATION_MAX: SignedDuration = SignedDuration::from_nanos(i64::MAX);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is not a sequence of numbers with units.
    #[error("{0:?} is not a duration; write numbers with units, for example \"90s\", \"1h30m\" or \"720h\"")]
    Malformed(String),
    /// A number carries no unit.
    #[error("{0:?} lacks a unit; add one of ns, us, ms, s, m or h, for example \"30s\"")]
    MissingUnit(String),
    /// A unit is not one Go knows; days are the usual surprise.
    #[error("{text:?} uses the unknown unit {unit:?}; use ns, us, ms, s, m or h (a day is \"24h\")")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The unit that is not known.
        unit: String,
    },
    /// The duration is longer than [`DURATION_MAX`].
    #[error("{0:?} is longer than 292 years, the longest duration that can be expressed")]
    TooLong(String),
}

/// Parses Go's duration notation: an optional sign and a sequence of decimal numbers with units.
///
/// # Errors
/// Returns why the text is not a duration, in a sentence for its author.
pub fn parse_duration(text: &str) -> Result<SignedDuration, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let (whole, after_whole) = split_digits(rest);
        let (fraction, after_number) = match after_whole.strip_prefix('.') {
            Some(after_dot) => split_digits(after_dot),
            None => ("", after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(malformed());
        }
        let unit_end = after_number.find(|c: char| c == '.' || c.is_ascii_digit());
        let (unit, after_unit) = after_number.split_at(unit_end.unwrap_or(after_number.len()));
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let unit_nanos = unit_nanos(unit)
            .ok_or_else(|| DurationError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned() })?;
        nanos = scaled(whole, fraction, unit_nanos)
            .and_then(|part| nanos.checked_add(part))
            .filter(|sum| *sum <= i128::from(i64::MAX) + i128::from(negative))
            .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
        rest = after_unit;
    }
    let signed = if negative { -nanos } else { nanos };
    Ok(SignedDuration::from_nanos_i128(signed))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        // Both the micro sign and the Greek letter are in use.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Digits beyond the eighteenth after the point cannot change a nanosecond count and are dropped; the
/// remainder is rounded towards zero.
fn scaled(whole: &str, fraction: &str, unit_nanos: i64) -> Option<i128> {
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()? };
    let fraction = &fraction[..fraction.len().min(18)];
    let fraction_value = if fraction.is_empty() { 0 } else { fraction.parse::<i128>().ok()? };
    let scale = 10_i128.pow(fraction.len() as u32);
    let unit = i128::from(unit_nanos);
    whole.checked_mul(unit)?.checked_add(fraction_value * unit / scale)
}

/// Writes a duration as Go does: `1h30m0s`, `1.5s`, `250ms`, `0s`.
pub fn format_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < 1_000_000_000 {
        let (unit, name) = match nanos {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "\u{b5}s"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", decimal(nanos, unit));
    }
    let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
    let minutes = nanos / 60_000_000_000;
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

fn decimal(value: u128, unit: u128) -> String {
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// A duration together with the text it was written as.
///
/// Equality compares the text, because two notations of one length are different values of the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoDuration {
    text: String,
    value: SignedDuration,
}

impl GoDuration {
    /// Parses a duration and keeps its text. The patterns of the CRDs admit numbers of any size, so a
    /// duration beyond [`DURATION_MAX`] is accepted and means [`DURATION_MAX`].
    ///
    /// # Errors
    /// Returns why the text is not a duration.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let value = match parse_duration(text) {
            Err(DurationError::TooLong(_)) => DURATION_MAX,
            other => other?,
        };
        Ok(Self { text: text.to_owned(), value })
    }

    /// Returns the length of time.
    pub fn value(&self) -> SignedDuration {
        self.value
    }

    /// Returns the text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<SignedDuration> for GoDuration {
    fn from(value: SignedDuration) -> Self {
        Self { text: format_duration(value), value }
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        Self::parse(text)
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A duration that can be switched off by writing `Never`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NillableDuration {
    /// `Never`: the event this duration leads to does not happen.
    Never,
    /// The event happens after this time.
    After(GoDuration),
}

impl NillableDuration {
    /// Parses `Never` or a Go duration.
    ///
    /// # Errors
    /// Returns why the text is neither.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        if text == NEVER { Ok(Self::Never) } else { GoDuration::parse(text).map(Self::After) }
    }

    /// Returns the length of time, or nothing for `Never`.
    pub fn value(&self) -> Option<SignedDuration> {
        match self {
            Self::Never => None,
            Self::After(duration) => Some(duration.value()),
        }
    }

    /// Returns the text as it was written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Never => NEVER,
            Self::After(duration) => duration.as_str(),
        }
    }
}

impl FromStr for NillableDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        Self::parse(text)
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_go_accepts_is_read() {
        let cases: &[(&str, i64)] = &[
            ("0", 0),
            ("0s", 0),
            ("1h30m", 5_400_000_000_000),
            ("90m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("-1m", -60_000_000_000),
            ("+2ms", 2_000_000),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("3ns", 3),
            ("9223372036854775807ns", i64::MAX),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse_duration(text), Ok(SignedDuration::from_nanos(*nanos)), "{text}");
        }
    }

    #[test]
    fn a_wrong_text_is_refused_with_the_remedy() {
        let message = |text: &str| parse_duration(text).unwrap_err().to_string();
        assert!(message("").contains("not a duration"));
        assert!(message("h").contains("not a duration"));
        assert!(message("Never").contains("not a duration"));
        assert!(message("30").contains("lacks a unit"));
        assert!(message("7d").contains("a day is \"24h\""));
        assert!(message("3000000h").contains("292 years"));
        assert!(message("99999999999999999999999999999999999999999h").contains("292 years"));
    }

    #[test]
    fn a_duration_is_printed_as_go_prints_it() {
        let cases: &[(i64, &str)] = &[
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (-5_400_000_000_000, "-1h30m0s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(format_duration(SignedDuration::from_nanos(*nanos)), *text);
        }
    }

    #[test]
    fn the_text_is_kept_and_never_means_no_duration() {
        for text in ["60m", "720h", "Never", "0s", "99999999999999999999999h"] {
            let json = serde_json::json!(text);
            let read: NillableDuration = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), json);
        }
        assert_eq!(NillableDuration::parse("Never").unwrap().value(), None);
        assert_eq!(GoDuration::parse("99999999999999999999999h").unwrap().value(), DURATION_MAX);
        assert_eq!(GoDuration::from(SignedDuration::from_mins(90)).as_str(), "1h30m0s");
    }
}
