//! Reads YAML the way kOps does: by the rules of YAML 1.1, and remembering where everything stands in the text.
//!
//! kOps turns YAML into JSON before it looks at types, so a bare `yes` is a boolean and is refused where a text is
//! wanted. A reader that knows the wanted type would let it pass. The positions are what [`crate::edit`] works with.

use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StructureStyle};
use serde_json::{Map, Number, Value};

/// One node of a document.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) content: Content,
    /// Bytes of the text from the node's first to its last character.
    pub(crate) bytes: Range<usize>,
    /// Characters between the beginning of the line and the node.
    pub(crate) column: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Scalar { text: String, plain: bool },
    List { items: Vec<Node>, flow: bool },
    Map { entries: Vec<(Node, Node)>, flow: bool },
}

/// A text that is no YAML, or more than a file of kOps can be.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    /// The parser does not understand the text.
    #[error("this is no YAML: {0}")]
    Syntax(String),
    /// References multiply a document without bound.
    #[error("aliases expand to more than {NODES_MAX} values: write them out")]
    TooLarge,
    /// A merge key names something else than mappings.
    #[error("a merge key (<<) needs a mapping or a list of mappings")]
    Merge,
}

/// More values than any file of kOps has; what a document may grow to by its aliases.
const NODES_MAX: usize = 1_000_000;

/// Reads every document of a stream as JSON; empty documents are left out.
///
/// # Errors
///
/// The text is no YAML.
pub fn read_documents(text: &str) -> Result<Vec<Value>, YamlError> {
    let values = parse(text)?.iter().map(Node::value).collect::<Result<Vec<_>, _>>()?;
    Ok(values.into_iter().filter(|value| !value.is_null()).collect())
}

/// Reads every document of a stream as a tree.
pub(crate) fn parse(text: &str) -> Result<Vec<Node>, YamlError> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut tree = Tree::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| YamlError::Syntax(error.to_string()))?;
        tree.take(event, &span)?;
    }
    Ok(tree.documents)
}

/// A collection whose end has not been seen.
struct Open {
    node: Node,
    anchor: usize,
    key: Option<Node>,
}

#[derive(Default)]
struct Tree {
    documents: Vec<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let plain = style == ScalarStyle::Plain && !is_text;
                let content = Content::Scalar { text: text.into_owned(), plain };
                self.finish(node(content, span), anchor)?;
            }
            Event::SequenceStart(style, anchor, _) => {
                let flow = style == StructureStyle::Flow;
                self.begin(Content::List { items: Vec::new(), flow }, span, anchor);
            }
            Event::MappingStart(style, anchor, _) => {
                let flow = style == StructureStyle::Flow;
                self.begin(Content::Map { entries: Vec::new(), flow }, span, anchor);
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { node: mut closed, anchor, .. }) = self.open.pop() {
                    closed.bytes.end = closed.end(offset(span.end));
                    self.finish(closed, anchor)?;
                }
            }
            Event::Alias(anchor) => {
                let target = self.anchors.get(&anchor).cloned().unwrap_or_else(|| null(span));
                self.nodes += target.size();
                self.finish(Node { bytes: bytes(span), ..target }, 0)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, content: Content, span: &Span, anchor: usize) {
        self.open.push(Open { node: node(content, span), anchor, key: None });
    }

    /// Puts a finished node where it belongs.
    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), YamlError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(YamlError::TooLarge);
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(parent) = self.open.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        match &mut parent.node.content {
            Content::List { items, .. } => items.push(node),
            Content::Map { entries, .. } => match parent.key.take() {
                None => parent.key = Some(node),
                Some(key) => entries.push((key, node)),
            },
            Content::Scalar { .. } => {}
        }
        Ok(())
    }
}

fn node(content: Content, span: &Span) -> Node {
    Node { content, bytes: bytes(span), column: span.start.col() }
}

fn null(span: &Span) -> Node {
    node(Content::Scalar { text: String::new(), plain: true }, span)
}

fn bytes(span: &Span) -> Range<usize> {
    offset(span.start)..offset(span.end)
}

fn offset(marker: granit_parser::Marker) -> usize {
    marker.byte_offset().unwrap_or_else(|| marker.index())
}

impl Node {
    /// Where a collection ends: its closing bracket, or its last part when it has none.
    fn end(&self, closing: usize) -> usize {
        match &self.content {
            Content::Map { flow: true, .. } | Content::List { flow: true, .. } | Content::Scalar { .. } => {
                closing
            }
            Content::Map { entries, .. } => {
                entries.last().map_or(closing, |(key, value)| value.bytes.end.max(key.bytes.end))
            }
            Content::List { items, .. } => {
                items.last().map_or(closing, |item| item.bytes.end.max(self.bytes.end))
            }
        }
    }

    fn size(&self) -> usize {
        match &self.content {
            Content::Scalar { .. } => 1,
            Content::List { items, .. } => 1 + items.iter().map(Self::size).sum::<usize>(),
            Content::Map { entries, .. } => {
                1 + entries.iter().map(|(key, value)| key.size() + value.size()).sum::<usize>()
            }
        }
    }

    /// The node as JSON.
    pub(crate) fn value(&self) -> Result<Value, YamlError> {
        match &self.content {
            Content::Scalar { text, plain: true } => Ok(resolve(text)),
            Content::Scalar { text, plain: false } => Ok(Value::from(text.as_str())),
            Content::List { items, .. } => items.iter().map(Self::value).collect(),
            Content::Map { entries, .. } => map(entries).map(Value::Object),
        }
    }

    /// The text of a mapping's key.
    pub(crate) fn key(&self) -> String {
        match &self.content {
            Content::Scalar { text, plain: false } => text.clone(),
            Content::Scalar { text, plain: true } => match resolve(text) {
                Value::Bool(value) => value.to_string(),
                Value::Number(number) => number.to_string(),
                _ => text.clone(),
            },
            _ => String::new(),
        }
    }
}

fn map(entries: &[(Node, Node)]) -> Result<Map<String, Value>, YamlError> {
    let mut map = Map::new();
    for (_, value) in entries.iter().filter(|(key, _)| is_merge(key)) {
        let sources = match value.value()? {
            Value::Object(source) => vec![source],
            Value::Array(items) => items.into_iter().map(object).collect::<Result<_, _>>()?,
            _ => return Err(YamlError::Merge),
        };
        for (key, value) in sources.into_iter().rev().flatten() {
            map.insert(key, value);
        }
    }
    for (key, value) in entries.iter().filter(|(key, _)| !is_merge(key)) {
        map.insert(key.key(), value.value()?);
    }
    Ok(map)
}

fn is_merge(key: &Node) -> bool {
    matches!(&key.content, Content::Scalar { text, plain: true } if text == "<<")
}

fn object(value: Value) -> Result<Map<String, Value>, YamlError> {
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(YamlError::Merge),
    }
}

/// What a bare word means in YAML 1.1.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        _ => number(text).map_or_else(|| Value::from(text), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    let digits: String = text.chars().filter(|character| *character != '_').collect();
    integer(&digits).or_else(|| float(&digits))
}

/// Whole numbers: decimal, `0x`, `0b`, `0o`, and octal by a leading zero alone.
fn integer(text: &str) -> Option<Number> {
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixes = [("0x", 16), ("0X", 16), ("0b", 2), ("0B", 2), ("0o", 8), ("0O", 8)];
    let by_prefix = prefixes.iter().find_map(|(prefix, base)| Some((magnitude.strip_prefix(prefix)?, *base)));
    let (digits, base) = match by_prefix {
        Some(found) => found,
        None if magnitude.len() > 1 && magnitude.starts_with('0') => (&magnitude[1..], 8),
        None => (magnitude, 10),
    };
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    let parsed = u64::from_str_radix(digits, base).ok()?;
    if negative {
        i64::try_from(-i128::from(parsed)).ok().map(Number::from)
    } else {
        Some(Number::from(parsed))
    }
}

fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = unsigned.starts_with(|first: char| first.is_ascii_digit())
        || unsigned
            .strip_prefix('.')
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    let shape = |character: char| character.is_ascii_digit() || ".eE+-".contains(character);
    (is_number && text.chars().all(shape)).then(|| text.parse().ok()).flatten().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: &Value) {
        assert_eq!(read_documents(text).unwrap(), std::slice::from_ref(expected), "{text}");
    }

    #[test]
    fn bare_words_mean_what_yaml_1_1_says() {
        check(
            "{a: y, b: No, c: on, d: 'yes', e: ~, f: nullable}",
            &json!({"a": true, "b": false, "c": true, "d": "yes", "e": null, "f": "nullable"}),
        );
        check(
            "{a: 010, b: 0x1F, c: 1_000, d: -7, e: 1.5e3, f: 1.2.3, g: 5Gi, h: .5, i: 0b11, j: '-'}",
            &json!({"a": 8, "b": 31, "c": 1000, "d": -7, "e": 1500.0, "f": "1.2.3", "g": "5Gi", "h": 0.5, "i": 3, "j": "-"}),
        );
        check("{a: 2016-12-10T22:42:27Z, b: !!str 5}", &json!({"a": "2016-12-10T22:42:27Z", "b": "5"}));
        check("{a: 099720109477}", &json!({"a": 99_720_109_477.0}));
    }

    #[test]
    fn keys_are_texts_and_the_last_of_equal_keys_counts() {
        check("{on: 1, 5: 2, a: 1, a: 3}", &json!({"true": 1, "5": 2, "a": 3}));
    }

    #[test]
    fn anchors_and_merge_keys_are_followed() {
        check(
            "base: &b {x: 1, y: 2}\nmore:\n  <<: *b\n  z: 4\n  y: 3\nagain: *b\n",
            &json!({"base": {"x": 1, "true": 2}, "more": {"x": 1, "z": 4, "true": 3}, "again": {"x": 1, "true": 2}}),
        );
    }

    #[test]
    fn aliases_cannot_grow_without_bound() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            writeln!(text, "a{level}: &a{level} [{aliases}]").unwrap();
        }
        assert!(matches!(read_documents(&text), Err(YamlError::TooLarge)));
    }

    #[test]
    fn empty_documents_are_no_documents() {
        assert_eq!(read_documents("---\n---\na: 1\n---\n# nothing\n").unwrap(), [json!({"a": 1})]);
        assert!(read_documents("a: [1").is_err());
    }
}
