//! What requests and answers look like on the wire: flattened parameters in, JSON or a refusal out.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;

/// What an action answers.
pub(crate) type Reply = Result<Body, Refusal>;

/// The body of a good answer.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// JSON; objects of RPC services get a `RequestId`.
    Json(Value),
    /// Text that is handed to the caller as it is.
    Text(String),
    /// XML with the status of its success; queues speak it.
    Xml(u16, String),
}

/// A bad answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
    /// Seconds for the header `x-acs-retry-after`.
    pub(crate) retry_after: Option<u32>,
    /// The RAM action that was denied, for `AccessDeniedDetail`.
    pub(crate) denied: Option<String>,
}

impl Refusal {
    pub(crate) fn new(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into(), retry_after: None, denied: None }
    }

    pub(crate) fn missing(name: &str) -> Self {
        Self::new(400, format!("MissingParameter.{name}"), format!("The parameter {name} is required."))
    }

    pub(crate) fn invalid(name: &str, why: &str) -> Self {
        Self::new(400, "InvalidParameter", format!("The parameter {name} is not valid: {why}."))
    }

    pub(crate) fn not_found(code: &str, what: &str) -> Self {
        Self::new(404, code, format!("There is no {what}."))
    }
}

/// The decoded parameters of a request. An empty value counts as none, since some clients send every field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    pub(crate) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    pub(crate) fn all(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    pub(crate) fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.get(name).ok_or_else(|| Refusal::missing(name))
    }

    /// Whether a parameter says true, in whatever case.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        self.get(name)
            .map(|text| text.parse().map_err(|_| Refusal::invalid(name, "it is no number")))
            .transpose()
    }

    /// `NAME.1`, `NAME.2`, … in the order of their numbers.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let mut found: Vec<(u32, String)> = self
            .below(name)
            .filter(|(_, value)| !value.is_empty())
            .filter_map(|(rest, value)| Some((rest.parse().ok()?, value.clone())))
            .collect();
        found.sort();
        found.into_iter().map(|(_, value)| value).collect()
    }

    /// `NAME.1.FIELD`, `NAME.2.FIELD`, … as one set of parameters per number.
    pub(crate) fn structs(&self, name: &str) -> Vec<Self> {
        let mut found: BTreeMap<u32, BTreeMap<String, String>> = BTreeMap::new();
        for (rest, value) in self.below(name) {
            let Some((number, field)) = rest.split_once('.') else { continue };
            if let Ok(number) = number.parse() {
                found.entry(number).or_default().insert(field.to_owned(), value.clone());
            }
        }
        found.into_values().map(Self).collect()
    }

    /// `NAME.FIELD` as a set of parameters of its own.
    pub(crate) fn part(&self, name: &str) -> Self {
        Self(self.below(name).map(|(rest, value)| (rest.to_owned(), value.clone())).collect())
    }

    /// `Tag.N.Key` and `Tag.N.Value`; a tag without value stands for any.
    pub(crate) fn tags(&self) -> Vec<(String, Option<String>)> {
        let tag = |tag: &Self| Some((tag.text("Key")?, tag.text("Value")));
        self.structs("Tag").iter().filter_map(tag).collect()
    }

    /// A list written as JSON text.
    pub(crate) fn json_list(&self, name: &str) -> Result<Option<Vec<String>>, Refusal> {
        let parse =
            |text| serde_json::from_str(text).map_err(|_| Refusal::invalid(name, "it is no JSON list"));
        self.get(name).map(parse).transpose()
    }

    fn below(&self, name: &str) -> impl Iterator<Item = (&str, &String)> {
        self.0
            .iter()
            .filter_map(move |(key, value)| Some((key.strip_prefix(name)?.strip_prefix('.')?, value)))
    }
}

/// The pairs of a query, decoded; `+` stands for a space.
pub(crate) fn decode_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(key, true), percent_decode(value, true))
        })
        .collect()
}

/// Decodes `%XX`, and `+` where it stands for a space.
pub(crate) fn percent_decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
                continue;
            }
            (b'+', _) if plus => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Encodes as RFC 3986 wants it: only unreserved characters stay.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(b"0123456789ABCDEF"[usize::from(byte >> 4)]));
            encoded.push(char::from(b"0123456789ABCDEF"[usize::from(byte & 15)]));
        }
    }
    encoded
}

/// A page of a list that is asked for by number.
pub(crate) struct NumberedPage {
    pub(crate) number: usize,
    pub(crate) size: usize,
}

impl NumberedPage {
    pub(crate) fn read(params: &Params, default: usize, cap: usize) -> Result<Self, Refusal> {
        let number = params.number("PageNumber")?.unwrap_or(1).max(1);
        let size = params.number("PageSize")?.unwrap_or(default);
        if size == 0 || size > cap {
            return Err(Refusal::invalid("PageSize", &format!("it must be from 1 to {cap}")));
        }
        Ok(Self { number, size })
    }

    pub(crate) fn cut<T: Clone>(&self, all: &[T]) -> Vec<T> {
        all.iter().skip((self.number - 1) * self.size).take(self.size).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Params {
        Params::new(decode_query(query))
    }

    #[test]
    fn lists_follow_their_numbers_and_not_their_spelling() {
        let params = params("A.10=ten&A.2=two&A.1=one&A.3=");
        assert_eq!(params.list("A"), ["one", "two", "ten"]);
    }

    #[test]
    fn structs_keep_nested_names() {
        let params = params("L.1.Tag.1.Key=a&L.1.Type=x&L.2.Type=y");
        let structs = params.structs("L");
        assert_eq!(structs[0].tags(), [("a".to_owned(), None)]);
        assert_eq!(structs[1].get("Type"), Some("y"));
    }

    #[test]
    fn a_plus_is_a_space_and_flags_have_any_case() {
        let params = params("Name=a+b%2Bc&Force=True&Empty=");
        assert_eq!(params.get("Name"), Some("a b+c"));
        assert!(params.flag("Force"));
        assert_eq!(params.get("Empty"), None);
    }

    #[test]
    fn encoding_keeps_only_unreserved_characters() {
        assert_eq!(percent_encode("a b*c~/é"), "a%20b%2Ac~%2F%C3%A9");
    }
}
