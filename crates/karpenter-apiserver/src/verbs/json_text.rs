//! Reading JSON as Go's decoder does: what is wrong with a text is said in its words, and a field that occurs twice is
//! merged into one and reported.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A parsed text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Parsed {
    pub(super) value: Value,
    /// Paths of fields that occur more than once.
    pub(super) duplicates: Vec<String>,
}

/// Parses a text.
///
/// # Errors
/// Returns what Go says about the first thing that is wrong.
pub(super) fn parse(text: &[u8]) -> Result<Parsed, String> {
    let mut duplicates = Vec::new();
    // Go takes bytes that are no text for the character that stands for such.
    let whole = String::from_utf8_lossy(text);
    let mut deserializer = serde_json::Deserializer::from_str(&whole);
    let reader = Reader { path: String::new(), duplicates: &mut duplicates };
    let parsed = reader.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    match parsed {
        Ok(value) => Ok(Parsed { value, duplicates }),
        Err(_) => Err(syntax_error(text)),
    }
}

struct Reader<'d> {
    path: String,
    duplicates: &'d mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, list.len());
            let reader = Reader { path, duplicates: &mut *self.duplicates };
            match items.next_element_seed(reader)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let path = if self.path.is_empty() { name.clone() } else { format!("{}.{name}", self.path) };
            let value =
                entries.next_value_seed(Reader { path: path.clone(), duplicates: &mut *self.duplicates })?;
            match fields.get_mut(&name) {
                Some(earlier) => {
                    if !self.duplicates.contains(&path) {
                        self.duplicates.push(path);
                    }
                    join(earlier, value);
                }
                None => {
                    fields.insert(name, value);
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

/// A later object is decoded on top of an earlier one; anything else replaces.
fn join(earlier: &mut Value, later: Value) {
    match (earlier, later) {
        (Value::Object(earlier), Value::Object(later)) => {
            for (name, value) in later {
                match earlier.get_mut(&name) {
                    Some(inner) => join(inner, value),
                    None => {
                        earlier.insert(name, value);
                    }
                }
            }
        }
        (earlier, later) => *earlier = later,
    }
}

/// What Go says about a text that is not JSON.
fn syntax_error(text: &[u8]) -> String {
    let mut scanner = Scanner { text, at: 0, depth: 0 };
    match scanner.document() {
        Err(Stop::End) | Ok(()) => "unexpected end of JSON input".to_owned(),
        Err(Stop::Character(context)) => {
            // Go looks at bytes, and shows one as the character with that number.
            let character = text.get(scanner.at).map_or('\0', |byte| char::from(*byte));
            let shown = match character {
                '\'' => "'\\''".to_owned(),
                '"' => "'\"'".to_owned(),
                '\n' => "'\\n'".to_owned(),
                '\t' => "'\\t'".to_owned(),
                '\r' => "'\\r'".to_owned(),
                '\0' => "'\\x00'".to_owned(),
                other if other.is_ascii_control() => format!("'\\x{:02x}'", u32::from(other)),
                other if other.is_control() || matches!(other, '\u{a0}' | '\u{ad}') => {
                    format!("'\\u{:04x}'", u32::from(other))
                }
                other => format!("'{other}'"),
            };
            format!("invalid character {shown} {context}")
        }
    }
}

enum Stop {
    End,
    Character(String),
}

/// How deep objects and lists may stand in one another. Go allows more, but then nobody's objects need it, and what is
/// read by recursion must end before the stack does.
const DEPTH_MAX: usize = 127;

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Stop> {
        self.value()?;
        self.space();
        match self.peek() {
            Ok(_) => Err(Stop::Character("after top-level value".into())),
            Err(_) => Ok(()),
        }
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, Stop> {
        self.text.get(self.at).copied().ok_or(Stop::End)
    }

    fn value(&mut self) -> Result<(), Stop> {
        self.space();
        match self.peek()? {
            b'{' => self.inner(Self::object),
            b'[' => self.inner(Self::list),
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => Err(Stop::Character("looking for beginning of value".into())),
        }
    }

    fn inner(&mut self, read: fn(&mut Self) -> Result<(), Stop>) -> Result<(), Stop> {
        if self.depth == DEPTH_MAX {
            return Err(Stop::Character("exceeded max depth".into()));
        }
        self.depth += 1;
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Result<(), Stop> {
        self.at += 1;
        self.space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            if self.peek()? != b'"' {
                return Err(Stop::Character("looking for beginning of object key string".into()));
            }
            self.string()?;
            self.space();
            if self.peek()? != b':' {
                return Err(Stop::Character("after object key".into()));
            }
            self.at += 1;
            self.value()?;
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(Stop::Character("after object key:value pair".into())),
            }
        }
    }

    fn list(&mut self) -> Result<(), Stop> {
        self.at += 1;
        self.space();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value()?;
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(Stop::Character("after array element".into())),
            }
        }
    }

    fn string(&mut self) -> Result<(), Stop> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    if !b"bfnrt\\/\"u".contains(&self.peek()?) {
                        return Err(Stop::Character("in string escape code".into()));
                    }
                    self.at += 1;
                }
                byte if byte < 0x20 => return Err(Stop::Character("in string literal".into())),
                _ => self.at += 1,
            }
        }
    }

    fn digits(&mut self, context: &str) -> Result<(), Stop> {
        if !self.peek()?.is_ascii_digit() {
            return Err(Stop::Character(context.into()));
        }
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Stop> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if self.text.get(self.at).is_some_and(|byte| b"eE".contains(byte)) {
            self.at += 1;
            if self.text.get(self.at).is_some_and(|byte| b"+-".contains(byte)) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), Stop> {
        for expected in word.chars() {
            if self.peek()? != expected as u8 {
                return Err(Stop::Character(format!("in literal {word} (expecting '{expected}')")));
            }
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mistakes_are_named_as_go_names_them() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\":}", "invalid character '}' looking for beginning of value"),
            ("{} {}", "invalid character '{' after top-level value"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{a}", "invalid character 'a' looking for beginning of object key string"),
            ("nope", "invalid character 'o' in literal null (expecting 'u')"),
            ("not json", "invalid character 'o' in literal null (expecting 'u')"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_stands_too_deep_is_refused_however_deep_it_is() {
        for depth in [128, 1_000_000] {
            let found = parse("[".repeat(depth).as_bytes());
            assert_eq!(found, Err("invalid character '[' exceeded max depth".to_owned()));
        }
        let good = format!("{}{}", "[".repeat(127), "]".repeat(127));
        assert!(parse(good.as_bytes()).is_ok());
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(parse(b"{\"a\": \"x\xff\"}").unwrap().value, json!({"a": "x\u{fffd}"}));
    }

    #[test]
    fn a_field_given_twice_is_merged_and_reported() {
        let parsed = parse(br#"{"a": {"x": 1}, "l": [{"n": 1, "n": 2}], "a": {"y": 2}}"#).unwrap();
        assert_eq!(parsed.value, json!({"a": {"x": 1, "y": 2}, "l": [{"n": 2}]}));
        assert_eq!(parsed.duplicates, ["l[0].n", "a"]);
    }
}
