//! The order of merged lists: what the patch lists comes in the patch's order, the rest stays where it was as well as
//! that can be had.

use serde_json::Value;

use super::strategic::no_key;
use crate::error::ApiError;

/// Splits a list into the items that `listed` names and the others.
///
/// # Errors
/// 500 when an item has no key.
pub(super) fn partitioned(
    items: Vec<Value>,
    listed: &[Value],
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    if !key.is_empty()
        && let Some(item) = items.iter().find(|item| item.get(key).is_none())
    {
        return Err(no_key(item, key));
    }
    Ok(items.into_iter().partition(|item| position(listed, item, key).is_some()))
}

/// Joins listed items in the order of `order` with other items in the order of `live`.
pub(super) fn ordered(
    listed: Vec<Value>,
    others: Vec<Value>,
    order: &[Value],
    live: &[Value],
    key: &str,
) -> Vec<Value> {
    let mut listed = sorted(listed, order, key).into_iter().peekable();
    let mut others = sorted(others, live, key).into_iter().peekable();
    let mut result = Vec::new();
    while let (Some(other), Some(item)) = (others.peek(), listed.peek()) {
        let before = position(live, other, key).zip(position(live, item, key));
        let next =
            if before.is_some_and(|(other, item)| other < item) { others.next() } else { listed.next() };
        result.extend(next);
    }
    result.extend(listed);
    result.extend(others);
    result
}

/// Sorts by the place in `order`; items without one stay where they are.
fn sorted(mut items: Vec<Value>, order: &[Value], key: &str) -> Vec<Value> {
    items.sort_by_key(|item| position(order, item, key).unwrap_or_default());
    items
}

fn position(list: &[Value], item: &Value, key: &str) -> Option<usize> {
    list.iter().position(|other| match key {
        "" => other == item,
        key => other.get(key) == item.get(key),
    })
}
