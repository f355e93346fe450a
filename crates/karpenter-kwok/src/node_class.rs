//! `KWOKNodeClass`: how paper machines behave.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSON};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karpenter_api::GoDuration;
use karpenter_api::crd::{CrdDocument, Scope, column};
use karpenter_api::schema::{self, ConditionReason};
use karpenter_provider::NodeClassObject;
use serde::{Deserialize, Serialize};
use serde_json::json;

karpenter_api::custom_resource! {
    /// How paper machines behave.
    KWOKNodeClass, list "KWOKNodeClassList", group "karpenter.kwok.sh", version "v1alpha1",
    plural "kwoknodeclasses", scope ClusterResourceScope, spec KWOKNodeClassSpec, status KWOKNodeClassStatus
}

/// What can be said about paper machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassSpec {
    /// How long a machine takes from its launch until its Node appears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_registration_delay: Option<GoDuration>,
}

/// What was found about a KWOKNodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KWOKNodeClassStatus {
    /// Its conditions; the API server defaults them to ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

karpenter_runtime::kinds!(KWOKNodeClass);

impl NodeClassObject for KWOKNodeClass {
    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
    }
}

/// Returns the CustomResourceDefinition. Nothing reconciles the status: the API server fills in that the class is ready.
pub fn definition() -> CustomResourceDefinition {
    let mut delay = schema::string("How long a machine takes from its launch until its Node appears.");
    delay.pattern = Some("^([0-9]+(s|m|h))+$".to_owned());
    let spec = schema::object("How machines of this class behave.", [("nodeRegistrationDelay", delay)]);
    let conditions =
        schema::conditions("Whether machines can be launched with this class.", ConditionReason::Optional);
    let mut status = schema::object("What is known about the class.", [("conditions", conditions)]);
    status.default = Some(JSON(json!({"conditions": [{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2024-01-01T01:01:01Z",
    }]})));
    let mut schema =
        schema::root("Configures machines that exist on paper only, for tests and simulation.", spec, status);
    // There is nothing that a class must say.
    schema.required = None;
    let document = CrdDocument {
        short_names: &["kwoknc", "kwokncs"],
        category: "karpenter",
        columns: vec![
            column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#, 0),
            column("Age", "date", ".metadata.creationTimestamp", 0),
        ],
        scale: None,
        schema,
    };
    karpenter_api::crd::definition::<KWOKNodeClass>(Scope::Cluster, document)
}
