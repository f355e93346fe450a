//! Writes JSON values as YAML whose bytes depend on nothing but the value.
//!
//! Keys are sorted, so the output is the same whatever map the value was built in, and a string is only
//! left unquoted when no reader of YAML, old or new, could take it for anything else.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Renders a value as a YAML document that ends with a newline.
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    write_node(&mut out, value, 0);
    out
}

/// Renders several values as one stream of documents, each opened by `---`.
pub fn to_yaml_stream<'v>(values: impl IntoIterator<Item = &'v Value>) -> String {
    let mut out = String::new();
    for value in values {
        out.push_str("---\n");
        write_node(&mut out, value, 0);
    }
    out
}

fn write_node(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => write_map(out, map, indent),
        Value::Array(items) if !items.is_empty() => write_list(out, items, indent),
        Value::String(text) if is_block(text) => write_block(out, text, indent),
        _ => {
            out.push_str(&scalar(value));
            out.push('\n');
        }
    }
}

/// Texts of several lines that a literal block keeps as they are: a leading blank would be taken for indentation, and blanks
/// at the end of a line are too easily lost by whoever touches the file.
fn is_block(text: &str) -> bool {
    let lines = text.strip_suffix('\n').unwrap_or(text);
    let is_text =
        |c: char| c == '\n' || c == '\t' || !(c.is_control() || "\u{2028}\u{2029}\u{feff}".contains(c));
    lines.contains('\n')
        && !lines.starts_with([' ', '\t', '\n'])
        && !lines.ends_with('\n')
        && text.chars().all(is_text)
        && lines.lines().all(|line| !line.ends_with([' ', '\t']))
}

fn write_block(out: &mut String, text: &str, indent: usize) {
    out.push_str(if text.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in text.lines() {
        if !line.is_empty() {
            pad(out, indent + 2);
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// The first line continues the current one; the caller has already indented it.
fn write_map(out: &mut String, map: &Map<String, Value>, indent: usize) {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            pad(out, indent);
        }
        out.push_str(&string(key));
        out.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => next_line(out, value, indent + 2),
            Value::Array(items) if !items.is_empty() => next_line(out, value, indent),
            _ => {
                out.push(' ');
                write_node(out, value, indent);
            }
        }
    }
}

fn next_line(out: &mut String, value: &Value, indent: usize) {
    out.push('\n');
    pad(out, indent);
    write_node(out, value, indent);
}

fn write_list(out: &mut String, items: &[Value], indent: usize) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            pad(out, indent);
        }
        out.push_str("- ");
        write_node(out, item, indent + 2);
    }
}

fn pad(out: &mut String, indent: usize) {
    write!(out, "{:indent$}", "").expect("writing to a string cannot fail");
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        Value::Number(number) => whole(number).map_or_else(|| number.to_string(), |whole| whole.to_string()),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        Value::Bool(_) | Value::Null => value.to_string(),
    }
}

/// Bounds in schemas are floating point by type and whole by meaning: `1`, not `1.0`.
fn whole(number: &serde_json::Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
}

fn string(text: &str) -> String {
    if is_plain(text) {
        text.to_owned()
    } else if text.chars().any(char::is_control) {
        Value::from(text).to_string()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// Words that YAML 1.1 or 1.2 readers take for booleans or nothing.
const RESERVED: &[&str] = &["true", "false", "yes", "no", "on", "off", "y", "n", "null"];

fn is_plain(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || " _./,;()%+-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(allowed)
        && !text.ends_with(' ')
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_document_reads_like_a_hand_written_manifest() {
        let value = json!({
            "kind": "X",
            "spec": {"list": [{"b": 1.0, "a": "0s"}, "it's", []], "empty": {}, "on": "True", "pattern": "^a\\s$"},
            "note": "two\nlines"
        });
        let expected = "kind: X
note: |-
  two
  lines
spec:
  empty: {}
  list:
  - a: '0s'
    b: 1
  - 'it''s'
  - []
  'on': 'True'
  pattern: '^a\\s$'
";
        assert_eq!(to_yaml(&value), expected);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ -~]{0,12}",
            "\\PC{0,6}",
            Just("true".to_owned()),
            Just("~".to_owned()),
            Just("1e3".to_owned()),
            Just("a\nb\t".to_owned()),
            "[a-c#: |\n\t]{0,12}",
        ];
        let leaf = prop_oneof![
            text.clone().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_reader_gets_back_what_was_written(value in any_value()) {
            let text = to_yaml(&value);
            let read: Value = serde_saphyr::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
