//! Percent-encoding, as signatures want it: everything but letters, digits and `-._~`.

/// Encodes every byte that is not plain; `kept` are further bytes to leave alone.
pub(crate) fn encode(text: &str, kept: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
            encoded.insert(encoded.len() - 2, '%');
        }
    }
    encoded
}

/// Decodes `%XX`, and `+` as a space where `plus` says so. What is not an escape stays as it is.
pub(crate) fn decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        if let Some(byte) = escaped {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(if plus && bytes[at] == b'+' { b' ' } else { bytes[at] });
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The pairs of a query or a form.
pub(crate) fn pairs(text: &str, plus: bool) -> Vec<(String, String)> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decode(key, plus), decode(value, plus)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let text = "a b/c%é~_+";
        assert_eq!(encode(text, b""), "a%20b%2Fc%25%C3%A9~_%2B");
        assert_eq!(decode(&encode(text, b"/"), true), text);
        assert_eq!(decode("a+b%2", true), "a b%2");
    }
}
