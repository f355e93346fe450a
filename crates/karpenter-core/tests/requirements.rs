//! The requirement algebra against a model that knows nothing but the meaning of one line of YAML.
//!
//! The model takes a list of lines and one label (or its absence) and asks every line. What lines mean together is then the set of
//! labels of a small universe that all of them accept.

use karpenter_core::requirements::{Operator, Requirement, RequirementSet, ValueSet};
use proptest::prelude::*;
use proptest::sample::select;

/// A line without its key.
type Line = (Operator, Vec<&'static str>);

const OPERATORS: [Operator; 8] = [
    Operator::In,
    Operator::NotIn,
    Operator::Exists,
    Operator::DoesNotExist,
    Operator::Gt,
    Operator::Lt,
    Operator::Gte,
    Operator::Lte,
];

/// The largest integer that counts, the one before, and one that does not count any more.
const LARGEST: &str = "9223372036854775807";
const SECOND_LARGEST: &str = "9223372036854775806";
const TOO_LARGE: &str = "9223372036854775808";

/// What lines list.
const VALUES: [&str; 12] = ["a", "b", "", "0", "1", "2", "3", "4", "03", "1.5", SECOND_LARGEST, LARGEST];
/// What lines compare with; not all of it is a legal bound.
const BOUNDS: [&str; 12] =
    ["0", "1", "2", "3", "4", "03", "-1", "-9223372036854775808", SECOND_LARGEST, LARGEST, TOO_LARGE, "a"];
/// Labels that lines do not list, in the spelling people use: small integers, and text nobody thought of.
const OTHERS: [&str; 4] = ["5", "6", "9223372036854775805", "nobody-lists-this"];
/// Spellings that no line lists and hardly a node carries.
const ODD: [&str; 6] = ["01", "02", "0000", TOO_LARGE, "1e3", "x1"];

fn universe() -> impl Iterator<Item = Option<&'static str>> {
    let labels = VALUES.into_iter().chain(OTHERS).chain(ODD);
    std::iter::once(None).chain(labels.map(Some))
}

/// Whether one line accepts the label.
fn line_accepts((operator, values): &Line, label: Option<&str>) -> bool {
    let number = |text: &str| text.parse::<i64>().ok().map(i128::from);
    let compares = |holds: fn(i128, i128) -> bool| {
        let bound = values.first().and_then(|value| number(value));
        let label = label.and_then(number);
        bound.zip(label).is_some_and(|(bound, label)| holds(label, bound))
    };
    match operator {
        Operator::In => label.is_some_and(|label| values.contains(&label)),
        Operator::NotIn => label.is_none_or(|label| !values.contains(&label)),
        Operator::Exists => label.is_some(),
        Operator::DoesNotExist => label.is_none(),
        Operator::Gt => compares(|label, bound| label > bound),
        Operator::Lt => compares(|label, bound| label < bound),
        Operator::Gte => compares(|label, bound| label >= bound),
        Operator::Lte => compares(|label, bound| label <= bound),
    }
}

fn all_accept(lines: &[Line], label: Option<&str>) -> bool {
    lines.iter().all(|line| line_accepts(line, label))
}

/// Whether something is left that a node could carry: a listed value, an integer or a text in its usual spelling, or no label.
fn is_satisfiable(lines: &[Line]) -> bool {
    let listed = lines
        .iter()
        .filter(|(operator, _)| *operator == Operator::In)
        .flat_map(|(_, values)| values.iter().copied());
    let usual = VALUES.into_iter().filter(|value| *value != "03").chain(OTHERS);
    let candidates = std::iter::once(None).chain(usual.chain(listed).map(Some));
    candidates.into_iter().any(|label| all_accept(lines, label))
}

fn set_of(lines: &[Line]) -> ValueSet {
    let requirements: RequirementSet = requirements(lines).iter().collect();
    requirements.get("key").cloned().unwrap_or_else(ValueSet::anything)
}

fn requirements(lines: &[Line]) -> Vec<Requirement> {
    lines
        .iter()
        .map(|(operator, values)| Requirement::new("key", *operator, values.iter().copied()))
        .collect()
}

fn accepted(set: &ValueSet) -> Vec<Option<&'static str>> {
    universe().filter(|label| set.accepts(*label)).collect()
}

fn line() -> impl Strategy<Value = Line> {
    select(OPERATORS.as_slice()).prop_flat_map(|operator| {
        let values = match operator {
            Operator::In | Operator::NotIn => prop::collection::vec(select(VALUES.as_slice()), 0..6).boxed(),
            Operator::Exists | Operator::DoesNotExist => Just(Vec::new()).boxed(),
            _ => select(BOUNDS.as_slice()).prop_map(|bound| vec![bound]).boxed(),
        };
        values.prop_map(move |values| (operator, values))
    })
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    prop::collection::vec(line(), 0..5)
}

/// Lines that often leave little of a short range.
fn narrow_lines() -> impl Strategy<Value = Vec<Line>> {
    const NUMBERS: [&str; 6] = ["0", "1", "2", "3", "4", "03"];
    let bound = select(NUMBERS.as_slice());
    let excluded = prop::collection::vec(select(NUMBERS.as_slice()), 0..5);
    (bound.clone(), bound, excluded, lines()).prop_map(|(low, high, excluded, mut lines)| {
        lines.truncate(1);
        lines.extend([(Operator::Gte, vec![low]), (Operator::Lte, vec![high]), (Operator::NotIn, excluded)]);
        lines
    })
}

fn any_lines() -> impl Strategy<Value = Vec<Line>> {
    prop_oneof![3 => lines(), 1 => narrow_lines()]
}

proptest! {
    #![proptest_config(crate::repeatable(1000))]

    #[test]
    fn a_set_accepts_what_every_line_accepts(lines in any_lines()) {
        let set = set_of(&lines);
        for label in universe() {
            prop_assert_eq!(set.accepts(label), all_accept(&lines, label), "{:?} in {:?}", label, set);
            if let Some(value) = label {
                prop_assert_eq!(set.contains(value), set.accepts(label));
            }
        }
        prop_assert_eq!(set.allows_absent(), all_accept(&lines, None));
    }

    #[test]
    fn a_set_is_a_contradiction_exactly_when_nothing_satisfies_the_lines(lines in any_lines()) {
        let set = set_of(&lines);
        prop_assert_eq!(set.is_contradiction(), !is_satisfiable(&lines), "{:?}", set);
        if set.is_contradiction() {
            prop_assert!(!set.accepts(None), "a contradiction is never a missing label");
        }
    }

    #[test]
    fn intersection_is_set_intersection_and_obeys_its_laws(a in any_lines(), b in any_lines(), c in any_lines()) {
        let (a, b, c) = (set_of(&a), set_of(&b), set_of(&c));
        let both = a.intersect(&b);
        for label in universe() {
            prop_assert_eq!(both.accepts(label), a.accepts(label) && b.accepts(label), "{:?} in {:?}", label, both);
        }
        prop_assert_eq!(&both, &b.intersect(&a));
        prop_assert_eq!(both.intersect(&c), a.intersect(&b.intersect(&c)));
        prop_assert_eq!(&a.intersect(&a), &a);
        prop_assert_eq!(&a.intersect(&ValueSet::anything()), &a);
        prop_assert_eq!(both.intersect(&a), both.clone());
        prop_assert_eq!(a.meets(&b), !both.is_contradiction());
    }

    #[test]
    fn lists_of_values_say_what_the_set_accepts(lines in any_lines()) {
        let set = set_of(&lines);
        prop_assert_ne!(set.values().is_some(), set.excluded().is_some());
        if let Some(values) = set.values() {
            let values: Vec<&str> = values.map(AsRef::as_ref).collect();
            prop_assert!(values.iter().all(|value| set.contains(value)));
            prop_assert_eq!(set.has_values(), !values.is_empty());
            prop_assert_eq!(set.single().map(AsRef::as_ref), (values.len() == 1).then(|| values[0]));
        }
        if let Some(mut excluded) = set.excluded() {
            prop_assert!(excluded.all(|value| !set.contains(value)));
            prop_assert!(set.has_values());
        }
        let present = set.clone().without_absence();
        prop_assert_eq!(present, set.intersect(&ValueSet::exists()));
    }

    #[test]
    fn requirements_written_out_mean_the_same_again(lines in any_lines()) {
        let set: RequirementSet = requirements(&lines).iter().collect();
        let written = set.to_requirements();
        let again: RequirementSet = written.iter().collect();
        for label in universe() {
            let accepts = |set: &RequirementSet| set.matches(|_| label);
            prop_assert_eq!(accepts(&set), accepts(&again), "{:?} in {:?}", label, written);
        }
        prop_assert_eq!(set.contradiction(), again.contradiction());
        for requirement in &written {
            prop_assert!(requirement.validate().is_ok(), "{}", requirement);
            prop_assert!(!matches!(requirement.operator, Operator::Gt | Operator::Lt));
        }
    }

    #[test]
    fn a_set_of_several_keys_matches_when_every_line_does(
        one in lines(), two in lines(), first in 0_usize..20, second in 0_usize..20,
    ) {
        let keyed = |key: &'static str, lines: &[Line]| -> Vec<Requirement> {
            lines.iter().map(|(operator, values)| Requirement::new(key, *operator, values.iter().copied())).collect()
        };
        let a: RequirementSet = keyed("one", &one).iter().collect();
        let b: RequirementSet = keyed("two", &two).iter().collect();
        let both = a.intersect(&b);
        let labels: Vec<_> = universe().collect();
        let label = |key: &str| if key == "one" { labels[first] } else { labels[second] };
        prop_assert_eq!(both.matches(label), all_accept(&one, labels[first]) && all_accept(&two, labels[second]));
        prop_assert_eq!(&both, &b.intersect(&a));
        prop_assert_eq!(both.contradiction().is_some(), a.contradiction().or(b.contradiction()).is_some());
    }
}

/// How a list of lines is written out.
fn written(lines: &[Line]) -> Vec<String> {
    let set: RequirementSet = requirements(lines).iter().collect();
    set.to_requirements().iter().map(ToString::to_string).collect()
}

#[test]
fn sets_are_written_with_as_many_lines_as_they_need() {
    let check = |lines: &[Line], expected: &[&str]| assert_eq!(written(lines), expected, "{lines:?}");
    check(&[(Operator::Exists, vec![])], &["key Exists"]);
    check(&[(Operator::DoesNotExist, vec![])], &["key DoesNotExist"]);
    check(&[(Operator::NotIn, vec!["b", "a"])], &["key NotIn [a, b]"]);
    check(&[(Operator::NotIn, vec!["a"]), (Operator::Exists, vec![])], &["key Exists", "key NotIn [a]"]);
    check(&[(Operator::NotIn, vec!["a"]), (Operator::DoesNotExist, vec![])], &["key DoesNotExist"]);
    check(
        &[(Operator::Gt, vec!["2"]), (Operator::NotIn, vec!["1", "3", "a"])],
        &["key Gte [3]", "key NotIn [3]"],
    );
    check(&[(Operator::Gt, vec!["2"]), (Operator::Lt, vec!["9"])], &["key Gte [3]", "key Lte [8]"]);
    check(&[(Operator::Gt, vec!["-5"])], &["key Gte [0]"]);
    check(&[(Operator::In, vec!["1", "2"]), (Operator::Lt, vec!["2"])], &["key In [1]"]);
    check(&[(Operator::In, vec!["a"]), (Operator::In, vec!["b"])], &["key Exists", "key DoesNotExist"]);
}

#[test]
fn nothing_is_left_at_the_ends_of_the_integers() {
    for line in [
        (Operator::Gt, vec![LARGEST]),
        (Operator::Lt, vec!["0"]),
        (Operator::Lte, vec!["-1"]),
        (Operator::Gt, vec![TOO_LARGE]),
    ] {
        let set = set_of(std::slice::from_ref(&line));
        assert!(set.is_contradiction(), "{line:?}");
        assert!(accepted(&set).is_empty(), "{line:?}");
    }
    let top = set_of(&[(Operator::Gte, vec![LARGEST])]);
    assert_eq!(accepted(&top), [Some(LARGEST)]);
    assert!(top.intersect(&ValueSet::not_in([LARGEST])).is_contradiction());
}

#[test]
fn a_range_without_its_integers_is_a_contradiction_until_somebody_lists_another_spelling() {
    let range =
        set_of(&[(Operator::Gte, vec!["3"]), (Operator::Lte, vec!["3"]), (Operator::NotIn, vec!["3"])]);
    assert!(range.is_contradiction());
    assert_eq!(range.values().map(Iterator::count), Some(0));
    assert!(!range.intersect(&ValueSet::only(["03"])).is_contradiction());
    assert!(set_of(&[(Operator::Lt, vec!["2"]), (Operator::NotIn, vec!["0", "1"])]).is_contradiction());
}
