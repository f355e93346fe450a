//! Objects without the record of who manages which of their fields: nobody here reads it, and it is a third of an object.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// Unescaped quotes cannot stand inside a string, so this is a key wherever it stands.
const KEY: &str = "\"managedFields\":";

/// Returns the text of an object without `managedFields`.
pub fn without_managed_fields(text: &str) -> Cow<'_, str> {
    let Some((before, rest)) = around_managed_fields(text) else { return Cow::Borrowed(text) };
    // What follows is the next field, or the end of the object: then the comma before has nothing to part any more.
    Cow::Owned(match rest.strip_prefix(',') {
        Some(next) => [before, next].concat(),
        None => [before.trim_end().trim_end_matches(','), rest].concat(),
    })
}

fn around_managed_fields(text: &str) -> Option<(&str, &str)> {
    let start = text.find(KEY)?;
    let list = text[start + KEY.len()..].trim_start();
    if !list.starts_with('[') {
        return None;
    }
    Some((&text[..start], list[value_length(list)?..].trim_start()))
}

/// How long the JSON value is that a text begins with.
fn value_length(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lean(text: &str) -> String {
        let result = without_managed_fields(text).into_owned();
        serde_json::from_str::<IgnoredAny>(&result).expect("it is still JSON");
        result
    }

    #[test]
    fn the_record_goes_wherever_it_stands_among_the_fields() {
        assert_eq!(lean(r#"{"managedFields":[{"a":"]"}],"name":"n"}"#), r#"{"name":"n"}"#);
        assert_eq!(lean(r#"{"name":"n","managedFields":[[1],{}]}"#), r#"{"name":"n"}"#);
        assert_eq!(lean(r#"{"managedFields": [ ] }"#), "{}");
        assert_eq!(lean(r#"{"a":1, "managedFields":[], "b":2}"#), r#"{"a":1,  "b":2}"#);
    }

    #[test]
    fn what_only_looks_like_it_stays() {
        for text in [
            r#"{"annotations":{"last":"{\"managedFields\":[1]}"}}"#,
            r#"{"managedFields":"text"}"#,
            r#"{"name":"managedFields"}"#,
        ] {
            assert_eq!(lean(text), text);
        }
    }
}
