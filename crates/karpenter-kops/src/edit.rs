//! Changes fields of a YAML text and leaves every other character alone.
//!
//! Fields are set by inserting lines or replacing one value. The result is read again and compared with what the
//! documents should hold now: an edit that would touch anything else is an error, never a surprise.

use karpenter_api::yaml::to_yaml;
use serde_json::{Map, Value};

use crate::yaml::{Content, Node, YamlError, parse};

/// A change that cannot be made without touching something else.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text is no YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// The text is written in a way that cannot be edited.
    #[error("{0} cannot be set without touching other fields or comments: set it to {1} by hand")]
    ByHand(String, String),
}

/// Sets a field of one of the documents of a text; mappings on the way to it are added where they are missing.
pub(crate) fn set(text: &str, document: usize, path: &[&str], value: &Value) -> Result<String, EditError> {
    let by_hand = || EditError::ByHand(path.join("."), value.to_string());
    let documents = parse(text)?;
    let mut expected = documents.iter().map(Node::value).collect::<Result<Vec<_>, _>>()?;
    let root = documents.get(document).ok_or_else(by_hand)?;
    if !insert(&mut expected[document], path, value) {
        return Err(by_hand());
    }
    let edited = edit(text, root, path, value).ok_or_else(by_hand)?;
    let found = parse(&edited)?.iter().map(Node::value).collect::<Result<Vec<_>, _>>()?;
    if found == expected { Ok(edited) } else { Err(by_hand()) }
}

/// Sets the field in a value; `false` when something on the way is no mapping.
pub(crate) fn insert(value: &mut Value, path: &[&str], new: &Value) -> bool {
    let Some((key, rest)) = path.split_first() else {
        *value = new.clone();
        return true;
    };
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    let Some(map) = value.as_object_mut() else { return false };
    insert(map.entry(*key).or_insert(Value::Null), rest, new)
}

fn edit(text: &str, root: &Node, path: &[&str], value: &Value) -> Option<String> {
    let mut node = root;
    for (depth, key) in path.iter().enumerate() {
        let Content::Map { entries, flow } = &node.content else { return None };
        let Some((key, found)) = entries.iter().rev().find(|(name, _)| name.key() == *key) else {
            let nested = nested(&path[depth..], value);
            return if *flow {
                in_flow(text, node, entries, &nested)
            } else {
                in_block(text, entries, &nested)
            };
        };
        let rest = &path[depth + 1..];
        if rest.is_empty() || found.is_empty() {
            let nested = if rest.is_empty() { value.clone() } else { nested(rest, value) };
            return replace(text, key, found, &nested);
        }
        node = found;
    }
    None
}

/// A value below the keys that lead to it.
fn nested(path: &[&str], value: &Value) -> Value {
    path.iter()
        .rev()
        .fold(value.clone(), |inner, key| Value::Object([((*key).to_owned(), inner)].into_iter().collect()))
}

impl Node {
    /// Whether nothing is written there. The parser says `~` for it.
    fn is_empty(&self) -> bool {
        matches!(&self.content, Content::Scalar { plain: true, .. }) && self.bytes.is_empty()
    }
}

/// Puts another value behind a key.
fn replace(text: &str, key: &Node, old: &Node, new: &Value) -> Option<String> {
    if old.value().ok()? == *new {
        return Some(text.to_owned());
    }
    if old.is_empty() {
        let colon = key.bytes.end + text[key.bytes.end..].find(':')? + 1;
        if new.is_object() {
            // Below the key's line, with whatever comment stands there.
            let end = text[colon..].find(['\r', '\n']).map_or(text.len(), |rest| colon + rest);
            let lines = indented(new, key.column + 2, newline(text));
            return Some([&text[..end], newline(text), lines.trim_end(), &text[end..]].concat());
        }
        return Some([&text[..colon], " ", to_yaml(new).trim_end(), &text[colon..]].concat());
    }
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    let one_line = !text[old.bytes.clone()].contains('\n');
    if !is_scalar(new) || !matches!(old.content, Content::Scalar { .. }) || !one_line {
        return None;
    }
    Some([&text[..old.bytes.start], to_yaml(new).trim_end(), &text[old.bytes.end..]].concat())
}

/// Adds entries to a mapping in braces.
fn in_flow(text: &str, node: &Node, entries: &[(Node, Node)], new: &Value) -> Option<String> {
    let json = new.to_string();
    let added = json.strip_prefix('{')?.strip_suffix('}')?;
    let position = match entries.last() {
        None => node.bytes.start + 1,
        Some((key, value)) => value.bytes.end.max(key.bytes.end),
    };
    let separator = if entries.is_empty() { "" } else { ", " };
    Some([&text[..position], separator, added, &text[position..]].concat())
}

/// Adds entries to a mapping of lines: before the first key that is greater, as kOps sorts keys, else at the end.
fn in_block(text: &str, entries: &[(Node, Node)], new: &Value) -> Option<String> {
    let (first, _) = entries.first()?;
    let name = new.as_object()?.keys().next()?;
    let lines = indented(new, first.column, newline(text));
    let next = entries.iter().map(|(key, _)| key).find(|key| key.key() > *name);
    if let Some(position) = next.and_then(|key| start_of_entry(text, key)) {
        return Some([&text[..position], lines.as_str(), &text[position..]].concat());
    }
    let (key, value) = entries.last()?;
    let end = if value.is_empty() { key.bytes.end } else { value.bytes.end };
    if text[..end].ends_with('\n') {
        return Some([&text[..end], lines.as_str(), &text[end..]].concat());
    }
    match text[end..].find('\n') {
        Some(rest) => {
            let position = end + rest + 1;
            Some([&text[..position], lines.as_str(), &text[position..]].concat())
        }
        None => Some([text, newline(text), lines.as_str()].concat()),
    }
}

/// The beginning of an entry's line, or of the comment above that belongs to it. `None` when something else stands before the
/// key in its line.
fn start_of_entry(text: &str, key: &Node) -> Option<usize> {
    let mut start = line_start(text, key.bytes.start);
    if !text[start..key.bytes.start].chars().all(|character| character == ' ') {
        return None;
    }
    while start > 0 {
        let above = line_start(text, start - 1);
        let line = &text[above..start];
        let is_own = line.trim_start().starts_with('#') && line.len() - line.trim_start().len() == key.column;
        if !is_own {
            break;
        }
        start = above;
    }
    Some(start)
}

fn line_start(text: &str, position: usize) -> usize {
    text[..position].rfind('\n').map_or(0, |end| end + 1)
}

fn indented(value: &Value, column: usize, newline: &str) -> String {
    let pad = " ".repeat(column);
    to_yaml(value).lines().flat_map(|line| [pad.as_str(), line, newline]).map(str::to_owned).collect()
}

fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, path: &[&str], value: &Value, expected: &str) {
        assert_eq!(set(text, 0, path, value).unwrap(), expected);
    }

    #[test]
    fn a_field_is_added_in_its_place_and_comments_stay_with_their_fields() {
        let text = "# top\nspec:\n  # about api\n  api: {}   # inline\n  # about zone\n  zone: a\n";
        check(
            text,
            &["spec", "karpenter", "enabled"],
            &json!(true),
            "# top\nspec:\n  # about api\n  api: {}   # inline\n  karpenter:\n    enabled: true\n  # about zone\n  zone: a\n",
        );
        check(
            text,
            &["spec", "zz"],
            &json!("x"),
            "# top\nspec:\n  # about api\n  api: {}   # inline\n  # about zone\n  zone: a\n  zz: x\n",
        );
        check(
            text,
            &["spec", "api", "on"],
            &json!(1),
            "# top\nspec:\n  # about api\n  api: {\"on\":1}   # inline\n  # about zone\n  zone: a\n",
        );
    }

    #[test]
    fn a_value_is_replaced_and_nothing_else() {
        check("a: 1 # one\nb: 'x'\n", &["a"], &json!(2), "a: 2 # one\nb: 'x'\n");
        check("a: no\nb: x", &["a"], &json!(true), "a: true\nb: x");
        check("a:   yes\n", &["a"], &json!(true), "a:   yes\n");
        check("a: {b: 1, c: 2}\n", &["a", "b"], &json!("s"), "a: {b: s, c: 2}\n");
        check("a: {b: 1}\n", &["a", "c"], &json!("s"), "a: {b: 1, \"c\":\"s\"}\n");
        check(
            "a:  # nothing yet\nb: 1\n",
            &["a", "x", "z"],
            &json!(1),
            "a:  # nothing yet\n  x:\n    z: 1\nb: 1\n",
        );
        check("a:\nb: 1\n", &["a"], &json!("v"), "a: v\nb: 1\n");
    }

    #[test]
    fn the_end_of_a_text_is_kept() {
        check("a: 1", &["b"], &json!(2), "a: 1\nb: 2\n");
        check("a: |\n  text\n\n", &["b"], &json!(2), "a: |\n  text\n\nb: 2\n");
        check("a: 1\r\nb: 2\r\n", &["c"], &json!(3), "a: 1\r\nb: 2\r\nc: 3\r\n");
    }

    #[test]
    fn only_the_named_document_changes() {
        let edited =
            set("kind: A\n---\nkind: B\nspec: {}\n---\nkind: C\n", 1, &["spec", "x"], &json!(1)).unwrap();
        assert_eq!(edited, "kind: A\n---\nkind: B\nspec: {\"x\":1}\n---\nkind: C\n");
    }

    #[test]
    fn what_cannot_be_edited_safely_is_left_to_people() {
        let shared = "a: &x {k: 1}\nb: *x\n";
        assert!(matches!(set(shared, 0, &["b", "k"], &json!(2)), Err(EditError::ByHand(..))));
        assert!(matches!(set("a: [1]\n", 0, &["a", "k"], &json!(2)), Err(EditError::ByHand(..))));
        assert!(matches!(set("a: {b: 1}\n", 0, &["a"], &json!(2)), Err(EditError::ByHand(..))));
    }
}
