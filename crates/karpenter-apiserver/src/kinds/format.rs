//! The forms that texts may have to have, each with what is said about a text that has not. A text may be wrong in
//! several ways; an empty list means that nothing is wrong with it.

use std::fmt::Write as _;

/// A sentence about a form, with examples and the expression that describes it.
fn explained(sentence: &str, expression: &str, examples: &[&str]) -> String {
    let mut text = format!("{sentence} (");
    for (index, example) in examples.iter().enumerate() {
        let _ = write!(text, "{}'{example}', ", if index == 0 { "e.g. " } else { " or " });
    }
    let _ = write!(text, "regex used for validation is '{expression}')");
    text
}

/// The reason of a condition: a word, perhaps with parts.
pub(crate) fn condition_reason(text: &str) -> Vec<String> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_,:".contains(&byte);
    let bytes = text.as_bytes();
    let good = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && bytes.iter().all(|byte| is_inner(*byte));
    if good {
        return Vec::new();
    }
    let sentence = "a condition reason must start with alphabetic character, optionally followed by a string of \
                    alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
    vec![explained(sentence, "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", &examples)]
}

fn characters_max(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn bytes_max(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_dns_edge(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_dns_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(is_dns_edge)
        && bytes.last().copied().is_some_and(is_dns_edge)
        && bytes.iter().all(|byte| is_dns_edge(*byte) || *byte == b'-')
}

fn is_dns_parts(text: &str) -> bool {
    text.split('.').all(is_dns_part)
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

/// A DNS label, such as the name of a namespace.
pub(crate) fn dns_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(characters_max(63));
    }
    if !is_dns_part(text) {
        wrong.push(if is_dns_parts(text) {
            "must not contain dots".to_owned()
        } else {
            let sentence = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                            must start and end with an alphanumeric character";
            explained(sentence, LABEL, &["my-name", "123-abc"])
        });
    }
    wrong
}

/// A DNS subdomain, such as the names of most objects.
pub(crate) fn dns_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(characters_max(253));
    }
    if !is_dns_parts(text) {
        let sentence = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                        and must start and end with an alphanumeric character";
        wrong.push(explained(sentence, SUBDOMAIN, &["example.com"]));
    }
    wrong
}

/// A subdomain behind `*.`.
pub(crate) fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(characters_max(253));
    }
    if !text.strip_prefix("*.").is_some_and(is_dns_parts) {
        let sentence = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
                        must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric \
                        character";
        wrong.push(explained(sentence, &format!("\\*\\.{SUBDOMAIN}"), &["*.example.com"]));
    }
    wrong
}

/// A label of the older kind, which starts with a letter, such as the name of a Service.
pub(crate) fn dns_1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(characters_max(63));
    }
    if !is_dns_part(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        let sentence = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                        alphabetic character, and end with an alphanumeric character";
        wrong.push(explained(sentence, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    wrong
}

fn is_label_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

const LABEL_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                               alphanumeric character";

/// The key of a label: a name, with a DNS subdomain and a slash before it or not.
pub(crate) fn label_key(text: &str) -> Vec<String> {
    let rule = || explained(LABEL_NAME_RULE, LABEL_NAME, &["MyName", "my.name", "123-abc"]);
    let mut wrong = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(subdomain_in_bytes(prefix).iter().map(|rule| format!("prefix part {rule}")));
            }
            name
        }
        _ => {
            let more = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {more}", rule())];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", bytes_max(63)));
    }
    if !is_label_name(name) {
        wrong.push(format!("name part {}", rule()));
    }
    wrong
}

/// [`dns_subdomain`] as the newer rules of Kubernetes word it.
pub(crate) fn subdomain_in_bytes(text: &str) -> Vec<String> {
    let mut wrong = dns_subdomain(text);
    for rule in &mut wrong {
        if *rule == characters_max(253) {
            *rule = bytes_max(253);
        }
    }
    wrong
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(bytes_max(63));
    }
    if !text.is_empty() && !is_label_name(text) {
        let sentence = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                        and must start and end with an alphanumeric character";
        let expression = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
        wrong.push(explained(sentence, expression, &["MyValue", "my_value", "12345"]));
    }
    wrong
}

/// The name of an object as a part of a path.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_start(text)
}

/// The beginning of the name of an object.
pub(crate) fn path_segment_start(text: &str) -> Vec<String> {
    let illegal = ["/", "%"].iter().filter(|part| text.contains(**part));
    illegal.map(|part| format!("may not contain '{part}'")).collect()
}

fn parent_folder(text: &str) -> Option<&'static str> {
    match text {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        _ if text.starts_with("..") => Some("must not start with '..'"),
        _ => None,
    }
}

/// A key of a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(characters_max(253));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if text.is_empty() || !text.bytes().all(allowed) {
        let sentence = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        wrong.push(explained(sentence, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    wrong.extend(parent_folder(text).map(str::to_owned));
    wrong
}

/// The name of an environment variable.
pub(crate) fn variable_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let printable = text.chars().all(|character| (' '..='~').contains(&character) && character != '=');
    if printable {
        return Vec::new();
    }
    let rule =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![rule.to_owned()]
}

/// The name of a port.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 15 {
        wrong.push(characters_max(15));
    }
    let allowed = |byte: u8| is_dns_edge(byte) || byte == b'-';
    if text.is_empty() || !text.bytes().all(allowed) {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// A number of a port.
pub(crate) fn port_number(number: i64) -> Vec<String> {
    in_range(number, 1, 65_535)
}

/// A number within bounds.
pub(crate) fn in_range(number: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&number) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// A share such as `25%`.
pub(crate) fn percent(text: &str) -> Vec<String> {
    let digits = text
        .strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if digits {
        return Vec::new();
    }
    let sentence = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![explained(sentence, "[0-9]+%", &["1%", "93%"])]
}

/// The name of an HTTP header.
pub(crate) fn header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    let sentence = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![explained(sentence, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys_follow_the_dns_rules() {
        for good in ["a-1.b", "a"] {
            assert_eq!(dns_subdomain(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["A", "a..b", "-a", ""] {
            assert_eq!(dns_subdomain(bad).len(), 1, "{bad}");
        }
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert!(label_key("karpenter.sh/nodepool").is_empty());
        assert_eq!(label_key("karpenter.sh/").len(), 2);
        assert_eq!(label_key("a/b/c").len(), 1);
        assert!(label_value("").is_empty());
        assert_eq!(label_value("-x").len(), 1);
    }

    #[test]
    fn what_is_wrong_is_explained_with_examples() {
        assert_eq!(
            percent("x"),
            [
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used \
              for validation is '[0-9]+%')"
            ]
        );
    }
}
