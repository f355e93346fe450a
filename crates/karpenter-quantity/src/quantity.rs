//! An exact Kubernetes quantity: a whole count of billionths, and the notation it is printed in.
//!
//! Kubernetes itself keeps no more than nine decimal places, so the integer loses nothing. What differs from the
//! API server concerns numbers that no cluster has, and spelling:
//! - a magnitude above [`Quantity::MAX`] (10^29 units) saturates;
//! - a number too large for its notation's suffixes is printed so that it reads back as the same number, where the
//!   API server prints something else (it writes `1000E` as `1`);
//! - the API server may echo a text that it has just read (`+1`, `1.500`) until the first sum; here the text is
//!   always the canonical one (`1`, `1500m`).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

pub(crate) const NANO_PER_UNIT: i128 = 1_000_000_000;
const NANO_PER_MILLI: i128 = 1_000_000;

/// The largest binary quantity Kubernetes reads, in units: `110Ei` is cut down to it.
pub(crate) const BINARY_UNITS_MAX: i128 = i64::MAX as i128;

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An amount of a resource, such as `100m` of cpu or `1.5Gi` of memory.
///
/// Equality, order and hash follow the value alone: `1024Mi` equals `1Gi`. All arithmetic is exact and saturates
/// at [`Quantity::MIN`] and [`Quantity::MAX`].
#[derive(Clone, Copy, Default)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// The notation a quantity was written in and is printed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of 1000 with a letter: `12M`.
    #[default]
    DecimalSI,
    /// Powers of 1024 with two letters: `12Mi`.
    BinarySI,
    /// Powers of 1000 with an exponent: `12e6`.
    DecimalExponent,
}

impl Quantity {
    /// Nothing at all, in decimal notation.
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSI };
    /// The largest quantity, 10^29 units; larger numbers saturate here.
    pub const MAX: Self = Self { nano: 10_i128.pow(38), format: Format::DecimalSI };
    /// The smallest quantity, the negation of [`Quantity::MAX`].
    pub const MIN: Self = Self { nano: -Self::MAX.nano, format: Format::DecimalSI };

    /// Returns `units` whole units in decimal notation.
    pub const fn from_units(units: i64) -> Self {
        Self { nano: units as i128 * NANO_PER_UNIT, format: Format::DecimalSI }
    }

    /// Returns `milli` thousandths of a unit in decimal notation.
    pub const fn from_milli(milli: i64) -> Self {
        Self { nano: milli as i128 * NANO_PER_MILLI, format: Format::DecimalSI }
    }

    /// Returns `nano` billionths of a unit in the given notation, saturating at the bounds.
    pub fn from_nano(nano: i128, format: Format) -> Self {
        Self { nano: nano.clamp(Self::MIN.nano, Self::MAX.nano), format }
    }

    /// Returns the value in billionths of a unit.
    pub const fn as_nano(self) -> i128 {
        self.nano
    }

    /// Returns the notation the quantity is printed in.
    pub const fn format(self) -> Format {
        self.format
    }

    /// Returns the same value in another notation.
    #[must_use]
    pub const fn with_format(self, format: Format) -> Self {
        Self { nano: self.nano, format }
    }

    /// Returns the value in whole units; a fraction rounds away from zero, as Kubernetes does, and a value that
    /// `i64` cannot hold saturates.
    pub fn ceil_units(self) -> i64 {
        divide_away_from_zero(self.nano, NANO_PER_UNIT)
    }

    /// Returns the value in thousandths of a unit, rounded and saturated as in [`Quantity::ceil_units`].
    pub fn ceil_milli(self) -> i64 {
        divide_away_from_zero(self.nano, NANO_PER_MILLI)
    }

    /// Returns whether the value is zero.
    pub const fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Returns whether the value is below zero.
    pub const fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Returns the sum, or `None` when it lies outside [`Quantity::MIN`] to [`Quantity::MAX`].
    ///
    /// The notation is the left one's; a zero on the left takes the right one's.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.joined(self.nano.checked_add(other.nano)?, other)
    }

    /// Returns the difference, or `None` when it lies outside the bounds; notation as in a sum.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.joined(self.nano.checked_sub(other.nano)?, other)
    }

    /// Returns the sum, saturating at the bounds; notation as in [`Quantity::checked_add`].
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self::from_nano(self.nano.saturating_add(other.nano), self.joined_format(other))
    }

    /// Returns the difference, saturating at the bounds; notation as in [`Quantity::checked_add`].
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self::from_nano(self.nano.saturating_sub(other.nano), self.joined_format(other))
    }

    fn joined(self, nano: i128, other: Self) -> Option<Self> {
        let in_range = (Self::MIN.nano..=Self::MAX.nano).contains(&nano);
        in_range.then(|| Self { nano, format: self.joined_format(other) })
    }

    fn joined_format(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

fn divide_away_from_zero(nano: i128, divisor: i128) -> i64 {
    let magnitude = nano.unsigned_abs().div_ceil(divisor.unsigned_abs()) as i128;
    let signed = magnitude * nano.signum();
    signed.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        let magnitude = self.nano.unsigned_abs();
        let text = match self.format {
            Format::BinarySI => match binary_parts(magnitude) {
                Some((number, suffix)) => format!("{sign}{number}{suffix}"),
                None => decimal_text(sign, magnitude),
            },
            Format::DecimalSI => decimal_text(sign, magnitude),
            Format::DecimalExponent => exponent_text(sign, magnitude),
        };
        f.pad(&text)
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}

/// Splits a magnitude into a number and a binary suffix, or returns `None` where decimal notation is used instead:
/// below 1024 units, with a fraction, and above what a binary quantity can be read back as.
fn binary_parts(magnitude: u128) -> Option<(u128, &'static str)> {
    let nano_per_unit = NANO_PER_UNIT.unsigned_abs();
    let units = magnitude / nano_per_unit;
    if !magnitude.is_multiple_of(nano_per_unit) || !(1024..=BINARY_UNITS_MAX.unsigned_abs()).contains(&units)
    {
        return None;
    }
    let (number, power) = without_factors(units, 1024, BINARY_SUFFIXES.len() - 1);
    Some((number, BINARY_SUFFIXES[power]))
}

fn decimal_text(sign: &str, magnitude: u128) -> String {
    if magnitude == 0 {
        return "0".to_owned();
    }
    let (number, power) = without_factors(magnitude, 1000, DECIMAL_SUFFIXES.len() - 1);
    format!("{sign}{number}{}", DECIMAL_SUFFIXES[power])
}

fn exponent_text(sign: &str, magnitude: u128) -> String {
    if magnitude == 0 {
        return "0".to_owned();
    }
    let (number, power) = without_factors(magnitude, 1000, usize::MAX);
    match power {
        3 => format!("{sign}{number}"),
        _ => format!("{sign}{number}e{}", power as i64 * 3 - 9),
    }
}

/// Divides `number`, which is not zero, by `factor` as often as it divides evenly, at most `times_max` times.
fn without_factors(mut number: u128, factor: u128, times_max: usize) -> (u128, usize) {
    let mut times = 0;
    while times < times_max && number.is_multiple_of(factor) {
        number /= factor;
        times += 1;
    }
    (number, times)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = self.saturating_add(other);
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = self.saturating_sub(other);
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self { nano: -self.nano, format: self.format }
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::ZERO, Self::saturating_add)
    }
}

impl<'a> Sum<&'a Quantity> for Quantity {
    fn sum<I: Iterator<Item = &'a Self>>(quantities: I) -> Self {
        quantities.copied().sum()
    }
}
