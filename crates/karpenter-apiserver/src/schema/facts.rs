//! What the Go types of Kubernetes say about built-in kinds, read from `kinds.txt`.
//!
//! One line per type: its fields with their JSON names, types, protobuf numbers, and how lists merge. The generator
//! (`cargo xtask control-plane kinds`) explains the form. The table is read once, when it is first asked for.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldType {
    /// A text.
    Text,
    /// True or false.
    Boolean,
    /// A whole number.
    Integer,
    /// A number.
    Float,
    /// Another type of the table.
    Named(&'static str),
    /// A type with a JSON form of its own, such as `time` or `quantity`.
    Special(&'static str),
    /// A list.
    List(Box<Self>),
    /// A map with texts as keys.
    Map(Box<Self>),
    /// Something that may be absent without being empty.
    Pointer(Box<Self>),
}

/// A field of a type.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// The JSON name; empty when the fields of the field's type are those of the type itself.
    pub(crate) name: &'static str,
    pub(crate) kind: FieldType,
    /// The type as the table writes it, with the Go names of enumerations.
    pub(crate) text: &'static str,
    /// The number in protobuf; zero when the field is not sent that way.
    pub(crate) number: u32,
    /// Whether an empty value is left out of JSON.
    pub(crate) omits_empty: bool,
    /// Whether a zero value is left out of JSON, structs included.
    pub(crate) omits_zero: bool,
    /// How writers' versions come together, for example `map(name)`.
    pub(crate) merging: Option<&'static str>,
    /// How a strategic merge patch works on it, for example `merge(name)`.
    pub(crate) patching: Option<&'static str>,
    pub(crate) default: Option<Value>,
}

/// A type.
#[derive(Debug, Clone)]
pub(crate) struct Type {
    pub(crate) merging: Option<&'static str>,
    pub(crate) fields: Vec<Field>,
}

/// The whole table.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    types: HashMap<&'static str, Type>,
    kinds: HashMap<(&'static str, &'static str), &'static str>,
}

impl Facts {
    /// Returns the table.
    pub(crate) fn get() -> &'static Self {
        static FACTS: LazyLock<Facts> = LazyLock::new(|| Facts::read(include_str!("kinds.txt")));
        &FACTS
    }

    fn read(table: &'static str) -> Self {
        let mut facts = Self::default();
        for line in table.lines() {
            let mut words = line.split(' ');
            let head = words.next().unwrap_or_default();
            if head == "kind" {
                if let (Some(api_version), Some(kind), Some(name)) =
                    (words.next(), words.next(), words.next())
                {
                    facts.kinds.insert((api_version, kind), name);
                }
                continue;
            }
            let (name, merging) =
                head.split_once('@').map_or((head, None), |(name, mark)| (name, Some(mark)));
            facts.types.insert(name, Type { merging, fields: words.filter_map(field).collect() });
        }
        facts
    }

    /// Finds a type by its name in the table.
    pub(crate) fn named(&self, name: &str) -> Option<&Type> {
        self.types.get(name)
    }

    /// Returns the names of all types.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.types.keys().copied()
    }

    /// Returns the name of a kind's type.
    pub(crate) fn kind_name(&self, api_version: &str, kind: &str) -> Option<&'static str> {
        // The keys live as long as the program, the question need not.
        self.kinds
            .iter()
            .find(|((version, name), _)| *version == api_version && *name == kind)
            .map(|(_, name)| *name)
    }

    /// Finds the type of a kind.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<&Type> {
        self.named(self.kind_name(api_version, kind)?)
    }
}

/// Reads a field such as `ports:[core.v1.ContainerPort]#6?@map(containerPort,protocol)$merge(containerPort)`.
fn field(word: &'static str) -> Option<Field> {
    const MARKS: [char; 6] = ['#', '?', '!', '@', '$', '='];
    let (name, rest) = word.split_once(':')?;
    let end = rest.find(MARKS).unwrap_or(rest.len());
    let (kind, mut rest) = rest.split_at(end);
    let mut field = Field {
        name: if name == "..." { "" } else { name },
        kind: field_type(kind)?,
        text: kind,
        number: 0,
        omits_empty: false,
        omits_zero: false,
        merging: None,
        patching: None,
        default: None,
    };
    while let Some(mark) = rest.chars().next() {
        if mark == '=' {
            field.default = serde_json::from_str(&rest[1..]).ok();
            break;
        }
        let end = rest[1..].find(MARKS).map_or(rest.len(), |end| end + 1);
        let text = &rest[1..end];
        match mark {
            '#' => field.number = text.parse().ok()?,
            '?' => field.omits_empty = true,
            '!' => {
                field.omits_empty = true;
                field.omits_zero = true;
            }
            '@' => field.merging = Some(text),
            _ => field.patching = Some(text),
        }
        rest = &rest[end..];
    }
    Some(field)
}

fn field_type(text: &'static str) -> Option<FieldType> {
    let inner = |text| field_type(text).map(Box::new);
    if let Some(text) = text.strip_prefix('*') {
        return inner(text).map(FieldType::Pointer);
    }
    if let Some(text) = text.strip_prefix('[') {
        return inner(text.strip_suffix(']')?).map(FieldType::List);
    }
    if let Some(text) = text.strip_prefix('{') {
        return inner(text.strip_suffix('}')?).map(FieldType::Map);
    }
    Some(match text.split('/').next()? {
        "s" => FieldType::Text,
        "b" => FieldType::Boolean,
        "i" | "i16" | "i32" | "i64" | "u16" | "u32" => FieldType::Integer,
        "f64" => FieldType::Float,
        name if name.contains('.') => FieldType::Named(text),
        _ => FieldType::Special(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_types_numbers_and_marks() {
        let container = Facts::get().named("core.v1.Container").unwrap();
        let ports = container.fields.iter().find(|field| field.name == "ports").unwrap();
        assert_eq!(ports.kind, FieldType::List(Box::new(FieldType::Named("core.v1.ContainerPort"))));
        assert_eq!((ports.number, ports.omits_empty), (6, true));
        assert_eq!(ports.merging, Some("map(containerPort,protocol)"));
        assert_eq!(ports.patching, Some("merge(containerPort)"));
        let port = Facts::get().named("core.v1.ContainerPort").unwrap();
        let protocol = port.fields.iter().find(|field| field.name == "protocol").unwrap();
        assert_eq!(protocol.default, Some("TCP".into()));
    }

    #[test]
    fn every_line_is_understood_and_every_named_type_is_there() {
        fn named(kind: &FieldType) -> Option<&'static str> {
            match kind {
                FieldType::Named(name) => Some(name),
                FieldType::List(inner) | FieldType::Map(inner) | FieldType::Pointer(inner) => named(inner),
                _ => None,
            }
        }
        let facts = Facts::get();
        let fields: usize = facts.types.values().map(|each| each.fields.len()).sum();
        let words: usize = include_str!("kinds.txt")
            .lines()
            .filter(|line| !line.starts_with("kind "))
            .map(|line| line.split(' ').count() - 1)
            .sum();
        assert_eq!(fields, words);
        for field in facts.types.values().flat_map(|each| &each.fields) {
            if let Some(name) = named(&field.kind) {
                assert!(facts.named(name).is_some(), "{name}");
            }
        }
        assert!(facts.kind("apps/v1", "Deployment").is_some());
    }
}
