//! YAML with line numbers: the value that a document holds, and the line on which each of its fields stands.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

/// One document of a file, or one item of a list in it.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// The line on which it begins.
    line: u64,
    node: Node,
}

#[derive(Clone, Debug)]
enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

/// Reads every document of a file; the items of a List count as documents of their own.
pub(super) fn read(text: &str) -> Result<Vec<Document>, String> {
    let read: Vec<Spanned<Node>> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut documents = Vec::new();
    for spanned in read {
        let document = Document { line: spanned.referenced.line(), node: spanned.value };
        match document.items() {
            Some(items) => documents.extend(items),
            None => documents.push(document),
        }
    }
    Ok(documents)
}

impl Document {
    /// What the document says, as JSON.
    pub(super) fn value(&self) -> Value {
        self.node.value()
    }

    /// The line of the field at `path`, or of the innermost field on the way there that is written down.
    pub(super) fn line_of(&self, path: &str) -> u64 {
        let (mut line, mut node, mut rest) = (self.line, &self.node, path);
        while let Some((next_line, next, left)) = node.step(rest) {
            (line, node, rest) = (next_line, next, left);
        }
        line
    }

    fn items(&self) -> Option<Vec<Self>> {
        let Node::Map(fields) = &self.node else { return None };
        let field =
            |name: &str| fields.iter().find(|(key, _)| key.value == name).map(|(_, value)| &value.value);
        let is_list =
            matches!(field("kind"), Some(Node::Scalar(Value::String(kind))) if kind.ends_with("List"));
        let Node::List(items) = field("items").filter(|_| is_list)? else { return None };
        let document = |item: &Spanned<Node>| Self { line: item.referenced.line(), node: item.value.clone() };
        Some(items.iter().map(document).collect())
    }
}

impl Node {
    fn value(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => items.iter().map(|item| item.value.value()).collect(),
            Self::Map(fields) => {
                let pairs = fields.iter().map(|(key, value)| (key.value.clone(), value.value.value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }

    /// Follows the first part of a path: the line and the node it leads to, and what is left of the path.
    fn step<'n, 'p>(&'n self, path: &'p str) -> Option<(u64, &'n Self, &'p str)> {
        match self {
            Self::Scalar(_) => None,
            Self::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                let item = items.get(index.parse::<usize>().ok()?)?;
                Some((item.referenced.line(), &item.value, rest))
            }
            Self::Map(fields) => {
                let path = path.strip_prefix('.').unwrap_or(path);
                let led = |key: &str| rest_after(path, key);
                // Names of labels and resources have dots in them: the longest that leads on is meant.
                let candidates = fields.iter().filter(|(key, _)| led(&key.value).is_some());
                let (key, value) = candidates.max_by_key(|(key, _)| key.value.len())?;
                Some((key.referenced.line(), &value.value, led(&key.value)?))
            }
        }
    }
}

/// What is left of a path after a key, which may stand in brackets.
fn rest_after<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    if let Some(rest) = path.strip_prefix('[').and_then(|path| path.strip_prefix(key)) {
        return rest.strip_prefix(']');
    }
    let rest = path.strip_prefix(key)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "\
# a comment
kind: NodePool
spec:
  limits:
    cpu: 10
    nvidia.com/gpu: \"2\"
  template:
    metadata:
      labels:
        example.com/team: a
    spec:
      requirements:
        - key: kubernetes.io/arch
          operator: In
          values: [arm64]
        - key: other
          minValues: 3
---
kind: List
items:
  - kind: A
  - kind: B
    spec: {x: 1}
";

    #[test]
    fn fields_are_found_on_their_lines_and_what_is_not_written_on_the_line_around_it() {
        let documents = read(TEXT).unwrap();
        assert_eq!(documents.len(), 3);
        let lines = [
            ("spec.limits.cpu", 5),
            ("spec.limits.nvidia.com/gpu", 6),
            ("spec.template.metadata.labels[example.com/team]", 10),
            ("spec.template.spec.requirements[1]", 16),
            ("spec.template.spec.requirements[1].minValues", 17),
            ("spec.template.spec.requirements[1].values", 16),
            ("spec.disruption.budgets", 3),
            ("", 2),
        ];
        for (path, line) in lines {
            assert_eq!(documents[0].line_of(path), line, "{path}");
        }
        assert_eq!(documents[2].value(), json!({ "kind": "B", "spec": { "x": 1 } }));
        assert_eq!((documents[1].line_of("kind"), documents[2].line_of("spec.x")), (21, 23));
    }

    #[test]
    fn json_is_read_as_well_and_nonsense_is_refused() {
        let documents = read("{\"kind\": \"NodePool\",\n \"spec\": {\"weight\": 3}}").unwrap();
        assert_eq!(
            (documents[0].value()["spec"]["weight"].as_i64(), documents[0].line_of("spec.weight")),
            (Some(3), 2)
        );
        assert!(read("a: [b").is_err());
        assert!(read("").unwrap().len() <= 1);
    }

    proptest::proptest! {
        #[test]
        fn every_file_is_read_or_refused_and_every_path_has_a_line(text in ".{0,80}", yaml in "([ ]{0,4}[a-c&*!|>?-]{0,2}[a-c]{0,2}:? ?[a-c{}\\[\\],'\"]{0,5}\n){0,8}", path in "[a-c.\\[\\]0-9]{0,12}") {
            for text in [text, yaml] {
                for document in read(&text).unwrap_or_default() {
                    let _ = (document.value(), document.line_of(&path));
                }
            }
        }
    }
}
