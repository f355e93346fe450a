//! Refusals in the form Kubernetes gives them: a path, a kind, and what to do.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;

/// One refused field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Such as `spec.minSize`.
    pub path: String,
    /// What is wrong with it.
    pub kind: Kind,
    /// Why, for people.
    pub reason: String,
}

/// What can be wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It must not be set so.
    Forbidden,
    /// It must be set.
    Required,
    /// Its value cannot be used.
    Invalid(Value),
    /// Its value is none of those there are.
    Unsupported(Value),
    /// Its value stands there twice.
    Duplicate(Value),
    /// Its value names nothing.
    NotFound(Value),
}

impl FieldError {
    pub(crate) fn forbidden(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Forbidden, reason: reason.into() }
    }

    pub(crate) fn required(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Required, reason: reason.into() }
    }

    pub(crate) fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        reason: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), kind: Kind::Invalid(value.into()), reason: reason.into() }
    }

    pub(crate) fn duplicate(path: impl Into<String>, value: &str) -> Self {
        Self { path: path.into(), kind: Kind::Duplicate(value.into()), reason: String::new() }
    }

    pub(crate) fn not_found(path: impl Into<String>, value: &str) -> Self {
        Self { path: path.into(), kind: Kind::NotFound(value.into()), reason: String::new() }
    }

    /// `None` when the value is one of those supported.
    pub(crate) fn unsupported(path: impl Into<String>, value: &str, supported: &[&str]) -> Option<Self> {
        (!supported.contains(&value)).then(|| {
            let names: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
            let reason = format!("supported values: {}", names.join(", "));
            Self { path: path.into(), kind: Kind::Unsupported(value.into()), reason }
        })
    }
}

impl Display for FieldError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let (kind, value) = match &self.kind {
            Kind::Forbidden => ("Forbidden", None),
            Kind::Required => ("Required value", None),
            Kind::Invalid(value) => ("Invalid value", Some(value)),
            Kind::Unsupported(value) => ("Unsupported value", Some(value)),
            Kind::Duplicate(value) => ("Duplicate value", Some(value)),
            Kind::NotFound(value) => ("Not found", Some(value)),
        };
        write!(formatter, "{}: {kind}", self.path)?;
        if let Some(value) = value {
            write!(formatter, ": {value}")?;
        }
        if !self.reason.is_empty() {
            write!(formatter, ": {}", self.reason)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_read_as_kubernetes_writes_them() {
        let check = |error: FieldError, expected: &str| assert_eq!(error.to_string(), expected);
        check(
            FieldError::invalid("spec.maxSize", 0, "too small"),
            "spec.maxSize: Invalid value: 0: too small",
        );
        check(FieldError::forbidden("spec.role", "no"), "spec.role: Forbidden: no");
        check(FieldError::required("objectMeta.name", ""), "objectMeta.name: Required value");
        check(FieldError::duplicate("spec.taints[1]", "a"), "spec.taints[1]: Duplicate value: \"a\"");
        check(
            FieldError::unsupported("spec.cpuCredits", "x", &["standard", "unlimited"]).unwrap(),
            "spec.cpuCredits: Unsupported value: \"x\": supported values: \"standard\", \"unlimited\"",
        );
        assert_eq!(FieldError::unsupported("spec.cpuCredits", "standard", &["standard"]), None);
    }
}
