//! The settings of kube-scheduler that planning must share, given as YAML or JSON.
//!
//! Pods without spread constraints of their own get kube-scheduler's defaults; if planning did not know
//! them, it would launch nodes the scheduler then does not use. The checks are kube-scheduler's own, so what
//! it accepts is accepted here, and misspelt fields are refused instead of ignored.

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use serde::Deserialize;
use serde_json::Value;

use crate::label_syntax::{SyntaxError, qualified_name};

/// Settings shared with kube-scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerConfig {
    /// Spread constraints for pods that have none.
    pub default_constraints: Vec<TopologySpreadConstraint>,
}

/// Why a scheduler configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchedulerConfigError {
    /// The text is not YAML, or has a field or type that does not belong there.
    #[error("the scheduler configuration cannot be read: {0}")]
    Unreadable(String),
    /// A constraint is wrong.
    #[error("podTopologySpread.defaultConstraints[{index}]: {problem}")]
    Constraint {
        /// Position of the constraint.
        index: usize,
        /// What is wrong with it.
        problem: ConstraintProblem,
    },
}

/// What can be wrong with a default constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintProblem {
    /// The skew is not positive.
    #[error("maxSkew must be greater than 0")]
    MaxSkew,
    /// There is no topology key.
    #[error("topologyKey must be set")]
    NoTopologyKey,
    /// The topology key is not a label key.
    #[error("topologyKey is not a label key: {0}")]
    TopologyKey(SyntaxError),
    /// The word for unsatisfiable constraints is unknown.
    #[error("whenUnsatisfiable is {0:?}; it must be DoNotSchedule or ScheduleAnyway")]
    WhenUnsatisfiable(String),
    /// A selector was given.
    #[error("labelSelector must not be set; the selector is deduced for each pod")]
    LabelSelector,
    /// Label keys were given.
    #[error("matchLabelKeys must not be set; they have no effect on default constraints")]
    MatchLabelKeys,
    /// Two constraints are for the same key and strictness.
    #[error("this repeats constraint {0}; a topologyKey may stand once per whenUnsatisfiable")]
    Repeats(usize),
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    pod_topology_spread: Option<PodTopologySpread>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PodTopologySpread {
    default_constraints: Option<Vec<Constraint>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Constraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    label_selector: Option<Value>,
    match_label_keys: Option<Vec<String>>,
    min_domains: Option<i32>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
}

impl SchedulerConfig {
    /// Reads and checks a configuration; the empty text is the empty configuration.
    ///
    /// # Errors
    /// Returns the first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, SchedulerConfigError> {
        let unreadable = |error: &dyn std::fmt::Display| SchedulerConfigError::Unreadable(error.to_string());
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        // Reading through JSON keeps YAML's conveniences, such as numbers in quotes, out of typed fields.
        let value: Value = serde_saphyr::from_str(text).map_err(|error| unreadable(&error))?;
        mappings_where_expected(&value).map_err(|place| unreadable(&format!("{place} must be a mapping")))?;
        let document: Option<Document> = serde_json::from_value(value).map_err(|error| unreadable(&error))?;
        let spread = document.unwrap_or_default().pod_topology_spread.unwrap_or_default();
        let constraints = spread.default_constraints.unwrap_or_default();
        for (index, constraint) in constraints.iter().enumerate() {
            check(constraint, &constraints[..index])
                .map_err(|problem| SchedulerConfigError::Constraint { index, problem })?;
        }
        Ok(Self { default_constraints: constraints.into_iter().map(Constraint::into_constraint).collect() })
    }
}

/// Returns the place that holds something else than a mapping; typed reading alone would take a list for one.
fn mappings_where_expected(document: &Value) -> Result<(), &'static str> {
    let is_mapping = |value: &Value| value.is_object() || value.is_null();
    let spread = &document["podTopologySpread"];
    let mut items = spread["defaultConstraints"].as_array().into_iter().flatten();
    if !is_mapping(document) {
        Err("the document")
    } else if !is_mapping(spread) {
        Err("podTopologySpread")
    } else if !items.all(is_mapping) {
        Err("each of podTopologySpread.defaultConstraints")
    } else {
        Ok(())
    }
}

fn check(constraint: &Constraint, earlier: &[Constraint]) -> Result<(), ConstraintProblem> {
    if constraint.max_skew <= 0 {
        return Err(ConstraintProblem::MaxSkew);
    }
    if constraint.topology_key.is_empty() {
        return Err(ConstraintProblem::NoTopologyKey);
    }
    qualified_name(&constraint.topology_key).map_err(ConstraintProblem::TopologyKey)?;
    let strictness = constraint.when_unsatisfiable.as_str();
    if !matches!(strictness, "DoNotSchedule" | "ScheduleAnyway") {
        return Err(ConstraintProblem::WhenUnsatisfiable(strictness.to_owned()));
    }
    if constraint.label_selector.is_some() {
        return Err(ConstraintProblem::LabelSelector);
    }
    if constraint.match_label_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
        return Err(ConstraintProblem::MatchLabelKeys);
    }
    let same = |other: &Constraint| {
        other.topology_key == constraint.topology_key && other.when_unsatisfiable == strictness
    };
    earlier.iter().position(same).map_or(Ok(()), |index| Err(ConstraintProblem::Repeats(index)))
}

impl Constraint {
    fn into_constraint(self) -> TopologySpreadConstraint {
        TopologySpreadConstraint {
            max_skew: self.max_skew,
            topology_key: self.topology_key,
            when_unsatisfiable: self.when_unsatisfiable,
            min_domains: self.min_domains,
            node_affinity_policy: self.node_affinity_policy,
            node_taints_policy: self.node_taints_policy,
            ..TopologySpreadConstraint::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &str = "podTopologySpread:
  defaultConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    minDomains: 3
";

    #[test]
    fn yaml_and_json_are_read() {
        let config = SchedulerConfig::parse(ZONE).unwrap();
        assert_eq!(config.default_constraints.len(), 1);
        assert_eq!(config.default_constraints[0].min_domains, Some(3));
        let json = r#"{"podTopologySpread":{"defaultConstraints":[]}}"#;
        for empty in ["", "  \n", "{}", "podTopologySpread:", json] {
            assert_eq!(SchedulerConfig::parse(empty), Ok(SchedulerConfig::default()), "{empty}");
        }
    }

    #[test]
    fn a_wrong_configuration_is_refused_with_the_place_and_the_remedy() {
        let cases = [
            (ZONE.replace("maxSkew: 1", "maxSkew: 0"), "[0]: maxSkew must be greater than 0"),
            (ZONE.replace("maxSkew: 1", "maxSkew: '1'"), "invalid type"),
            (ZONE.replace("maxSkew", "maxskew"), "unknown field `maxskew`"),
            (ZONE.replace("podTopologySpread", "topologySpread"), "unknown field `topologySpread`"),
            (ZONE.replace("topology.kubernetes.io/zone", "''"), "topologyKey must be set"),
            (ZONE.replace("topology.kubernetes.io/zone", "a b"), "topologyKey is not a label key"),
            (ZONE.replace("ScheduleAnyway", "Maybe"), "it must be DoNotSchedule or ScheduleAnyway"),
            (format!("{ZONE}    labelSelector: {{}}\n"), "labelSelector must not be set"),
            (format!("{ZONE}    matchLabelKeys: [a]\n"), "matchLabelKeys must not be set"),
            ("podTopologySpread: [".to_owned(), "cannot be read"),
            ("[]".to_owned(), "the document must be a mapping"),
            ("podTopologySpread: []".to_owned(), "podTopologySpread must be a mapping"),
            ("{podTopologySpread: {defaultConstraints: [[1]]}}".to_owned(), "must be a mapping"),
        ];
        for (text, expected) in cases {
            let message = SchedulerConfig::parse(&text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}\n{message}");
        }
    }

    #[test]
    fn a_key_may_stand_once_per_strictness() {
        let again = "  - {maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: WORD}\n";
        let with = |word: &str| SchedulerConfig::parse(&format!("{ZONE}{}", again.replace("WORD", word)));
        assert!(with("DoNotSchedule").is_ok());
        assert!(with("ScheduleAnyway").unwrap_err().to_string().contains("[1]: this repeats constraint 0"));
    }
}
