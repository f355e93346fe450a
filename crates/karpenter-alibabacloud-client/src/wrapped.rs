//! Lists as RPC answers write them: `{"Instances": {"Instance": [...]}}`; and values that are JSON inside text.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serializer};

/// Reads a list inside an object with one field, or a bare list.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Wrapped<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Wrapped<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list, or an object that holds one")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
            let mut read = Vec::new();
            while let Some(element) = elements.next_element()? {
                read.push(element);
            }
            Ok(read)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Vec<T>, A::Error> {
            let first = match fields.next_key::<IgnoredAny>()? {
                Some(_) => fields.next_value::<Vec<T>>()?,
                None => Vec::new(),
            };
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(first)
        }

        // An empty list may be written as empty text.
        fn visit_str<E>(self, _: &str) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
    }

    deserializer.deserialize_any(Wrapped(PhantomData))
}

/// Writes a list as JSON text; an empty one is left out.
pub(crate) fn json_text<S: Serializer>(values: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    if values.is_empty() {
        return serializer.serialize_none();
    }
    serializer.serialize_some(&serde_json::to_string(values).map_err(S::Error::custom)?)
}
