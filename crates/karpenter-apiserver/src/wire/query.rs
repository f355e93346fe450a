//! Query parameters.

/// The decoded parameters of a request, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// Returns the first value of a parameter, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns all values of a parameter.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Whether a parameter is present and true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.is_some_and(|(_, value)| !matches!(value.as_str(), "false" | "0"))
    }
}

/// Decodes percent escapes and the plus signs that stand for spaces in parameters.
fn decode(text: &str) -> String {
    unescape(&text.replace('+', " "))
}

/// Decodes percent escapes; bytes that are not UTF-8 become replacement characters.
pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'%' if tail.len() >= 2 => {
                let escape = std::str::from_utf8(&tail[..2]).ok();
                match escape.and_then(|escape| u8::from_str_radix(escape, 16).ok()) {
                    Some(byte) => {
                        bytes.push(byte);
                        rest = &tail[2..];
                    }
                    None => bytes.push(b'%'),
                }
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse(Some("labelSelector=app%3Dweb%2Ctier+in+%28a%29&watch&limit="));
        assert_eq!(query.get("labelSelector"), Some("app=web,tier in (a)"));
        assert!(query.flag("watch"));
        assert_eq!(query.get("limit"), None);
    }
}
