//! Where two normalized answers differ.

use serde_json::Value;

/// One place with two values; `None` is an absent value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) path: String,
    pub(crate) ours: Option<Value>,
    pub(crate) real: Option<Value>,
}

/// Returns the places where the values differ, as deep as possible.
pub(crate) fn differences(ours: &Value, real: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(Some(ours), Some(real), "", &mut found);
    found
}

fn walk(ours: Option<&Value>, real: Option<&Value>, path: &str, found: &mut Vec<Difference>) {
    match (ours, real) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let mut names: Vec<&String> = left.keys().chain(right.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                walk(left.get(name), right.get(name), &format!("{path}/{name}"), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for index in 0..left.len().max(right.len()) {
                walk(left.get(index), right.get(index), &format!("{path}/{index}"), found);
            }
        }
        (ours, real) if ours != real => {
            found.push(Difference { path: path.to_owned(), ours: ours.cloned(), real: real.cloned() });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_found_where_they_are() {
        let found = differences(&json!({"a": [1, 2], "b": 1}), &json!({"a": [1, 3, 4], "b": 1}));
        let paths: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, ["/a/1", "/a/2"]);
    }
}
