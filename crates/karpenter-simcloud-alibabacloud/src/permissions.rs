//! What a caller may do: RAM policy documents.

use serde::{Deserialize, Serialize};

/// A policy document, as users attach it in RAM. Resources and conditions are not looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Policy {
    /// What is allowed and denied.
    pub statement: Vec<Statement>,
}

/// A statement of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Statement {
    /// `Allow` or `Deny`.
    pub effect: String,
    /// Actions such as `ecs:Describe*`.
    pub action: Actions,
}

/// One action or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Actions {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Policy {
    /// Allows these actions and nothing else.
    pub fn allowing<'a>(actions: impl IntoIterator<Item = &'a str>) -> Self {
        let action = Actions::Several(actions.into_iter().map(str::to_owned).collect());
        Self { statement: vec![Statement { effect: "Allow".to_owned(), action }] }
    }

    /// Whether an action such as `ecs:RunInstances` is allowed: nothing denies it and something allows it.
    pub fn allows(&self, action: &str) -> bool {
        let says = |effect: &str| {
            self.statement
                .iter()
                .any(|statement| statement.effect == effect && statement.action.covers(action))
        };
        says("Allow") && !says("Deny")
    }
}

impl Actions {
    fn covers(&self, action: &str) -> bool {
        match self {
            Self::One(pattern) => matches(pattern, action),
            Self::Several(patterns) => patterns.iter().any(|pattern| matches(pattern, action)),
        }
    }
}

/// Compares without case; `*` stands for any text.
fn matches(pattern: &str, action: &str) -> bool {
    let (pattern, action) = (pattern.to_lowercase(), action.to_lowercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = action.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_listed_actions_are_allowed() {
        let policy = Policy::allowing(["ecs:RunInstances", "vpc:Describe*"]);
        assert!(policy.allows("ecs:RunInstances"));
        assert!(policy.allows("vpc:DescribeVSwitches"));
        assert!(!policy.allows("ecs:RunInstancesX"));
        assert!(!policy.allows("ecs:DeleteInstance"));
    }

    #[test]
    fn a_denial_goes_before_a_permission() {
        let policy: Policy = serde_json::from_str(
            r#"{"Version": "1", "Statement": [
                {"Effect": "Allow", "Action": "*", "Resource": "*"},
                {"Effect": "Deny", "Action": ["ecs:Delete*"], "Resource": "*"}]}"#,
        )
        .unwrap();
        assert!(policy.allows("ecs:RunInstances"));
        assert!(!policy.allows("ecs:DeleteInstances"));
    }
}
