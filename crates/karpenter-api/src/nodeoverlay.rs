//! `NodeOverlay`: corrects what the provider says about prices and capacity of instance types.

use std::cmp::Reverse;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::crd::{CrdDocument, column};
use crate::label_rules::LabelRules;
use crate::requirement::{Requirement, RequirementList, requirements_schema};
use crate::resource::ResourceList;
use crate::schema::{self, ConditionReason, SchemaExt};

crate::custom_resource! {
    /// A correction to prices or capacity of instance types.
    NodeOverlay, list "NodeOverlayList", group "karpenter.sh", version "v1alpha1",
    plural "nodeoverlays", scope ClusterResourceScope, spec NodeOverlaySpec, status NodeOverlayStatus
}

/// What a NodeOverlay corrects, and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// The instance types and offerings the overlay applies to; `minValues` has no meaning here.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
    /// A change of the price: signed amount or percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// A new price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Extended resources to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    /// Overlays of higher weight win; absent counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// What was found about a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOverlayStatus {
    /// Conditions; see [`crate::condition::nodeoverlay`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// Sorts overlays by precedence: higher weight first, then the name later in the alphabet.
pub fn sort_by_precedence(overlays: &mut [NodeOverlay]) {
    overlays.sort_by_cached_key(|overlay| {
        Reverse((overlay.spec.weight.unwrap_or(0), overlay.metadata.name.clone()))
    });
}

pub(crate) fn document(rules: &LabelRules) -> CrdDocument {
    CrdDocument {
        short_names: &["overlays"],
        category: "karpenter",
        columns: vec![
            column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#, 0),
            column("Age", "date", ".metadata.creationTimestamp", 0),
            column("Weight", "integer", ".spec.weight", 1),
        ],
        scale: None,
        schema: schema::root(
            "Corrects the price or adds to the capacity of instance types when Karpenter chooses among them.",
            spec_schema(rules),
            schema::object(
                "What was last observed about the overlay.",
                [(
                    "conditions",
                    schema::conditions(
                        "Whether the overlay is in effect, and why not.",
                        ConditionReason::Required,
                    ),
                )],
            ),
        ),
    }
}

fn spec_schema(rules: &LabelRules) -> JSONSchemaProps {
    schema::object(
        "What is corrected, and for which instance types.",
        [
            (
                "capacity",
                schema::resource_list(
                    "Extended resources to add to matching instance types, such as devices the provider does not know of. The resources every node has cannot be changed.",
                )
                .rules([(
                    "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
                    "invalid resource restricted",
                )]),
            ),
            (
                "price",
                schema::string("Price per hour that replaces the provider's. Not together with priceAdjustment.")
                    .pattern(r"^\d+(\.\d+)?$"),
            ),
            (
                "priceAdjustment",
                schema::string(
                    "Change of the provider's price: an amount with a sign, such as -0.5, or a percentage with a sign, such as +10% or -15%; -100% makes it free. Not together with price.",
                )
                .pattern(r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"),
            ),
            ("requirements", requirements_schema(RequirementList::Overlay, rules)),
            (
                "weight",
                schema::integer(
                    "Precedence among overlays that match the same instance type: the highest weight wins, none counts as 0; of equal weights the name later in the alphabet comes first.",
                    Some("int32"),
                )
                .range(1, 10000),
            ),
        ],
    )
    .require(&["requirements"])
    .rules([("!has(self.price) || !has(self.priceAdjustment)", "cannot set both 'price' and 'priceAdjustment'")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavier_overlays_come_first_and_ties_go_to_the_later_name() {
        let overlay = |name: &str, weight: Option<i32>| {
            let mut overlay = NodeOverlay::default();
            overlay.metadata.name = Some(name.to_owned());
            overlay.spec.weight = weight;
            overlay
        };
        let mut overlays =
            vec![overlay("a", None), overlay("b", Some(5)), overlay("c", Some(5)), overlay("d", None)];
        sort_by_precedence(&mut overlays);
        let names: Vec<_> = overlays.into_iter().filter_map(|overlay| overlay.metadata.name).collect();
        assert_eq!(names, ["c", "b", "d", "a"]);
    }
}
