//! Label and field selectors: parsing and matching against the indexed values of stored objects.
//!
//! The grammar is Kubernetes': label requirements `a`, `!a`, `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`,
//! `a>1`, `a<1`; field requirements `a=b`, `a==b`, `a!=b`, joined by commas that mean *and*.

use serde_json::Value;

use crate::error::ApiError;
use crate::store::{Key, StoredObject};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

/// A parsed label selector; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<(String, Operator)>,
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if !part.is_empty() {
                requirements.push(requirement(part).ok_or_else(|| unparsable(text))?);
            }
        }
        Ok(Self { requirements })
    }

    /// Reads the `LabelSelector` object of workloads and budgets.
    pub(crate) fn from_object(selector: &Value) -> Self {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push((key.clone(), Operator::In(vec![value])));
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            let values = expression["values"].as_array().into_iter().flatten();
            let values: Vec<String> = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let operator = match expression["operator"].as_str() {
                Some("In") => Operator::In(values),
                Some("NotIn") => Operator::NotIn(values),
                Some("DoesNotExist") => Operator::Absent,
                _ => Operator::Exists,
            };
            requirements.push((key, operator));
        }
        Self { requirements }
    }

    /// Renders the selector as `status.selector` of a Scale shows it.
    pub(crate) fn render(&self) -> String {
        let shown = self.requirements.iter().map(|(key, operator)| match operator {
            Operator::Exists => key.clone(),
            Operator::Absent => format!("!{key}"),
            Operator::In(values) if values.len() == 1 => format!("{key}={}", values[0]),
            Operator::In(values) => format!("{key} in ({})", values.join(",")),
            Operator::NotIn(values) => format!("{key} notin ({})", values.join(",")),
            Operator::Greater(bound) => format!("{key}>{bound}"),
            Operator::Less(bound) => format!("{key}<{bound}"),
        });
        shown.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        self.requirements.iter().all(|(key, operator)| operator.holds(object.label(key)))
    }

    /// Whether the selector chooses an object that is not stored yet.
    pub(crate) fn matches_value(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.requirements.iter().all(|(key, operator)| operator.holds(labels[key.as_str()].as_str()))
    }
}

impl Operator {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => value.is_some_and(|value| values.iter().any(|other| other == value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|other| other != value)),
            Self::Greater(bound) => number().is_some_and(|number| number > *bound),
            Self::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

fn unparsable(text: &str) -> ApiError {
    ApiError::bad_request(format!("unable to parse requirement in label selector {text:?}"))
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn requirement(part: &str) -> Option<(String, Operator)> {
    if let Some(key) = part.strip_prefix('!') {
        return Some((label_key(key)?, Operator::Absent));
    }
    for (word, negated) in [(" notin ", true), (" in ", false)] {
        if let Some((key, values)) = part.split_once(word) {
            let values = values.trim().strip_prefix('(')?.strip_suffix(')')?;
            let values =
                values.split(',').map(|value| label_value(value.trim())).collect::<Option<Vec<_>>>()?;
            let operator = if negated { Operator::NotIn(values) } else { Operator::In(values) };
            return Some((label_key(key)?, operator));
        }
    }
    for (sign, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = part.split_once(sign) {
            let values = vec![label_value(value.trim())?];
            let operator = if negated { Operator::NotIn(values) } else { Operator::In(values) };
            return Some((label_key(key)?, operator));
        }
    }
    if let Some((key, bound)) = part.split_once('>') {
        return Some((label_key(key)?, Operator::Greater(bound.trim().parse().ok()?)));
    }
    if let Some((key, bound)) = part.split_once('<') {
        return Some((label_key(key)?, Operator::Less(bound.trim().parse().ok()?)));
    }
    Some((label_key(part)?, Operator::Exists))
}

fn label_key(text: &str) -> Option<String> {
    let text = text.trim();
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    (!text.is_empty() && text.chars().all(allowed)).then(|| text.to_owned())
}

fn label_value(text: &str) -> Option<String> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    (text.len() <= 63 && text.chars().all(allowed)).then(|| text.to_owned())
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// Index into the resource's selectable fields.
    Indexed(usize),
}

/// A parsed field selector; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    requirements: Vec<(Field, bool, String)>,
}

impl FieldSelector {
    /// Parses a selector over `selectable` fields beside name and namespace.
    pub(crate) fn parse(text: &str, selectable: &[String]) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (path, equal, value) = if let Some((path, value)) = part.split_once("!=") {
                (path, false, value)
            } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (path, true, value)
            } else {
                let message = format!("invalid selector: {text:?}; can't understand {part:?}");
                return Err(ApiError::bad_request(message));
            };
            let field =
                match path {
                    "metadata.name" => Field::Name,
                    "metadata.namespace" => Field::Namespace,
                    _ => Field::Indexed(selectable.iter().position(|known| known == path).ok_or_else(
                        || ApiError::bad_request(format!("field label not supported: {path}")),
                    )?),
                };
            requirements.push((field, equal, value.to_owned()));
        }
        Ok(Self { requirements })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the name the selector pins, if it does.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        let pinned = |(field, equal, _): &&(Field, bool, String)| *equal && *field == Field::Name;
        self.requirements.iter().find(pinned).map(|(_, _, name)| name.as_str())
    }

    pub(crate) fn matches(&self, key: &Key, object: &StoredObject) -> bool {
        self.requirements.iter().all(|(field, equal, value)| {
            let actual = match field {
                Field::Name => &*key.name,
                Field::Namespace => &*key.namespace,
                Field::Indexed(index) => &*object.fields[*index],
            };
            (actual == value) == *equal
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> StoredObject {
        let value = json!({"metadata": {"labels": {"app": "web", "tier": "1"}}, "spec": {"nodeName": "n1"}});
        StoredObject::new(&value, 1, &["spec.nodeName".to_owned()])
    }

    #[test]
    fn label_requirements_follow_kubernetes_grammar() {
        let holds = |text: &str| LabelSelector::parse(text).unwrap().matches(&object());
        for text in
            ["", "app", "app=web", "app==web,tier", "app in (api, web)", "!gone", "app!=api", "tier>0"]
        {
            assert!(holds(text), "{text}");
        }
        for text in ["gone", "app=api", "app notin (web)", "!app", "app=web,tier=2", "tier<1"] {
            assert!(!holds(text), "{text}");
        }
        assert!(LabelSelector::parse("app in web").is_err());
        assert!(LabelSelector::parse("a b").is_err());
    }

    #[test]
    fn field_requirements_compare_indexed_values() {
        let fields = ["spec.nodeName".to_owned()];
        let holds = |text: &str| {
            FieldSelector::parse(text, &fields).unwrap().matches(&Key::new("ns", "p"), &object())
        };
        assert!(holds("spec.nodeName=n1,metadata.name=p"));
        assert!(!holds("spec.nodeName!=n1"));
        assert!(!holds("metadata.namespace=other"));
        assert!(FieldSelector::parse("spec.other=1", &fields).is_err());
    }

    #[test]
    fn workload_selectors_render_as_scale_shows_them() {
        let selector = LabelSelector::from_object(&json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "Exists"}],
        }));
        assert_eq!(selector.render(), "app=web,tier");
        assert!(selector.matches(&object()));
    }
}
