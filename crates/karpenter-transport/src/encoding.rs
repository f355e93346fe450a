//! How text and bytes are written where signatures look at them: percent-encoded, and in hexadecimal.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(HEX[usize::from(digit)].to_ascii_lowercase()))
        .collect()
}

/// Encodes one query key, query value or path segment: everything but the unreserved characters of RFC 3986, in upper-case hex.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    append(&mut encoded, text, b"");
    encoded
}

/// Encodes a path, keeping its slashes.
pub fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    append(&mut encoded, path, b"/");
    encoded
}

/// Writes `key=value&key=value`, for query strings and form bodies.
pub fn encode_pairs<K: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (K, V)>) -> String {
    let mut encoded = String::new();
    for (key, value) in pairs {
        if !encoded.is_empty() {
            encoded.push('&');
        }
        append(&mut encoded, key.as_ref(), b"");
        encoded.push('=');
        append(&mut encoded, value.as_ref(), b"");
    }
    encoded
}

fn append(encoded: &mut String, text: &str, kept: &[u8]) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(HEX[usize::from(byte >> 4)]));
            encoded.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_characters_stay_as_they_are() {
        assert_eq!(encode("aZ9-_.~"), "aZ9-_.~");
        assert_eq!(encode("a b/c+é*"), "a%20b%2Fc%2B%C3%A9%2A");
    }

    #[test]
    fn every_byte_is_two_digits() {
        assert_eq!(hex(&[0, 10, 0xab, 0xff]), "000aabff");
    }

    #[test]
    fn a_path_keeps_its_slashes() {
        assert_eq!(encode_path("/cluster/instance group"), "/cluster/instance%20group");
    }

    #[test]
    fn pairs_keep_their_order() {
        assert_eq!(encode_pairs([("b", "1"), ("a", "x y")]), "b=1&a=x%20y");
    }
}
