//! A requirement on node labels as it stands in NodePools, NodeClaims and NodeOverlays, and its schema.
//!
//! Words of closed vocabularies (operators, policies, reasons) are read into enums that keep an unknown
//! word instead of failing: one odd object must never break the watch of all the others. The API server
//! and [`crate::validation`] are the places that refuse it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde::{Deserialize, Serialize};

use crate::label_rules::{KeyPlace, LabelRules};
use crate::schema::{self, SchemaExt};

/// Declares a vocabulary of strings as an enum that also carries words it does not know.
macro_rules! open_enum {
    ($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// A word outside the vocabulary, kept as written.
            Unknown(String),
        }

        impl $name {
            /// The words of the vocabulary in their documented order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Returns the word as users write it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Unknown(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $($word => Self::$variant,)+
                    _ => Self::Unknown(word),
                }
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                match value {
                    $name::Unknown(word) => word,
                    known => known.as_str().to_owned(),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use open_enum;

open_enum! {
    /// How a label key relates to the values of a requirement.
    Operator {
        /// The label has one of the values.
        In = "In",
        /// The label is absent or has none of the values.
        NotIn = "NotIn",
        /// The label is present.
        Exists = "Exists",
        /// The label is absent.
        DoesNotExist = "DoesNotExist",
        /// The label is a number greater than the value.
        Gt = "Gt",
        /// The label is a number less than the value.
        Lt = "Lt",
        /// The label is a number greater than or equal to the value.
        Gte = "Gte",
        /// The label is a number less than or equal to the value.
        Lte = "Lte",
    }
}

impl Operator {
    /// Says whether the operator compares numbers and so takes exactly one whole number.
    pub fn is_numeric(&self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

/// A condition on one node label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label key.
    pub key: String,
    /// How the label relates to the values.
    pub operator: Operator,
    /// The values; see [`Requirement::values`] for the common way to read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// How many distinct values must stay possible; not part of NodeOverlays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

impl Requirement {
    /// Makes a requirement without `minValues`; an empty list of values is left out of the object.
    pub fn new<V: Into<String>>(
        key: impl Into<String>,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values: Vec<String> = values.into_iter().map(Into::into).collect();
        let values = if values.is_empty() { None } else { Some(values) };
        Self { key: key.into(), operator, values, min_values: None }
    }

    /// Returns the values, none if the field is absent.
    pub fn values(&self) -> &[String] {
        self.values.as_deref().unwrap_or_default()
    }
}

/// Where a list of requirements stands; the rules differ a little.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequirementList {
    /// In the template of a NodePool.
    Pool,
    /// In a NodeClaim.
    Claim,
    /// In a NodeOverlay.
    Overlay,
}

const ONE_NUMBER: &str = "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)";

/// Returns the schema of a list of requirements, label rules included.
pub(crate) fn requirements_schema(list: RequirementList, rules: &LabelRules) -> JSONSchemaProps {
    let place = match list {
        RequirementList::Pool => KeyPlace::NodePoolRequirement,
        RequirementList::Claim => KeyPlace::NodeClaimRequirement,
        RequirementList::Overlay => KeyPlace::NodeOverlayRequirement,
    };
    let mut properties = vec![
        (
            "key",
            schema::string("Label key the requirement is about.")
                .max_length(316)
                .pattern(schema::QUALIFIED_NAME)
                .rules(rules.cel_rules(place)),
        ),
        (
            "operator",
            schema::string(
                "How the label relates to the values: In, NotIn, Exists, DoesNotExist, or one of the numeric comparisons Gt, Lt, Gte, Lte.",
            )
            .one_of(Operator::WORDS),
        ),
        (
            "values",
            schema::list(
                "Values for the operator: at least one for In, exactly one whole number for Gt, Lt, Gte and Lte, none for Exists and DoesNotExist.",
                schema::plain_string(),
            )
            .list_type("atomic")
            .max_length(63)
            .pattern(schema::LABEL_VALUE),
        ),
    ];
    if list != RequirementList::Overlay {
        properties.push((
            "minValues",
            schema::integer(
                "Alpha. How many distinct values of this label must remain possible for a node, so that launches stay flexible.",
                None,
            )
            .range(1, 50),
        ));
    }
    let item =
        schema::object("Condition on one label of the node.", properties).require(&["key", "operator"]);
    schema::list(list.description(), item).list_type("atomic").max_items(100).rules(list.cel_rules())
}

impl RequirementList {
    fn description(self) -> &'static str {
        match self {
            Self::Pool => {
                "Conditions every node of this pool meets, together with the labels of the template. Pods can only narrow them."
            }
            Self::Claim => {
                "Conditions the launched node meets; the provider chooses an offering within them."
            }
            Self::Overlay => {
                "Instance types the overlay applies to, by well-known labels or by labels of a NodePool's template. All must hold."
            }
        }
    }

    fn cel_rules(self) -> Vec<(String, String)> {
        let in_needs_value = (
            "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
            "requirements with operator 'In' must have a value defined",
        );
        let rules: &[(&str, &str)] = match self {
            Self::Pool | Self::Claim => &[
                in_needs_value,
                (
                    ONE_NUMBER,
                    "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
                ),
                (
                    "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
                    "requirements with 'minValues' must have at least that many values specified in the 'values' field",
                ),
            ],
            Self::Overlay => &[
                (
                    "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
                    "requirements with operator 'NotIn' must have a value defined",
                ),
                in_needs_value,
                (
                    ONE_NUMBER,
                    "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
                ),
            ],
        };
        rules.iter().map(|(rule, message)| ((*rule).to_owned(), (*message).to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_operator_is_kept_not_refused() {
        let json = serde_json::json!({"key": "a", "operator": "Near", "values": []});
        let requirement: Requirement = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(requirement.operator, Operator::Unknown("Near".to_owned()));
        assert_eq!(serde_json::to_value(&requirement).unwrap(), json);
    }

    #[test]
    fn every_word_of_the_vocabulary_has_its_own_variant() {
        for word in Operator::WORDS {
            let operator = Operator::from((*word).to_owned());
            assert!(!matches!(operator, Operator::Unknown(_)), "{word}");
            assert_eq!(operator.as_str(), *word);
        }
    }
}
