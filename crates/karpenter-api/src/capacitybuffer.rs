//! `CapacityBuffer`: room kept free in advance, described by pods that do not exist yet.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::crd::{CrdDocument, column, described};
use crate::resource::ResourceList;
use crate::schema::{self, ConditionReason, SchemaExt};

/// The one provisioning strategy: nodes are launched so that the buffer always fits.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";
/// The kinds of group `apps` a buffer can follow.
pub const SCALABLE_KINDS: &[&str] = &["Deployment", "StatefulSet", "ReplicaSet"];

crate::custom_resource! {
    /// Room that is kept free for pods to come.
    CapacityBuffer, list "CapacityBufferList", group "autoscaling.x-k8s.io", version "v1beta1",
    plural "capacitybuffers", scope NamespaceResourceScope, spec CapacityBufferSpec, status CapacityBufferStatus
}

/// How much room is kept, and for what shape of pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferSpec {
    /// How the room is provided; see [`ACTIVE_CAPACITY`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// The PodTemplate that gives the shape of one chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// The workload whose pods give the shape of one chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// Number of chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Number of chunks as a percentage of the workload's replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage: Option<i32>,
    /// Resources all chunks together may not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
}

/// Names an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalObjectRef {
    /// Name of the object.
    pub name: String,
}

/// Names a workload in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// API group of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the workload; see [`SCALABLE_KINDS`].
    pub kind: String,
    /// Name of the workload.
    pub name: String,
}

/// What was found about a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// The PodTemplate in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Its generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Number of chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The strategy in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Conditions; see [`crate::condition::capacitybuffer`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

impl CapacityBuffer {
    /// Returns the buffer with every absent field that has a default set to it, as the API server does.
    #[must_use]
    pub fn defaulted(mut self) -> Self {
        self.spec.provisioning_strategy.get_or_insert_with(|| ACTIVE_CAPACITY.to_owned());
        self
    }
}

pub(crate) fn document() -> CrdDocument {
    CrdDocument {
        short_names: &["cb"],
        category: "autoscaling",
        columns: vec![
            described(
                column("Strategy", "string", ".spec.provisioningStrategy", 0),
                "How the room is provided.",
            ),
            described(
                column("PodTemplate", "string", ".status.podTemplateRef.name", 0),
                "PodTemplate in use.",
            ),
            described(column("Replicas", "integer", ".status.replicas", 0), "Number of chunks kept free."),
            described(
                column("ConditionsType", "string", ".status.conditions[*].type", 0),
                "Types of the conditions.",
            ),
            described(
                column("ConditionsStatus", "string", ".status.conditions[*].status", 0),
                "Statuses of the conditions.",
            ),
            described(
                column("ConditionsReason", "string", ".status.conditions[*].reason", 0),
                "Reasons of the conditions.",
            ),
            described(
                column("Age", "date", ".metadata.creationTimestamp", 0),
                "Time since the buffer was made.",
            ),
        ],
        scale: None,
        schema: schema::root(
            "Keeps room free in the cluster for pods to come, so that they start without waiting for a node.",
            spec_schema(),
            status_schema(),
        ),
    }
}

fn pod_template_ref_schema(description: &str) -> JSONSchemaProps {
    schema::object(description, [("name", schema::string("Name of the PodTemplate.").min_length(1))])
        .require(&["name"])
}

fn spec_schema() -> JSONSchemaProps {
    let scalable_ref = schema::object(
        "Workload in the same namespace whose pods give the shape of one chunk: a Deployment, StatefulSet or ReplicaSet. Not together with podTemplateRef.",
        [
            ("apiGroup", schema::string("API group of the workload; empty or apps.")),
            ("kind", schema::string("Kind of the workload.").min_length(1)),
            ("name", schema::string("Name of the workload.").min_length(1)),
        ],
    )
    .require(&["kind", "name"]);
    schema::object(
        "How much room is kept free, and for what shape of pod.",
        [
            (
                "limits",
                schema::resource_list(
                    "Resources all chunks together may not exceed. With neither replicas nor percentage, as many chunks as fit in here are kept.",
                ),
            ),
            (
                "percentage",
                schema::integer(
                    "Number of chunks as a percentage of the replicas of the workload, rounded up, at least one. Needs scalableRef; with replicas too, the smaller number counts.",
                    Some("int32"),
                )
                .at_least(0),
            ),
            (
                "podTemplateRef",
                pod_template_ref_schema(
                    "PodTemplate in the same namespace that gives the shape of one chunk. Not together with scalableRef.",
                ),
            ),
            (
                "provisioningStrategy",
                schema::string("How the room is provided. The one strategy, active-capacity, launches nodes ahead of need.")
                    .default_to(json!(ACTIVE_CAPACITY)),
            ),
            ("replicas", schema::integer("Number of chunks to keep free.", Some("int32")).at_least(0)),
            ("scalableRef", scalable_ref),
        ],
    )
    .rules([
        (
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "If podTemplateRef is set, replicas or limits must also be set",
        ),
        (
            "!(has(self.podTemplateRef) && has(self.scalableRef))",
            "You must define either PodTemplateRef or ScalableRef, but not both",
        ),
    ])
}

fn status_schema() -> JSONSchemaProps {
    schema::object(
        "What was last observed about the buffer.",
        [
            (
                "conditions",
                schema::conditions(
                    "Whether the buffer is understood and provided for.",
                    ConditionReason::Required,
                ),
            ),
            (
                "podTemplateGeneration",
                schema::integer("Generation of the PodTemplate the status was computed from.", Some("int64")),
            ),
            ("podTemplateRef", pod_template_ref_schema("PodTemplate in use.")),
            ("provisioningStrategy", schema::string("Strategy in use.")),
            ("replicas", schema::integer("Number of chunks kept free.", Some("int32"))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_active_unless_it_says_otherwise() {
        let buffer = CapacityBuffer::default().defaulted();
        assert_eq!(buffer.spec.provisioning_strategy.as_deref(), Some(ACTIVE_CAPACITY));
    }
}
