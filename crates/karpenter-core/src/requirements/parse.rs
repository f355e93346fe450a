//! One requirement as users write it: key, operator, values, minValues; and the rules that make it legal.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How the values of a requirement are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    Gte,
    Lte,
}

impl Operator {
    const ALL: [(&'static str, Self); 8] = [
        ("In", Self::In),
        ("NotIn", Self::NotIn),
        ("Exists", Self::Exists),
        ("DoesNotExist", Self::DoesNotExist),
        ("Gt", Self::Gt),
        ("Lt", Self::Lt),
        ("Gte", Self::Gte),
        ("Lte", Self::Lte),
    ];

    /// Whether the operator compares integers.
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for Operator {
    type Err = RequirementError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, operator)| *operator).ok_or_else(|| {
            RequirementError(format!(
                "operator {text:?} is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte"
            ))
        })
    }
}

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label key.
    pub key: Arc<str>,
    /// How the values are meant.
    pub operator: Operator,
    /// The values; empty for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Arc<str>>,
    /// How many distinct values the instance types of a `NodeClaim` must still offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

impl Requirement {
    /// A requirement without `minValues`.
    pub fn new<V: Into<Arc<str>>>(
        key: impl Into<Arc<str>>,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        Self {
            key: key.into(),
            operator,
            values: values.into_iter().map(Into::into).collect(),
            min_values: None,
        }
    }

    /// Checks the number and form of the values.
    ///
    /// # Errors
    ///
    /// A sentence for people: which key, and what its operator needs.
    pub fn validate(&self) -> Result<(), RequirementError> {
        let Self { key, operator, values, .. } = self;
        if *operator == Operator::In && values.is_empty() {
            return Err(RequirementError(format!("{key} with operator In needs at least one value")));
        }
        if operator.is_numeric() {
            let is_count = |value: &Arc<str>| value.parse::<i64>().is_ok_and(|n| n >= 0);
            if values.len() != 1 || !values.iter().all(is_count) {
                return Err(RequirementError(format!(
                    "{key} with operator {operator} needs a single non-negative integer"
                )));
            }
        }
        if matches!(operator, Operator::Exists | Operator::DoesNotExist) && !values.is_empty() {
            return Err(RequirementError(format!("{key} with operator {operator} takes no values")));
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        write!(f, "{} {}", self.key, self.operator)?;
        if self.values.is_empty() {
            return Ok(());
        }
        let shown: Vec<&str> = self.values.iter().take(SHOWN).map(AsRef::as_ref).collect();
        write!(f, " [{}", shown.join(", "))?;
        if self.values.len() > SHOWN {
            write!(f, " and {} others", self.values.len() - SHOWN)?;
        }
        write!(f, "]")
    }
}

/// Why a requirement is not legal, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementError(pub String);

impl fmt::Display for RequirementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RequirementError {}
