//! How the text of an option becomes a value, by type.

use jiff::SignedDuration;

use super::{FeatureGates, SchedulerConfig};
use crate::duration::parse_duration;

/// A type an option can have.
pub trait OptionValue: Sized {
    /// Whether the flag may stand without a value, meaning `true`.
    const IS_SWITCH: bool = false;
    /// Whether an environment variable that cannot be read gives way to the default instead of being fatal.
    const ENV_FALLS_BACK: bool = false;

    /// Reads the text of a flag, noting remarks about it.
    ///
    /// # Errors
    /// Returns what is wrong with the text, as a clause.
    fn from_flag(text: &str, remarks: &mut Vec<String>) -> Result<Self, String>;

    /// Reads the text of an environment variable, noting remarks about it.
    ///
    /// # Errors
    /// Returns what is wrong with the text, as a clause.
    fn from_env(text: &str, remarks: &mut Vec<String>) -> Result<Self, String> {
        Self::from_flag(text, remarks)
    }
}

impl OptionValue for String {
    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

/// Flags take `true` and `false` only; environment variables take every spelling Go reads.
impl OptionValue for bool {
    const IS_SWITCH: bool = true;
    const ENV_FALLS_BACK: bool = true;

    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("it must be true or false".to_owned()),
        }
    }

    fn from_env(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        parse_bool(text).ok_or_else(|| "it must be true or false".to_owned())
    }
}

/// Reads a boolean in any of Go's spellings.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

const NOT_A_NUMBER: &str = "it must be a whole number";

/// Flags take Go's notations of whole numbers (`0x1f90`, `8_080`); environment variables decimal ones.
impl OptionValue for i64 {
    const ENV_FALLS_BACK: bool = true;

    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        parse_go_integer(text).ok_or_else(|| NOT_A_NUMBER.to_owned())
    }

    fn from_env(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        text.parse().map_err(|_| NOT_A_NUMBER.to_owned())
    }
}

impl OptionValue for u16 {
    const ENV_FALLS_BACK: bool = true;

    fn from_flag(text: &str, remarks: &mut Vec<String>) -> Result<Self, String> {
        port(i64::from_flag(text, remarks)?)
    }

    fn from_env(text: &str, remarks: &mut Vec<String>) -> Result<Self, String> {
        port(i64::from_env(text, remarks)?)
    }
}

fn port(number: i64) -> Result<u16, String> {
    u16::try_from(number).map_err(|_| "it must be a number from 0 to 65535".to_owned())
}

fn parse_go_integer(text: &str) -> Option<i64> {
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = magnitude.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // An underscore may separate digits, and a prefix from the first digit.
    let digits = if digits.len() < lower.len() { digits.strip_prefix('_').unwrap_or(digits) } else { digits };
    let well_formed =
        digits.split('_').all(|group| group.chars().all(|c| c.is_digit(radix)) && !group.is_empty());
    well_formed.then(|| i64::from_str_radix(&format!("{sign}{}", digits.replace('_', "")), radix).ok())?
}

impl OptionValue for SignedDuration {
    const ENV_FALLS_BACK: bool = true;

    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        parse_duration(text).map_err(|error| error.to_string())
    }
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Decisions and their inputs.
    Debug,
    /// Changes to the cluster.
    Info,
    /// What a person must look at.
    Error,
}

impl OptionValue for LogLevel {
    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        match text {
            "debug" => Ok(Self::Debug),
            "info" | "" => Ok(Self::Info),
            "error" => Ok(Self::Error),
            _ => Err("it must be debug, info or error".to_owned()),
        }
    }
}

/// Whether preferences of pods count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// They are honoured and given up one by one when they cannot be met.
    Respect,
    /// They are not looked at.
    Ignore,
}

impl OptionValue for PreferencePolicy {
    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        match text {
            "Respect" => Ok(Self::Respect),
            "Ignore" => Ok(Self::Ignore),
            _ => Err("it must be Respect or Ignore".to_owned()),
        }
    }
}

/// What happens when `minValues` cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// The launch is refused.
    Strict,
    /// The number is lowered as far as needed.
    BestEffort,
}

impl OptionValue for MinValuesPolicy {
    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        match text {
            "Strict" => Ok(Self::Strict),
            "BestEffort" => Ok(Self::BestEffort),
            _ => Err("it must be Strict or BestEffort".to_owned()),
        }
    }
}

/// Which of several plans that serve the same pods is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackingPolicy {
    /// The cheapest.
    Cheapest,
    /// The one with the fewest nodes.
    FewestNodes,
}

impl OptionValue for PackingPolicy {
    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        match text {
            "Cheapest" => Ok(Self::Cheapest),
            "FewestNodes" => Ok(Self::FewestNodes),
            _ => Err("it must be Cheapest or FewestNodes".to_owned()),
        }
    }
}

impl OptionValue for FeatureGates {
    fn from_flag(text: &str, remarks: &mut Vec<String>) -> Result<Self, String> {
        let (gates, unknown) = Self::parse(text).map_err(|error| error.to_string())?;
        remarks.extend(
            unknown.into_iter().map(|name| format!("there is no feature gate {name:?}; it is ignored")),
        );
        Ok(gates)
    }
}

impl OptionValue for SchedulerConfig {
    fn from_flag(text: &str, _: &mut Vec<String>) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_in_every_notation_of_go() {
        let cases = [
            ("8080", Some(8080)),
            ("-1", Some(-1)),
            ("+5", Some(5)),
            ("0", Some(0)),
            ("0x1F90", Some(8080)),
            ("0b101", Some(5)),
            ("0o17", Some(15)),
            ("017", Some(15)),
            ("8_080", Some(8080)),
            ("0x_1f", Some(31)),
            ("_8", None),
            ("8__0", None),
            ("8_", None),
            ("09", None),
            ("", None),
            ("-", None),
            ("1e3", None),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_go_integer(text), expected, "{text}");
        }
    }
}
