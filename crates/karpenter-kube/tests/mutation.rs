//! Damages JSON documents in the ways that files get damaged: values of other types, odd words, missing and doubled parts.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// One piece of damage.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Replace(Value),
    Remove,
    Double,
}

pub(crate) fn damages() -> impl Strategy<Value = Vec<(Index, Damage)>> {
    prop::collection::vec((any::<Index>(), damage()), 1..8)
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => odd_value().prop_map(Damage::Replace),
        2 => Just(Damage::Remove),
        1 => Just(Damage::Double),
    ]
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "", "-1", "0", "1e400", "9223372036854775807", "9223372036854775808", "1Ei", "999999999999999999Ei", "0.1n", "..", "In",
    "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte", "kubernetes.io/hostname", "NoExecute", "PreferNoSchedule",
    "karpenter.sh/nodepool", "topology.kubernetes.io/zone", "zone-a", "spot", "reserved", "web", "ScheduleAnyway", "launched",
    "ä\u{0}\u{202e}",
];

const WHOLE_NUMBERS: &[i64] = &[0, 1, -1, 3, 70_000, 4_294_967_295, i64::MAX, i64::MIN];

const NUMBERS: &[f64] = &[0.5, -0.0, -1.5, 1e-300, 1e300];

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => prop::sample::select(WORDS).prop_map(|word| json!(word)),
        1 => prop::sample::select(WHOLE_NUMBERS).prop_map(|n| json!(n)),
        1 => prop::sample::select(NUMBERS).prop_map(|n| json!(n)),
        1 => any::<bool>().prop_map(|flag| json!(flag)),
        1 => prop::sample::select(vec![Value::Null, json!([]), json!({}), json!([[]]), json!({ "a": {} })]),
    ]
}

/// The document with all of the damage done.
pub(crate) fn damaged(document: &Value, damages: &[(Index, Damage)]) -> Value {
    let mut document = document.clone();
    for (index, damage) in damages {
        let target = index.index(size(&document));
        apply(&mut document, target, damage);
    }
    document
}

/// The number of values inside, the value itself included.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    }
}

/// Damages the value at position `target` of a walk through the document.
fn apply(value: &mut Value, target: usize, damage: &Damage) {
    if target == 0 {
        match damage {
            Damage::Replace(with) => *value = with.clone(),
            Damage::Remove => *value = Value::Null,
            Damage::Double => *value = json!([value.clone(), value.clone()]),
        }
        return;
    }
    let mut before = 1;
    let children: Box<dyn Iterator<Item = (usize, &mut Value)>> = match value {
        Value::Array(values) => Box::new(values.iter_mut().enumerate()),
        Value::Object(fields) => Box::new(fields.values_mut().enumerate()),
        _ => return,
    };
    let mut whole = None;
    for (position, child) in children {
        let inside = size(child);
        if target == before {
            whole = Some(position);
            break;
        }
        if target < before + inside {
            apply(child, target - before, damage);
            return;
        }
        before += inside;
    }
    if let Some(position) = whole {
        damage_child(value, position, damage);
    }
}

/// In a list, removing and doubling concern the element; elsewhere the value.
fn damage_child(parent: &mut Value, position: usize, damage: &Damage) {
    match (parent, damage) {
        (Value::Array(values), Damage::Remove) => drop(values.remove(position)),
        (Value::Array(values), Damage::Double) => values.insert(position, values[position].clone()),
        (Value::Array(values), _) => apply(&mut values[position], 0, damage),
        (Value::Object(fields), _) => {
            if let Some(child) = fields.values_mut().nth(position) {
                apply(child, 0, damage);
            }
        }
        _ => {}
    }
}
