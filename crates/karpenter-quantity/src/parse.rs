//! Reads a quantity from text, exactly, whatever the number of its digits.
//!
//! The grammar is Kubernetes': an optional sign, digits with an optional point, and an optional suffix, which is a
//! decimal letter (`n u m k M G T P E`), a binary pair (`Ki` to `Ei`) or an exponent (`e3`, `E-3`). What lies
//! below a billionth rounds away from zero, so that whoever asks for something gets something; binary quantities
//! stop at 2^63 - 1 units. One deviation: the API server takes text without any digit (`m`, `.`) for zero, which
//! only ever hides a mistake, so it is refused here.

use std::fmt;
use std::str::FromStr;

use crate::quantity::{BINARY_UNITS_MAX, Format, NANO_PER_UNIT, Quantity};

/// Why a text is not a quantity; the message quotes the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuantityError {
    text: String,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Empty,
    NoDigits,
    UnknownSuffix,
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match self.reason {
            Reason::Empty => {
                write!(f, "a quantity must not be empty; write a number such as 100m, 2 or 1.5Gi")
            }
            Reason::NoDigits => {
                write!(
                    f,
                    "quantity {text:?} does not start with a number; write one such as 100m, 2 or 1.5Gi"
                )
            }
            Reason::UnknownSuffix => write!(
                f,
                "quantity {text:?} does not end in a known suffix; after the number write nothing, one of n u m k M \
                 G T P E Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
            ),
        }
    }
}

impl std::error::Error for ParseQuantityError {}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|reason| ParseQuantityError { text: text.to_owned(), reason })
    }
}

/// What a suffix multiplies its number by.
struct Multiplier {
    exponent_of_ten: i64,
    exponent_of_two: u32,
    format: Format,
}

fn parse(text: &str) -> Result<Quantity, Reason> {
    if text.is_empty() {
        return Err(Reason::Empty);
    }
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, rest) = split_digits(unsigned);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(after_point) => split_digits(after_point),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(Reason::NoDigits);
    }
    let multiplier = read_suffix(suffix).ok_or(Reason::UnknownSuffix)?;
    let mut magnitude = magnitude_nano(whole, fraction, &multiplier);
    let mut format = multiplier.format;
    if format == Format::BinarySI {
        magnitude = magnitude.min(BINARY_UNITS_MAX * NANO_PER_UNIT);
        if (1..NANO_PER_UNIT).contains(&magnitude) {
            format = Format::DecimalSI;
        }
    }
    Ok(Quantity::from_nano(if negative { -magnitude } else { magnitude }, format))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn read_suffix(suffix: &str) -> Option<Multiplier> {
    let decimal =
        |exponent| Multiplier { exponent_of_ten: exponent, exponent_of_two: 0, format: Format::DecimalSI };
    let binary =
        |exponent| Multiplier { exponent_of_ten: 0, exponent_of_two: exponent, format: Format::BinarySI };
    Some(match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Multiplier { exponent_of_ten: exponent, exponent_of_two: 0, format: Format::DecimalExponent }
        }
    })
}

/// Multiplies the digits out, from the last to the first as on paper, and counts in billionths.
///
/// Working digit by digit keeps a number of any length exact without big integers. A digit times 2^60 plus the
/// carry stays below 10 * 2^60, which fits `u64`. The result saturates at `i128::MAX`.
fn magnitude_nano(whole: &str, fraction: &str, multiplier: &Multiplier) -> i128 {
    let factor = 1_u64 << multiplier.exponent_of_two;
    let lowest_place = multiplier.exponent_of_ten.saturating_sub(fraction.len() as i64).saturating_add(9);
    let mut nano = 0_i128;
    let mut carry = 0_u64;
    let mut lost_below_nano = false;
    let mut place = lowest_place;
    for digit in whole.bytes().chain(fraction.bytes()).rev() {
        let product = u64::from(digit - b'0') * factor + carry;
        carry = product / 10;
        if place < 0 {
            lost_below_nano |= !product.is_multiple_of(10);
        } else {
            nano = nano.saturating_add(shifted(product % 10, place));
        }
        place = place.saturating_add(1);
    }
    // A carry only arises with a binary suffix, whose digits end left of the point, so its place is not negative.
    nano.saturating_add(shifted(carry, place)).saturating_add(i128::from(lost_below_nano))
}

/// Returns `number` times ten to the power of `place`, saturating.
fn shifted(number: u64, place: i64) -> i128 {
    if number == 0 {
        return 0;
    }
    let power = u32::try_from(place).ok().and_then(|place| 10_i128.checked_pow(place));
    power.map_or(i128::MAX, |power| power.saturating_mul(number.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        text.parse::<Quantity>().expect_err("the text is not a quantity").to_string()
    }

    #[test]
    fn a_refusal_quotes_the_text_and_says_what_to_write() {
        assert_eq!(message(""), "a quantity must not be empty; write a number such as 100m, 2 or 1.5Gi");
        assert_eq!(
            message("lots"),
            "quantity \"lots\" does not start with a number; write one such as 100m, 2 or 1.5Gi"
        );
        assert!(
            message("5GiB").starts_with("quantity \"5GiB\" does not end in a known suffix; after the number")
        );
    }

    #[test]
    fn a_text_without_a_digit_is_refused() {
        for text in ["m", ".", "-", "+", "e3", "Ki", "-.Gi"] {
            assert!(message(text).contains("does not start with a number"), "{text}");
        }
    }

    #[test]
    fn numbers_beyond_the_bounds_saturate() {
        for text in ["1e100", "1e9223372036854775807", "1000000000000000E", "9e29"] {
            assert_eq!(text.parse(), Ok(Quantity::MAX), "{text}");
            assert_eq!(format!("-{text}").parse(), Ok(Quantity::MIN), "{text}");
        }
    }

    #[test]
    fn a_tiny_exponent_rounds_up_to_one_billionth() {
        let smallest = Quantity::from_nano(1, Format::DecimalExponent);
        assert_eq!("1e-9223372036854775808".parse(), Ok(smallest));
        assert_eq!("0e-9223372036854775808".parse(), Ok(Quantity::ZERO));
    }
}
