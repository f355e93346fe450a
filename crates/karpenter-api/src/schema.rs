//! Words for writing CRD schemas: constructors for the shapes our kinds use and chainable refinements.
//!
//! Schemas are written out rather than derived from the Rust types, because the API server's schema is a
//! contract with existing manifests: defaults, list types, patterns and CEL rules must be exactly those
//! users rely on, and nothing (such as `nullable` on every optional field) may slip in. A test fills every
//! field of every schema and sends it through the Rust types, so the two cannot drift apart.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use serde_json::Value;

/// An optionally prefixed name, as label and taint keys are.
pub const QUALIFIED_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A label value, possibly empty.
pub const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A resource quantity such as `500m` or `4Gi`.
pub const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// A duration of whole seconds, minutes and hours.
pub const DURATION: &str = r"^([0-9]+(s|m|h))+$";
/// A duration as in [`DURATION`], or `Never`.
pub const DURATION_OR_NEVER: &str = r"^(([0-9]+(s|m|h))+|Never)$";
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

fn typed(type_: &str, description: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(type_.to_owned()),
        description: (!description.is_empty()).then(|| description.to_owned()),
        ..JSONSchemaProps::default()
    }
}

/// A string.
pub fn string(description: &str) -> JSONSchemaProps {
    typed("string", description)
}

/// A string that needs no description of its own, such as an item of a described list.
pub fn plain_string() -> JSONSchemaProps {
    typed("string", "")
}

/// A point in time in RFC 3339 notation.
pub fn date_time(description: &str) -> JSONSchemaProps {
    string(description).format("date-time")
}

/// A whole number, with an optional width (`int32`, `int64`).
pub fn integer(description: &str, format: Option<&str>) -> JSONSchemaProps {
    JSONSchemaProps { format: format.map(str::to_owned), ..typed("integer", description) }
}

/// An object with named properties.
pub fn object<'a>(
    description: &str,
    properties: impl IntoIterator<Item = (&'a str, JSONSchemaProps)>,
) -> JSONSchemaProps {
    let properties = properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    JSONSchemaProps { properties: Some(properties), ..typed("object", description) }
}

/// A list of items of one shape.
pub fn list(description: &str, item: JSONSchemaProps) -> JSONSchemaProps {
    let items = Some(JSONSchemaPropsOrArray::Schema(Box::new(item)));
    JSONSchemaProps { items, ..typed("array", description) }
}

/// An object whose keys are free and whose values have one shape.
pub fn map(description: &str, value: JSONSchemaProps) -> JSONSchemaProps {
    let additional_properties = Some(JSONSchemaPropsOrBool::Schema(Box::new(value)));
    JSONSchemaProps { additional_properties, ..typed("object", description) }
}

/// Resource quantities by resource name.
pub fn resource_list(description: &str) -> JSONSchemaProps {
    let quantity = JSONSchemaProps {
        any_of: Some(vec![typed("integer", ""), typed("string", "")]),
        pattern: Some(QUANTITY.to_owned()),
        x_kubernetes_int_or_string: Some(true),
        ..JSONSchemaProps::default()
    };
    map(description, quantity)
}

/// Whether a condition must say why it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ConditionReason {
    /// `reason` and `message` are mandatory and the reason is not empty.
    Required,
    /// `reason` and `message` may be absent and the reason may be empty.
    Optional,
}

/// The list of status conditions, keyed by type.
pub fn conditions(description: &str, reason: ConditionReason) -> JSONSchemaProps {
    let reason_schema =
        string("Short CamelCase word that says why the condition has its status.").max_length(1024);
    let (reason_schema, required): (_, &[&str]) = match reason {
        ConditionReason::Required => (
            reason_schema.min_length(1).pattern(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
            &["lastTransitionTime", "message", "reason", "status", "type"],
        ),
        ConditionReason::Optional => (
            reason_schema.pattern(r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"),
            &["lastTransitionTime", "status", "type"],
        ),
    };
    let item = object(
        "One observed aspect of the object.",
        [
            ("lastTransitionTime", date_time("When the status last changed.")),
            ("message", string("Explanation for people; may be empty.").max_length(32768)),
            (
                "observedGeneration",
                integer("Generation of the object this condition was computed from; an older one means it is out of date.", Some("int64"))
                    .at_least(0),
            ),
            ("reason", reason_schema),
            ("status", string("Whether the condition holds.").one_of(&["True", "False", "Unknown"])),
            ("type", string("Name of the condition.").max_length(316).pattern(CONDITION_TYPE)),
        ],
    )
    .require(required);
    JSONSchemaProps {
        x_kubernetes_list_map_keys: Some(vec!["type".to_owned()]),
        ..list(description, item).list_type("map")
    }
}

/// A list of node taints.
pub fn taints(description: &str) -> JSONSchemaProps {
    let item = object(
        "Repels pods that do not tolerate it.",
        [
            (
                "effect",
                string("What happens to pods without a matching toleration.").one_of(&[
                    "NoSchedule",
                    "PreferNoSchedule",
                    "NoExecute",
                ]),
            ),
            ("key", string("Name of the taint.").min_length(1).pattern(QUALIFIED_NAME)),
            ("timeAdded", date_time("When the taint was put on the node.")),
            ("value", string("Value a toleration can match.").pattern(QUALIFIED_NAME)),
        ],
    )
    .require(&["effect", "key"]);
    list(description, item).list_type("atomic")
}

/// The whole document of a kind: `spec` is required, `status` optional.
pub fn root(description: &str, spec: JSONSchemaProps, status: JSONSchemaProps) -> JSONSchemaProps {
    object(
        description,
        [
            ("apiVersion", string("Group and version of this object's schema.")),
            ("kind", string("Kind of this object.")),
            ("metadata", typed("object", "")),
            ("spec", spec),
            ("status", status),
        ],
    )
    .require(&["spec"])
}

/// Refinements of a schema, to be chained after a constructor.
pub trait SchemaExt: Sized {
    /// Sets the value the API server fills in when the field is absent.
    #[must_use]
    fn default_to(self, value: Value) -> Self;
    /// Admits only these strings.
    #[must_use]
    fn one_of(self, words: &[&str]) -> Self;
    /// Demands a match of this regular expression.
    #[must_use]
    fn pattern(self, pattern: &str) -> Self;
    /// Names a format such as `date-time`.
    #[must_use]
    fn format(self, format: &str) -> Self;
    /// Bounds the length of a string from below.
    #[must_use]
    fn min_length(self, length: i64) -> Self;
    /// Bounds the length of a string from above.
    #[must_use]
    fn max_length(self, length: i64) -> Self;
    /// Bounds the number of items of a list.
    #[must_use]
    fn max_items(self, items: i64) -> Self;
    /// Bounds the number of entries of a map.
    #[must_use]
    fn max_properties(self, properties: i64) -> Self;
    /// Bounds a number from below.
    #[must_use]
    fn at_least(self, minimum: i32) -> Self;
    /// Bounds a number from both sides.
    #[must_use]
    fn range(self, minimum: i32, maximum: i32) -> Self;
    /// Says how lists merge: `atomic`, `set` or `map`.
    #[must_use]
    fn list_type(self, list_type: &str) -> Self;
    /// Says how maps merge: `atomic` or `granular`.
    #[must_use]
    fn map_type(self, map_type: &str) -> Self;
    /// Names the properties that must be present.
    #[must_use]
    fn require(self, names: &[&str]) -> Self;
    /// Adds CEL rules, each an expression and the message shown when it is false.
    #[must_use]
    fn rules<R: Into<String>, M: Into<String>>(self, rules: impl IntoIterator<Item = (R, M)>) -> Self;
}

impl SchemaExt for JSONSchemaProps {
    fn default_to(self, value: Value) -> Self {
        Self { default: Some(JSON(value)), ..self }
    }

    fn one_of(self, words: &[&str]) -> Self {
        let words = words.iter().map(|word| JSON(Value::from(*word))).collect();
        Self { enum_: Some(words), ..self }
    }

    fn pattern(self, pattern: &str) -> Self {
        Self { pattern: Some(pattern.to_owned()), ..self }
    }

    fn format(self, format: &str) -> Self {
        Self { format: Some(format.to_owned()), ..self }
    }

    fn min_length(self, length: i64) -> Self {
        Self { min_length: Some(length), ..self }
    }

    fn max_length(self, length: i64) -> Self {
        Self { max_length: Some(length), ..self }
    }

    fn max_items(self, items: i64) -> Self {
        Self { max_items: Some(items), ..self }
    }

    fn max_properties(self, properties: i64) -> Self {
        Self { max_properties: Some(properties), ..self }
    }

    fn at_least(self, minimum: i32) -> Self {
        Self { minimum: Some(f64::from(minimum)), ..self }
    }

    fn range(self, minimum: i32, maximum: i32) -> Self {
        Self { maximum: Some(f64::from(maximum)), ..self.at_least(minimum) }
    }

    fn list_type(self, list_type: &str) -> Self {
        Self { x_kubernetes_list_type: Some(list_type.to_owned()), ..self }
    }

    fn map_type(self, map_type: &str) -> Self {
        Self { x_kubernetes_map_type: Some(map_type.to_owned()), ..self }
    }

    fn require(self, names: &[&str]) -> Self {
        Self { required: Some(names.iter().map(|name| (*name).to_owned()).collect()), ..self }
    }

    fn rules<R: Into<String>, M: Into<String>>(self, rules: impl IntoIterator<Item = (R, M)>) -> Self {
        let mut validations = self.x_kubernetes_validations.unwrap_or_default();
        validations.extend(rules.into_iter().map(|(rule, message)| ValidationRule {
            rule: rule.into(),
            message: Some(message.into()),
            ..ValidationRule::default()
        }));
        Self { x_kubernetes_validations: Some(validations), ..self }
    }
}
