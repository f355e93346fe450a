//! Kubernetes quantities as exact integers of one billionth of a unit.
//!
//! The solver has its own quantity type; this one exists so that a mistake there cannot hide here. Nothing is
//! ever rounded except digits below one nano unit, which Kubernetes itself rounds up.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// An exact amount of a resource, counted in nano units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// Nothing at all.
    pub const ZERO: Quantity = Quantity(0);

    /// Returns `count` whole units.
    pub fn whole(count: i64) -> Self {
        Quantity(i128::from(count) * NANOS_PER_UNIT)
    }

    /// Returns the amount `count` times.
    #[must_use]
    pub fn times(self, count: usize) -> Self {
        Quantity(self.0.saturating_mul(i128::try_from(count).unwrap_or(i128::MAX)))
    }

    /// Tells whether the amount is above zero.
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// Returns the amount, or zero where it is negative.
    #[must_use]
    pub fn floored_at_zero(self) -> Self {
        Quantity(self.0.max(0))
    }
}

/// Why a text is not a Kubernetes quantity.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a quantity such as `500m`, `2` or `4Gi`")]
pub struct QuantityError(String);

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Quantity).ok_or_else(|| QuantityError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number_len =
        unsigned.bytes().position(|b| !b.is_ascii_digit() && b != b'.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_len);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let (binary_shift, decimal_exponent) = scale_of(suffix)?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let shifted = digits.checked_mul(1i128.checked_shl(binary_shift)?)?;
    let exponent = decimal_exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let nanos = scale_by_ten(shifted, exponent)?;
    Some(if negative { -nanos } else { nanos })
}

/// Returns the power of two and the power of ten a suffix stands for.
fn scale_of(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => (0, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

fn scale_by_ten(digits: i128, exponent: i32) -> Option<i128> {
    let power = 10i128.checked_pow(exponent.unsigned_abs());
    if exponent >= 0 {
        return digits.checked_mul(power?);
    }
    let Some(power) = power else { return Some(i128::from(digits > 0)) };
    Some(digits / power + i128::from(digits % power > 0))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, nanos) = if self.0 < 0 { ("-", -self.0) } else { ("", self.0) };
        let (whole, fraction) = (nanos / NANOS_PER_UNIT, nanos % NANOS_PER_UNIT);
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{fraction:09}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        Quantity(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Quantity) {
        *self = *self + other;
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        Quantity(self.0.saturating_sub(other.0))
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Quantity>>(amounts: I) -> Quantity {
        amounts.fold(Quantity::ZERO, Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

/// Accepts what the Kubernetes API accepts: a string, or a bare JSON number.
struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"500m\" or 2")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity::whole(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        number.to_string().parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> i128 {
        text.parse::<Quantity>().unwrap_or_else(|e| panic!("{e}")).0
    }

    #[test]
    fn suffixes_scale_exactly() {
        for (text, expected) in [
            ("0", 0),
            ("2", 2_000_000_000),
            ("500m", 500_000_000),
            ("0.5", 500_000_000),
            (".5", 500_000_000),
            ("1.5Gi", 1_610_612_736_000_000_000),
            ("1e3", 1_000_000_000_000),
            ("1E", 10i128.pow(27)),
            ("1E2", 100_000_000_000),
            ("5e-3", 5_000_000),
            ("110Ei", 110 * (1i128 << 60) * 1_000_000_000),
            ("1n", 1),
            ("-250m", -250_000_000),
            ("0.0000000001", 1),
        ] {
            assert_eq!(nanos(text), expected, "{text}");
        }
    }

    #[test]
    fn words_are_not_quantities() {
        for text in ["", "Gi", "1.2.3", "1 Gi", "1kk", "--1", "abc", "1e", "-", "."] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn printing_and_parsing_agree() {
        for text in ["0", "1.5", "-0.25", "1073741824", "0.000000001"] {
            assert_eq!(text.parse::<Quantity>().map(|q| q.to_string()).as_deref(), Ok(text));
        }
    }
}
