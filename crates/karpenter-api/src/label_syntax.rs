//! The syntax of label keys and label values as Kubernetes defines it, with errors that name the remedy.

/// The longest name part of a key, and the longest label value.
const NAME_LENGTH_MAX: usize = 63;
/// The longest prefix of a key, a DNS subdomain.
const PREFIX_LENGTH_MAX: usize = 253;

/// Why a text is not a label key or value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// A key without a name.
    #[error("the name is empty; write a name such as \"team\" or \"example.com/team\"")]
    Empty,
    /// More than one slash.
    #[error("there is more than one slash; write at most one prefix, as in \"example.com/team\"")]
    TooManySlashes,
    /// A slash with nothing before it.
    #[error("the prefix before the slash is empty; remove the slash or write a domain before it")]
    EmptyPrefix,
    /// The prefix is not a DNS subdomain.
    #[error("the prefix {0:?} is not a DNS subdomain; use lower case letters, digits, dashes and dots")]
    Prefix(String),
    /// The prefix is too long.
    #[error("the prefix is longer than {PREFIX_LENGTH_MAX} characters; shorten it")]
    PrefixTooLong,
    /// The name or value has a character that is not allowed, or not there.
    #[error(
        "{0:?} must consist of letters, digits, dashes, underscores and dots, and begin and end with a letter or digit"
    )]
    Characters(String),
    /// The name or value is too long.
    #[error("{0:?} is longer than {NAME_LENGTH_MAX} characters; shorten it")]
    TooLong(String),
}

/// Checks a label or taint key: a name, optionally after a DNS subdomain and a slash.
///
/// # Errors
/// Returns the first thing that is wrong with it.
pub fn qualified_name(key: &str) -> Result<(), SyntaxError> {
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => return Err(SyntaxError::TooManySlashes),
        Some((prefix, name)) => {
            dns_subdomain(prefix)?;
            name
        }
    };
    if name.is_empty() {
        return Err(SyntaxError::Empty);
    }
    name_part(name)
}

/// Checks a label value; the empty value is one.
///
/// # Errors
/// Returns the first thing that is wrong with it.
pub fn label_value(value: &str) -> Result<(), SyntaxError> {
    if value.is_empty() { Ok(()) } else { name_part(value) }
}

fn name_part(text: &str) -> Result<(), SyntaxError> {
    if text.len() > NAME_LENGTH_MAX {
        return Err(SyntaxError::TooLong(text.to_owned()));
    }
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: char| c.is_ascii_alphanumeric();
    if text.chars().all(inner) && text.starts_with(edge) && text.ends_with(edge) {
        Ok(())
    } else {
        Err(SyntaxError::Characters(text.to_owned()))
    }
}

fn dns_subdomain(prefix: &str) -> Result<(), SyntaxError> {
    if prefix.is_empty() {
        return Err(SyntaxError::EmptyPrefix);
    }
    if prefix.len() > PREFIX_LENGTH_MAX {
        return Err(SyntaxError::PrefixTooLong);
    }
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = |c: char| edge(c) || c == '-';
    let is_label = |part: &str| part.chars().all(inner) && part.starts_with(edge) && part.ends_with(edge);
    if prefix.split('.').all(is_label) { Ok(()) } else { Err(SyntaxError::Prefix(prefix.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_and_without_prefix_are_accepted() {
        for key in ["a", "A.b_c-d", "example.com/Team", "a.b-c.d/x", "1/2"] {
            assert_eq!(qualified_name(key), Ok(()), "{key}");
        }
    }

    #[test]
    fn every_wrong_key_gets_its_own_sentence() {
        let long = "x".repeat(64);
        let cases = [
            (String::new(), "name is empty"),
            ("example.com/".to_owned(), "name is empty"),
            ("/team".to_owned(), "prefix before the slash is empty"),
            ("a/b/c".to_owned(), "more than one slash"),
            ("Example.com/team".to_owned(), "not a DNS subdomain"),
            ("a..b/team".to_owned(), "not a DNS subdomain"),
            (format!("{}/team", "a".repeat(254)), "longer than 253"),
            ("-team".to_owned(), "begin and end"),
            ("te am".to_owned(), "must consist of"),
            (long.clone(), "longer than 63"),
        ];
        for (key, expected) in cases {
            let message = qualified_name(&key).unwrap_err().to_string();
            assert!(message.contains(expected), "{key}: {message}");
        }
        assert!(label_value(&long).is_err());
        assert!(label_value("a b").is_err());
        assert_eq!(label_value(""), Ok(()));
    }
}
