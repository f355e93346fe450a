//! The fields of built-in kinds, read from the facts that our API server is built from.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a place in an object holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A scalar or a type with a form of its own, by the name the facts give it: `s`, `i32`, `quantity`.
    /// The second part is the Go type of enumerations, such as `v1.RestartPolicy`.
    Plain(String, String),
    List(Box<Type>),
    Map(Box<Type>),
    /// A struct by its name.
    Struct(String),
}

/// All types by name.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    types: BTreeMap<String, Vec<(String, Type)>>,
    roots: BTreeMap<(String, String), String>,
}

impl Kinds {
    pub(crate) fn read() -> Self {
        let mut kinds = Self::default();
        for line in include_str!("../../karpenter-apiserver/src/schema/kinds.txt").lines() {
            let mut words = line.split(' ');
            let Some(first) = words.next() else { continue };
            let rest: Vec<&str> = words.collect();
            if let ("kind", [version, kind, name]) = (first, rest.as_slice()) {
                kinds.roots.insert(((*version).to_owned(), (*kind).to_owned()), (*name).to_owned());
            } else {
                let name = first.split(['@', '$']).next().unwrap_or_default();
                kinds.types.insert(name.to_owned(), rest.iter().filter_map(|word| field(word)).collect());
            }
        }
        kinds
    }

    /// The types of a custom resource, from its schema, and the type of its objects.
    pub(crate) fn custom(schema: &Value) -> (Self, Type) {
        let mut kinds = Self::default();
        let root = kinds.add(schema, "");
        (kinds, root)
    }

    fn add(&mut self, schema: &Value, path: &str) -> Type {
        let plain = |name: &str| Type::Plain(name.to_owned(), String::new());
        if schema["x-kubernetes-int-or-string"] == true {
            return plain("intstr");
        }
        match schema["type"].as_str() {
            Some("object") if schema["properties"].is_object() => {
                let mut fields = Vec::new();
                for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                    let inner = format!("{path}.{name}");
                    fields.push((name.clone(), self.add(schema, &inner)));
                }
                self.types.insert(path.to_owned(), fields);
                Type::Struct(path.to_owned())
            }
            Some("object") => {
                let values = self.add(&schema["additionalProperties"], &format!("{path}.*"));
                Type::Map(Box::new(values))
            }
            Some("array") => Type::List(Box::new(self.add(&schema["items"], &format!("{path}.[]")))),
            Some("integer" | "number") => plain("i64"),
            Some("boolean") => plain("b"),
            Some("string") => plain("s"),
            _ => plain("any"),
        }
    }

    /// The struct of a kind.
    pub(crate) fn root(&self, api_version: &str, kind: &str) -> Option<Type> {
        let name = self.roots.get(&(api_version.to_owned(), kind.to_owned()))?;
        Some(Type::Struct(name.clone()))
    }

    /// The fields of a struct with those of the structs it embeds.
    pub(crate) fn fields(&self, name: &str) -> Vec<(String, Type)> {
        let mut fields = Vec::new();
        for (field, kind) in self.types.get(name).into_iter().flatten() {
            match kind {
                Type::Struct(embedded) if field == "..." => fields.extend(self.fields(embedded)),
                _ => fields.push((field.clone(), kind.clone())),
            }
        }
        fields
    }
}

fn field(word: &str) -> Option<(String, Type)> {
    let (name, rest) = word.split_once(':')?;
    let end = rest.find(['#', '?', '!', '@', '$', '=']).unwrap_or(rest.len());
    Some((name.to_owned(), parse(&rest[..end])))
}

fn parse(text: &str) -> Type {
    let text = text.trim_start_matches('*');
    if let Some(items) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return Type::List(Box::new(parse(items)));
    }
    if let Some(values) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        return Type::Map(Box::new(parse(values)));
    }
    match text.split_once('/') {
        Some((plain, name)) => Type::Plain(plain.to_owned(), name.to_owned()),
        None if text.contains('.') => Type::Struct(text.to_owned()),
        None => Type::Plain(text.to_owned(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_embedded_structs_belong_to_the_outer_one() {
        let kinds = Kinds::read();
        assert_eq!(kinds.root("v1", "Pod"), Some(Type::Struct("core.v1.Pod".into())));
        let names: Vec<String> = kinds.fields("core.v1.Volume").into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"name".to_owned()) && names.contains(&"emptyDir".to_owned()));
    }
}
