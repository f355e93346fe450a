//! Typed answers from XML elements: the target type says whether an element is a text, a number, a list or a structure.
//!
//! Lists hold `item` (EC2) or `member` (IAM, STS) elements. A name may come with several spellings of its first letter, so fields
//! are found by the exact names the answers use.

use std::fmt;

use karpenter_transport::Element;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// What an element does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit(String);

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misfit {}

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Reads a structure from an element.
pub(crate) fn read<T: DeserializeOwned>(element: &Element) -> Result<T, Misfit> {
    T::deserialize(Value(element))
}

#[derive(Clone, Copy)]
struct Value<'a>(&'a Element);

impl Value<'_> {
    fn parse<T: std::str::FromStr>(self, what: &str) -> Result<T, Misfit> {
        let Element { name, text, .. } = self.0;
        text.trim().parse().map_err(|_| Misfit(format!("{name} is {text:?}, which is not {what}")))
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $what:literal),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
            visitor.$visit(self.parse($what)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Misfit;

    /// Where the target does not say what it wants, children make a structure and anything else is text.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if self.0.children.is_empty() {
            visitor.visit_borrowed_str(&self.0.text)
        } else {
            self.deserialize_map(visitor)
        }
    }

    numbers! {
        deserialize_i32 visit_i32 "a whole number",
        deserialize_i64 visit_i64 "a whole number",
        deserialize_u16 visit_u16 "a whole number from zero on",
        deserialize_u32 visit_u32 "a whole number from zero on",
        deserialize_u64 visit_u64 "a whole number from zero on",
        deserialize_f64 visit_f64 "a number",
        deserialize_bool visit_bool "true or false",
    }

    /// An element that is there is a value, an empty text included.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_seq(Items(self.0.children.iter()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_map(Fields { rest: self.0.children.iter(), value: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.deserialize_map(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u128 f32 char str string bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

struct Items<'a>(std::slice::Iter<'a, Element>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        self.0
            .find(|child| matches!(child.name.as_str(), "item" | "member"))
            .map(|child| seed.deserialize(Value(child)))
            .transpose()
    }
}

struct Fields<'a> {
    rest: std::slice::Iter<'a, Element>,
    value: Option<&'a Element>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misfit> {
        self.value = self.rest.next();
        let name = |child: &'de Element| child.name.as_str().into_deserializer();
        self.value.map(|child| seed.deserialize(name(child))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let child = self.value.ok_or_else(|| Misfit("a value without a name".into()))?;
        seed.deserialize(Value(child))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Thing {
        name: Option<String>,
        count: u32,
        price: Option<f64>,
        ready: bool,
        tag_set: Vec<Inner>,
        values: Vec<String>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Inner {
        key: String,
    }

    fn thing(text: &str) -> Result<Thing, Misfit> {
        read(&Element::parse(text).unwrap())
    }

    #[test]
    fn the_type_says_what_an_element_is() {
        let found = thing(
            "<t><unknown><x/></unknown><name>a</name><count>3</count><price>0.25</price><ready>true</ready>\
             <tagSet><item><key>k</key></item><item/></tagSet><values><member>1</member><member>b</member></values></t>",
        )
        .unwrap();
        let expected = Thing {
            name: Some("a".into()),
            count: 3,
            price: Some(0.25),
            ready: true,
            tag_set: vec![Inner { key: "k".into() }, Inner::default()],
            values: vec!["1".into(), "b".into()],
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_missing_takes_its_default_and_an_empty_list_is_empty() {
        assert_eq!(thing("<t/>").unwrap(), Thing::default());
        assert_eq!(thing("<t><tagSet/></t>").unwrap().tag_set, []);
    }

    #[test]
    fn a_value_that_does_not_fit_is_named() {
        let error = thing("<t><count>many</count></t>").unwrap_err();
        assert_eq!(error.to_string(), "count is \"many\", which is not a whole number from zero on");
    }
}
