//! Laws that hold for all quantities, not only for recorded ones.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use karpenter_quantity::{Format, Quantity};
use proptest::prelude::*;

fn formats() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::DecimalSI), Just(Format::BinarySI), Just(Format::DecimalExponent)]
}

/// Quantities of every magnitude, many of them round numbers, as the suffixes make a difference only there.
fn quantities() -> impl Strategy<Value = Quantity> {
    let factors = prop_oneof![
        Just(1_i128),
        (0_u32..34).prop_map(|p| 10_i128.pow(p)),
        (0_u32..70).prop_map(|p| { 1_000_000_000 << p })
    ];
    let numbers = prop_oneof![-2000_i128..2000, any::<i64>().prop_map(i128::from), any::<i128>()];
    (numbers, factors, formats())
        .prop_map(|(number, factor, format)| Quantity::from_nano(number.saturating_mul(factor), format))
}

/// Quantities small enough that no sum of three saturates.
fn summable() -> impl Strategy<Value = Quantity> {
    quantities().prop_map(|quantity| Quantity::from_nano(quantity.as_nano() / 4, quantity.format()))
}

/// Texts that mostly, but not always, are quantities.
const NEARLY_QUANTITIES: &str = "[+-]?[0-9]{0,30}[.]?[0-9]{0,30}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?";

fn hash(quantity: Quantity) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(quantity)
}

fn reread(quantity: Quantity) -> Quantity {
    quantity.to_string().parse().expect("printed quantities can be read")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn reading_a_printed_quantity_keeps_its_value(quantity in quantities()) {
        prop_assert_eq!(reread(quantity).as_nano(), quantity.as_nano());
    }

    #[test]
    fn a_printed_quantity_is_canonical(quantity in quantities()) {
        // 7000 bytes in binary notation print as "7000", which any Kubernetes client reads as decimal and prints as
        // "7k"; text is stable as long as the notation shows in it.
        let read = reread(quantity);
        if quantity.format() != Format::BinarySI || read.format() == Format::BinarySI {
            prop_assert_eq!(read.to_string(), quantity.to_string());
        }
        prop_assert_eq!(reread(read).to_string(), read.to_string());
    }

    #[test]
    fn whatever_can_be_read_can_be_printed_and_read_again(text in NEARLY_QUANTITIES) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert_eq!(reread(quantity), quantity);
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = text.parse::<Quantity>();
    }

    #[test]
    fn a_refusal_names_the_text(text in "[a-df-lo-z][a-z]{0,8}") {
        let error = text.parse::<Quantity>().expect_err("words are not quantities");
        prop_assert!(error.to_string().contains(&text));
    }

    #[test]
    fn addition_is_commutative_and_associative(a in summable(), b in summable(), c in summable()) {
        prop_assert_eq!(a + b, b + a);
        prop_assert_eq!((a + b) + c, a + (b + c));
        prop_assert_eq!([a, b, c].iter().sum::<Quantity>(), a + b + c);
        prop_assert_eq!(a.checked_add(b), Some(a + b));
    }

    #[test]
    fn subtraction_undoes_addition(a in summable(), b in summable()) {
        prop_assert_eq!(a + b - b, a);
        prop_assert_eq!(a - b, a + -b);
        prop_assert_eq!(a - a, Quantity::ZERO);
    }

    #[test]
    fn a_sum_keeps_the_left_notation_unless_the_left_is_zero(a in quantities(), b in quantities()) {
        let expected = if a.is_zero() { b.format() } else { a.format() };
        prop_assert_eq!((a + b).format(), expected);
        prop_assert_eq!((a - b).format(), expected);
    }

    #[test]
    fn order_equality_and_hash_follow_the_value(a in quantities(), b in quantities(), format in formats()) {
        prop_assert_eq!(a.cmp(&b), a.as_nano().cmp(&b.as_nano()));
        prop_assert_eq!(a, a.with_format(format));
        prop_assert_eq!(hash(a), hash(a.with_format(format)));
        prop_assert_eq!(a.is_negative(), a < Quantity::ZERO);
    }

    #[test]
    fn rounding_to_units_never_understates(milli in any::<i64>()) {
        let quantity = Quantity::from_milli(milli);
        prop_assert_eq!(quantity.ceil_milli(), milli);
        let magnitude = if quantity.is_negative() { -quantity } else { quantity };
        let excess = Quantity::from_units(quantity.ceil_units().abs()) - magnitude;
        prop_assert!(!excess.is_negative() && excess < Quantity::from_units(1));
    }
}
