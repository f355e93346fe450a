//! Label selectors: reading them as Kubernetes does, down to what it says about mistakes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::ApiError;
use crate::kinds::format;
use crate::store::StoredObject;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    Equal(String),
    NotEqual(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

/// A parsed label selector; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<(String, Operator)>,
}

impl LabelSelector {
    /// Parses a selector: `a`, `!a`, `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`, `a>1`, `a<1`, joined by
    /// commas that mean *and*.
    ///
    /// # Errors
    /// 400 with what was found and what was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let requirements = parser.requirements().map_err(ApiError::bad_request)?;
        Ok(Self { requirements })
    }

    /// Reads the `LabelSelector` object of workloads and budgets.
    pub(crate) fn from_object(selector: &Value) -> Self {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push((key.clone(), Operator::Equal(value)));
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            let values = expression["values"].as_array().into_iter().flatten();
            let values: BTreeSet<String> = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let operator = match expression["operator"].as_str() {
                Some("In") => Operator::In(values),
                Some("NotIn") => Operator::NotIn(values),
                Some("DoesNotExist") => Operator::Absent,
                _ => Operator::Exists,
            };
            requirements.push((key, operator));
        }
        requirements.sort_by(|left, right| left.0.cmp(&right.0));
        Self { requirements }
    }

    /// Renders the selector as `status.selector` of a Scale shows it.
    pub(crate) fn render(&self) -> String {
        let joined = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
        let shown = self.requirements.iter().map(|(key, operator)| match operator {
            Operator::Exists => key.clone(),
            Operator::Absent => format!("!{key}"),
            Operator::Equal(value) => format!("{key}={value}"),
            Operator::NotEqual(value) => format!("{key}!={value}"),
            Operator::In(values) => format!("{key} in ({})", joined(values)),
            Operator::NotIn(values) => format!("{key} notin ({})", joined(values)),
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

    /// Whether the selector matches the labels of an object that is not stored.
    pub(crate) fn matches_value(&self, object: &Value) -> bool {
        self.matches_labels(&object["metadata"]["labels"])
    }

    /// Whether the selector matches a map of labels.
    pub(crate) fn matches_labels(&self, labels: &Value) -> bool {
        self.requirements.iter().all(|(key, operator)| operator.holds(labels[key].as_str()))
    }
}

impl Operator {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::Equal(wanted) => value == Some(wanted),
            Self::NotEqual(unwanted) => value != Some(unwanted),
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::Greater(bound) => number().is_some_and(|number| number > *bound),
            Self::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Word,
    In,
    NotIn,
    Equal,
    DoubleEqual,
    NotEqual,
    Greater,
    Less,
    Not,
    Comma,
    Open,
    Close,
    Unknown,
    End,
}

const SYMBOLS: &[(&str, Token)] = &[
    ("==", Token::DoubleEqual),
    ("!=", Token::NotEqual),
    ("=", Token::Equal),
    ("!", Token::Not),
    (",", Token::Comma),
    ("(", Token::Open),
    (")", Token::Close),
    (">", Token::Greater),
    ("<", Token::Less),
];

fn tokens(text: &str) -> Vec<(Token, String)> {
    let is_space = |character: char| matches!(character, ' ' | '\t' | '\r' | '\n');
    let is_symbol = |character: char| "=!(),><".contains(character);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let (token, length) = if is_symbol(first) {
            let known = SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol));
            known.map_or((Token::Unknown, first.len_utf8()), |(symbol, token)| (*token, symbol.len()))
        } else {
            let end =
                rest.find(|character| is_space(character) || is_symbol(character)).unwrap_or(rest.len());
            let token = match &rest[..end] {
                "in" => Token::In,
                "notin" => Token::NotIn,
                _ => Token::Word,
            };
            (token, end)
        };
        tokens.push((token, rest[..length].to_owned()));
        rest = rest[length..].trim_start_matches(is_space);
    }
    tokens.push((Token::End, String::new()));
    tokens
}

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// The next token; words that are operators elsewhere are plain words here.
    fn peek(&self) -> (Token, String) {
        let (token, text) = self.tokens.get(self.at).cloned().unwrap_or((Token::End, String::new()));
        (if matches!(token, Token::In | Token::NotIn) { Token::Word } else { token }, text)
    }

    fn next(&mut self) -> (Token, String) {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<(String, Operator)>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Word | Token::Not, _) => {
                    let requirement = self.requirement();
                    requirements
                        .push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
                    match self.next() {
                        (Token::End, _) => return Ok(requirements),
                        (Token::Comma, _) => {
                            let (token, text) = self.peek();
                            if !matches!(token, Token::Word | Token::Not) {
                                return Err(format!("found '{text}', expected: identifier after ','"));
                            }
                        }
                        (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
                    }
                }
                (Token::End, _) => return Ok(requirements),
                (_, text) => {
                    return Err(format!("found '{text}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<(String, Operator), String> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Word {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let wrong = format::label_key(&key);
        if !wrong.is_empty() {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", wrong.join("; ")));
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok((key, if negated { Operator::Absent } else { Operator::Exists }));
        }
        let operator = self.operator(&key)?;
        Ok((key, operator))
    }

    fn operator(&mut self, key: &str) -> Result<Operator, String> {
        let (token, text) = self.tokens.get(self.at).cloned().unwrap_or((Token::End, String::new()));
        self.at += 1;
        match token {
            Token::In | Token::NotIn => {
                let values = self.values()?;
                check_values(key, &values)?;
                Ok(if token == Token::In { Operator::In(values) } else { Operator::NotIn(values) })
            }
            Token::Equal | Token::DoubleEqual | Token::NotEqual | Token::Greater | Token::Less => {
                let value = self.exact_value()?;
                let bound = || {
                    value.parse().map_err(|_| {
                        let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
                        format!("values[0]: Invalid value: {value:?}: {rule}")
                    })
                };
                let operator = match token {
                    Token::NotEqual => Operator::NotEqual(value.clone()),
                    Token::Greater => Operator::Greater(bound()?),
                    Token::Less => Operator::Less(bound()?),
                    _ => Operator::Equal(value.clone()),
                };
                check_values(key, &BTreeSet::from([value]))?;
                Ok(operator)
            }
            _ => Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, text) = self.next();
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        match self.peek() {
            (Token::Word | Token::Comma, text) => {
                let values = self.value_list()?;
                if self.next().0 != Token::Close {
                    return Err(format!("found '{text}', expected: ')'"));
                }
                Ok(values)
            }
            (Token::Close, _) => {
                self.next();
                Ok(BTreeSet::from([String::new()]))
            }
            (_, text) => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    fn value_list(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                (Token::Word, text) => {
                    values.insert(text);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    let next = self.peek().0;
                    if values.is_empty() || matches!(next, Token::Close | Token::Comma) {
                        values.insert(String::new());
                    }
                    if next == Token::Close {
                        return Ok(values);
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            (Token::Word, text) => Ok(text),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }
}

fn check_values(key: &str, values: &BTreeSet<String>) -> Result<(), String> {
    let mut problems = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let wrong = format::label_value(value);
        if !wrong.is_empty() {
            problems.push(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", wrong.join("; ")));
        }
    }
    match problems.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> StoredObject {
        let value = json!({"metadata": {"labels": {"app": "web", "tier": "1"}}});
        StoredObject::new(&value, 1, &[])
    }

    #[test]
    fn requirements_follow_kubernetes_grammar() {
        let holds = |text: &str| LabelSelector::parse(text).unwrap().matches(&object());
        for text in
            ["", "app", "app=web", "app==web,tier", "app in (api, web)", "!gone", "app!=api", "tier>0"]
        {
            assert!(holds(text), "{text}");
        }
        for text in ["gone", "app=api", "app notin (web)", "!app", "app=web,tier=2", "tier<1", "app in ()"] {
            assert!(!holds(text), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_as_kubernetes_names_them() {
        for (text, expected) in [
            ("app in web", "unable to parse requirement: found 'web' expected: '('"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("app=a b", "found 'b', expected: ',' or 'end of string'"),
            ("app,,tier", "found ',', expected: identifier after ','"),
            ("app in (web", "unable to parse requirement: found '', expected: ',' or ')'"),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap_err().message, expected, "{text}");
        }
    }

    #[test]
    fn workload_selectors_render_as_scale_shows_them() {
        let selector = LabelSelector::from_object(&json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "1"]}],
        }));
        assert_eq!(selector.render(), "app=web,tier in (1,b)");
        assert!(selector.matches(&object()));
    }
}
