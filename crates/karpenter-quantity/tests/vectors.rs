//! Compares every answer with those recorded from Kubernetes' own library in `vectors.tsv`.

use karpenter_quantity::{Format, Quantity};

const VECTORS: &str = include_str!("vectors.tsv");

fn rows<const FIELDS: usize>(kind: &str) -> Vec<[&'static str; FIELDS]> {
    let rows: Vec<_> = VECTORS
        .lines()
        .filter_map(|line| line.split_once('\t').filter(|(first, _)| *first == kind))
        .map(|(_, rest)| {
            rest.split('\t').collect::<Vec<_>>().try_into().expect("every row of a kind is as wide")
        })
        .collect();
    assert!(rows.len() > 30, "the table holds rows of kind {kind}");
    rows
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn texts_are_read_and_printed_as_kubernetes_does() {
    for [text, format, nano, canonical] in rows("=") {
        let parsed = quantity(text);
        let expected = match format {
            "d" => Format::DecimalSI,
            "b" => Format::BinarySI,
            _ => Format::DecimalExponent,
        };
        assert_eq!(parsed.as_nano().to_string(), nano, "value of {text}");
        assert_eq!(parsed.format(), expected, "format of {text}");
        assert_eq!(parsed.to_string(), canonical, "canonical form of {text}");
    }
}

#[test]
fn texts_that_kubernetes_refuses_are_refused() {
    for [text] in rows("!") {
        assert!(text.parse::<Quantity>().is_err(), "{text:?} is not a quantity");
    }
}

#[test]
fn whole_units_and_milliunits_round_as_kubernetes_does() {
    for [text, units, milli] in rows("v") {
        assert_eq!(quantity(text).ceil_units().to_string(), units, "units of {text}");
        assert_eq!(quantity(text).ceil_milli().to_string(), milli, "milliunits of {text}");
    }
}

#[test]
fn sums_differences_and_order_are_those_of_kubernetes() {
    for [left, right, sum, difference, order] in rows("+") {
        let (a, b) = (quantity(left), quantity(right));
        assert_eq!((a + b).to_string(), sum, "{left} + {right}");
        assert_eq!((a - b).to_string(), difference, "{left} - {right}");
        assert_eq!((a.cmp(&b) as i8).to_string(), order, "{left} compared with {right}");
    }
}

#[test]
fn a_number_too_large_for_its_suffixes_is_printed_so_that_it_reads_back() {
    assert_eq!(quantity("1000E").to_string(), "1000E");
    assert_eq!((quantity("4Ei") + quantity("4Ei")).to_string(), "9223372036854775808");
}

#[test]
fn rounding_to_units_goes_away_from_zero_and_saturates() {
    assert_eq!(quantity("-1500m").ceil_units(), -2);
    assert_eq!(Quantity::MAX.ceil_units(), i64::MAX);
    assert_eq!(Quantity::MIN.ceil_milli(), i64::MIN);
}

#[test]
fn checked_arithmetic_reports_what_saturating_arithmetic_cuts_off() {
    let one = Quantity::from_units(1);
    assert_eq!(Quantity::MAX.checked_add(one), None);
    assert_eq!(Quantity::MIN.checked_sub(one), None);
    assert_eq!(Quantity::MAX + Quantity::MAX, Quantity::MAX);
    assert_eq!(Quantity::MIN - Quantity::MAX, Quantity::MIN);
    assert_eq!(one.checked_sub(one), Some(Quantity::ZERO));
}
