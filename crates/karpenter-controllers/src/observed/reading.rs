//! Reads of a pod's text only what [`ObservedPod`](super::ObservedPod) is made of.
//!
//! Most of the text is for the kubelet, for people, and for the record of who manages which field. Pods are most of what a
//! controller hears, so what nobody asks for is skipped where it stands instead of being read and thrown away.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as kube;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use karpenter_runtime::Kind;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A pod without what nobody here asks for.
#[derive(Clone, Debug)]
pub(crate) struct LeanPod(pub(super) kube::Pod);

impl k8s_openapi::Resource for LeanPod {
    const API_VERSION: &'static str = kube::Pod::API_VERSION;
    const GROUP: &'static str = kube::Pod::GROUP;
    const KIND: &'static str = kube::Pod::KIND;
    const VERSION: &'static str = kube::Pod::VERSION;
    const URL_PATH_SEGMENT: &'static str = kube::Pod::URL_PATH_SEGMENT;
    type Scope = <kube::Pod as k8s_openapi::Resource>::Scope;
}

impl k8s_openapi::Metadata for LeanPod {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

impl Kind for LeanPod {
    fn read(text: &str) -> serde_json::Result<Self> {
        let PodText { metadata, spec, status } = serde_json::from_str(text)?;
        Ok(Self(kube::Pod { metadata, spec, status }))
    }

    fn json(&self) -> Value {
        self.0.json()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodText {
    #[serde(deserialize_with = "one::<MetadataText, _, _>")]
    metadata: ObjectMeta,
    #[serde(deserialize_with = "perhaps::<SpecText, _, _>")]
    spec: Option<kube::PodSpec>,
    #[serde(deserialize_with = "perhaps::<StatusText, _, _>")]
    status: Option<kube::PodStatus>,
}

/// Declares what is read of an object.
macro_rules! lean {
    ($text:ident of $object:ty { $($(#[$how:meta])? $field:ident: $type:ty),+ $(,)? }) => {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct $text {
            $($(#[$how])? $field: $type),+
        }

        impl From<$text> for $object {
            fn from(text: $text) -> Self {
                Self { $($field: text.$field),+, ..Self::default() }
            }
        }
    };
}

lean!(MetadataText of ObjectMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
});

lean!(SpecText of kube::PodSpec {
    node_name: Option<String>,
    scheduler_name: Option<String>,
    priority: Option<i32>,
    priority_class_name: Option<String>,
    termination_grace_period_seconds: Option<i64>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<kube::Affinity>,
    tolerations: Option<Vec<kube::Toleration>>,
    topology_spread_constraints: Option<Vec<kube::TopologySpreadConstraint>>,
    scheduling_gates: Option<Vec<kube::PodSchedulingGate>>,
    resource_claims: Option<Vec<kube::PodResourceClaim>>,
    resources: Option<kube::ResourceRequirements>,
    overhead: Option<BTreeMap<String, Quantity>>,
    #[serde(deserialize_with = "each::<ContainerText, _, _>")]
    containers: Vec<kube::Container>,
    #[serde(deserialize_with = "perhaps_each::<ContainerText, _, _>")]
    init_containers: Option<Vec<kube::Container>>,
    #[serde(deserialize_with = "perhaps_each::<VolumeText, _, _>")]
    volumes: Option<Vec<kube::Volume>>,
});

lean!(ContainerText of kube::Container {
    name: String,
    resources: Option<kube::ResourceRequirements>,
    ports: Option<Vec<kube::ContainerPort>>,
    restart_policy: Option<String>,
});

lean!(VolumeText of kube::Volume {
    name: String,
    persistent_volume_claim: Option<kube::PersistentVolumeClaimVolumeSource>,
    ephemeral: Option<kube::EphemeralVolumeSource>,
});

lean!(StatusText of kube::PodStatus {
    phase: Option<String>,
    nominated_node_name: Option<String>,
    start_time: Option<Time>,
    allocated_resources: Option<BTreeMap<String, Quantity>>,
    #[serde(deserialize_with = "perhaps_each::<ConditionText, _, _>")]
    conditions: Option<Vec<kube::PodCondition>>,
    #[serde(deserialize_with = "perhaps_each::<ContainerStatusText, _, _>")]
    container_statuses: Option<Vec<kube::ContainerStatus>>,
    #[serde(deserialize_with = "perhaps_each::<ContainerStatusText, _, _>")]
    init_container_statuses: Option<Vec<kube::ContainerStatus>>,
});

lean!(ConditionText of kube::PodCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
    last_transition_time: Option<Time>,
});

lean!(ContainerStatusText of kube::ContainerStatus {
    name: String,
    resources: Option<kube::ResourceRequirements>,
    allocated_resources: Option<BTreeMap<String, Quantity>>,
});

fn perhaps<'de, Text, Object, D>(text: D) -> Result<Option<Object>, D::Error>
where
    Text: Deserialize<'de> + Into<Object>,
    D: Deserializer<'de>,
{
    Ok(Option::<Text>::deserialize(text)?.map(Into::into))
}

fn one<'de, Text, Object, D>(text: D) -> Result<Object, D::Error>
where
    Text: Deserialize<'de> + Into<Object>,
    Object: Default,
    D: Deserializer<'de>,
{
    Ok(perhaps::<Text, Object, D>(text)?.unwrap_or_default())
}

fn perhaps_each<'de, Text, Object, D>(texts: D) -> Result<Option<Vec<Object>>, D::Error>
where
    Text: Deserialize<'de> + Into<Object>,
    D: Deserializer<'de>,
{
    let texts = Option::<Vec<Text>>::deserialize(texts)?;
    Ok(texts.map(|texts| texts.into_iter().map(Into::into).collect()))
}

fn each<'de, Text, Object, D>(texts: D) -> Result<Vec<Object>, D::Error>
where
    Text: Deserialize<'de> + Into<Object>,
    D: Deserializer<'de>,
{
    Ok(perhaps_each::<Text, Object, D>(texts)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use karpenter_api::LabelRules;
    use serde_json::json;

    use super::super::PodObserver;
    use super::*;

    /// Says of a pod everything that is read of one, among much that is not.
    fn everything() -> Value {
        let quantities = json!({ "cpu": "2", "memory": "1Gi" });
        let claim = json!({ "spec": { "storageClassName": "fast", "accessModes": ["ReadWriteOnce"] } });
        let term = json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "web" } } });
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-0", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generateName": "web-",
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T01:00:00Z",
                "labels": { "app": "web" }, "annotations": { "karpenter.sh/do-not-disrupt": "1h", "other": "x" },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "o" }],
                "managedFields": [{ "manager": "m", "fieldsV1": { "f:spec": {} } }],
            },
            "spec": {
                "nodeName": "n1", "schedulerName": "mine", "priority": 5, "priorityClassName": "system-node-critical",
                "terminationGracePeriodSeconds": 9, "nodeSelector": { "disk": "ssd" }, "hostname": "h",
                "affinity": {
                    "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] },
                    "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                        { "matchExpressions": [{ "key": "gpu", "operator": "DoesNotExist" }] },
                    ] } },
                },
                "tolerations": [{ "key": "spot", "operator": "Exists" }],
                "topologySpreadConstraints": [{
                    "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": { "matchLabels": { "app": "web" } },
                }],
                "schedulingGates": [{ "name": "g" }], "resourceClaims": [{ "name": "c" }],
                "resources": { "requests": quantities }, "overhead": { "cpu": "10m" },
                "containers": [{
                    "name": "main", "image": "nginx", "env": [{ "name": "A", "value": "B" }],
                    "resources": { "requests": { "cpu": "1" }, "limits": quantities },
                    "ports": [{ "containerPort": 80, "hostPort": 8080, "protocol": "TCP" }],
                }],
                "initContainers": [{
                    "name": "side", "restartPolicy": "Always", "resources": { "limits": { "cpu": "3" } },
                }],
                "volumes": [
                    { "name": "data", "persistentVolumeClaim": { "claimName": "data-web-0" } },
                    { "name": "scratch", "ephemeral": { "volumeClaimTemplate": claim } },
                    { "name": "token", "projected": { "sources": [] } },
                ],
            },
            "status": {
                "phase": "Running", "startTime": "2026-01-01T00:01:00Z", "nominatedNodeName": "n1", "podIP": "10.0.0.1",
                "allocatedResources": { "cpu": "4" },
                "conditions": [
                    { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:30Z" },
                    { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z" },
                    { "type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "long" },
                ],
                "containerStatuses": [{
                    "name": "main", "image": "nginx", "imageID": "", "ready": true, "restartCount": 0,
                    "resources": { "requests": { "cpu": "5" } }, "allocatedResources": { "cpu": "6" },
                }],
                "initContainerStatuses": [{
                    "name": "side", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "allocatedResources": { "cpu": "7" },
                }],
            },
        })
    }

    /// What is observed of the pod when it is read whole, and when it is read lean.
    fn both_ways(pod: &Value) -> (String, String) {
        let observer = PodObserver::new(LabelRules::default().into(), false);
        let whole: kube::Pod = serde_json::from_value(pod.clone()).expect("it is a pod");
        let lean = LeanPod::read(&pod.to_string()).expect("it is a pod");
        (format!("{:#?}", observer.observe(LeanPod(whole))), format!("{:#?}", observer.observe(lean)))
    }

    #[test]
    fn nothing_is_lost_that_is_observed() {
        let (whole, lean) = both_ways(&everything());
        assert_eq!(lean, whole);
        assert!(whole.contains("StatefulSet") && whole.contains("data-web-0"), "{whole}");
    }

    #[test]
    fn every_part_may_be_missing_or_null() {
        for pod in [
            json!({ "metadata": { "name": "p" } }),
            json!({ "metadata": { "name": "p", "labels": null }, "spec": null, "status": null }),
            json!({ "metadata": { "name": "p" }, "spec": { "containers": null }, "status": { "conditions": null } }),
        ] {
            let (whole, lean) = both_ways(&pod);
            assert_eq!(lean, whole);
        }
    }

    #[test]
    fn what_is_no_pod_is_refused() {
        for text in ["{", r#"{"metadata":{"name":1}}"#, r#"{"spec":{"containers":{}}}"#] {
            assert!(LeanPod::read(text).is_err(), "{text}");
        }
    }
}
