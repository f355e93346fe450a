//! `NodeClaim`: one machine, asked for and then followed through its life.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use crate::crd::{CrdDocument, column};
use crate::label_rules::LabelRules;
use crate::nodepool::{
    NodeClassReference, expire_after_default, expire_after_schema, node_class_ref_schema,
    termination_grace_period_schema,
};
use crate::requirement::{Requirement, RequirementList, requirements_schema};
use crate::resource::ResourceList;
use crate::schema::{self, ConditionReason, SchemaExt};
use crate::{GoDuration, NillableDuration};

crate::custom_resource! {
    /// A claim to one machine that becomes one node.
    NodeClaim, list "NodeClaimList", group "karpenter.sh", version "v1",
    plural "nodeclaims", scope ClusterResourceScope, spec NodeClaimSpec, status NodeClaimStatus
}

/// The machine that is asked for; it never changes once the claim exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Taints the node keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Taints the node starts with and loses once it is set up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    /// Conditions on the labels of the node.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
    /// Resources the node must have room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// The provider's own configuration of the machine.
    #[serde(default)]
    pub node_class_ref: NodeClassReference,
    /// The longest time draining may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<GoDuration>,
    /// The age at which the node is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<NillableDuration>,
}

/// Resources a node must have room for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceRequirements {
    /// Sum of the requests of the pods and DaemonSets planned for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceList>,
}

/// What was found about a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The provider's identity of the machine.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The image the machine was started from.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What the machine has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    /// What of it pods may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<ResourceList>,
    /// Conditions; see [`crate::condition::nodeclaim`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// When a pod last came to or left the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
}

impl NodeClaim {
    /// Returns the claim with every absent field that has a default set to it, as the API server does.
    #[must_use]
    pub fn defaulted(mut self) -> Self {
        self.spec.expire_after.get_or_insert_with(expire_after_default);
        self
    }
}

pub(crate) fn document(rules: &LabelRules) -> CrdDocument {
    CrdDocument {
        short_names: &[],
        category: "karpenter",
        columns: vec![
            column("Type", "string", r".metadata.labels.node\.kubernetes\.io/instance-type", 0),
            column("Capacity", "string", r".metadata.labels.karpenter\.sh/capacity-type", 0),
            column("Zone", "string", r".metadata.labels.topology\.kubernetes\.io/zone", 0),
            column("Node", "string", ".status.nodeName", 0),
            column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#, 0),
            column("Age", "date", ".metadata.creationTimestamp", 0),
            column("ImageID", "string", ".status.imageID", 1),
            column("ID", "string", ".status.providerID", 1),
            column("NodePool", "string", r".metadata.labels.karpenter\.sh/nodepool", 1),
            column("NodeClass", "string", ".spec.nodeClassRef.name", 1),
            column("Drifted", "string", r#".status.conditions[?(@.type=="Drifted")].status"#, 1),
        ],
        scale: None,
        schema: schema::root(
            "Claims one machine and follows it from launch to termination. Usually made by a NodePool.",
            spec_schema(rules),
            status_schema(),
        ),
    }
}

fn spec_schema(rules: &LabelRules) -> JSONSchemaProps {
    let resources = schema::object(
        "Resources the node must have room for.",
        [(
            "requests",
            schema::resource_list("Sum of what the pods and DaemonSets planned for the node request."),
        )],
    );
    schema::object(
        "The machine that is asked for. It cannot be changed after the claim was made.",
        [
            ("taints", schema::taints("Taints that stay on the node.")),
            (
                "startupTaints",
                schema::taints("Taints that the node carries until something removes them after start-up."),
            ),
            ("requirements", requirements_schema(RequirementList::Claim, rules)),
            ("resources", resources),
            ("nodeClassRef", node_class_ref_schema()),
            ("terminationGracePeriod", termination_grace_period_schema()),
            ("expireAfter", expire_after_schema()),
        ],
    )
    .require(&["nodeClassRef", "requirements"])
    .rules([("self == oldSelf", "spec is immutable")])
}

fn status_schema() -> JSONSchemaProps {
    schema::object(
        "What was last observed about the machine and its node.",
        [
            ("allocatable", schema::resource_list("What pods may use of the node's capacity.")),
            ("capacity", schema::resource_list("What the node has in total.")),
            (
                "conditions",
                schema::conditions(
                    "How far the machine has come, and what stands in its way.",
                    ConditionReason::Optional,
                ),
            ),
            ("imageID", schema::string("Image the machine was started from.")),
            (
                "lastPodEventTime",
                schema::date_time("When a pod last came to the node, left it, or finished on it."),
            ),
            ("nodeName", schema::string("Name of the node the machine became.")),
            ("providerID", schema::string("The provider's identity of the machine.")),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_without_expiry_expires_after_thirty_days() {
        let claim = NodeClaim::default().defaulted();
        assert_eq!(claim.spec.expire_after.unwrap().as_str(), "720h");
    }
}
