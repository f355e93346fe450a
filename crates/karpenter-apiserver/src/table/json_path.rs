//! The part of `JSONPath` that printer columns use: fields, indices, and filters on one field's value.

use serde_json::Value;

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
    All,
    Filter(String, String),
}

/// Returns the first value at a path such as `.status.conditions[?(@.type=="Ready")].status`.
pub(super) fn first<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let mut found = vec![value];
    for step in parse(path)? {
        found = found.into_iter().flat_map(|value| follow(value, &step)).collect();
    }
    found.into_iter().next()
}

fn follow<'v>(value: &'v Value, step: &Step) -> Vec<&'v Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => value.get(index).into_iter().collect(),
        Step::All => value.as_array().into_iter().flatten().collect(),
        Step::Filter(field, wanted) => {
            let items = value.as_array().into_iter().flatten();
            items.filter(|item| item[field.as_str()].as_str() == Some(wanted)).collect()
        }
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path.trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(bracket) = rest.strip_prefix('[') {
            let end = closing(bracket)?;
            steps.push(bracketed(&bracket[..end])?);
            rest = &bracket[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let (name, length) = field(rest);
        if length == 0 {
            return None;
        }
        steps.push(Step::Field(name));
        rest = &rest[length..];
    }
    Some(steps)
}

/// Reads a field name with `\.` for dots in it, and returns how much of the text it took.
fn field(text: &str) -> (String, usize) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, index),
            other => name.push(other),
        }
    }
    (name, text.len())
}

/// Finds the bracket that closes, quoted text left aside.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (None, ']') => return Some(index),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
    }
    None
}

fn bracketed(text: &str) -> Option<Step> {
    let unquoted = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
    if let Some(filter) = text.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        let (field, wanted) = filter.split_once("==")?;
        return Some(Step::Filter(field.trim().strip_prefix("@.")?.to_owned(), unquoted(wanted)));
    }
    match text {
        "*" => Some(Step::All),
        text if text.starts_with(['"', '\'']) => Some(Step::Field(unquoted(text))),
        text => text.parse().ok().map(Step::Index),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_reach_labels_conditions_and_items() {
        let object = json!({
            "metadata": {"labels": {"karpenter.sh/nodepool": "a"}},
            "status": {"conditions": [{"type": "X", "status": "0"}, {"type": "Ready", "status": "True"}]},
            "spec": {"list": [{"v": 1}, {"v": 2}]},
        });
        let text = |path: &str| first(&object, path).map(ToString::to_string);
        assert_eq!(text(".metadata.labels.karpenter\\.sh/nodepool").as_deref(), Some("\"a\""));
        assert_eq!(text(".metadata.labels['karpenter.sh/nodepool']").as_deref(), Some("\"a\""));
        assert_eq!(text(".status.conditions[?(@.type==\"Ready\")].status").as_deref(), Some("\"True\""));
        assert_eq!(text(".spec.list[1].v").as_deref(), Some("2"));
        assert_eq!(text(".spec.list[*].v").as_deref(), Some("1"));
        assert_eq!(text(".spec.none"), None);
    }
}
