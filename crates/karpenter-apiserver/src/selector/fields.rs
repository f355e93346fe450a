//! Field selectors: `a=b`, `a==b`, `a!=b`, joined by commas that mean *and*, with backslashes before signs.

use crate::error::ApiError;
use crate::registry::Resource;
use crate::store::{Key, StoredObject};

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
    /// Parses a selector over the fields of a resource.
    ///
    /// # Errors
    /// 400 when it is malformed or names a field that cannot be selected by.
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        let mut terms = terms(text);
        terms.sort_unstable();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((path, equal, value)) = split(term) else {
                let message = format!("invalid selector: '{text}'; can't understand '{term}'");
                return Err(ApiError::bad_request(message));
            };
            let value = unescaped(value).map_err(ApiError::bad_request)?;
            let field = match path {
                "metadata.name" => Field::Name,
                "metadata.namespace" if !matches!(&*resource.name, "nodes" | "namespaces") => {
                    Field::Namespace
                }
                _ => {
                    let known = resource.selectable_fields.iter().position(|known| known == path);
                    Field::Indexed(known.ok_or_else(|| unknown(path, resource))?)
                }
            };
            requirements.push((field, equal, value));
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

    /// Returns the value that the selector pins the field at a position to, if it does.
    pub(crate) fn exact(&self, position: usize) -> Option<&str> {
        let pinned =
            |(field, equal, _): &&(Field, bool, String)| *equal && *field == Field::Indexed(position);
        self.requirements.iter().find(pinned).map(|(_, _, value)| value.as_str())
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

/// What Kubernetes says depends on who registered the fields of a kind.
fn unknown(path: &str, resource: &Resource) -> ApiError {
    ApiError::bad_request(match &*resource.name {
        "pods" | "nodes" | "namespaces" | "secrets" | "services" | "replicationcontrollers" | "events" => {
            format!("field label not supported: {path}")
        }
        "jobs.batch" => format!("field label {path:?} not supported for Job"),
        "resourceslices.resource.k8s.io" => {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {path}")
        }
        _ if resource.is_custom() => format!("field label not supported: {path}"),
        _ => {
            format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    })
}

fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split(term: &str) -> Option<(&str, bool, &str)> {
    for (index, _) in term.char_indices() {
        for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = term[index..].strip_prefix(sign) {
                return Some((&term[..index], equal, value));
            }
        }
    }
    None
}

fn unescaped(value: &str) -> Result<String, String> {
    let mut result = String::new();
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => result.push(escaped),
                other => {
                    let sequence = format!("\\{}", other.map(String::from).unwrap_or_default());
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            '=' | ',' => {
                let code = u32::from(character);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            plain => result.push(plain),
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn requirements_compare_indexed_values() {
        let registry = Registry::built_in();
        let pods = registry.find("", "v1", "pods").unwrap();
        let pod = json!({"metadata": {}, "spec": {"nodeName": "n1"}});
        let pod = StoredObject::new(&pod, 1, &pods.selectable_fields);
        let holds =
            |text: &str| FieldSelector::parse(text, pods).unwrap().matches(&Key::new("ns", "p"), &pod);
        assert!(holds("spec.nodeName=n1,metadata.name=p"));
        assert!(!holds("spec.nodeName!=n1"));
        assert!(!holds("metadata.namespace=other"));
        let error = FieldSelector::parse("spec.other=1", pods).unwrap_err();
        assert_eq!(error.message, "field label not supported: spec.other");
        assert!(FieldSelector::parse("metadata.name=a=b", pods).is_err());
        assert!(FieldSelector::parse("metadata.name", pods).is_err());
    }
}
