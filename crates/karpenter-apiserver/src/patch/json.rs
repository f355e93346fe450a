//! JSON patch (RFC 6902), with the leniency of the implementation that Kubernetes uses: replacing what is not there
//! adds it, and negative indices count from the end.

use serde_json::Value;

/// What one operation could not do; the client is only told that its patch was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

/// Applies the operations of a patch in order.
///
/// # Errors
/// Returns [`Refused`] when an operation is unknown or cannot be done; the target is then half patched.
pub(crate) fn json_patch(target: &mut Value, operations: &[Value]) -> Result<(), Refused> {
    for operation in operations {
        let text = |name: &str| operation[name].as_str().ok_or(Refused);
        let value = || operation.get("value").cloned().unwrap_or_default();
        match operation["op"].as_str() {
            Some("add") => add(target, text("path")?, value())?,
            Some("remove") => {
                remove(target, text("path")?)?;
            }
            Some("replace") => replace(target, text("path")?, value())?,
            Some("test") => test(target, text("path")?, &value())?,
            Some("move") => {
                let value = get(target, text("from")?)?.cloned().unwrap_or_default();
                remove(target, text("from")?)?;
                add(target, text("path")?, value)?;
            }
            Some("copy") => {
                let value = get(target, text("from")?)?.cloned().unwrap_or_default();
                add(target, text("path")?, value)?;
            }
            _ => return Err(Refused),
        }
    }
    Ok(())
}

/// Finds the object or list that holds the last part of a path.
fn container<'v>(target: &'v mut Value, path: &str) -> Result<(&'v mut Value, String), Refused> {
    let decode = |part: &str| part.replace("~1", "/").replace("~0", "~");
    let mut parts: Vec<String> = path.split('/').skip(1).map(decode).collect();
    let last = parts.pop().ok_or(Refused)?;
    let mut place = target;
    for part in parts {
        place = match place {
            Value::Object(fields) => fields.get_mut(&part).ok_or(Refused)?,
            Value::Array(items) => {
                let index = index(&part, items.len())?;
                items.get_mut(index).ok_or(Refused)?
            }
            _ => return Err(Refused),
        };
    }
    if place.is_object() || place.is_array() { Ok((place, last)) } else { Err(Refused) }
}

fn index(text: &str, length: usize) -> Result<usize, Refused> {
    let index: i64 = text.parse().map_err(|_| Refused)?;
    let index = if index < 0 { index + length as i64 } else { index };
    usize::try_from(index).map_err(|_| Refused)
}

fn get<'v>(target: &'v mut Value, path: &str) -> Result<Option<&'v Value>, Refused> {
    let (place, key) = container(target, path)?;
    match place {
        Value::Array(items) => items.get(index(&key, items.len())?).map(Some).ok_or(Refused),
        place => Ok(place.get(&key)),
    }
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), Refused> {
    let (place, key) = container(target, path)?;
    match place {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(&key, items.len() + 1)?;
            if index > items.len() {
                return Err(Refused);
            }
            items.insert(index, value);
        }
        place => place[key] = value,
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Result<(), Refused> {
    let (place, key) = container(target, path)?;
    match place {
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            if index >= items.len() {
                return Err(Refused);
            }
            items.remove(index);
        }
        place => {
            place.as_object_mut().and_then(|fields| fields.remove(&key)).ok_or(Refused)?;
        }
    }
    Ok(())
}

fn replace(target: &mut Value, path: &str, value: Value) -> Result<(), Refused> {
    if path.is_empty() {
        *target = value;
        return if target.is_object() || target.is_array() { Ok(()) } else { Err(Refused) };
    }
    let (place, key) = container(target, path)?;
    match place {
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            *items.get_mut(index).ok_or(Refused)? = value;
        }
        place => place[key] = value,
    }
    Ok(())
}

fn test(target: &mut Value, path: &str, value: &Value) -> Result<(), Refused> {
    let found = if path.is_empty() { Some(&*target) } else { get(target, path)? };
    // What is not there equals null.
    if found.unwrap_or(&Value::Null) == value { Ok(()) } else { Err(Refused) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(operations: &Value) -> Result<Value, Refused> {
        let mut target = json!({"a": {"b": 1}, "list": [1, 2, 3]});
        json_patch(&mut target, operations.as_array().unwrap()).map(|()| target)
    }

    #[test]
    fn operations_change_objects_and_lists() {
        let result = patched(&json!([
            {"op": "add", "path": "/list/1", "value": 9},
            {"op": "remove", "path": "/list/-1"},
            {"op": "replace", "path": "/a/new", "value": 2},
            {"op": "copy", "from": "/a/b", "path": "/c"},
            {"op": "move", "from": "/a/b", "path": "/d"},
            {"op": "test", "path": "/nothing", "value": null},
        ]));
        assert_eq!(result, Ok(json!({"a": {"new": 2}, "list": [1, 9, 2], "c": 1, "d": 1})));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for operation in [
            json!({"op": "remove", "path": "/nothing"}),
            json!({"op": "add", "path": "/x/y", "value": 1}),
            json!({"op": "test", "path": "/a/b", "value": 2}),
            json!({"op": "jump", "path": "/a"}),
            json!({"op": "add"}),
            json!({"op": "replace", "path": "/list/7", "value": 1}),
        ] {
            assert_eq!(patched(&json!([operation])), Err(Refused), "{operation}");
        }
    }
}
